"""Cursor's transcripts, and the messages of its CLI, which have the same format."""

import base64
import re
from typing import Any

import msgspec
from msgspec import Raw

from clew.model.events import (
    CallMade,
    CallReturned,
    Draft,
    ImagePart,
    MessageAdded,
    Part,
    RuntimeAttached,
    SessionTitled,
    TextPart,
    ThinkingPart,
    Usage,
)
from clew.model.title import shortened
from clew.runtimes.adapters.cursor_rows import NAME
from clew.runtimes.contract import Reading, micros, opaque, raw
from clew.runtimes.titles import prompt_text, title_drafts

_QUERY = re.compile(r"<user_query>\n?(.*?)\n?</user_query>", re.DOTALL)
_TIMESTAMP = re.compile(r"<timestamp>.*?</timestamp>\s*", re.DOTALL)
# Context that the program adds before a prompt. A message with nothing else was not typed by a person.
_CONTEXT = re.compile(
    r"\s*<(user_info|rules|project_layout|git_status|open_and_recently_viewed_files|attached_files|system_reminder|"
    r"system-reminder|additional_data|agent_transcripts|agent_skills|environment_context)[\s>]"
)


class State(msgspec.Struct, omit_defaults=True):
    attached: bool = False
    titled: bool = False
    created: int = 0
    model: str = ""


def typed(text: str) -> str:
    """The text that the person typed in a user's message; empty if all of it is context."""
    if queries := _QUERY.findall(text):
        return "\n".join(queries)
    return "" if _CONTEXT.match(text) else _TIMESTAMP.sub("", text)


def message_of(role: str, parts: list[Part], *, model: str = "", usage: Usage | None = None) -> MessageAdded:
    if len(parts) == 1 and isinstance(part := parts[0], TextPart):
        return MessageAdded(role=role, text=part.text, model=model, usage=usage)
    return MessageAdded(role=role, parts=tuple(parts), model=model, usage=usage)


def drafts_of(bodies: list[Any], source: str, at: int | None) -> list[Draft]:
    return [Draft(body=body, source=f"{source}/{i}" if i else source, said_at=at) for i, body in enumerate(bodies)]


def title_of(bodies: list[Any], source: str, at: int | None, state: State) -> list[Draft]:
    """A title from the first prompt, if the program has none."""
    return title_drafts(prompt_text(bodies[0]), state, source=source, at=at)


class Block(msgspec.Struct):
    """A block in either format: Anthropic's in transcripts, the AI SDK's in the CLI's store. An empty Raw is none."""

    type: str
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw = Raw()
    toolCallId: str | None = None
    toolName: str | None = None
    args: Raw = Raw()
    result: Raw = Raw()
    output: Raw = Raw()
    isError: bool | None = None
    signature: str | None = None
    image: str | None = None
    mimeType: str | None = None
    mediaType: str | None = None


class Content(msgspec.Struct):
    content: str | list[Raw] = ""


class Line(msgspec.Struct):
    role: str = ""
    type: str = ""
    message: Content = msgspec.field(default_factory=Content)
    content: str | list[Raw] = ""


_decode = msgspec.json.Decoder(Line).decode
_block = msgspec.json.Decoder(Block).decode


def read_transcript(record: bytes, key: str, reading: Reading[State]) -> list[Draft]:
    """One line of a transcript. A call has no id there, so its position is its id."""
    line, state = _decode(record), reading.state
    before = []
    if not state.attached:
        state.attached = True
        attached = RuntimeAttached(runtime=NAME, native=reading.native)
        before = [Draft(body=attached, source=f"{key}/runtime")]
    bodies = _message_bodies(line.role, line.message.content, key, reading)
    if not bodies:
        return [*before, opaque(f"{NAME}.{line.role or line.type or 'record'}", record, key)]
    return [*before, *drafts_of(bodies, key, None), *title_of(bodies, key, None, state)]


def read_cli(record: bytes, key: str, reading: Reading[State]) -> list[Draft]:
    """One message of the CLI's store, or the record about the session."""
    if key == "about":
        return about_of(msgspec.json.decode(record, type=About), key, reading)
    line = _decode(record)
    bodies = _message_bodies(line.role, line.content, key, reading)
    if not bodies:
        return [opaque(f"{NAME}.{line.role or line.type or 'record'}", record, key)]
    return [*drafts_of(bodies, key, None), *title_of(bodies, key, None, reading.state)]


def _message_bodies(role: str, contents: str | list[Raw], key: str, reading: Reading[State]) -> list[Any]:
    """The bodies of a message's blocks in order; consecutive texts and thoughts are one message."""
    if role not in ("user", "assistant", "tool"):
        return []
    if isinstance(contents, str):
        contents = [raw({"type": "text", "text": contents})] if contents else []
    bodies: list[Any] = []
    parts: list[Part] = []

    def flush() -> None:
        if parts:
            bodies.append(message_of(role, parts, model=reading.state.model if role == "assistant" else ""))
        parts.clear()

    for content in contents:
        block = _block(content)
        call = block.toolCallId or block.id
        if block.type == "text" and block.text is not None:
            if text := typed(block.text) if role == "user" else block.text:
                parts.append(TextPart(text=text))
        elif block.type in ("reasoning", "thinking"):
            parts.append(ThinkingPart(text=block.text or block.thinking or "", signature=block.signature or ""))
        elif block.type == "image" and block.image:
            data = base64.b64decode(block.image.rpartition(",")[2], validate=True)
            parts.append(ImagePart(blob=reading.blob(data), media_type=block.mimeType or block.mediaType or ""))
        elif block.type in ("tool_use", "tool-call") and (tool := block.toolName or block.name):
            flush()
            input = next((value for value in (block.args, block.input) if bytes(value)), Raw(b"{}"))
            bodies.append(CallMade(call=call or f"{key}/{len(bodies)}", tool=tool, input=input))
        elif block.type == "tool-result" and call:
            flush()
            bodies.append(_result(block, call))
        else:
            flush()
            bodies.append(opaque(f"{NAME}.{block.type}", bytes(content), "").body)
    flush()
    return bodies


def _result(block: Block, call: str) -> CallReturned:
    """The result of a call: a plain value, or since version 5 of the AI SDK `{type, value}`."""
    output, failed = block.result, bool(block.isError)
    if not bytes(output):
        output = block.output if bytes(block.output) else Raw(b"null")
        value = msgspec.json.decode(output)
        if isinstance(value, dict) and isinstance(value.get("type"), str) and "value" in value:
            output, failed = raw(value["value"]), failed or value["type"].startswith("error")
    return CallReturned(call=call, output=output, failed=failed)


class About(msgspec.Struct):
    """The facts about a session in a database: only the fields that are safe to store."""

    id: str
    name: str = ""
    created: float | str | None = None
    model: str = ""
    cwd: str = ""


def about_of(about: About, key: str, reading: Reading[State]) -> list[Draft]:
    state, at = reading.state, micros(about.created)
    state.created, state.model = at or 0, about.model
    bodies: list[Any] = [RuntimeAttached(runtime=NAME, native=reading.native, cwd=about.cwd)]
    if title := " ".join(about.name.split()):
        state.titled = True
        bodies.append(SessionTitled(title=shortened(title)))
    return drafts_of(bodies, key, at)
