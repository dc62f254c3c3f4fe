"""The bounded pool of connections for reading. The only import of psycopg_pool.

psycopg_pool opens connections when they are needed, lends each to one thread at a time, lets further threads wait for
their turn, and closes connections that are old or idle. Three rules of our own are added:

* A thread that reads inside a read uses the connection it has, so no thread waits for a connection it holds itself. The
  two may read for other projects: every transaction says so before a statement (`_Transaction` in postgres.py).
* A connection is tested when it is lent. The test costs no round trip: an idle connection has something to say only
  when the server has ended it.
* A server that refuses connections fails the waiting readers at once; without this they would wait until their time is
  over, because the pool keeps the reason to itself.
"""

import logging
import select
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from clew.model.errors import Busy, StoreError, Unavailable

MAX_READERS = 10
WAIT_SECONDS = 10.0

# Readers get the error. Without a handler of its own Python would print the pool's warnings on the terminal, too.
logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())


class Reader:
    """A connection lent to a thread, and how many reads of that thread use it."""

    __slots__ = ("connection", "pool", "uses")

    def __init__(self, connection: psycopg.Connection, pool: ConnectionPool) -> None:
        self.connection = connection
        self.pool = pool
        self.uses = 1


class ReaderPool:
    """Connections for reading, at most `max_readers` at a time."""

    def __init__(
        self,
        arguments: dict[str, Any],
        *,
        place: str,
        max_readers: int,
        configure: Callable[[psycopg.Connection], None],
        connect: Callable[[], psycopg.Connection],
    ) -> None:
        """`configure` prepares each new connection. `connect` opens one outside the pool, or raises the reason."""
        self._arguments = arguments
        self._place = place
        self._max_readers = max_readers
        self._configure = configure
        self._connect = connect
        self._lock = threading.Lock()
        self._lent = threading.local()
        self._pool: ConnectionPool | None = None
        self._closed = False
        self._closing: list[threading.Thread] = []

    def acquire(self) -> Reader:
        """The connection that this thread reads with, or one from the pool."""
        reader: Reader | None = self._lent.__dict__.get("reader")
        if reader is not None:
            with self._lock:
                if reader.uses and not reader.connection.closed:
                    reader.uses += 1
                    return reader
        reader = self._borrow()
        self._lent.reader = reader
        return reader

    def release(self, reader: Reader) -> None:
        """Give the connection back once no read uses it. The pool replaces it if it is closed."""
        with self._lock:
            reader.uses -= 1
            if reader.uses:
                return
        if self._lent.__dict__.get("reader") is reader:
            del self._lent.reader
        reader.pool.putconn(reader.connection)

    def close(self) -> None:
        """Close the idle connections and stop the pool's threads. A lent connection is closed when it comes back."""
        with self._lock:
            self._closed = True
        if self._pool is not None:
            self._pool.close()
        for thread in self._closing:
            thread.join()

    def _borrow(self) -> Reader:
        end = time.monotonic() + WAIT_SECONDS
        while True:
            pool = self._open_pool()
            try:
                connection = pool.getconn(end - time.monotonic())
            except PoolTimeout:
                raise self._timed_out(pool) from None
            except PoolClosed:
                # The pool could not open a connection. One more attempt raises the reason, unless the server is back.
                self._connect().close()
                continue
            if is_usable(connection):
                return Reader(connection, pool)
            connection.close()
            pool.putconn(connection)

    def _open_pool(self) -> ConnectionPool:
        with self._lock:
            if self._closed:
                # Not Unavailable: the caller would try again.
                raise StoreError(f"the store at {self._place} was closed by this program; open it again")
            if self._pool is None or self._pool.closed:
                self._pool = ConnectionPool(
                    kwargs=self._arguments,
                    min_size=0,
                    max_size=self._max_readers,
                    num_workers=1,
                    open=True,
                    name="clew-readers",
                    configure=self._configure,
                    reconnect_timeout=0,
                    reconnect_failed=self._fail_waiting,
                )
            return self._pool

    def _fail_waiting(self, pool: ConnectionPool) -> None:
        """The server refused a connection: close the pool if it has none, which ends the wait of its readers."""
        if pool.get_stats()["pool_size"] == 0:
            # In a thread, because the pool's own thread, which runs this, cannot wait for itself to end.
            thread = threading.Thread(target=pool.close, name="clew-readers-close", daemon=True)
            self._closing = [closing for closing in self._closing if closing.is_alive()] + [thread]
            thread.start()

    def _timed_out(self, pool: ConnectionPool) -> StoreError:
        if pool.get_stats()["pool_size"] < self._max_readers:
            return Unavailable(f"PostgreSQL at {self._place} opened no connection within {WAIT_SECONDS:.0f} s")
        return Busy(
            f"all {self._max_readers} connections for reading from {self._place} were in use for {WAIT_SECONDS:.0f} s; "
            "try again, or allow more with max_readers in the store's URL"
        )


def is_usable(connection: psycopg.Connection) -> bool:
    """Whether the server has not ended an idle connection."""
    return not connection.closed and not select.select([connection.fileno()], [], [], 0)[0]
