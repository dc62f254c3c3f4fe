"""Kimi: the wire log of Kimi Code, the older wire log of Kimi CLI, and Kimi CLI's context file.

Kimi Code (`.kimi-code/sessions/<folder>/<session>/agents/<agent>/wire.jsonl`) writes typed records; a prompt is in
`turn.prompt` and again in `context.append_message`, usage in `step.end` and again in `usage.record`: the adapter reads
the second of each, because only the second exists in every case. Kimi CLI
(`.kimi/sessions/<hash>/<session>/wire.jsonl`) writes `{timestamp, message: {type, payload}}`; its `context.jsonl`
repeats the same messages.
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
    TextPart,
    ThinkingPart,
    TurnEnded,
    Usage,
    UsageCounted,
)
from clew.runtimes.contract import Format, Identity, Reading, Runtime, Tool, micros, opaque, raw
from clew.runtimes.titles import title_drafts

NAME = "kimi"
# In Kimi Code the name of a directory's folder is the directory's name, with a mark that makes it unique.
_FOLDER = re.compile(r"wd_(.+)_[0-9a-f]+")
_DATA_URL = re.compile(r"data:([^;,]+);base64,(.*)", re.DOTALL)


class ImageUrl(msgspec.Struct):
    url: str = ""


class Content(msgspec.Struct):
    """A content part; both programs write the same fields, except for the name of the image."""

    type: str
    text: str | None = None
    think: str | None = None
    encrypted: str | None = None
    image_url: ImageUrl | None = None
    imageUrl: ImageUrl | None = None


class Origin(msgspec.Struct):
    kind: str = "user"


class Message(msgspec.Struct):
    role: str
    content: str | list[Content] = ""
    origin: Origin = msgspec.field(default_factory=Origin)


class Result(msgspec.Struct):
    output: Raw = Raw(b"null")
    isError: bool | None = None


class Event(msgspec.Struct):
    type: str
    uuid: str = ""
    stepUuid: str = ""
    part: Content | None = None
    toolCallId: str = ""
    name: str = ""
    args: Raw = Raw(b"{}")
    result: Result = msgspec.field(default_factory=Result)


class Tokens(msgspec.Struct, rename="camel"):
    input_other: int = 0
    output: int = 0
    input_cache_read: int = 0
    input_cache_creation: int = 0


class Line(msgspec.Struct):
    type: str
    time: float | None = None
    created_at: float | None = None
    message: Message | None = None
    event: Event | None = None
    model: str = ""
    modelAlias: str = ""
    cwd: str = ""
    usage: Tokens | None = None
    summary: str = ""
    count: int = 0


class State(msgspec.Struct, omit_defaults=True):
    """`anchors` are the sources just before each prompt: an undo rewinds to one of them."""

    model: str = ""
    cwd: str = ""
    titled: bool = False
    last: str = ""
    step: str = ""
    anchors: list[str] = []


_decode = msgspec.json.Decoder(Line).decode


def read_code(record: bytes, key: str, reading: Reading[State]) -> list[Draft]:
    """One record of Kimi Code's wire log."""
    line, state = _decode(record), reading.state
    at = micros(line.time if line.time is not None else line.created_at)
    if line.type == "context.append_loop_event" and line.event is not None:
        drafts = _loop_event(line.event, record, key, at, reading)
    elif line.type == "context.append_message" and line.message is not None:
        drafts = _message(line.message, record, key, at, reading)
    else:
        bodies = _state_change(line, reading)
        kind = f"{NAME}.{line.type}"
        drafts = _drafts(bodies, key, at) if bodies else [opaque(kind, record, key, at)]
    last = drafts[-1]
    # A rewind is not a position in the conversation: the next record follows the target of the rewind.
    state.last = last.body.to if isinstance(last.body, Rewound) else last.source or ""
    return drafts


