"""What the store asks of a database. Everything else is written once, above this.

Statements have names (statements/*.sql), parameters are plain values, rows are tuples. Driver exceptions end here: a
caller gets errors of the model.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

Row = tuple[Any, ...]
Parameters = Mapping[str, Any]
Statement = tuple[str, Parameters]
Mark = tuple[int, ...]

# What a connection reads for when it is not restricted to projects.
EVERY_PROJECT = "*"

# The columns of an event to add and of a head to move, in the order of their rows (statements/events.sql).
EVENT = (
    "project", "session", "seq", "kind", "version", "at", "said_at", "actor", "source", "digest", "body", "blob",
)  # fmt: skip
BODY = EVENT.index("body")
MOVE = (
    "state", "head", "digest", "at", "budget_tokens", "budget_cost_micros", "spent_tokens", "spent_cost_micros",
    "project", "session", "from_head", "epoch", "fenced", "lease",
)  # fmt: skip


class RowSecurity(NamedTuple):
    """Whether row-level security holds for the role that a database is used with."""

    role: str
    owner: str
    """The role that owns the tables. It may be the same one: then it could drop the policies that hold for it."""
    problem: str = ""
    """Why row-level security does not hold; empty when it holds."""
    remedy: str = ""
    """The SQL that ends the problem; empty when only another role does."""
    lacks_rights_on: Sequence[str] = ()
    """Tables that the role cannot read and write."""


class RuntimeRole(NamedTuple):
    """The role that uses the tables and owns none of them."""

    name: str
    is_new: bool
    owner: str


class Transaction(Protocol):
    """Statements that see one state of the database."""

    def run(self, name: str, /, **parameters: Any) -> list[Row]:
        """The rows of one statement."""
        ...

    def batch(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """The rows of several statements, run in order."""
        ...

    def many(self, name: str, rows: Sequence[Parameters]) -> None:
        """Run one statement for each row of parameters."""
        ...

    def append(self, moves: Sequence[Row], events: Sequence[Row]) -> set[int]:
        """Move heads and add their events; returns the sessions that were moved.

        A head that has moved since its plan was made, or whose lease does not hold by the database's clock, stays, and
        none of its events is added.
        """
        ...


class Database(Protocol):
    """SQLite or PostgreSQL."""

    dialect: str
    remote: bool
    """Whether the connection can be lost during a commit, which leaves the outcome unknown."""

    def read(self) -> AbstractContextManager[Transaction]:
        """A connection for reading. Never waits for a writer."""
        ...

    def write(self) -> AbstractContextManager[Transaction]:
        """The process's one writing transaction: committed and on disk when the block ends, rolled back if it raises.

        A second caller waits. When the connection is lost during the commit, the error carries `ambiguous=True`: the
        outcome is unknown, and only the sources of the drafts can tell.
        """
        ...

    def append(self, moves: Sequence[Row], events: Sequence[Row]) -> set[int]:
        """`Transaction.append` as a transaction of its own, in as few round trips as the database allows."""
        ...

    def now(self) -> int:
        """About what the database's clock shows, in microseconds, without a round trip. No lease is decided by this."""
        ...

    def mark(self) -> Mark:
        """What has been seen of commits so far. Take it before you look for news, and pass it to `wait`."""
        ...

    def wait(self, timeout: float, since: Mark) -> None:
        """Return once something may have been committed, at the latest after `timeout` seconds; may return early.

        Returns at once if something may have been committed after `mark` returned `since`.
        """
        ...

    def wake(self) -> None:
        """End every wait of this process now."""
        ...

    def open_derived(self, package: str, version_table: str, *, fresh: bool = False) -> "Database":
        """The database of tables derived from this log. It is separate, so that writing them never blocks an append.

        Its statements are those of `package`; `version_table` holds the version of their schema. With `fresh` the
        existing tables are dropped, whatever state they are in, and `apply_schema` makes them again. Closing this
        database closes that one, too.
        """
        ...

    def restricted_to_projects(self, projects: str) -> "Database":
        """The same database, whose reads see only the projects with these keys, separated by commas; `*` is all.

        Row-level security enforces it where the database has it. It is a second check behind the conditions in the
        statements.
        """
        ...

    def row_security(self) -> RowSecurity | None:
        """Whether row-level security holds; None when the database has none."""
        ...

    def set_up_runtime_role(self, name: str, *, password: str = "") -> RuntimeRole:
        """Make a role that may use these tables and change none, or repair its rights; for their owner to call."""
        ...

    def was_replaced(self) -> bool:
        """Whether another program removed or replaced the file that was opened here."""
        ...

    def apply_schema(self, text: str, version: int) -> None:
        """Run a schema script, all or nothing, unless another process has brought the database to this version."""
        ...

    def fence(self, known: int) -> None:
        """From now on raise `SchemaNewer` instead of writing, once a newer program made a schema beyond this version.

        It also takes the place of an error about tables that the newer program made anew.
        """
        ...

    def schema_version(self) -> int:
        """The version recorded in the database; 0 when it is empty."""
        ...

    def overwrite_free_space(self) -> list[str]:
        """Overwrite removed rows, so that no copy is left in free space; returns the copies that are beyond reach."""
        ...

    def check(self) -> list[str]:
        """Problems found by the database's own integrity check."""
        ...

    def describe(self) -> dict[str, str]:
        """Versions and paths, for diagnostics. No secrets."""
        ...

    def close(self) -> None: ...
