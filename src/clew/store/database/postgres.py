"""PostgreSQL through psycopg 3. Only this file and postgres_readers.py import psycopg.

One writing connection per process carries the shared commits, which are serialized by the group commit above this
file: a pool of writers would have nothing to do. Readers take their connections from a bounded pool.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, cast
from weakref import WeakKeyDictionary

import msgspec
import psycopg
from psycopg import errors, sql

from clew.model.errors import (
    Busy,
    ClewError,
    Conflict,
    Damaged,
    DiskFull,
    SchemaNewer,
    StoreError,
    Unavailable,
)
from clew.store.database import postgres_roles as roles
from clew.store.database.contract import (
    EVENT,
    EVERY_PROJECT,
    MOVE,
    Database,
    Mark,
    Parameters,
    Row,
    RowSecurity,
    RuntimeRole,
    Statement,
)
from clew.store.database.postgres_readers import ReaderPool, is_usable
from clew.store.database.postgres_url import parse_url, place_of, split_max_readers
from clew.store.database.schema_fence import check_fence
from clew.store.database.statements import conditional_statements, statements, tables

CONNECT_SECONDS = 10
IDLE_MS = 5000
# Known by a program that has not said which schema it knows.
NEWEST_SCHEMA = 2**31 - 1
SCHEMA_LOCK = 0x636C6577


class Postgres:
    """A log in a PostgreSQL database."""

    dialect = "pg"
    remote = True

    def __init__(self, url: str, *, package: str = "clew.store.database", version_table: str = "clew_schema") -> None:
        self._url = url
        self._package = package
        self._version_table = version_table
        version = sql.SQL("BEGIN; SELECT max(version) FROM {}").format(sql.Identifier(version_table))
        self._begin_and_read_version = version.as_bytes()
        url, max_readers = split_max_readers(url)
        parameters = parse_url(url)
        self.place = place_of(parameters)
        self._arguments: dict[str, Any] = {
            "connect_timeout": CONNECT_SECONDS, "application_name": "clew", **parameters,
            "autocommit": True, "prepare_threshold": 1,
        }  # fmt: skip
        self._lock = threading.Lock()
        self._readers = ReaderPool(
            self._arguments, place=self.place, max_readers=max_readers, configure=self._configure, connect=self._open
        )
        self._closed = False
        self._listener: psycopg.Connection | None = None
        self._woken = threading.Condition()
        self._listening = False
        self._wakes = 0
        self._derived: set[Postgres] = set()
        self._on_close: Callable[[Postgres], None] = lambda database: None
        # Which projects each connection shows, if it was ever restricted.
        self._visible: WeakKeyDictionary[psycopg.Connection, str] = WeakKeyDictionary()
        self._known_schema = NEWEST_SCHEMA
        self._writer = self._open()
        # For appends only: a new cursor looks up again how to send each type, which costs more than sending the values.
        self._appender = self._writer.cursor(binary=True)

    # Connections ------------------------------------------------------------------------------------------------------

    def _open(self) -> psycopg.Connection:
        if self._closed:
            # Not Unavailable: an append would wait for it and try again.
            raise StoreError(f"the store at {self.place} was closed by this program; open it again")
        with self._translating():
            connection = psycopg.connect(**self._arguments)
            try:
                self._configure(connection)
            except BaseException:
                connection.close()
                raise
            return connection

    def _configure(self, connection: psycopg.Connection) -> None:
        # An acknowledged event is on disk, whatever the server's default says.
        connection.execute("SET synchronous_commit = on")
        # A process that is suspended inside a transaction must not hold its locks for ever.
        connection.execute(f"SET idle_in_transaction_session_timeout = {IDLE_MS:d}")
        # Every lookup has an index. A plan made while a table is small would scan it, and be kept when it has grown.
        connection.execute("SET plan_cache_mode = force_generic_plan")
        connection.execute("SET enable_seqscan = off")
        # Compiling a statement takes 100 ms and running it one; enable_seqscan = off makes the planner compile.
        connection.execute("SET jit = off")
        # Row-level security shows a connection nothing before this is set.
        connection.execute("SET clew.reach = '*'")
        [(now,)] = connection.execute(statements("pg")["now"].encode()).fetchall()
        self._clock = (int(now), time.monotonic())

    @contextmanager
    def read(self, projects: str = EVERY_PROJECT) -> Iterator["_Transaction"]:
        reader = self._readers.acquire()
        connection = reader.connection
        try:
            self._restrict(connection, projects)
            yield _Transaction(connection, self, projects)
        except psycopg.Error:
            connection.close()
            raise
        finally:
            self._readers.release(reader)

    def _restrict(self, connection: psycopg.Connection, projects: str) -> None:
        """Let row-level security show only these projects on a connection."""
        if self._visible.get(connection, EVERY_PROJECT) == projects:
            return
        with self._translating():
            try:
                connection.execute("SELECT set_config('clew.reach', %s, FALSE)", [projects])
            except BaseException:
                connection.close()  # It may show the wrong projects, so it is not used again.
                raise
        self._visible[connection] = projects

    def _usable_writer(self) -> psycopg.Connection:
        if not is_usable(self._writer):
            self._writer.close()
            self._writer = self._open()
        return self._writer

    @contextmanager
    def write(self) -> Iterator["_Transaction"]:
        with self._lock:
            writer = self._usable_writer()
            committing = False
            try:
                # No pipeline: inside one the server does not count a suspended process as idle and keeps its locks.
                self._begin(writer)
                yield _Transaction(writer, self)
                committing = True
                writer.execute("COMMIT")
            except BaseException as error:
                self._undo()
                if isinstance(error, psycopg.Error):
                    raise self._translated(error, ambiguous=committing) from error
                raise

    def _begin(self, writer: psycopg.Connection) -> None:
        if self._known_schema == NEWEST_SCHEMA:
            writer.execute("BEGIN")
            return
        # In one round trip; the server prepares no two statements at once.
        begun = writer.execute(self._begin_and_read_version, prepare=False)
        begun.nextset()
        check_fence(begun.fetchall(), self._known_schema)

    def _undo(self) -> None:
        try:
            self._writer.execute("ROLLBACK")
        except psycopg.Error:
            self._writer.close()

    def append(self, moves: Sequence[Row], events: Sequence[Row]) -> set[int]:
        with self._lock:
            writer = self._usable_writer()
            if self._appender.connection is not writer:
                self._appender = writer.cursor(binary=True)
            try:
                return _append(self._appender, moves, events, self._known_schema)
            except errors.DeadlockDetected:
                return set()  # Rolled back: another process wrote the same sessions. The caller locks them in order.
            except psycopg.Error as error:
                raise self._translated(error, ambiguous=True) from error

    def now(self) -> int:
        then, read_at = self._clock
        return then + round((time.monotonic() - read_at) * 1_000_000)

    # Waiting ----------------------------------------------------------------------------------------------------------

    def mark(self) -> Mark:
        return (self._wakes,)

    def wait(self, timeout: float, since: Mark) -> None:
        # One thread listens for all. A notification may concern any of them, so the end of a wait wakes all.
        with self._woken:
            if self.mark() != since:
                return
            if self._listening:
                self._woken.wait(timeout)
                return
            self._listening = True
        try:
            self._listen(timeout)
        finally:
            with self._woken:
                self._listening = False
                self._wakes += 1
                self._woken.notify_all()

    def wake(self) -> None:
        with self._woken:
            self._wakes += 1
            self._woken.notify_all()
            is_listening = self._listening
        if is_listening:
            with self.read() as tx:
                tx.run("jobs_changed")

    def _listen(self, timeout: float) -> None:
        with self._translating():
            if self._listener is None or self._listener.closed:
                self._listener = self._open()
                self._listener.execute("LISTEN clew")
                if self._closed:
                    self._listener.close()
                return  # Commits before LISTEN took effect send nothing; the caller reads again and finds them.
            for _ in self._listener.notifies(timeout=timeout, stop_after=1):
                pass

    # Derived tables, and who may read ---------------------------------------------------------------------------------

    def open_derived(self, package: str, version_table: str, *, fresh: bool = False) -> "Postgres":
        # The same database over its own connections, so that writing derived tables never blocks an append.
        derived = Postgres(self._url, package=package, version_table=version_table)
        # Remembered, so that closing the log closes it.
        self._derived.add(derived)
        derived._on_close = self._derived.discard
        if fresh and derived.schema_version():
            with derived._translating(), derived._writer.transaction():
                for table in (*tables(package, "pg"), version_table):
                    derived._writer.execute(sql.SQL("DROP TABLE IF EXISTS {} CASCADE").format(sql.Identifier(table)))
        return derived

    def restricted_to_projects(self, projects: str) -> Database:
        return self if projects == EVERY_PROJECT else cast(Database, _Restricted(self, projects))

    def row_security(self) -> RowSecurity | None:
        with self.read() as tx, self._translating():
            return roles.row_security(tx.connection, self._package)

    def set_up_runtime_role(self, name: str, *, password: str = "") -> RuntimeRole:
        with self._lock, self._translating(), self._writer.transaction():
            self._writer.execute("SELECT pg_advisory_xact_lock(%s)", [SCHEMA_LOCK])
            return roles.set_up_runtime_role(
                self._writer, name, self._package, self._version_table, password=password
            )  # fmt: skip

    def was_replaced(self) -> bool:
        return False

    # Schema and upkeep ------------------------------------------------------------------------------------------------

    def apply_schema(self, text: str, version: int) -> None:
        with self._lock, self._translating(), self._writer.transaction():
            self._writer.execute("SELECT pg_advisory_xact_lock(%s)", [SCHEMA_LOCK])
            if self._version(self._writer) < version:
                roles.refuse_unless_owner(self._writer, version)
                self._writer.execute(text.encode())

    def fence(self, known: int) -> None:
        self._known_schema = known

    def schema_version(self) -> int:
        with self.read() as tx, self._translating():
            return self._version(tx.connection)

    def _version(self, connection: psycopg.Connection) -> int:
        if connection.execute("SELECT to_regclass(%s)", [self._version_table]).fetchone() == (None,):
            return 0
        version_table = sql.Identifier(self._version_table)
        row = connection.execute(sql.SQL("SELECT coalesce(max(version), 0) FROM {}").format(version_table)).fetchone()
        return int(row[0]) if row else 0

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise self._translated(error) from error

    def overwrite_free_space(self) -> list[str]:
        with self._lock, self._translating():
            others = roles.tables_it_cannot_rewrite(self._writer, self._package)
            for table in tables(self._package, "pg"):
                if table not in others:
                    self._writer.execute(sql.SQL("VACUUM FULL {}").format(sql.Identifier(table)))
        return [
            *(
                [f"free space in {', '.join(others)}, which only their owner may rewrite: VACUUM FULL as that role"]
                if others
                else []
            ),
            "the server's write-ahead log: it keeps old segments until it recycles them; see docs/erasure.md",
            "replicas and backups of the server",
        ]

    def check(self) -> list[str]:
        problems = []
        with self.read() as tx:
            for table in tables(self._package, "pg"):
                try:
                    tx.connection.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table)))
                except psycopg.Error as error:
                    problems.append(f"{table}: {str(error).strip()}")
        return problems

    def describe(self) -> dict[str, str]:
        with self.read() as tx:
            version = tx.connection.info.server_version
        return {
            "database": "PostgreSQL",
            "version": f"{version // 10000}.{version % 10000}",
            "driver": f"psycopg {psycopg.__version__}",
            "place": self.place,
        }

    def close(self) -> None:
        self._on_close(self)
        for derived in list(self._derived):
            derived.close()
        with self._lock:
            self._closed = True
            self._readers.close()
            if self._listener is not None:
                self._listener.close()
            self._writer.close()

    def _made_anew(self) -> SchemaNewer | None:
        """Why tables are not as this program made them, if a newer program made them anew."""
        try:
            # A connection of its own: the caller's is in a failed transaction, and may be the last one of the pool.
            with self._open() as connection:
                check_fence([(self._version(connection),)], self._known_schema)
        except SchemaNewer as newer:
            return newer
        except (ClewError, psycopg.Error):
            return None  # The server is away, as the next statement will say.
        return None

    def _translated(self, error: psycopg.Error, *, ambiguous: bool = False) -> ClewError:
        if isinstance(error, errors.UndefinedTable | errors.UndefinedColumn) and (newer := self._made_anew()):
            return newer
        match error:
            case errors.UniqueViolation():
                return Conflict(f"this is in {self.place} already ({_first_line(error)}); nothing was written")
            case errors.InsufficientPrivilege():
                return roles.lacks_rights(self.place, _first_line(error))
            case errors.DiskFull():
                return DiskFull(f"the disk of {self.place} is full; nothing of this was written; free some space there")
            case errors.LockNotAvailable() | errors.QueryCanceled() | errors.DeadlockDetected():
                return Busy(f"{self.place} did not answer in time ({_first_line(error)}); try again")
            case errors.DataCorrupted() | errors.IndexCorrupted():
                return Damaged(f"{self.place} reports damaged data: {_first_line(error)}; restore from a backup")
            case errors.ProgramLimitExceeded():
                return StoreError(f"PostgreSQL at {self.place} accepts no value that large: {_first_line(error)}")
            case psycopg.OperationalError() | psycopg.InterfaceError():
                outcome = (
                    "; the connection was lost during the commit, so the outcome is unknown: append again with the "
                    "same sources, what is already there is stored once"
                    if ambiguous
                    else ""
                )
                return Unavailable(
                    f"cannot reach PostgreSQL at {self.place} ({_first_line(error)}); check that the server runs and "
                    f"that the store's URL names it{outcome}",
                    ambiguous=ambiguous,
                )
            case _:
                return StoreError(f"PostgreSQL at {self.place} could not carry this out: {_first_line(error)}")


class _Restricted:
    """A database whose reads see only some projects. Everything else is delegated to the database."""

    def __init__(self, database: Postgres, projects: str) -> None:
        self._database = database
        self._projects = projects

    def read(self) -> AbstractContextManager["_Transaction"]:
        return self._database.read(self._projects)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)


class _Transaction:
    __slots__ = ("_database", "_optional", "_projects", "_queries", "connection")

    def __init__(self, connection: psycopg.Connection, database: Postgres, projects: str = EVERY_PROJECT) -> None:
        self.connection = connection
        self._database = database
        self._projects = projects
        self._queries = statements("pg", database._package)
        self._optional = conditional_statements("pg", database._package)

    def run(self, name: str, /, **parameters: Any) -> list[Row]:
        return self.batch([(name, parameters)])[0]

    def batch(self, statements: Sequence[Statement]) -> list[list[Row]]:
        answers = []
        # A read inside this one may have read for other projects since.
        self._database._restrict(self.connection, self._projects)
        try:
            for name, parameters in statements:
                text = self._queries.get(name) or self._optional[name].given(parameters)
                cursor = self.connection.cursor(binary=True).execute(text.encode(), parameters)
                answers.append(cursor.fetchall() if cursor.description else [])
        except psycopg.Error as error:
            raise self._database._translated(error) from error
        return answers

    def many(self, name: str, rows: Sequence[Parameters]) -> None:
        try:
            self.connection.cursor(binary=True).executemany(self._queries[name].encode(), rows)
        except psycopg.Error as error:
            raise self._database._translated(error) from error

    def append(self, moves: Sequence[Row], events: Sequence[Row]) -> set[int]:
        try:
            return _append(self.connection.cursor(binary=True), moves, events, self._database._known_schema)
        except psycopg.Error as error:
            raise self._database._translated(error) from error


def _append(cursor: psycopg.Cursor, moves: Sequence[Row], events: Sequence[Row], known_schema: int) -> set[int]:
    if len(events) == len(moves) == 1:
        to = zip(_MOVE_ONE, moves[0], strict=True)
        values = {**dict(zip(EVENT, events[0], strict=True)), **dict(to), "known_schema": known_schema}
        cursor.execute(_APPEND_ONE, values)
    else:
        count = len(events)
        behind = range(count - 1, -1, -1)
        numbered = [(*event, number) for event, number in zip(events, behind, strict=True)]
        values = {
            "moves": _json(MOVE, moves), "events": _json((*EVENT, "behind"), numbered), "count": count,
            "known_schema": known_schema,
        }  # fmt: skip
        cursor.execute(_APPEND, values)
    return {row[0] for row in cursor.fetchall()}


_APPEND = statements("pg")["append"].encode()
_APPEND_ONE = statements("pg")["append_one"].encode()
_MOVE_ONE = tuple(f"to_{name}" for name in MOVE)


def _json(columns: tuple[str, ...], rows: Sequence[Row]) -> str:
    return msgspec.json.encode([dict(zip(columns, row, strict=True)) for row in rows]).decode()


def _first_line(error: psycopg.Error) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
