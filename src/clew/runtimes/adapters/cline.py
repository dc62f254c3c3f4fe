"""Cline and Roo Code: a folder per task below the editor's global storage, with two JSON arrays.

`api_conversation_history.json` is the conversation in Anthropic's format; calls are native blocks, or XML in the text,
which stays text. `ui_messages.json` repeats the same texts for the panel. It is read only on request, into the same
session, and then only for the usage that the conversation lacks. The program rewrites both files at every change, and a
message has no id of its own: its index in the array is its key.
"""

import base64
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import PurePath
from typing import Any

import msgspec
from msgspec import Raw

from clew.model.events import (
    CallMade,
    CallReturned,
    Compacted,
    Draft,
    ImagePart,
    MessageAdded,
    Part,
    RuntimeAttached,
    TextPart,
    ThinkingPart,
    Usage,
    UsageCounted,
)
from clew.runtimes.contract import Format, Identity, Reading, Record, Runtime, Tool, micros, opaque, raw
from clew.runtimes.titles import title_drafts

NAME = "cline"
_TASK = re.compile(r"\s*<(task|user_message|feedback|answer)>\n?(.*?)\n?</\1>\s*", re.DOTALL)
_ENVIRONMENT = re.compile(r"\s*<environment_details>.*</environment_details>\s*", re.DOTALL)
_DIRECTORY = re.compile(r"# Current (?:Working|Workspace) Directory \(([^)\n]+)\)")
# After one of these, nothing more is counted for the request before it.
_REQUEST_ENDS = {
    "api_req_started",
    "api_req_failed",
    "completion_result",
    "followup",
    "plan_mode_respond",
    "resume_task",
    "resume_completed_task",
}


class Source(msgspec.Struct):
    data: str | None = None
    media_type: str | None = None


class Block(msgspec.Struct):
    type: str
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw = Raw(b"{}")
    tool_use_id: str | None = None
    content: Raw = Raw(b"null")
    is_error: bool | None = None
    source: Source | None = None


class ModelInfo(msgspec.Struct):
    modelId: str | None = None
    mode: str | None = None


class Tokens(msgspec.Struct):
    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None


class Metrics(msgspec.Struct):
    tokens: Tokens | None = None
    cost: float | None = None


class Message(msgspec.Struct):
    role: str = ""
    type: str = ""
    content: str | list[Raw] = ""
    ts: float | None = None
    isSummary: bool | None = None
    modelInfo: ModelInfo | None = None
    metrics: Metrics | None = None


class Shown(msgspec.Struct):
    type: str
    say: str | None = None
    ask: str | None = None
    text: str | None = None
    ts: float | None = None
    partial: bool | None = None
    modelInfo: ModelInfo | None = None


class Request(msgspec.Struct):
    """The text of an `api_req_started` after the answer has arrived."""

    tokensIn: int | None = None
    tokensOut: int | None = None
    cacheWrites: int | None = None
    cacheReads: int | None = None
    cost: float | None = None


class State(msgspec.Struct, omit_defaults=True):
    cwd: str | None = None
    titled: bool = False
    request: Request | None = None
    asked: str = ""
    model: str = ""


_decode = msgspec.json.Decoder(Message).decode
_block = msgspec.json.Decoder(Block).decode


def split(data: bytes) -> Iterator[Record]:
    """The elements of the array, each with its index as the key."""
    # msgspec does not check the encoding of raw elements.
    whole = data.decode("utf-8", "replace").encode()
    for index, element in enumerate(msgspec.json.decode(whole, type=list[Raw])):
        yield str(index), bytes(element)


def split_shown(data: bytes) -> Iterator[Record]:
    return ((f"ui/{key}", element) for key, element in split(data))