def _state_change(line: Line, reading: Reading[State]) -> list[Any]:
    state = reading.state
    if line.type == "metadata":
        return [RuntimeAttached(runtime=NAME, native=reading.native)]
    if line.type == "config.update":
        state.model = line.modelAlias or state.model
        if line.cwd and line.cwd != state.cwd:
            state.cwd = line.cwd
            return [RuntimeAttached(runtime=NAME, native=reading.native, cwd=line.cwd)]
    elif line.type == "usage.record" and line.usage is not None:
        return [UsageCounted(usage=_usage(line.usage), model=line.model or state.model)]
    elif line.type == "context.apply_compaction":
        state.anchors = []
        return [Compacted(summary=line.summary)]
    elif line.type == "context.clear":
        state.anchors = []
        return [Rewound()]
    elif line.type == "context.undo" and 0 < line.count <= len(state.anchors):
        to, state.anchors = state.anchors[-line.count], state.anchors[: -line.count]
        return [Rewound(to=to)]
    return []


def _message(message: Message, record: bytes, key: str, at: int | None, reading: Reading[State]) -> list[Draft]:
    """A prompt that a person typed; every other message of the context is stored verbatim."""
    parts = _parts(message.content, reading)
    if message.role != "user" or message.origin.kind != "user" or not parts:
        return [opaque(f"{NAME}.{message.origin.kind}", record, key, at)]
    reading.state.anchors.append(reading.state.last)
    drafts = _prompt(parts, key, at, reading.state)
    if not isinstance(message.content, str) and len(parts) < len(message.content):
        # A content part without an event part, such as an image stored elsewhere, is stored verbatim.
        drafts.append(opaque(f"{NAME}.part", record, f"{key}/part", at))
    return drafts


def _loop_event(event: Event, record: bytes, key: str, at: int | None, reading: Reading[State]) -> list[Draft]:
    state = reading.state
    source = key
    body: MessageAdded | CallMade | CallReturned | None = None
    if event.type == "content.part" and event.part is not None:
        parts = _parts([event.part], reading)
        source = event.uuid or key
        if parts:
            body = _answer(parts, message=event.stepUuid, model=state.model)
    elif event.type == "tool.call" and event.toolCallId and event.name:
        # The id of a call counts from zero per tool; with the step it is unique.
        source = f"{event.stepUuid}/{event.toolCallId}" if event.stepUuid else key
        body = CallMade(
            call=event.toolCallId, tool=event.name, input=event.args, message=event.stepUuid, model=state.model
        )
    elif event.type == "tool.result" and event.toolCallId:
        body = CallReturned(call=event.toolCallId, output=event.result.output, failed=bool(event.result.isError))
    if body is None:
        return [opaque(f"{NAME}.{event.type}", record, key, at)]
    return [Draft(body=body, source=source, said_at=at)]


# Kimi CLI -------------------------------------------------------------------------------------------------------------


class Function(msgspec.Struct):
    name: str
    arguments: str | None = None


class Call(msgspec.Struct):
    id: str
    function: Function


class ReturnValue(msgspec.Struct):
    is_error: bool = False
    output: Raw = Raw(b"null")


class OldTokens(msgspec.Struct):
    input_other: int = 0
    output: int = 0
    input_cache_read: int = 0
    input_cache_creation: int = 0


class OldPayload(msgspec.Struct):
    """The payload of any message of the older wire log."""

    user_input: str | list[Content] = ""
    n: int = 0
    type: str = ""
    text: str | None = None
    think: str | None = None
    encrypted: str | None = None
    image_url: ImageUrl | None = None
    id: str = ""
    function: Function | None = None
    tool_call_id: str = ""
    return_value: ReturnValue = msgspec.field(default_factory=ReturnValue)
    token_usage: OldTokens | None = None
    message_id: str | None = None
    parent_tool_call_id: str | None = None
    task_tool_call_id: str | None = None
    event: "Envelope | None" = None


class Envelope(msgspec.Struct):
    type: str
    payload: OldPayload = msgspec.field(default_factory=OldPayload)


class OldLine(msgspec.Struct):
    type: str = ""
    timestamp: float | None = None
    message: Envelope | None = None


_decode_old = msgspec.json.Decoder(OldLine).decode


