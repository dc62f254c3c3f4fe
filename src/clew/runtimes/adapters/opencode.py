"""OpenCode: rows of a SQLite database, one for a session, for each of its messages and for each part of a message.

Rows are edited in place while an answer arrives, so what an answer says is told once that answer has ended or something
came after it; until then a placeholder keeps its place. A call and its result are one row, told as two pieces. The
program's own export holds the same rows in another shape and reads the same (opencode_rows.py). The first OpenCode kept
other tables (opencode_go.py).
"""

import base64
import re
from pathlib import PurePath
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec import Raw

from clew.model.events import (
    Body,
    CallMade,
    CallReturned,
    Compacted,
    Draft,
    FilePart,
    ImagePart,
    MessageAdded,
    Rewound,
    RuntimeAttached,
    SessionTitled,
    ThinkingPart,
    Usage,
    UsageCounted,
)
from clew.runtimes.adapters import opencode_go as go
from clew.runtimes.adapters.opencode_rows import NULL, assemble, records, sessions, split, tolerant
from clew.runtimes.adapters.opencode_write import IMPORTED_MODEL, NAME, VERSION, first_line, resume, write
from clew.runtimes.contract import (
    Format,
    Identity,
    Reading,
    Rows,
    Runtime,
    Tool,
    Unreadable,
    Writer,
    micros,
    opaque,
    project_of,
    raw,
)

T = TypeVar("T")
# Until this version reasoning was a part of the output.
_REASONING_INSIDE = (1, 3, 15)
_NUMBERS = re.compile(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})")
# What the program calls a session until its first answer.
_UNTITLED = re.compile(r"(New|Child) session - \d{4}-\d\d-\d\dT")


class Time(msgspec.Struct):
    created: float | None = None
    completed: float | None = None
    start: float | None = None
    end: float | None = None


class Cache(msgspec.Struct):
    read: float = 0
    write: float = 0


class Tokens(msgspec.Struct):
    total: float | None = None
    input: float = 0
    output: float = 0
    reasoning: float = 0
    cache: Cache = msgspec.field(default_factory=Cache)


class Message(msgspec.Struct):
    role: str
    time: Time = msgspec.field(default_factory=Time)
    modelID: str | None = None
    finish: str | None = None
    summary: Any = None
    error: Any = None
    tokens: Tokens | None = None
    cost: float | None = None


class CallState(msgspec.Struct):
    status: str
    input: Raw = Raw(b"{}")
    output: Raw = NULL
    error: Raw = NULL
    metadata: Any = None
    time: Time = msgspec.field(default_factory=Time)
    attachments: "list[Part] | None" = None


class Part(msgspec.Struct):
    type: str
    text: str | None = None
    synthetic: bool | None = None
    ignored: bool | None = None
    time: Time = msgspec.field(default_factory=Time)
    metadata: Any = None
    mime: str | None = None
    filename: str | None = None
    url: str | None = None
    tool: str | None = None
    callID: str | None = None
    state: CallState | None = None
    tail_start_id: str | None = None


class Row(msgspec.Struct):
    """A record. What nobody said is kept as its `data`: the times of a row change where nothing else does."""

    table: str
    id: str
    message_id: str | None = None
    data: Raw = NULL
    followed: bool = False
    directory: str | None = None
    title: str | None = None
    version: str | None = None
    time_created: float | None = None
    time_updated: float | None = None
    revert: Any = None


class State(msgspec.Struct, omit_defaults=True):
    """The message whose parts are being read, the first that a compaction keeps, and where a revert leads back to."""

    message: str = ""
    role: str = ""
    model: str = ""
    at: int | None = None
    settled: bool = False
    summary: bool = False
    tail: str = ""
    titled: bool = False
    last: str = ""
    until: str = ""
    back_to: str | None = None
    version: str = ""


_decode = msgspec.json.Decoder(Row).decode


