"""OpenCode: rows of a SQLite database, one for a session, one for each message, one for each part of a message.

The program edits rows in place while an answer arrives, so the adapter reads an answer after it has ended or another
message follows; until then a placeholder holds its position. A call and its result are one row and give two drafts. The
program's own export has the same rows in another format and gives the same drafts (opencode_rows.py). The first
OpenCode had other tables (opencode_go.py).
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
from clew.model.title import LONGEST, shortened
from clew.runtimes.adapters import opencode_go as go
from clew.runtimes.adapters.opencode_rows import NULL, assemble, records, sessions, split, tolerant
from clew.runtimes.adapters.opencode_write import IMPORTED_MODEL, NAME, VERSION, resume, write
from clew.runtimes.contract import (
    Format,
    Identity,
    Proven,
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
from clew.runtimes.titles import prompt_text, title_drafts

T = TypeVar("T")
# Up to this version the output includes the reasoning.
_REASONING_INSIDE = (1, 3, 15)
_NUMBERS = re.compile(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})")
# The title of a session before its first answer.
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
    """A record. A row without a message is stored as its `data`: the times of a row change where nothing else does."""

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
    """The message whose parts are being read, the first message that a compaction keeps, and the target of a revert."""

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


def _decode_data(row: Row, type: type[T]) -> T:
    """The decoded JSON of a row, also where the record holds it as a string."""
    data = bytes(row.data)
    try:
        return msgspec.json.decode(
            tolerant(msgspec.json.decode(data, type=str)) if data.startswith(b'"') else data, type=type
        )
    except msgspec.ValidationError:
        raise
    except (ValueError, RecursionError) as error:
        # The row is still a complete record: its shape is unexpected, but it is not damaged.
        raise Unreadable(f"the data of {row.id} is not valid JSON") from error


def _session(row: Row, state: State) -> list[Draft]:
    if isinstance(row.revert, dict):
        # The revert begins with this part, or with this message.
        state.until = str(row.revert.get("partID") or row.revert.get("messageID") or "")
    at, state.version = micros(row.time_created), row.version or ""
    attached = RuntimeAttached(runtime=NAME, native=row.id, runtime_version=state.version, cwd=row.directory or "")
    drafts = [Draft(body=attached, source=row.id, said_at=at)]
    title = " ".join((row.title or "").split())
    if title and not _UNTITLED.match(title):
        state.titled = True
        drafts.append(Draft(body=SessionTitled(title=shortened(title, LONGEST)), source=f"{row.id}/title", said_at=at))
    return drafts


def _message(row: Row, state: State) -> list[Draft]:
    message = _decode_data(row, Message)
    ended = message.time.completed is not None
    state.message, state.role = row.id, message.role
    state.model = "" if message.modelID == IMPORTED_MODEL["modelID"] else message.modelID or ""
    state.at = micros(message.time.created or row.time_created)
    state.settled = ended or row.followed or message.role != "assistant"
    # An answer that failed or never ended is not a summary, although it is marked as one.
    summarises = message.role == "assistant" and bool(message.summary) and not message.error
    state.summary = summarises and (message.finish is not None or not state.settled)
    if not state.settled:
        return [_unfinished(row.id, row.id, state)]
    # Count an answer after it has ended: before that it can grow, and each revision would count again.
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
        # Some versions count reasoning separately; in clew the output includes it.
        output=int(tokens.output + (0 if _reasons_inside(tokens, version) else tokens.reasoning)),
        cache_read=int(tokens.cache.read),
        cache_write=int(tokens.cache.write),
        reasoning=int(tokens.reasoning),
        cost_micros=round((message.cost or 0) * 1_000_000),
    )
    return usage if usage != Usage() else None


def _reasons_inside(tokens: Tokens, version: str) -> bool:
    """Whether the output includes the reasoning: the total shows it, else the version that began the session."""
    if tokens.reasoning > tokens.output:
        return False
    counted = tokens.input + tokens.output + tokens.cache.read + tokens.cache.write
    if tokens.total in (counted, counted + tokens.reasoning):
        return tokens.total == counted
    numbers = _NUMBERS.match(version)
    # An unreleased build is 0.0.0.
    return numbers is not None and (0, 0, 0) < tuple(map(int, numbers.groups())) <= _REASONING_INSIDE


def _unfinished(id: str, source: str, state: State) -> Draft:
    """A placeholder for a part that is still being written; nothing in it changes."""
    return opaque(f"{NAME}.unfinished", msgspec.json.encode({"id": id}), source, state.at)


def _part(row: Row, reading: Reading[State]) -> list[Draft]:
    part, state = _decode_data(row, Part), reading.state
    at = micros(part.time.start) or state.at
    if part.type == "tool" and part.callID and part.tool and part.state:
        return _call(row, part, part.state, reading)
    if part.type == "compaction":
        state.tail = part.tail_start_id or ""
    if part.type in ("text", "reasoning") and not state.settled and (part.time.end is None or state.summary):
        return [_unfinished(row.id, row.id, state)]
    body = _part_body(part, reading)
    if body is None:
        return [opaque(f"{NAME}.{part.type}", bytes(row.data), row.id, at)]
    drafts = [_draft_of(body, row.id, at, state)]
    if state.role == "user":
        drafts += title_drafts(prompt_text(body), state, source=row.id, at=at)
    return drafts


def _part_body(part: Part, reading: Reading[State]) -> Body | None:
    """What a part adds to the conversation; None for texts that the program adds, steps and patches."""
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
    drafts = [_draft_of(made, f"{row.id}/call", micros(call.time.start) or state.at, state)]
    if call.status in ("completed", "error"):
        output = call.error if call.status == "error" else call.output
        # The llm sees the output that an interrupted command had printed so far.
        printed = call.metadata.get("output") if isinstance(call.metadata, dict) else None
        if call.status == "error" and isinstance(printed, str) and call.metadata.get("interrupted") is True:
            output = raw(printed)
        files = tuple(file for attachment in call.attachments or [] if (file := _file(attachment, reading)))
        # A command that exits with another code than 0 is completed for the program.
        exit_code = call.metadata.get("exit") if isinstance(call.metadata, dict) else None
        failed = call.status == "error" or (isinstance(exit_code, int) and exit_code != 0)
        returned = CallReturned(call=id, output=output, parts=files, failed=failed)
        drafts.append(_draft_of(returned, f"{row.id}/return", micros(call.time.end) or state.at, state))
    return drafts


def _draft_of(body: Body, source: str, at: int | None, state: State) -> Draft:
    state.last = source
    return Draft(body=body, source=source, said_at=at)


def _signature(part: Part) -> str:
    provider = part.metadata.get("anthropic") if isinstance(part.metadata, dict) else None
    signature = provider.get("signature") if isinstance(provider, dict) else None
    return signature if isinstance(signature, str) else ""


def _file(part: Part, reading: Reading[Any]) -> ImagePart | FilePart | None:
    """A file whose bytes are in its URL; the program has already read files that are on the machine."""
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
    """A database holds many sessions, which `sessions` lists."""
    return Identity(native=path.stem)


def _identify_export(path: PurePath, first: bytes) -> Identity:
    """Only the beginning of an export may be known, so it is searched and not decoded."""
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
    writer=Writer(write=write, resume=resume, prepare=((NAME, "import", "{file}"),), images=True),
    proven=Proven(VERSION, "2026-11-19"),
)
