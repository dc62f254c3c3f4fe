"""Read an agent program's database without disturbing the program: respect its locks, and create no file beside it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from clew.capture_cache import file_fingerprint
from clew.model.errors import Unavailable
from clew.service.capture.discovery import open_file

if TYPE_CHECKING:
    import sqlite3

# How long to wait for a lock that the program holds. After that the next capture tries again.
LOCK_SECONDS = 2.0


class ClientDatabase:
    """An open connection, and the check that what was read through it is one state of the database."""

    def __init__(self, path: str, connection: "sqlite3.Connection", expected: tuple[str, bool] | None) -> None:
        self.connection = connection
        self._path = path
        self._expected = expected

    def refuse_if_written(self) -> None:
        """Raise if the database was read without locks and its program has written to it since."""
        if self._expected is not None and _state_of(self._path) != self._expected:
            raise Unavailable("its program wrote to it while it was being read; capture it again")


@contextmanager
def open_client_database(path: str) -> Iterator[ClientDatabase]:
    """Open a database for reading.

    In WAL mode a reader needs the two files beside the database. Without them no program has it open. Then it is read
    without locks, and what was read is valid only if the database did not change meanwhile.
    """
    before = _state_of(path)
    with open_file(path) as file:
        is_wal = file.read(20)[18:20] == b"\2\2"
    is_open = is_wal and os.path.exists(f"{path}-wal") and os.path.exists(f"{path}-shm")
    if is_wal and not is_open and os.path.exists(f"{path}-wal") and os.path.getsize(f"{path}-wal"):
        raise Unavailable("its write-ahead log has lost its index; open and close it once in its own program")
    without_locks = is_wal and not is_open
    options = "immutable=1" if without_locks else "readonly_shm=1"
    with raise_sqlite_errors():
        connection = _connect(f"file:{quote(os.fsencode(path))}?mode=ro&{options}")
        try:
            yield ClientDatabase(path, connection, before if without_locks else None)
        finally:
            connection.close()


def _connect(uri: str) -> "sqlite3.Connection":
    import sqlite3  # Most agent programs keep files; then sqlite3 is never loaded.

    connection = sqlite3.connect(uri, uri=True, timeout=LOCK_SECONDS)
    connection.text_factory = lambda text: text.decode("utf-8", "replace")
    return connection


@contextmanager
def raise_sqlite_errors() -> Iterator[None]:
    """Raise what SQLite reports about a program's database as an Unavailable error."""
    import sqlite3

    try:
        yield
    except sqlite3.Error as error:
        raise Unavailable(str(error)) from error


def _state_of(path: str) -> tuple[str, bool]:
    return file_fingerprint(os.stat(path)), os.path.exists(f"{path}-wal")


def row_as_line(key: str, record: bytes) -> bytes:
    """A record of a database as one line of JSON."""
    if b"\n" in record:
        record = msgspec.json.format(record, indent=-1)
    return msgspec.json.encode([key, msgspec.Raw(record)]) + b"\n"