def read(record: bytes, key: str, reading: Reading[State]) -> list[Draft]:
    """One message of the conversation."""
    message, state = _decode(record), reading.state
    at = micros(message.ts)
    if message.role not in ("user", "assistant") or message.type == "reasoning":
        return [opaque(f"{NAME}.{message.type or message.role or 'record'}", record, key, at)]
    about = _about(message, key, reading)
    bodies = _message_bodies(message, about, reading)
    usage = _spent(message.metrics) if message.metrics and about else None
    first = next((i for i, body in enumerate(bodies) if isinstance(body, MessageAdded | CallMade)), None)
    if usage is not None and first is not None:
        bodies[first] = msgspec.structs.replace(bodies[first], usage=usage)
    drafts = [Draft(body=body, source=f"{key}/{i}" if i else key, said_at=at) for i, body in enumerate(bodies)]
    if not drafts:
        drafts = [opaque(f"{NAME}.{message.role}", record, key, at)]
    if usage is not None and first is None:
        drafts.append(Draft(body=UsageCounted(usage=usage, **about), source=f"{key}/usage", said_at=at))
    cwd = match[1] if (match := _DIRECTORY.search(record.decode())) else state.cwd or ""
    if cwd != state.cwd:
        state.cwd = cwd
        attached = RuntimeAttached(runtime=NAME, native=reading.native, cwd=cwd)
        drafts.insert(0, Draft(body=attached, source=f"{key}/runtime", said_at=at))
    if message.role == "user":
        drafts += title_drafts(_prompt_text(bodies), state, source=key, at=at)
    return drafts


def _about(message: Message, key: str, reading: Reading[State]) -> dict[str, Any]:
    """The id and the llm of an answer. Its index alone is not unique outside of the task."""
    if message.role == "user":
        return {}
    return {"message": f"{reading.native}/{key}", "model": (message.modelInfo and message.modelInfo.modelId) or ""}


def _message_bodies(message: Message, about: dict[str, Any], reading: Reading[State]) -> list[Any]:
    """The bodies of a message's blocks in order; consecutive texts, thoughts and images are one message."""
    contents = message.content
    if isinstance(contents, str):
        contents = [raw({"type": "text", "text": contents})] if contents else []
    user = message.role == "user"
    bodies: list[Any] = []
    parts: list[Part] = []

    def flush() -> None:
        alone = parts[0].text if len(parts) == 1 and isinstance(parts[0], TextPart) else ""
        if parts:
            held = () if alone else tuple(parts)
            bodies.append(MessageAdded(role=message.role, text=alone, parts=held, **about))
        parts.clear()

    for content in contents:
        block = _block(content)
        if block.type == "text" and block.text is not None and not (user and _ENVIRONMENT.fullmatch(block.text)):
            if text := _typed(block.text) if user else block.text:
                parts.append(TextPart(text=text))
        elif block.type == "thinking":
            parts.append(ThinkingPart(text=block.thinking or "", signature=block.signature or ""))
        elif block.type == "image" and block.source is not None and block.source.data:
            data = base64.b64decode(block.source.data, validate=True)
            parts.append(ImagePart(blob=reading.blob(data), media_type=block.source.media_type or ""))
        elif block.type == "tool_use" and block.id and block.name:
            flush()
            bodies.append(CallMade(call=block.id, tool=block.name, input=block.input, **about))
        elif block.type == "tool_result" and block.tool_use_id:
            flush()
            bodies.append(CallReturned(call=block.tool_use_id, output=block.content, failed=bool(block.is_error)))
        else:
            flush()
            kind = "environment" if block.type == "text" else block.type
            bodies.append(opaque(f"{NAME}.{kind}", bytes(content), "").body)
    if message.isSummary and not bodies and parts:
        return [Compacted(summary="\n".join(part.text for part in parts if isinstance(part, TextPart)))]
    flush()
    return bodies


def _typed(text: str) -> str:
    """The text that the person typed, without the tags around it."""
    return match[2] if (match := _TASK.fullmatch(text)) else text


def _prompt_text(bodies: list[Any]) -> str:
    """The text of a prompt."""
    texts = [
        part.text
        for body in bodies
        if isinstance(body, MessageAdded)
        for part in body.content
        if isinstance(part, TextPart)
    ]
    return "\n".join(texts)


