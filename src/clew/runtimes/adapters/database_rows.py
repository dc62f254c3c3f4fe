"""Functions that readers of databases share."""

from sqlite3 import Connection

import msgspec
from blake3 import blake3
from msgspec import Raw

from clew.runtimes.contract import Record


def has(connection: Connection, table: str) -> bool:
    row = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)).fetchone()
    return row is not None


def stamp_of(data: bytes) -> str:
    return blake3(data).hexdigest()[:32]


def assemble(native: str, records: list[Record]) -> bytes:
    """The records with their keys: the program has no export of its own."""
    members = [{"key": key, "record": Raw(record)} for key, record in records]
    return msgspec.json.encode({"session": native, "records": members})