def read(record: bytes, key: str, reading: Reading[State]) -> list[Draft]:
    row, state = _decode(record), reading.state
    if not row.id:
        raise Unreadable("a row without an id")
    if state.until and row.id == state.until:
        state.back_to = state.last
    if row.table == "session":
        return _session(row, state)
    if row.table == "message":
        return _message(row, state)
    if row.table == "revert" and state.back_to is not None:
        source = f"{row.id}/revert/{int(row.time_updated or 0)}"
        return [Draft(body=Rewound(to=state.back_to), source=source, said_at=micros(row.time_updated))]
    if row.table == "part" and row.message_id == state.message:
        return _part(row, reading)
    return [opaque(f"{NAME}.{row.table}", record, key)]


def _told(row: Row, type: type[T]) -> T:
    """The JSON of a row, even where it could only be kept as a string."""
    data = bytes(row.data)
    try:
        return msgspec.json.decode(
            tolerant(msgspec.json.decode(data, type=str)) if data.startswith(b'"') else data, type=type
        )
    except msgspec.ValidationError:
        raise
    except (ValueError, RecursionError) as error:
        # The row is a whole record all the same: this is a shape, and no damage.
        raise Unreadable(f"the data of {row.id} is no JSON") from error


def _session(row: Row, state: State) -> list[Draft]:
    if isinstance(row.revert, dict):
        # What is taken back begins with this part, or with this message.
        state.until = str(row.revert.get("partID") or row.revert.get("messageID") or "")
    at, state.version = micros(row.time_created), row.version or ""
    attached = RuntimeAttached(runtime=NAME, native=row.id, runtime_version=state.version, cwd=row.directory or "")
    drafts = [Draft(body=attached, source=row.id, said_at=at)]
    title = " ".join((row.title or "").split())
    if title and not _UNTITLED.match(title):
        state.titled = True
        drafts.append(Draft(body=SessionTitled(title=title[:200]), source=f"{row.id}/title", said_at=at))
    return drafts


def _message(row: Row, state: State) -> list[Draft]:
    message = _told(row, Message)
    ended = message.time.completed is not None
    state.message, state.role = row.id, message.role
    state.model = "" if message.modelID == IMPORTED_MODEL["modelID"] else message.modelID or ""
    state.at = micros(message.time.created or row.time_created)
    state.settled = ended or row.followed or message.role != "assistant"
    # An answer that failed, or was never ended, is a summary only by name.
    summarises = message.role == "assistant" and bool(message.summary) and not message.error
    state.summary = summarises and (message.finish is not None or not state.settled)
    if not state.settled:
        return [_unfinished(row.id, row.id, state)]
    # Counted once the answer has ended: until then it may still grow, and each revision would count again.
    usage = _usage(message, state.version) if ended and message.role == "assistant" else None
    if usage is None:
        return [opaque(f"{NAME}.{message.role}", bytes(row.data), row.id, state.at)]
    body = UsageCounted(usage=usage, model=state.model, message=row.id)
    drafts = [Draft(body=body, source=row.id, said_at=micros(message.time.completed))]
    if message.error:
        drafts.append(opaque(f"{NAME}.error", bytes(row.data), f"{row.id}/1", state.at))
    return drafts


def _usage(message: Message, version: str) -> Usage | None:
    tokens = message.tokens or Tokens()
    usage = Usage(
        input=int(tokens.input),
        # Where the program counts reasoning apart; here it is a part of the output.
        output=int(tokens.output + (0 if _reasons_inside(tokens, version) else tokens.reasoning)),
        cache_read=int(tokens.cache.read),
        cache_write=int(tokens.cache.write),
        reasoning=int(tokens.reasoning),
        cost_micros=round((message.cost or 0) * 1_000_000),
    )
    return usage if usage != Usage() else None


