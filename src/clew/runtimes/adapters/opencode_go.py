"""The first OpenCode, written in Go: a database with one row per message, in the folder `.opencode` of a project."""

import base64
import sqlite3
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

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
    RuntimeAttached,
    SessionTitled,
    ThinkingPart,
)
from clew.model.title import LONGEST, shortened
from clew.runtimes.adapters.opencode_rows import embedded, record_of, select, stamp_of
from clew.runtimes.contract import Identity, Reading, Record, Unreadable, micros, opaque, raw

NAME = "opencode"
_TABLES = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('sessions', 'messages', 'files')"
_SESSIONS = """
SELECT sessions.*, m.rows AS m_rows, m.latest AS m_latest FROM sessions
LEFT JOIN (SELECT session_id, count(*) AS rows, max(updated_at) AS latest FROM messages GROUP BY session_id) m
  ON m.session_id = sessions.id
ORDER BY sessions.created_at, sessions.id
"""
_SESSION = "SELECT * FROM sessions WHERE id = ?"
# Many rows have the same second; rowid has the order of insertion.
_MESSAGES = "SELECT * FROM messages WHERE session_id = ? ORDER BY created_at, rowid"
_FILES = "SELECT * FROM files WHERE session_id = ? ORDER BY created_at, rowid"


class Data(msgspec.Struct):
    """The fields of a part of any type."""

    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    tool_call_id: str | None = None
    content: Any = None
    is_error: Any = None
    Data: str | None = None
    MIMEType: str | None = None
    Path: str | None = None


class Part(msgspec.Struct):
    type: str
    data: Data


class Row(msgspec.Struct):
    table: str
    id: str
    role: str = ""
    parts: list[Part] = []
    model: str | None = None
    title: str | None = None
    summary_message_id: str | None = None
    created_at: float | str | None = None


class State(msgspec.Struct, omit_defaults=True):
    summary: str = ""


def sessions(connection: sqlite3.Connection) -> Iterator[tuple[Identity, str]]:
    if connection.execute(_TABLES).fetchone()[0] < 3:
        return
    for row in select(connection, _SESSIONS):
        parent = row["parent_session_id"] or ""
        # A subagent's session has the id of the call that started it.
        call = row["id"] if parent and not row["id"].startswith("title-") else ""
        yield Identity(native=row["id"], parent=parent, call=call), stamp_of(row)


def records(connection: sqlite3.Connection, native: str) -> Iterator[Record]:
    yield from (record_of("sessions", row) for row in select(connection, _SESSION, native))
    yield from (record_of("messages", row) for row in select(connection, _MESSAGES, native))
    yield from (record_of("files", row) for row in select(connection, _FILES, native))


def assemble(native: str, records: list[Record]) -> bytes:
    """The rows as one document: the program had no export."""
    return msgspec.json.format(msgspec.json.encode([Raw(record) for _, record in records]), indent=2) + b"\n"


def read(record: bytes, key: str, reading: Reading[State]) -> list[Draft]:
    row = msgspec.json.decode(record, type=Row)
    if not row.id:
        raise Unreadable("a row without an id")
    at = _moment(row.created_at)
    if row.table == "sessions":
        reading.state.summary = row.summary_message_id or ""
        drafts = [Draft(body=RuntimeAttached(runtime=NAME, native=row.id), source=row.id, said_at=at)]
        if row.title:
            drafts.append(
                Draft(body=SessionTitled(title=shortened(row.title, LONGEST)), source=f"{row.id}/title", said_at=at)
            )
        return drafts
    if row.table != "messages":
        return [opaque(f"{NAME}.{row.table}", record, key, at)]
    bodies = [body for part in row.parts if (body := _part_body(part, row, reading))]
    drafts = [Draft(body=body, source=f"{row.id}/{i}" if i else row.id, said_at=at) for i, body in enumerate(bodies)]
    return drafts or [opaque(f"{NAME}.{row.role}", record, row.id, at)]


def _part_body(part: Part, row: Row, reading: Reading[State]) -> Body | None:
    data = part.data
    about: dict[str, Any] = {"message": row.id, "model": row.model or ""} if row.role == "assistant" else {}
    if part.type == "text" and data.text:
        if row.id == reading.state.summary:
            return Compacted(summary=data.text)
        return MessageAdded(role=row.role, text=data.text, **about)
    if part.type == "reasoning" and data.thinking:
        return MessageAdded(role=row.role, parts=(ThinkingPart(text=data.thinking),), **about)
    if part.type == "tool_call" and data.id and data.name:
        return CallMade(call=data.id, tool=data.name, input=_input(data.input), **about)
    if part.type == "tool_result" and data.tool_call_id:
        return CallReturned(call=data.tool_call_id, output=raw(data.content), failed=data.is_error is True)
    if part.type == "binary" and data.Data:
        content = base64.b64decode(data.Data, validate=True)
        mime = data.MIMEType or ""
        kind = ImagePart if mime.startswith("image/") else FilePart
        file = kind(blob=reading.blob(content), media_type=mime, name=PurePath(data.Path or "").name)
        return MessageAdded(role=row.role, parts=(file,), **about)
    return None


def _input(text: Any) -> Raw:
    """A call's arguments, which are JSON inside a string."""
    return raw(embedded(text))


def _moment(time: float | str | None) -> int | None:
    """Microseconds; the versions of the program wrote seconds, milliseconds and ISO 8601."""
    return micros(time * 1000 if isinstance(time, int | float) and time < 100_000_000_000 else time)
