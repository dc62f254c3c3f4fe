"""OpenCode databases in memory, and what their reader makes of them."""

import json
import sqlite3
from collections.abc import Iterable
from typing import Any

import msgspec

from clew.model.conversation import conversation, model_view
from clew.model.events import Body, CallMade, CallReturned, Compacted, Draft, Opaque
from clew.model.source import identity
from clew.runtimes.contract import Reading, Record, Rows
from clew.runtimes.records import read_records
from clew.runtimes.rounds import output_text
from support.transcripts import events, formats


def rows_of(format: str) -> Rows:
    found = formats("opencode")[format].rows
    assert found is not None
    return found


def database(tables: dict[str, list[dict[str, Any]]]) -> sqlite3.Connection:
    """A database in memory with these rows; a row may lack columns that others have."""
    connection = sqlite3.connect(":memory:")
    for table, rows in tables.items():
        columns = list(dict.fromkeys(name for row in rows for name in row))
        connection.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
        for row in rows:
            connection.execute(
                f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", list(row.values())
            )
    return connection


def text(data: Any) -> Any:
    return data if isinstance(data, str | bytes) else json.dumps(data)


def read(connection: sqlite3.Connection, native: str = "ses_1", *, format: str = "rows") -> list[Draft]:
    return translate(rows_of(format).records(connection, native), format=format)


def translate(records: Iterable[Record], *, format: str = "rows") -> list[Draft]:
    chosen = formats("opencode")[format]
    return read_records(chosen, Reading("opencode", "n", chosen.state()), records).drafts


def told(drafts: list[Draft]) -> dict[str, Body | Opaque]:
    """The bodies by the part of the source that never changes."""
    return {identity(draft.source): draft.body for draft in drafts}


def shown(drafts: list[Draft]) -> list[Any]:
    """The conversation in a form that is easy to compare."""
    return [brief(event.body) for event in conversation(events(drafts))]


def seen(drafts: list[Draft]) -> list[Any]:
    """What a model sees of the conversation."""
    found = events(drafts)
    return [brief(event.body) for event in model_view(found)]


def brief(body: Any) -> Any:
    if isinstance(body, CallMade):
        return body.tool, msgspec.json.decode(body.input)
    if isinstance(body, CallReturned):
        return "failed" if body.failed else "returned", output_text(body)
    if isinstance(body, Compacted):
        return "compacted", body.summary
    if body.text:
        return body.role, body.text
    return body.role, [type(part).__name__ for part in body.parts]