def _reasons_inside(tokens: Tokens, version: str) -> bool:
    """Whether the output includes the reasoning: the sum of all tells it, else the version that began the session."""
    if tokens.reasoning > tokens.output:
        return False
    counted = tokens.input + tokens.output + tokens.cache.read + tokens.cache.write
    if tokens.total in (counted, counted + tokens.reasoning):
        return tokens.total == counted
    numbers = _NUMBERS.match(version)
    # A build of nobody's release is 0.0.0.
    return numbers is not None and (0, 0, 0) < tuple(map(int, numbers.groups())) <= _REASONING_INSIDE


def _unfinished(id: str, source: str, state: State) -> Draft:
    """Keeps the place of what is still being written; it says nothing that changes."""
    return opaque(f"{NAME}.unfinished", msgspec.json.encode({"id": id}), source, state.at)


def _part(row: Row, reading: Reading[State]) -> list[Draft]:
    part, state = _told(row, Part), reading.state
    at = micros(part.time.start) or state.at
    if part.type == "tool" and part.callID and part.tool and part.state:
        return _call(row, part, part.state, reading)
    if part.type == "compaction":
        state.tail = part.tail_start_id or ""
    if part.type in ("text", "reasoning") and not state.settled and (part.time.end is None or state.summary):
        return [_unfinished(row.id, row.id, state)]
    body = _said(part, reading)
    if body is None:
        return [opaque(f"{NAME}.{part.type}", bytes(row.data), row.id, at)]
    drafts = [_spoken(body, row.id, at, state)]
    if state.role == "user" and not state.titled and isinstance(body, MessageAdded) and body.text.strip():
        state.titled = True
        title = SessionTitled(title=first_line(body.text))
        drafts.append(Draft(body=title, source=f"{row.id}/title", said_at=at))
    return drafts


def _said(part: Part, reading: Reading[State]) -> Body | None:
    """What a part adds to the conversation; None for what nobody said: texts put in by the program, steps, patches."""
    state = reading.state
    about: dict[str, Any] = {"message": state.message, "model": state.model} if state.role == "assistant" else {}
    if part.type == "text" and part.text and not part.synthetic and not part.ignored:
        if state.summary:
            state.summary = False
            return Compacted(summary=part.text, keep=state.tail)
        return MessageAdded(role=state.role, text=part.text, **about)
    if part.type == "reasoning" and (part.text or _signature(part)):
        thought = ThinkingPart(text=part.text or "", signature=_signature(part))
        return MessageAdded(role=state.role, parts=(thought,), **about)
    if part.type == "file" and (file := _file(part, reading)):
        return MessageAdded(role=state.role, parts=(file,), **about)
    return None


def _call(row: Row, part: Part, call: CallState, reading: Reading[State]) -> list[Draft]:
    state = reading.state
    if call.status == "pending":
        return [_unfinished(row.id, f"{row.id}/call", state)]
    id = part.callID or ""
    made = CallMade(call=id, tool=part.tool or "", input=call.input, message=state.message, model=state.model)
    drafts = [_spoken(made, f"{row.id}/call", micros(call.time.start) or state.at, state)]
    if call.status in ("completed", "error"):
        output = call.error if call.status == "error" else call.output
        # An interrupted command keeps what it had printed so far, and that is what the model is shown.
        kept = call.metadata.get("output") if isinstance(call.metadata, dict) else None
        if call.status == "error" and isinstance(kept, str) and call.metadata.get("interrupted") is True:
            output = raw(kept)
        files = tuple(file for one in call.attachments or [] if (file := _file(one, reading)))
        back = CallReturned(call=id, output=output, parts=files, failed=call.status == "error")
        drafts.append(_spoken(back, f"{row.id}/return", micros(call.time.end) or state.at, state))
    return drafts


def _spoken(body: Body, source: str, at: int | None, state: State) -> Draft:
    state.last = source
    return Draft(body=body, source=source, said_at=at)


