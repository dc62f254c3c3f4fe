"""Droid (Factory): JSON lines below `sessions/<folder of the directory>/`, and the stream-json output of `droid exec`.

A session file holds whole messages with Anthropic blocks, chained by `parentId`. The stream holds the same as flat
records. A session file has no token counts: a settings file beside it has one running total.
"""

import base64
import re
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
    Rewound,
    RuntimeAttached,
    SessionTitled,
    TextPart,
    ThinkingPart,
    TurnEnded,
)
from clew.model.title import shortened
from clew.runtimes.contract import Format, Identity, Reading, Runtime, Tool, micros, opaque, project_of, raw
from clew.runtimes.titles import prompt_text, title_drafts

NAME = "droid"
# How many of the last messages the state holds, to find the first one that a compaction kept.
RECENT = 64
_REMINDER = re.compile(r"\s*<system-reminder>.*?</system-reminder>\s*", re.DOTALL)


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


class Message(msgspec.Struct):
    role: str
    content: str | list[Raw]
    model: str | None = None
    modelId: str | None = None


class Anchor(msgspec.Struct):
    id: str | None = None


class Line(msgspec.Struct):
    type: str
    id: str | None = None
    parentId: str | None = None
    timestamp: str | float | None = None
    message: Message | None = None
    cwd: str | None = None
    title: str | None = None
    sessionTitle: str | None = None
    summaryText: str | None = None
    anchorMessage: Anchor | None = None
    # The flat records of the stream.
    role: str | None = None
    text: str | None = None
    model: str | None = None
    messageId: str | None = None
    toolCallId: str | None = None
    toolName: str | None = None
    parameters: Raw = Raw(b"{}")
    value: Raw = Raw(b"null")
    error: Raw = Raw(b"null")
    isError: bool | None = None


class State(msgspec.Struct, omit_defaults=True):
    recent: list[str] = []
    titled: bool = False
    model: str = ""


_decode = msgspec.json.Decoder(Line).decode
_block = msgspec.json.Decoder(Block).decode


def read_session(record: bytes, key: str, reading: Reading[State]) -> list[Draft]:
    """One line of a session file."""
    line, state = _decode(record), reading.state
    at, source = micros(line.timestamp), line.id or key
    if line.type == "session_start":
        return _started(line, record, source, at, reading)
    if line.type == "compaction_state" and line.summaryText:
        keep = _after(line.anchorMessage.id if line.anchorMessage else None, state.recent)
        return _drafts([Compacted(summary=line.summaryText, keep=keep)], source, at)
    if line.type != "message" or line.message is None:
        return [opaque(f"{NAME}.{line.type}", record, source, at)]
    before = []
    if line.parentId and state.recent and line.parentId != state.recent[-1]:
        before = [Draft(body=Rewound(to=line.parentId), source=f"{source}/rewound", said_at=at)]
    state.recent = [*state.recent, source][-RECENT:]
    bodies = _message_bodies(line.message, source, reading)
    if not bodies:
        return [*before, opaque(f"{NAME}.{line.message.role}", record, source, at)]
    return [*before, *_drafts(bodies, source, at), *_title(bodies, source, at, state)]


def read_stream(record: bytes, key: str, reading: Reading[State]) -> list[Draft]:
    """One line of stream-json."""
    line, state = _decode(record), reading.state
    at = micros(line.timestamp)
    # A call and its result have the same id, so only messages use their id as the source.
    source = line.id if line.type == "message" and line.id else key
    call = line.toolCallId or line.id or ""
    bodies: list[Any] = []
    if line.type == "system" and line.cwd is not None:
        state.model = line.model or ""
        attached = RuntimeAttached(runtime=NAME, native=reading.native, cwd=line.cwd)
        return [
            Draft(body=attached, source=source, said_at=at),
            opaque(f"{NAME}.system", record, f"{source}/1", at),
        ]
    if line.type == "message" and line.role == "user" and (text := _typed(line.text or "")):
        bodies = [MessageAdded(role="user", text=text)]
    elif line.type == "message" and line.role == "assistant" and line.text:
        bodies = [MessageAdded(role="assistant", text=line.text, message=source, model=state.model)]
    elif line.type == "tool_call" and call and line.toolName:
        message = line.messageId or ""
        bodies = [CallMade(call=call, tool=line.toolName, input=line.parameters, message=message, model=state.model)]
    elif line.type == "tool_result" and call:
        output = line.error if line.isError and bytes(line.value) == b"null" else line.value
        bodies = [CallReturned(call=call, output=output, failed=bool(line.isError))]
    elif line.type == "completion":
        # Its `finalText` repeats the last answer.
        ended = Draft(body=TurnEnded(stop_reason="completed", model=state.model), source=source, said_at=at)
        return [ended, opaque(f"{NAME}.completion", record, f"{source}/1", at)]
    if not bodies:
        return [opaque(f"{NAME}.{line.type}", record, source, at)]
    return [*_drafts(bodies, source, at), *_title(bodies, source, at, state)]


def _started(line: Line, record: bytes, source: str, at: int | None, reading: Reading[State]) -> list[Draft]:
    bodies: list[Any] = [RuntimeAttached(runtime=NAME, native=reading.native, cwd=line.cwd or "")]
    title = " ".join((line.sessionTitle or line.title or "").split())
    if title and title != "New Session":
        reading.state.titled = True
        bodies.append(SessionTitled(title=shortened(title)))
    drafts = _drafts(bodies, source, at)
    return [*drafts, opaque(f"{NAME}.session_start", record, f"{source}/{len(drafts)}", at)]


