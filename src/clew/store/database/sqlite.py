"""SQLite through apsw: WAL, synchronous=FULL, one writing connection per process. The only import of apsw.

apsw ships its own SQLite. From 3.51.3 on it is free of the WAL-reset race that several writing processes can meet, and
older libraries are refused. `mmap_size` is never set, and one file is never opened with two libraries.
"""

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakSet

import apsw

from clew.model.errors import (
    Busy,
    ClewError,
    Conflict,
    Damaged,
    DiskFull,
    InvalidInput,
    SchemaNewer,
    StoreError,
    Unavailable,
)
from clew.store.database.contract import EVENT, Mark, Parameters, Row, RuntimeRole, Statement
from clew.store.database.schema_fence import check_fence
from clew.store.database.statements import conditional_statements, statements
from clew.store.durable_folders import make_private, sync

SAFE_VERSION = 3_051_003
BUSY_SECONDS = 60.0
# How often a wait looks for commits of other processes: soon after the last one, and rarely when nothing happens.
POLL_SECONDS, IDLE_POLL_SECONDS = 0.02, 0.5
# Two commits within one tick of the kernel's clock leave the same time on the file; a tick takes up to 10 ms.
TICK_NS = 50_000_000
# The shared-memory file could not grow; SQLite calls that an I/O error.
NO_ROOM = (apsw.SQLITE_IOERR_SHMSIZE, apsw.SQLITE_IOERR_SHMMAP)
# Every statement is our own, so this is said of tables that are not as we made them.
NOT_AS_MADE = ("no such table", "no such column", "vtable constructor failed", "invalid fts5 file format")
UNIQUE = (apsw.SQLITE_CONSTRAINT_UNIQUE, apsw.SQLITE_CONSTRAINT_PRIMARYKEY)
SESSION = EVENT.index("session")