def _signature(part: Part) -> str:
    provider = part.metadata.get("anthropic") if isinstance(part.metadata, dict) else None
    signature = provider.get("signature") if isinstance(provider, dict) else None
    return signature if isinstance(signature, str) else ""


def _file(part: Part, reading: Reading[Any]) -> ImagePart | FilePart | None:
    """A file whose bytes are in its address; one that lies on the machine has been read by the program already."""
    head, comma, body = (part.url or "").partition(",")
    if not head.startswith("data:") or not comma:
        return None
    data = base64.b64decode(body, validate=True) if head.endswith(";base64") else unquote_to_bytes(body)
    mime = part.mime or head[5:].partition(";")[0]
    kind = ImagePart if mime.startswith("image/") else FilePart
    return kind(blob=reading.blob(data), media_type=mime, name=part.filename or "")


def _is_go(path: PurePath, head: bytes) -> bool:
    return _is_database(path, head) and (b"goose_db_version" in head or path.parent.name == ".opencode")


def _is_rows(path: PurePath, head: bytes) -> bool:
    return _is_database(path, head) and not _is_go(path, head)


def _is_database(path: PurePath, head: bytes) -> bool:
    return head.startswith(b"SQLite format 3\0") and re.search(r"opencode[\w.-]*\.db$", path.name) is not None


def _is_export(path: PurePath, head: bytes) -> bool:
    return re.match(rb'\s*\{\s*"info"\s*:\s*\{', head) is not None and b'"ses_' in head


def _identify_database(path: PurePath, first: bytes) -> Identity:
    """A database holds many sessions: `sessions` tells them apart."""
    return Identity(native=path.stem)


def _identify_export(path: PurePath, first: bytes) -> Identity:
    """The beginning of an export may be all there is to see, so it is searched and not decoded."""
    native = re.search(rb'"id"\s*:\s*"(ses_\w+)"', first)
    parent = re.search(rb'"parentID"\s*:\s*"(ses_\w+)"', first)
    directory = re.search(rb'"directory"\s*:\s*("(?:[^"\\]|\\.)*")', first)
    return Identity(
        native=native[1].decode() if native else path.stem,
        parent=parent[1].decode() if parent else "",
        project=project_of(msgspec.json.decode(directory[1], type=str)) if directory else "",
    )


RUNTIME = Runtime(
    name=NAME,
    title="OpenCode",
    home=".local/share/opencode",
    home_variable="XDG_DATA_HOME",
    home_below="opencode",
    binary="opencode",
    formats=(
        Format(
            name="rows",
            patterns=("opencode.db", "opencode-*.db"),
            recognises=_is_rows,
            identify=_identify_database,
            read=read,
            state=State,
            mutable=True,
            rows=Rows(sessions=sessions, records=records, assemble=assemble),
        ),
        Format(
            name="go-rows",
            patterns=(),
            recognises=_is_go,
            identify=_identify_database,
            read=go.read,
            state=go.State,
            mutable=True,
            rows=Rows(sessions=go.sessions, records=go.records, assemble=go.assemble),
        ),
        Format(
            name="export",
            patterns=(),
            recognises=_is_export,
            identify=_identify_export,
            read=read,
            state=State,
            mutable=True,
            split=split,
        ),
    ),
    tools={
        "shell": Tool("bash", {"command": "command"}),
        "read": Tool("read", {"path": "filePath", "offset": "offset", "limit": "limit"}),
        "write": Tool("write", {"path": "filePath", "content": "content"}),
        "edit": Tool("edit", {"path": "filePath", "old": "oldString", "new": "newString"}),
        "glob": Tool("glob", {"pattern": "pattern", "path": "path"}),
        "search": Tool("grep", {"pattern": "pattern", "path": "path"}),
        "fetch": Tool("webfetch", {"url": "url"}),
        "patch": Tool("apply_patch", {"patch": "patchText"}),
    },
    writer=Writer(write=write, resume=resume, images=True),
    evidence=f"{VERSION}, run against a scripted model",
)