def _message_bodies(message: Message, source: str, reading: Reading[State]) -> list[Any]:
    """The bodies of a message's blocks in order; consecutive texts, thoughts and images are one message."""
    contents = [raw({"type": "text", "text": message.content})] if isinstance(message.content, str) else message.content
    user, model = message.role == "user", message.modelId or message.model or ""
    bodies: list[Any] = []
    parts: list[Part] = []

    def flush() -> None:
        if len(parts) == 1 and isinstance(part := parts[0], TextPart):
            bodies.append(_message(user, source, model, text=part.text))
        elif parts:
            bodies.append(_message(user, source, model, parts=tuple(parts)))
        parts.clear()

    for content in contents:
        block = _block(content)
        if block.type == "text" and block.text is not None:
            if text := _typed(block.text) if user else block.text:
                parts.append(TextPart(text=text))
        elif block.type == "thinking":
            parts.append(ThinkingPart(text=block.thinking or "", signature=block.signature or ""))
        elif block.type == "image" and block.source is not None and block.source.data:
            data = base64.b64decode(block.source.data, validate=True)
            parts.append(ImagePart(blob=reading.blob(data), media_type=block.source.media_type or ""))
        elif block.type == "tool_use" and block.id and block.name:
            flush()
            bodies.append(CallMade(call=block.id, tool=block.name, input=block.input, message=source, model=model))
        elif block.type == "tool_result" and block.tool_use_id:
            flush()
            bodies.append(CallReturned(call=block.tool_use_id, output=block.content, failed=bool(block.is_error)))
        else:
            flush()
            bodies.append(opaque(f"{NAME}.{block.type}", bytes(content), "").body)
    flush()
    return bodies


def _message(user: bool, source: str, model: str, *, text: str = "", parts: tuple[Part, ...] = ()) -> MessageAdded:
    if user:
        return MessageAdded(role="user", text=text, parts=parts)
    return MessageAdded(role="assistant", text=text, parts=parts, message=source, model=model)


def _typed(text: str) -> str:
    """The text that the person typed, without the reminders that the program adds before it."""
    while match := _REMINDER.match(text):
        text = text[match.end() :]
    return text


def _after(anchor: str | None, recent: list[str]) -> str:
    """The first message that a compaction kept: the one after the last it removed."""
    if anchor in recent[:-1]:
        return recent[recent.index(anchor) + 1]
    return ""


def _drafts(bodies: list[Any], source: str, at: int | None) -> list[Draft]:
    return [Draft(body=body, source=f"{source}/{i}" if i else source, said_at=at) for i, body in enumerate(bodies)]


def _title(bodies: list[Any], source: str, at: int | None, state: State) -> list[Draft]:
    """A title from the first prompt, if the program has none."""
    return title_drafts(prompt_text(bodies[0]), state, source=source, at=at)


# Finding and recognising ----------------------------------------------------------------------------------------------


def recognises_session(path: PurePath, head: bytes) -> bool:
    return path.suffix == ".jsonl" and re.match(rb'\s*\{"type":\s*"session_start"', head) is not None


def recognises_stream(path: PurePath, head: bytes) -> bool:
    """The first line begins like Claude Code's stream, but has fewer fields about the installation."""
    first = head.split(b"\n", 1)[0]
    opens = re.match(rb'\s*\{"type":\s*"system",\s*"subtype":\s*"init"', first)
    return opens is not None and not re.search(rb'"(uuid|apiKeySource|mcp_servers|permissionMode)"', first)


def identify(path: PurePath, first: bytes) -> Identity:
    """The first record has the session's id, and so has the file's name."""
    try:
        head = msgspec.json.decode(first)
    except (ValueError, RecursionError):
        head = None
    if not isinstance(head, dict):
        head = {}

    def word(*names: str) -> str:
        return next((head[name] for name in names if isinstance(head.get(name), str)), "")

    native = word("session_id", "sessionId") or (word("id") if head.get("type") == "session_start" else "")
    return Identity(
        native=native or path.stem,
        project=project_of(word("cwd")) if word("cwd") else "",
        parent=word("callingSessionId", "parentSessionId"),
        call=word("callingToolUseId"),
    )


RUNTIME = Runtime(
    name=NAME,
    title="Droid",
    home=".factory",
    binary="droid",
    formats=(
        Format(
            name="session",
            patterns=("sessions/*.jsonl", "sessions/*/*.jsonl"),
            recognises=recognises_session,
            identify=identify,
            read=read_session,
            state=State,
        ),
        Format(
            name="stream",
            patterns=(),
            recognises=recognises_stream,
            identify=identify,
            read=read_stream,
            state=State,
        ),
    ),
    tools={
        "shell": Tool("Execute", {"command": "command"}),
        "read": Tool("Read", {"path": "file_path"}),
        "write": Tool("Create", {"path": "file_path", "content": "content"}),
        "edit": Tool("Edit", {"path": "file_path", "old": "old_str", "new": "new_str"}),
        "list": Tool("LS", {"path": "directory_path"}),
    },
    evidence="a public file, not run",
)
