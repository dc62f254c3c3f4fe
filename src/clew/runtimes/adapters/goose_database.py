"""Goose's database: a row for each session, for each of its messages, and for what each request cost."""

from collections.abc import Iterator
from sqlite3 import Connection, Row
from typing import Any

import msgspec
from msgspec import Raw

from clew.runtimes.adapters.database_rows import has, stamp_of
from clew.runtimes.contract import Identity, Record, identity_in, raw


def sessions(connection: Connection) -> Iterator[tuple[Identity, str]]:
    if not (has(connection, "sessions") and has(connection, "messages")):
        return
    for row in _all(connection, "SELECT * FROM sessions ORDER BY created_at, id"):
        native = str(row["id"])
        said = connection.execute(
            "SELECT COUNT(*), COALESCE(MAX(id), 0), COALESCE(SUM(LENGTH(content_json)), 0) FROM messages "
            "WHERE session_id = ?", (native,)
        ).fetchone()  # fmt: skip
        if said[0]:
            stamp = stamp_of(msgspec.json.encode([row, list(said)]))
            yield identity_in(str(row.get("working_dir") or ""), native), stamp


def records(connection: Connection, native: str) -> Iterator[Record]:
    for row in _all(connection, "SELECT * FROM sessions WHERE id = ?", native):
        # Recipes and the data of extensions can hold keys of services.
        yield "about", msgspec.json.encode({name: row[name] for name in _ABOUT if row.get(name) is not None})
    for row in _all(connection, "SELECT * FROM messages WHERE session_id = ? ORDER BY id", native):
        content = str(row["content_json"] or "[]")
        whole = {"role": str(row["role"]), "created": row.get("created_timestamp")}
        try:
            parts = msgspec.json.decode(content, type=Raw)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            parts = raw(content)
        yield f"message/{row['id']}", msgspec.json.encode({**whole, "content": parts})
    if has(connection, "usage_ledger"):
        for row in _all(connection, "SELECT * FROM usage_ledger WHERE session_id = ? ORDER BY id", native):
            yield f"usage/{row['id']}", msgspec.json.encode(row)


_ABOUT = ("id", "name", "description", "session_type", "working_dir", "created_at", "accumulated_total_tokens")


def _all(connection: Connection, query: str, *values: str) -> list[dict[str, Any]]:
    """All rows of a query, without binary values: a statement that stays open would lock the program out."""
    cursor = connection.execute(query, values)
    cursor.row_factory = Row
    return [{name: row[name] for name in row.keys() if not isinstance(row[name], bytes)} for row in cursor]  # noqa: SIM118