def read_shown(record: bytes, key: str, reading: Reading[State]) -> list[Draft]:
    """One element of the panel. The program adds a request's cost later, so it is counted at the next element."""
    shown, state = msgspec.json.decode(record, type=Shown), reading.state
    kind, at = shown.say or shown.ask or shown.type, micros(shown.ts)
    drafts = [opaque(f"{NAME}.ui.{kind}", record, key, at)]
    if kind not in _REQUEST_ENDS or shown.partial:
        return drafts
    if state.request is not None and (usage := _usage(state.request)).tokens + usage.cache_read:
        body = UsageCounted(usage=usage, model=state.model)
        drafts.append(Draft(body=body, source=f"{state.asked}/usage", said_at=at))
    state.request, state.asked, state.model = None, "", ""
    model = shown.modelInfo or ModelInfo()
    # A version that writes the mode also stores the cost of an answer with the answer: it is counted there.
    if kind == "api_req_started" and not model.mode:
        with suppress(msgspec.DecodeError, RecursionError):
            state.request, state.asked = msgspec.json.decode(shown.text or "{}", type=Request), key
            state.model = model.modelId or ""
    return drafts


def _spent(metrics: Metrics) -> Usage | None:
    """The usage of an answer. The prompt excludes cached tokens; cache reads and writes are one number."""
    tokens = metrics.tokens or Tokens()
    usage = Usage(
        input=tokens.prompt or 0,
        output=tokens.completion or 0,
        cache_read=tokens.cached or 0,
        cost_micros=round((metrics.cost or 0) * 1_000_000),
    )
    return usage if usage != Usage() else None


def _usage(request: Request) -> Usage:
    return Usage(
        input=request.tokensIn or 0,
        output=request.tokensOut or 0,
        cache_read=request.cacheReads or 0,
        cache_write=request.cacheWrites or 0,
        cost_micros=round((request.cost or 0) * 1_000_000),
    )


# Finding and recognising ----------------------------------------------------------------------------------------------


def recognises(path: PurePath, head: bytes) -> bool:
    return path.name == "api_conversation_history.json" and head.lstrip().startswith(b"[")


def recognises_shown(path: PurePath, head: bytes) -> bool:
    return path.name == "ui_messages.json" and head.lstrip().startswith(b"[")


def identify(path: PurePath, first: bytes) -> Identity:
    """The folder has the task's name; a folder above it has the extension's."""
    agent = "roo" if any("roo" in folder for folder in path.parts[:-2]) else ""
    return Identity(native=path.parent.name or path.stem, agent=agent)


# Any editor of the family, on either system or on a remote machine.
_STORAGE = (
    ".config/*/User/globalStorage",
    "Library/Application Support/*/User/globalStorage",
    "AppData/Roaming/*/User/globalStorage",
    ".vscode-server/data/User/globalStorage",
)
_FOLDERS = (
    *(f"{storage}/{name}" for storage in _STORAGE for name in ("saoudrizwan.claude-dev", "rooveterinaryinc.roo-cline")),
    ".cline/data",
)

RUNTIME = Runtime(
    name=NAME,
    title="Cline and Roo Code",
    home="",
    formats=(
        Format(
            name="conversation",
            patterns=tuple(f"{folder}/tasks/*/api_conversation_history.json" for folder in _FOLDERS),
            recognises=recognises,
            identify=identify,
            read=read,
            state=State,
            mutable=True,
            split=split,
        ),
        Format(
            name="shown",
            patterns=(),
            recognises=recognises_shown,
            identify=identify,
            read=read_shown,
            state=State,
            mutable=True,
            split=split_shown,
        ),
    ),
    tools={
        "shell": Tool("execute_command", {"command": "command"}),
        "read": Tool("read_file", {"path": "path"}),
        "write": Tool("write_to_file", {"path": "path", "content": "content"}),
        "list": Tool("list_files", {"path": "path"}),
        "search": Tool("search_files", {"pattern": "regex", "path": "path"}),
    },
    evidence="public sources, not run",
)