def read_cli(record: bytes, key: str, reading: Reading[State]) -> list[Draft]:
    """One record of Kimi CLI's wire log; its times are seconds."""
    line = _decode_old(record)
    at = micros(line.timestamp * 1000) if line.timestamp is not None else None
    if line.message is None:
        if line.type == "metadata":
            return [Draft(body=RuntimeAttached(runtime=NAME, native=reading.native), source=key)]
        return [opaque(f"{NAME}.{line.type or 'record'}", record, key, at)]
    kind, payload, side = line.message.type, line.message.payload, ""
    if kind == "SubagentEvent" and payload.event is not None:
        side = payload.parent_tool_call_id or payload.task_tool_call_id or "subagent"
        kind, payload = payload.event.type, payload.event.payload
    if kind in ("TurnBegin", "SteerInput") and not side and (parts := _parts(payload.user_input, reading)):
        return _prompt(parts, key, at, reading.state)
    body = _old_body(kind, payload, side, key, reading)
    if body is None:
        return [opaque(f"{NAME}.{line.message.type}", record, key, at)]
    return [Draft(body=body, source=key, said_at=at)]


def _old_body(kind: str, payload: OldPayload, side: str, key: str, reading: Reading[State]) -> Any:
    state = reading.state
    if kind == "StepBegin" and not side:
        state.step = key
    elif kind == "ContentPart":
        part = Content(payload.type, payload.text, payload.think, payload.encrypted, payload.image_url)
        if parts := _parts([part], reading):
            return _answer(parts, message="" if side else state.step, side=side)
    elif kind == "ToolCall" and payload.id and payload.function is not None:
        return _call(Call(payload.id, payload.function), "" if side else state.step, side)
    elif kind == "ToolResult" and payload.tool_call_id:
        back = payload.return_value
        return CallReturned(call=payload.tool_call_id, output=back.output, failed=back.is_error, side=side)
    elif kind == "StatusUpdate" and payload.token_usage is not None:
        # This log does not name the llm.
        return UsageCounted(usage=_usage(payload.token_usage), message=payload.message_id or "")
    elif kind == "TurnEnd" and not side:
        return TurnEnded()
    return None


class Turn(msgspec.Struct):
    role: str
    content: str | list[Content] | None = None
    tool_calls: list[Call] | None = None
    tool_call_id: str | None = None


_decode_turn = msgspec.json.Decoder(Turn).decode


def read_context(record: bytes, key: str, reading: Reading[State]) -> list[Draft]:
    """One message of Kimi CLI's context file, which has no times."""
    turn, state = _decode_turn(record), reading.state
    parts = _parts(turn.content or "", reading)
    if turn.role == "user" and parts and not (isinstance(parts[0], TextPart) and parts[0].text.startswith("<system>")):
        attached = [] if state.titled else [RuntimeAttached(runtime=NAME, native=reading.native)]
        return [*(Draft(body=body, source=f"{key}/runtime") for body in attached), *_prompt(parts, key, None, state)]
    if turn.role == "tool" and turn.tool_call_id:
        text = "\n".join(part.text for part in parts if isinstance(part, TextPart))
        return [Draft(body=CallReturned(call=turn.tool_call_id, output=raw(text)), source=key)]
    if turn.role == "assistant":
        bodies: list[Any] = [_answer(parts, message=key)] if parts else []
        bodies += [_call(call, key, "") for call in turn.tool_calls or []]
        if bodies:
            return _drafts(bodies, key, None)
    return [opaque(f"{NAME}.{turn.role}", record, key)]


# What all three share -------------------------------------------------------------------------------------------------


def _parts(contents: str | list[Content], reading: Reading[State]) -> list[Part]:
    if isinstance(contents, str):
        return [TextPart(text=contents)] if contents else []
    parts: list[Part] = []
    for content in contents:
        image = content.image_url or content.imageUrl
        if content.type == "text" and content.text:
            parts.append(TextPart(text=content.text))
        elif content.type == "think" and (content.think or content.encrypted):
            parts.append(ThinkingPart(text=content.think or "", signature=content.encrypted or ""))
        elif image is not None and (match := _DATA_URL.fullmatch(image.url)):
            data = base64.b64decode(match[2], validate=True)
            parts.append(ImagePart(blob=reading.blob(data), media_type=match[1]))
    return parts


def _answer(parts: list[Part], *, message: str, model: str = "", side: str = "") -> MessageAdded:
    if len(parts) == 1 and isinstance(parts[0], TextPart):
        return MessageAdded(role="assistant", text=parts[0].text, message=message, model=model, side=side)
    return MessageAdded(role="assistant", parts=tuple(parts), message=message, model=model, side=side)


