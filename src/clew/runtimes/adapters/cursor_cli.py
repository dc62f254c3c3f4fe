"""The store of Cursor's CLI: a database of blobs."""

from collections.abc import Iterator
from sqlite3 import Connection
from urllib.parse import unquote, urlparse

import msgspec

from clew.runtimes.adapters.cursor_rows import named, readable
from clew.runtimes.adapters.cursor_transcript import About
from clew.runtimes.adapters.database_rows import has, stamp_of
from clew.runtimes.contract import Identity, Record, project_of


class Meta(msgspec.Struct):
    agentId: str
    latestRootBlobId: str = ""
    name: str | None = None
    createdAt: float | str | None = None
    lastUsedModel: str | None = None


def protobuf(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protobuf message and their values: numbers, or bytes without a known type."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            if (shift := shift + 7) > 63:
                raise ValueError("a protobuf number of more than ten bytes")

    while at < len(data):
        field, kind = divmod(varint(), 8)
        if kind == 0:
            yield field, varint()
            continue
        size = varint() if kind == 2 else {1: 8, 5: 4}.get(kind, -1)
        if size < 0 or at + size > len(data):
            raise ValueError(f"a protobuf field of kind {kind} that does not fit")
        yield field, data[at : at + size]
        at += size


def _meta(connection: Connection) -> Meta | None:
    row = connection.execute("SELECT CAST(value AS BLOB) FROM meta WHERE key = '0'").fetchone()
    try:
        text = bytes(row[0])
        return msgspec.json.decode(text if text.startswith(b"{") else bytes.fromhex(text.decode()), type=Meta)
    except (TypeError, ValueError, RecursionError):
        return None


def _blob(connection: Connection, id: str) -> bytes | None:
    row = connection.execute("SELECT CAST(data AS BLOB) FROM blobs WHERE id = ?", (id,)).fetchone()
    return bytes(row[0]) if row and row[0] is not None else None


def _root(connection: Connection, meta: Meta) -> tuple[list[str], str]:
    """The messages of the session in order, and its working directory."""
    messages, cwd = [], ""
    root = _blob(connection, meta.latestRootBlobId) if meta.latestRootBlobId else _longest_root(connection)
    try:
        for field, value in protobuf(root or b""):
            if field == 1 and isinstance(value, bytes) and len(value) == 32:
                messages.append(value.hex())
            elif field == 9 and isinstance(value, bytes):
                cwd = unquote(urlparse(value.decode()).path)
    except (ValueError, LookupError):
        # The root has a newer format: the fields decoded so far are still valid.
        pass
    return messages, cwd


def _longest_root(connection: Connection) -> bytes | None:
    """The root with the most messages: a session that was interrupted names none."""
    best, most = None, 0
    for (data,) in connection.execute("SELECT CAST(data AS BLOB) FROM blobs WHERE substr(data, 1, 2) = X'0A20'"):
        count = bytes(data or b"").count(b"\x0a\x20")
        if count > most:
            best, most = bytes(data), count
    return best


def cli_sessions(connection: Connection) -> Iterator[tuple[Identity, str]]:
    if has(connection, "meta") and has(connection, "blobs") and (meta := _meta(connection)):
        messages, cwd = _root(connection, meta)
        stamp = stamp_of(msgspec.json.encode([meta, [] if meta.latestRootBlobId else messages]))
        yield Identity(native=meta.agentId, project=project_of(cwd) if cwd else ""), stamp


def cli_records(connection: Connection, native: str) -> Iterator[Record]:
    if (meta := _meta(connection)) is None:
        return
    messages, cwd = _root(connection, meta)
    yield (
        "about",
        msgspec.json.encode(
            About(
                id=meta.agentId, name=meta.name or "", created=meta.createdAt, model=meta.lastUsedModel or "", cwd=cwd
            )
        ),
    )
    # A repeated message is one blob that the root names twice.
    for key, id in named(messages):
        yield key, readable(_blob(connection, id))
