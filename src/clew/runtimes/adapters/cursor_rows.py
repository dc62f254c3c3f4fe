"""Functions that both databases of Cursor use."""

import base64
from collections.abc import Iterator
from sqlite3 import Connection

import msgspec
from blake3 import blake3
from msgspec import Raw

from clew.runtimes.contract import Record

NAME = "cursor"


def has(connection: Connection, table: str) -> bool:
    row = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)).fetchone()
    return row is not None


def stamp_of(data: bytes) -> str:
    return blake3(data).hexdigest()[:32]


def named(ids: list[str]) -> Iterator[tuple[str, str]]:
    """Each id with a unique key."""
    times: dict[str, int] = {}
    for id in ids:
        times[id] = times.get(id, 0) + 1
        yield id if times[id] == 1 else f"{id}#{times[id]}", id


def readable(value: bytes | None) -> bytes:
    """A value as a JSON object: the value itself, or an object that holds it."""
    if value is None:
        return b'{"type":"missing"}'
    try:
        if isinstance(msgspec.json.decode(value), dict):
            return value
    except (ValueError, RecursionError):
        pass
    return msgspec.json.encode({"type": "binary", "base64": base64.b64encode(value).decode()})


def assemble(native: str, records: list[Record]) -> bytes:
    """The records with their keys: the program has no export of its own."""
    members = [{"key": key, "record": Raw(record)} for key, record in records]
    return msgspec.json.encode({"session": native, "records": members})