class SQLite:
    """A log in one file."""

    dialect = "lite"
    remote = False

    def __init__(
        self,
        path: Path,
        *,
        synchronous: str = "FULL",
        package: str = "clew.store.database",
        version_table: str = "clew_schema",
    ) -> None:
        if apsw.SQLITE_VERSION_NUMBER < SAFE_VERSION:
            raise StoreError(
                f"SQLite {apsw.sqlite_lib_version()} can corrupt a database that several programs write; "
                "3.51.3 or newer is needed: upgrade apsw"
            )
        self.path = path
        self._synchronous = synchronous
        self._package = package
        self._version_table = version_table
        self._newest_version = f"SELECT max(version) FROM {version_table}"  # noqa: S608
        self._lock = threading.Lock()
        self._readers: list[_Transaction] = []
        self._commits = threading.Condition()
        self._waiting = 0
        self._wakes = 0
        self._writing = _Writing(self)
        self._must_reopen = False
        self._known_schema: int | None = None
        self._derived: WeakSet[SQLite] = WeakSet()
        self._refuse_others()
        self._writer = _Transaction(self._open(), self)
        self._opened_file = self._file_id()

    # Connections ------------------------------------------------------------------------------------------------------

    def _refuse_others(self) -> None:
        """Refuse the database of another program before anything in it is changed."""
        if not self.path.is_file() or not self.path.stat().st_size:
            return
        try:
            connection = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READWRITE)
            connection.set_busy_handler(_Patience())
            names = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
            connection.close()
        except apsw.Error as error:
            raise self._translated(error) from error
        if names and self._version_table not in names:
            raise Damaged(
                f"{self.path} is a database of another program (it has tables such as {min(names)!r}), not a clew "
                "database; it was left alone: name another file, or move this one away"
            )

    def _open(self) -> apsw.Connection:
        try:
            new = not self.path.exists() or not self.path.stat().st_size
            if new:
                make_private(self.path.parent)
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            connection = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READWRITE)
            connection.set_busy_handler(_Patience())
            # Rows are about as long as half a page of 4 KiB, the default, which would leave a fifth of it empty.
            connection.execute("PRAGMA page_size=8192")
            mode = _in_wal_mode(connection)
            if mode != "wal":
                # SQLite hides that the first page of a new file could not be written.
                connection.close()
                raise self._no_room() if new else Unavailable(f"{self.path} cannot be put into WAL mode (it is {mode})")
            connection.execute(f"PRAGMA synchronous={self._synchronous}")
            connection.execute("PRAGMA secure_delete=ON")
            # A plan never depends on the values it is given. Without this SQLite compares them with the conditions of
            # partial indexes, and compiles a join anew for each execution, which takes ten times as long as running it.
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
            if new:
                sync(self.path.parent)
            return connection
        except apsw.Error as error:
            raise self._translated(error) from error
        except OSError as error:
            raise Unavailable(
                f"cannot open {self.path}: {error.strerror}; check the path and its permissions"
            ) from error

    @contextmanager
    def read(self) -> Iterator["_Transaction"]:
        # One connection per concurrent reader, reused; pop and append are atomic.
        try:
            reader = self._readers.pop()
        except IndexError:
            reader = _Transaction(self._open(), self)
        try:
            yield reader
        finally:
            self._readers.append(reader)

    def write(self) -> "_Writing":
        return self._writing

    def _begin(self) -> "_Transaction":
        self._lock.acquire()
        try:
            if self._must_reopen:
                # Opened again here and not where it failed: the cause may be gone by now.
                self._writer.connection.close(True)
                self._writer = _Transaction(self._open(), self)
                self._must_reopen = False
            self._writer.execute("BEGIN IMMEDIATE")
            self._check_fence()
        except BaseException as error:
            self._lock.release()
            if isinstance(error, apsw.Error):
                raise self._translated(error) from error
            raise
        return self._writer

    def _check_fence(self) -> None:
        if self._known_schema is None:
            return
        try:
            check_fence(self._writer.execute(self._newest_version).fetchall(), self._known_schema)
        except BaseException as error:
            self._undo(error)
            raise

    def _end(self, error: BaseException | None) -> None:
        """Commit, or undo for the error that the block raised."""
        try:
            if error is None:
                try:
                    self._writer.execute("COMMIT")
                except BaseException as failed:
                    self._undo(failed)
                    if isinstance(failed, apsw.Error):
                        raise self._translated(failed) from failed
                    raise
            else:
                self._undo(error)
        finally:
            self._lock.release()
        if self._waiting:
            with self._commits:
                self._commits.notify_all()

    def append(self, moves: Sequence[Row], events: Sequence[Row]) -> set[int]:
        with self.write() as tx:
            return tx.append(moves, events)

    def _undo(self, error: BaseException) -> None:
        # After a failed fsync the connection's cache cannot be trusted, so the next writer opens the file again,
        # and also after a failed commit that left nothing to roll back.
        cause = error.__cause__ or error
        self._must_reopen = isinstance(cause, apsw.IOError | apsw.CantOpenError)
        try:
            if self._writer.connection.in_transaction:
                self._writer.execute("ROLLBACK")
            else:
                self._must_reopen = True
        except apsw.Error as failed:
            error.add_note(f"and the rollback failed: {failed}")
            self._must_reopen = True

    def now(self) -> int:
        return time.time_ns() // 1_000_000 * 1000

    # Waiting ----------------------------------------------------------------------------------------------------------

    def mark(self) -> Mark:
        # Every commit of any process changes the write-ahead log; looking at the file costs far less than a statement.
        try:
            status = os.stat(f"{self.path}-wal")
        except OSError:
            return self._wakes, 0, 0, 0
        # A young file may change again without a trace. Its age is part of the mark, so a wait ends once the file is no
        # longer young, and its caller looks once more.
        is_young = 0 <= time.time_ns() - status.st_mtime_ns < TICK_NS
        return self._wakes, status.st_size, status.st_mtime_ns, int(is_young)

    def wait(self, timeout: float, since: Mark) -> None:
        end = time.monotonic() + timeout
        pause = POLL_SECONDS
        with self._commits:
            self._waiting += 1
            try:
                while self.mark() == since and (left := end - time.monotonic()) > 0:
                    if self._commits.wait(min(left, pause)):
                        return
                    pause = min(2 * pause, IDLE_POLL_SECONDS)
            finally:
                self._waiting -= 1

    def wake(self) -> None:
        with self._commits:
            self._wakes += 1
            self._commits.notify_all()

    # Derived tables, and who may read ---------------------------------------------------------------------------------

    def open_derived(self, package: str, version_table: str, *, fresh: bool = False) -> "SQLite":
        # A file of its own, so that writing it never blocks an append and it can be deleted. With synchronous=NORMAL it
        # may lose its last commits in a power loss; its owner reads them from the log again.
        path = self.path.with_name(f"{self.path.stem}-views{self.path.suffix}")
        if fresh:
            for suffix in ("", "-wal", "-shm"):
                Path(f"{path}{suffix}").unlink(missing_ok=True)
        derived = SQLite(path, synchronous="NORMAL", package=package, version_table=version_table)
        self._derived.add(derived)
        return derived

    def restricted_to_projects(self, projects: str) -> "SQLite":
        return self  # SQLite has no row-level security: a process that can open the file can read all of it.

    def row_security(self) -> None:
        return None

    def set_up_runtime_role(self, name: str, *, password: str = "") -> RuntimeRole:
        raise InvalidInput("an SQLite file has no roles: whoever can open the file can read all of it")

    def was_replaced(self) -> bool:
        return self._file_id() != self._opened_file

    def _file_id(self) -> tuple[int, int] | None:
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    # Schema and upkeep ------------------------------------------------------------------------------------------------

    def apply_schema(self, text: str, version: int) -> None:
        with self.write() as tx:
            if self._version(tx.connection) < version:
                try:
                    tx.connection.execute(text)
                except apsw.Error as error:
                    raise self._translated(error) from error

    def fence(self, known: int) -> None:
        self._known_schema = known

    def schema_version(self) -> int:
        with self.read() as tx:
            return self._version(tx.connection)

    def _version(self, connection: apsw.Connection) -> int:
        try:
            tables = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", [self._version_table]).fetchall()
            if not tables:
                return 0
            [(version,)] = connection.execute(f"SELECT coalesce(max(version), 0) FROM {self._version_table}").fetchall()  # noqa: S608
            return version if isinstance(version, int) else 0
        except apsw.Error as error:
            raise self._translated(error) from error

    def overwrite_free_space(self) -> list[str]:
        with self._lock:
            try:
                while self._readers:
                    self._readers.pop().connection.close()
                self._writer.execute("VACUUM")
                [(busy, _, _)] = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            except apsw.Error as error:
                raise self._translated(error) from error
        return [f"{self.path}-wal: another program reads the log; try again when it has finished"] if busy else []

    def check(self) -> list[str]:
        with self.read() as tx:
            try:
                lines = [row[0] for row in tx.connection.execute("PRAGMA integrity_check")]
            except apsw.Error as error:
                return [str(error)]
        return [line for line in lines if line != "ok"]

    def describe(self) -> dict[str, str]:
        return {
            "database": "SQLite",
            "version": apsw.sqlite_lib_version(),
            "driver": f"apsw {apsw.apsw_version()}",
            "place": str(self.path),
        }

    def close(self) -> None:
        for derived in list(self._derived):
            derived.close()
        with self._lock:
            self._close()

    def _close(self) -> None:
        while self._readers:
            self._readers.pop().connection.close(True)
        self._writer.connection.close(True)

    def _no_room(self) -> DiskFull:
        return DiskFull(
            f"no room left on the disk of {self.path}; nothing of this was written, all that was acknowledged before "
            "is safe; free some space and try again"
        )

    def _not_unicode(self, error: UnicodeDecodeError) -> Damaged:
        return Damaged(
            f"{self.path} holds text that is not Unicode ({error}): it is damaged; verifying every session names "
            "those that are affected, and the others stay readable",
            place=str(self.path),
        )

    def _made_anew(self) -> SchemaNewer | None:
        """Why tables are not as this program made them, if a newer program made them anew."""
        try:
            if self._known_schema is not None:
                check_fence([(self.schema_version(),)], self._known_schema)
        except SchemaNewer as newer:
            return newer
        except ClewError:
            return None  # The file is damaged, as the first error says.
        return None

    def _translated(self, error: apsw.Error) -> ClewError:
        if str(error).startswith(NOT_AS_MADE) and (newer := self._made_anew()) is not None:
            return newer
        match error:
            case _ if isinstance(error, apsw.FullError) or getattr(error, "extendedresult", 0) in NO_ROOM:
                return self._no_room()
            case _ if isinstance(error, apsw.CorruptError | apsw.NotADBError) or str(error).startswith(NOT_AS_MADE):
                return Damaged(
                    f"{self.path} is damaged or is not a clew database ({error}); keep a copy of the file and of its "
                    "-wal beside it, then restore from a backup",
                    place=str(self.path),
                )
            case apsw.ConstraintError() if getattr(error, "extendedresult", 0) in UNIQUE:
                return Conflict(f"this is in {self.path} already ({error}); nothing was written")
            case apsw.BusyError() | apsw.LockedError():
                return Busy(
                    f"another program has been writing to {self.path} for over {BUSY_SECONDS:.0f} s; try again, or "
                    "find out which program has the file open"
                )
            case apsw.CantOpenError() | apsw.PermissionsError() | apsw.ReadOnlyError() | apsw.AuthError():
                return Unavailable(f"cannot open or write {self.path} ({error}); check the path and its permissions")
            case _:
                return StoreError(f"SQLite could not carry this out on {self.path}: {error}")


