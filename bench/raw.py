"""The floor: the least that a durable log can do on each database, written straight on the driver.

One table, one row per event, one commit per append that is on disk when the call returns. No lease, no digest, no view:
everything that a log adds to this is its overhead.
"""

import time
from collections.abc import Iterable
from typing import Protocol

import apsw
import msgspec
import psycopg

BUSY_TIMEOUT_MS = 30_000


class Message(msgspec.Struct):
    """The body of a row."""

    role: str
    text: str


class Row(msgspec.Struct):
    """A row, with its body decoded."""

    seq: int
    at: int
    body: Message


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Message).decode


class RawLog(Protocol):
    """One connection to a raw log. Sessions are plain numbers, and only one connection writes to each."""

    def append(self, session: int, text: str) -> None: ...
    def append_locked(self, session: int, text: str) -> None: ...
    def fill(self, session: int, texts: Iterable[str]) -> None: ...
    def read(self, session: int) -> list[Row]: ...
    def close(self) -> None: ...


class _Heads:
    """The last seq of each session, kept by the caller so that an append is a single statement."""

    def __init__(self) -> None:
        self._heads: dict[int, int] = {}

    def row(self, session: int, text: str) -> tuple[int, int, int, str]:
        seq = self._heads[session] = self._heads.get(session, 0) + 1
        return session, seq, time.time_ns() // 1000, _encode(Message(role="user", text=text)).decode()


class RawSqlite:
    """The raw log in a SQLite file: WAL, synchronous=FULL."""

    _INSERT = "INSERT INTO event (session, seq, at, body) VALUES (?, ?, ?, ?)"

    def __init__(self, path: str) -> None:
        self._heads = _Heads()
        self._db = apsw.Connection(path)
        self._db.set_busy_timeout(BUSY_TIMEOUT_MS)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute(
            """
            CREATE TABLE IF NOT EXISTS event (
                id INTEGER PRIMARY KEY, session INTEGER NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL,
                body TEXT NOT NULL, UNIQUE (session, seq)
            )
            """
        )

    def append(self, session: int, text: str) -> None:
        """Append one event in a commit of its own."""
        self._db.execute(self._INSERT, self._heads.row(session, text))

    def append_locked(self, session: int, text: str) -> None:
        """Append one event, taking the write lock first, as a writer among others has to."""
        row = self._heads.row(session, text)
        self._db.execute("BEGIN IMMEDIATE")
        self._db.execute(self._INSERT, row)
        self._db.execute("COMMIT")

    def fill(self, session: int, texts: Iterable[str]) -> None:
        """Append many events in one commit."""
        rows = [self._heads.row(session, text) for text in texts]
        with self._db:
            self._db.executemany(self._INSERT, rows)

    def read(self, session: int) -> list[Row]:
        """Read a whole session, bodies decoded."""
        rows = self._db.execute("SELECT seq, at, body FROM event WHERE session = ? ORDER BY seq", (session,))
        return [Row(seq, at, _decode(body)) for seq, at, body in rows]

    def close(self) -> None:
        self._db.close()


class RawPostgres:
    """The raw log in PostgreSQL: autocommit, synchronous_commit=on."""

    _INSERT = "INSERT INTO raw_event (session, seq, at, body) VALUES (%s, %s, %s, %s)"

    def __init__(self, url: str) -> None:
        self._heads = _Heads()
        self._db = psycopg.connect(url, autocommit=True)
        self._db.execute("SET synchronous_commit = on")
        self._db.execute("SET client_min_messages = warning")
        self._db.execute(
            """
            CREATE TABLE IF NOT EXISTS raw_event (
                id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, session BIGINT NOT NULL, seq BIGINT NOT NULL,
                at BIGINT NOT NULL, body TEXT NOT NULL, UNIQUE (session, seq)
            )
            """
        )
        self._cursor = self._db.cursor(binary=True)

    def append(self, session: int, text: str) -> None:
        """Append one event in a commit of its own."""
        self._cursor.execute(self._INSERT, self._heads.row(session, text))

    # A single statement takes the locks it needs, and no other writer can make it fail.
    append_locked = append

    def fill(self, session: int, texts: Iterable[str]) -> None:
        """Append many events in one commit."""
        rows = [self._heads.row(session, text) for text in texts]
        with self._db.transaction():
            self._cursor.executemany(self._INSERT, rows)

    def read(self, session: int) -> list[Row]:
        """Read a whole session, bodies decoded."""
        found = self._cursor.execute("SELECT seq, at, body FROM raw_event WHERE session = %s ORDER BY seq", (session,))
        return [Row(seq, at, _decode(body)) for seq, at, body in found.fetchall()]

    def close(self) -> None:
        self._db.close()
