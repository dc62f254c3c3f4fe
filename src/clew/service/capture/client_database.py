"""The databases of agent programs, read without a trace: their locks are respected, and no file appears beside them."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from clew.capture_cache import stamp_of
from clew.model.errors import Unavailable
from clew.service.capture.discovery import open_file

if TYPE_CHECKING:
    import sqlite3

# How long a database may be locked by its program before it is left for next time.
LOCK_SECONDS = 2.0


@contextmanager
def reading_only(path: str) -> Iterator[tuple["sqlite3.Connection", Callable[[], None]]]:
    """A client's database, and a check that it was not written meanwhile; its locks are respected, no file appears.

    In WAL mode a reader needs the two files beside the database. Without them nobody has it open, and it can be read as
    it lies for as long as that is so.
    """
    before = _state_of(path)
    with open_file(path) as file:
        is_wal = file.read(20)[18:20] == b"\2\2"
    shared = is_wal and os.path.exists(f"{path}-wal") and os.path.exists(f"{path}-shm")
    if is_wal and not shared and os.path.exists(f"{path}-wal") and os.path.getsize(f"{path}-wal"):
        raise Unavailable("its write-ahead log has lost its index; open and close it once in its own program")
    options = "readonly_shm=1" if shared or not is_wal else "immutable=1"

    def refuse_if_written() -> None:
        if is_wal and not shared and _state_of(path) != before:
            raise Unavailable("its program wrote to it while it was being read; capture it again")

    with told_by_sqlite():
        connection = _connect(f"file:{quote(os.fsencode(path))}?mode=ro&{options}")
        try:
            yield connection, refuse_if_written
        finally:
            connection.close()


def _connect(uri: str) -> "sqlite3.Connection":
    import sqlite3  # Most agent programs keep files, and then it need not be loaded.

    connection = sqlite3.connect(uri, uri=True, timeout=LOCK_SECONDS)
    connection.text_factory = lambda text: text.decode("utf-8", "replace")
    return connection


@contextmanager
def told_by_sqlite() -> Iterator[None]:
    """What SQLite says of a client's database, as an error of ours."""
    import sqlite3

    try:
        yield
    except sqlite3.Error as error:
        raise Unavailable(str(error)) from error


def _state_of(path: str) -> tuple[str, bool]:
    return stamp_of(os.stat(path)), os.path.exists(f"{path}-wal")


def row(key: str, record: bytes) -> bytes:
    """A record of a database as a line."""
    if b"\n" in record:
        record = msgspec.json.format(record, indent=-1)
    return msgspec.json.encode([key, msgspec.Raw(record)]) + b"\n"