class _Writing:
    """The writing transaction as a block. A class, because a generator would cost a tenth of an append."""

    __slots__ = ("_database",)

    def __init__(self, database: SQLite) -> None:
        self._database = database

    def __enter__(self) -> "_Transaction":
        return self._database._begin()

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._database._end(error)


class _Transaction:
    """A connection and its only cursor: making a cursor costs as much as running a small statement."""

    __slots__ = ("_cursor", "_database", "_optional", "_queries", "connection", "execute")

    def __init__(self, connection: apsw.Connection, database: SQLite) -> None:
        self.connection = connection
        self._cursor = connection.cursor()
        self.execute = self._cursor.execute
        self._database = database
        self._queries = statements("lite", database._package)
        self._optional = conditional_statements("lite", database._package)

    def run(self, name: str, /, **parameters: Any) -> list[Row]:
        try:
            text = self._queries.get(name) or self._optional[name].given(parameters)
            return self.execute(text, parameters).fetchall()
        except apsw.Error as error:
            raise self._database._translated(error) from error
        except UnicodeDecodeError as error:
            raise self._database._not_unicode(error) from error

    def batch(self, statements: Sequence[Statement]) -> list[list[Row]]:
        texts, execute = self._queries, self.execute
        try:
            return [execute(texts[name], parameters).fetchall() for name, parameters in statements]
        except apsw.Error as error:
            raise self._database._translated(error) from error
        except UnicodeDecodeError as error:
            raise self._database._not_unicode(error) from error

    def many(self, name: str, rows: Sequence[Parameters]) -> None:
        try:
            self._cursor.executemany(self._queries[name], rows)
        except apsw.Error as error:
            raise self._database._translated(error) from error

    def append(self, moves: Sequence[Row], events: Sequence[Row]) -> set[int]:
        try:
            moved: set[Any] = {row[0] for row in self._cursor.executemany(self._queries["head_move"], moves)}
            if len(moved) < len(moves):
                events = [event for event in events if event[SESSION] in moved]
            self._cursor.executemany(self._queries["event_add"], events)
        except apsw.Error as error:
            raise self._database._translated(error) from error
        return moved


def _in_wal_mode(connection: apsw.Connection) -> str:
    """Put a file into WAL mode; returns its mode. SQLite itself does not wait when another process does the same."""
    patience, tries = _Patience(), 0
    while True:
        try:
            [(mode,)] = connection.execute("PRAGMA journal_mode=WAL").fetchall()
            return str(mode)
        except apsw.BusyError:
            if not patience(tries):
                raise
            tries += 1


class _Patience:
    """Waits for another process's write lock in short, uneven steps, so that many writers take turns."""

    def __init__(self) -> None:
        self._since = 0.0

    def __call__(self, tries: int) -> bool:
        now = time.monotonic()
        if tries == 0:
            self._since = now
        if now - self._since > BUSY_SECONDS:
            return False
        import random  # Imported here: a caller rarely has to wait.

        time.sleep(random.uniform(0.0002, 0.002) * min(tries + 1, 5))  # noqa: S311  # jitter, not a secret
        return True
