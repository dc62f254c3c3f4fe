"""The two formats of an OpenCode session: rows of its database, and the export that the program makes of them.

A record is a row as JSON, with the name of its table. The adapter reads only the tables session, message and part: the
others hold credentials.
"""

import json
import re
import sqlite3
import zlib
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import Raw

from clew.runtimes.contract import Identity, Record, Unreadable, project_of

NULL = Raw(b"null")
# The columns that hold JSON; everything else is a plain value.
_JSON = frozenset({"data", "revert", "permission", "model", "metadata", "summary_diffs", "parts"})
_TABLES = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('session', 'message', 'part')"
# A part can be newer than its session's row, and a deletion or a new title changes no time: so the stamp includes the
# latest times, the counts and the whole row.
_SESSIONS = """
SELECT session.*, m.rows AS m_rows, m.latest AS m_latest, p.rows AS p_rows, p.latest AS p_latest FROM session
LEFT JOIN (SELECT session_id, count(*) AS rows, max(time_updated) AS latest FROM message GROUP BY session_id) m
  ON m.session_id = session.id
LEFT JOIN (SELECT session_id, count(*) AS rows, max(time_updated) AS latest FROM part GROUP BY session_id) p
  ON p.session_id = session.id
ORDER BY session.time_created, session.id
"""
_SESSION = "SELECT * FROM session WHERE id = ?"
_MESSAGES = "SELECT * FROM message WHERE session_id = ? ORDER BY time_created, id"
_PARTS = "SELECT * FROM part WHERE message_id = ? ORDER BY id"
_ORPHANS = """
SELECT * FROM part
WHERE session_id = ? AND NOT EXISTS (SELECT 1 FROM message WHERE message.id = part.message_id) ORDER BY id
"""


def select(connection: sqlite3.Connection, statement: str, *values: str) -> Iterator[dict[str, Any]]:
    cursor = connection.execute(statement, values)
    names = [column[0] for column in cursor.description]
    return (dict(zip(names, row, strict=True)) for row in cursor)


def record_of(table: str, row: dict[str, Any], **more: Any) -> Record:
    """A row as JSON; columns with JSON text are embedded as JSON."""
    columns = {name: embedded(value) if name in _JSON else value for name, value in row.items()}
    return str(row.get("id")), msgspec.json.encode({**columns, **more, "table": table})


def stamp_of(row: dict[str, Any]) -> str:
    """A short digest of a row."""
    return f"{zlib.crc32(record_of('', row)[1]):08x}"


def embedded(text: Any) -> Any:
    """JSON text verbatim; a string if the text is not valid JSON for msgspec, such as a lone surrogate."""
    try:
        msgspec.json.decode(text)
        return Raw(text.encode())
    except (msgspec.DecodeError, TypeError, RecursionError):
        return text


def sessions(connection: sqlite3.Connection) -> Iterator[tuple[Identity, str]]:
    if connection.execute(_TABLES).fetchone()[0] < 3:
        return
    for row in select(connection, _SESSIONS):
        parent = row["parent_id"] or ""
        identity = Identity(
            native=row["id"],
            project=project_of(str(row["directory"])),
            agent=(row.get("agent") or "") if parent else "",
            parent=parent,
        )
        yield identity, stamp_of(row)


def records(connection: sqlite3.Connection, native: str) -> Iterator[Record]:
    """The session's row, each message's row followed by those of its parts, and at the end the revert."""
    session_rows = list(select(connection, _SESSION, native))
    yield from (record_of("session", row) for row in session_rows)
    messages = list(select(connection, _MESSAGES, native))
    for i, row in enumerate(messages):
        yield record_of("message", row, followed=i + 1 < len(messages))
        yield from (record_of("part", part) for part in select(connection, _PARTS, row["id"]))
    yield from (record_of("part", part) for part in select(connection, _ORPHANS, native))
    for row in session_rows:
        if row.get("revert"):
            taken_back = {"id": native, "revert": row["revert"], "time_updated": row["time_updated"]}
            yield f"{native}/revert", record_of("revert", taken_back)[1]


def split(document: bytes) -> Iterator[Record]:
    """The rows that an export was made of."""
    try:
        # Without indentation, so that a call's input is equal to the one in the row.
        export = msgspec.json.decode(msgspec.json.format(tolerant(document), indent=-1), type=dict[str, Raw])
    except RecursionError as error:
        raise Unreadable("an export that nests too deeply") from error
    info = msgspec.json.decode(export["info"], type=dict[str, Any])
    time = info["time"] if isinstance(info.get("time"), dict) else {}
    native = str(info.get("id"))
    times = {"time_created": time.get("created"), "time_updated": time.get("updated")}
    yield native, msgspec.json.encode({**info, **times, "parent_id": info.get("parentID"), "table": "session"})
    messages = _elements(export.get("messages", NULL))
    for i, message in enumerate(messages):
        info_raw, parts = _halves(message)
        id = _id(info_raw) or f"@{i}"
        row = {"id": id, "session_id": native, "data": info_raw, "followed": i + 1 < len(messages), "table": "message"}
        yield id, msgspec.json.encode(row)
        for j, part in enumerate(_elements(parts)):
            key = _id(part) or f"{id}/{j}"
            row = {"id": key, "message_id": id, "session_id": native, "data": part, "table": "part"}
            yield key, msgspec.json.encode(row)
    if info.get("revert"):
        row = {"id": native, "revert": info["revert"], "time_updated": time.get("updated"), "table": "revert"}
        yield f"{native}/revert", msgspec.json.encode(row)