def _prompt(parts: list[Part], key: str, at: int | None, state: State) -> list[Draft]:
    alone = len(parts) == 1 and isinstance(parts[0], TextPart)
    text = "\n".join(part.text for part in parts if isinstance(part, TextPart))
    body = MessageAdded(role="user", text=text) if alone else MessageAdded(role="user", parts=tuple(parts))
    drafts = [Draft(body=body, source=key, said_at=at)]
    return [*drafts, *title_drafts(text, state, source=key, at=at)]


def _call(call: Call, message: str, side: str) -> CallMade:
    arguments = (call.function.arguments or "{}").encode()
    try:
        msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        # The llm's arguments are not valid JSON: store them as a JSON string.
        arguments = msgspec.json.encode(call.function.arguments)
    return CallMade(call=call.id, tool=call.function.name, input=Raw(arguments), message=message, side=side)


def _usage(tokens: Tokens | OldTokens) -> Usage:
    return Usage(
        input=tokens.input_other,
        output=tokens.output,
        cache_read=tokens.input_cache_read,
        cache_write=tokens.input_cache_creation,
    )


def _drafts(bodies: list[Any], source: str, at: int | None) -> list[Draft]:
    return [Draft(body=body, source=f"{source}/{i}" if i else source, said_at=at) for i, body in enumerate(bodies)]


# Finding and recognising ----------------------------------------------------------------------------------------------


def _first(head: bytes) -> dict[str, Any]:
    try:
        record = msgspec.json.decode(head.lstrip().split(b"\n", 1)[0])
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def recognises_code(path: PurePath, head: bytes) -> bool:
    first = _first(head)
    return first.get("type") == "metadata" and "protocol_version" in first and "created_at" in first


def recognises_cli(path: PurePath, head: bytes) -> bool:
    first = _first(head)
    if first.get("type") == "metadata":
        return "protocol_version" in first and "created_at" not in first
    message = first.get("message")
    return "timestamp" in first and isinstance(message, dict) and {"type", "payload"} <= message.keys()


def recognises_context(path: PurePath, head: bytes) -> bool:
    first = _first(head)
    return path.suffix == ".jsonl" and (
        first.get("role") in ("_checkpoint", "_system_prompt", "_usage")
        or (path.stem == "context" and first.get("role") == "user")
    )


def identify(path: PurePath, first: bytes) -> Identity:
    """The folder has the session's id; a subagent's folder is below its session's folder."""
    folder = path.parent
    if folder.parent.name in ("agents", "subagents"):
        above = folder.parent.parent
        named = _FOLDER.fullmatch(above.parent.name)
        project = named[1] if named else ""
        if folder.name == "main":
            return Identity(native=above.name, project=project)
        return Identity(native=f"{above.name}/{folder.name}", project=project, agent=folder.name, parent=above.name)
    return Identity(native=folder.name if path.stem == "wire" and folder.name else path.stem)


def identify_context(path: PurePath, first: bytes) -> Identity:
    """The folder has the session's id; in the oldest versions the file has it."""
    return Identity(native=path.parent.name if path.stem == "context" and path.parent.name else path.stem)


RUNTIME = Runtime(
    name=NAME,
    title="Kimi",
    home="",
    binary="kimi",
    formats=(
        Format(
            name="code",
            patterns=(".kimi-code/sessions/*/*/agents/*/wire.jsonl",),
            recognises=recognises_code,
            identify=identify,
            read=read_code,
            state=State,
        ),
        Format(
            name="cli",
            patterns=(".kimi/sessions/*/*/wire.jsonl", ".kimi/sessions/*/*/subagents/*/wire.jsonl"),
            recognises=recognises_cli,
            identify=identify,
            read=read_cli,
            state=State,
        ),
        Format(
            name="context",
            patterns=(".kimi/sessions/*/*.jsonl",),
            recognises=recognises_context,
            identify=identify_context,
            read=read_context,
            state=State,
        ),
    ),
    tools={
        "shell": Tool("Bash", {"command": "command"}),
        "read": Tool("Read", {"path": "path"}),
        "write": Tool("Write", {"path": "path", "content": "content"}),
        "glob": Tool("Glob", {"pattern": "pattern", "path": "path"}),
        "search": Tool("Grep", {"pattern": "pattern", "path": "path"}),
    },
    evidence="a public file, not run",
)