def _elements(value: Raw) -> list[Raw]:
    """The elements of a list; any other value is the only element, so that nothing is dropped."""
    data = bytes(value).lstrip()
    return msgspec.json.decode(data, type=list[Raw]) if data.startswith(b"[") else [] if data == b"null" else [value]


def _halves(message: Raw) -> tuple[Raw, Raw]:
    if not bytes(message).lstrip().startswith(b"{"):
        return message, NULL
    members = msgspec.json.decode(message, type=dict[str, Raw])
    return members.get("info", message), members.get("parts", NULL)


def _id(value: Raw) -> str:
    decoded = msgspec.json.decode(value)
    id = decoded.get("id") if isinstance(decoded, dict) else None
    return id if isinstance(id, str) else ""


def tolerant(text: str | bytes) -> bytes:
    """JSON without the lone surrogates that the program writes when it cuts a text."""
    data = text.encode() if isinstance(text, str) else text
    if re.search(rb"\\u[dD][89a-fA-F]", data) is None:
        return data
    try:
        return json.dumps(json.loads(data), ensure_ascii=False).encode("utf-8", "replace")
    except RecursionError as error:
        raise Unreadable("JSON that nests too deeply") from error


# The program's own export ---------------------------------------------------------------------------------------------


def assemble(native: str, records: list[Record]) -> bytes:
    """The output of `opencode export`, byte for byte."""
    info: dict[str, Any] = {}
    messages: dict[str, dict[str, Any]] = {}
    for _, record in records:
        row = msgspec.json.decode(record, type=dict[str, Raw])
        table = msgspec.json.decode(row["table"])
        if table == "session":
            info = _info(row)
        elif table == "message":
            message_info = {**_members(row["data"]), "id": row["id"], "sessionID": row["session_id"]}
            messages[bytes(row["id"]).decode()] = {"info": message_info, "parts": []}
        elif table == "part" and (message := messages.get(bytes(row["message_id"]).decode())):
            ids = {"id": row["id"], "sessionID": row["session_id"], "messageID": row["message_id"]}
            message["parts"].append({**_members(row["data"]), **ids})
    return _printed(msgspec.json.encode({"info": info, "messages": list(messages.values())})) + b"\n"


def _members(value: Raw) -> dict[str, Raw]:
    """The members of a JSON object, also of one that is stored as a string."""
    data = bytes(value)
    if data.startswith(b'"'):
        try:
            parsed = json.loads(msgspec.json.decode(value, type=str))
            return {name: Raw(json.dumps(member).encode()) for name, member in parsed.items()}
        except (ValueError, AttributeError, RecursionError):
            return {"data": value}
    return msgspec.json.decode(value, type=dict[str, Raw]) if data.startswith(b"{") else {"data": value}


def _printed(text: bytes) -> bytes:
    """JSON with the indentation and the escapes of JavaScript's JSON.stringify."""
    try:
        return msgspec.json.format(text, indent=2)
    except msgspec.DecodeError:
        loose = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
        return re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", loose).encode()


def _info(row: dict[str, Raw]) -> dict[str, Any]:
    """A session's row as the program exports it, without members that are null."""

    def some(**members: Any) -> dict[str, Any]:
        return {name: value for name, value in members.items() if value is not None}

    def at(column: str) -> Raw | None:
        value = row.get(column, NULL)
        return None if bytes(value) == b"null" else value

    def chosen(column: str, *names: str) -> dict[str, Any] | None:
        value = at(column)
        return None if value is None else dict(_ordered(_members(value), names))

    changes = [at(f"summary_{name}") for name in ("additions", "deletions", "files")]
    summary = None
    if any(change is not None for change in changes):
        counts = [change or Raw(b"0") for change in changes]
        summary = some(additions=counts[0], deletions=counts[1], files=counts[2], diffs=at("summary_diffs"))
    tokens = {
        "input": at("tokens_input"),
        "output": at("tokens_output"),
        "reasoning": at("tokens_reasoning"),
        "cache": {"read": at("tokens_cache_read"), "write": at("tokens_cache_write")},
    }
    return some(
        id=at("id"),
        slug=at("slug"),
        projectID=at("project_id"),
        workspaceID=at("workspace_id"),
        directory=at("directory"),
        path=at("path"),
        parentID=at("parent_id"),
        title=at("title"),
        agent=at("agent"),
        model=chosen("model", "id", "providerID", "variant"),
        version=at("version"),
        summary=summary,
        cost=_number(at("cost")),
        tokens=tokens if at("tokens_input") else None,
        share={"url": at("share_url")} if at("share_url") else None,
        metadata=at("metadata"),
        revert=chosen("revert", "messageID", "partID", "snapshot", "diff"),
        permission=at("permission"),
        time=some(
            created=at("time_created"),
            updated=at("time_updated"),
            compacting=at("time_compacting"),
            archived=at("time_archived"),
        ),
    )


def _ordered(members: dict[str, Raw], names: tuple[str, ...]) -> Iterator[tuple[str, Raw]]:
    return ((name, members[name]) for name in names if name in members)


def _number(value: Raw | None) -> Raw | None:
    """A number as JavaScript writes it: without an empty fraction, and with an exponent only where it is very small."""
    if value is None:
        return None
    number = msgspec.json.decode(value, type=float)
    if number.is_integer():
        return Raw(str(int(number)).encode())
    if abs(number) >= 1e-6:
        return Raw(format(Decimal(repr(number)), "f").encode())
    return Raw(repr(number).replace("e-0", "e-").encode())
