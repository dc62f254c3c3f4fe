"""What the log asks of a database and of a place for blobs. Everything else is written once, above these.

Statements are named (statements/*.sql); parameters are plain values; rows are tuples. Driver exceptions stop here: what
comes out are errors of the model.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

Row = tuple[Any, ...]
Parameters = Mapping[str, Any]
Statement = tuple[str, Parameters]

# What one event, and one head on the move, is made of; the order is that of the parameters in statements/events.sql.
EVENT = (
    "project", "session", "seq", "kind", "version", "at", "said_at", "actor", "source", "digest", "body", "blob",
)  # fmt: skip
BODY = EVENT.index("body")
MOVE = (
    "state", "head", "digest", "at", "budget_tokens", "budget_cost_micros", "spent_tokens", "spent_cost_micros",
    "project", "session", "from_head", "epoch", "fenced", "lease",
)  # fmt: skip


class Transaction(Protocol):
    """Statements that see one state of the database."""

    def run(self, name: str, /, **parameters: Any) -> list[Row]:
        """The rows of one statement."""
        ...

    def batch(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """The rows of several statements, one after the other."""
        ...

    def many(self, name: str, rows: Sequence[Parameters]) -> None:
        """One statement, once for each row of parameters."""
        ...

    def append(self, moves: Sequence[Row], events: Sequence[Row]) -> set[int]:
        """Move heads on and add their events; returns the sessions that were moved.

        A head that is not where its plan began, or whose fence does not hold by the database's clock, stays, and none
        of its events is added.
        """
        ...


class Database(Protocol):
    """SQLite or PostgreSQL."""

    dialect: str
    remote: bool
    """Whether the connection can be lost while a commit is under way, which leaves its outcome unknown."""

    def read(self) -> AbstractContextManager[Transaction]:
        """A connection for reading. Never waits for a writer."""
        ...

    def write(self) -> AbstractContextManager[Transaction]:
        """The process's one writing transaction: committed and on disk when the block ends, undone if it raises.

        A second caller waits. When the connection is lost during the commit the error carries `ambiguous=True`: the
        outcome is unknown, and only the sources of the drafts can tell.
        """
        ...

    def append(self, moves: Sequence[Row], events: Sequence[Row]) -> set[int]:
        """`Transaction.append` as a transaction of its own, in as few steps as the database allows."""
        ...

    def now(self) -> int:
        """About what the database's clock shows, in microseconds, without asking it. No lease is decided by this."""
        ...

    def heard(self) -> int:
        """How often a wait has ended so far: asked for before a look, it tells `wait` what the look has seen."""
        ...

    def wait(self, timeout: float, since: int) -> None:
        """Return once something may have been committed, at the latest after the time; may return early.

        Returns at once if any wait has ended `since`: what ended it may be what this caller waits for.
        """
        ...

    def beside(self, package: str, ledger: str, *, fresh: bool = False) -> "Database":
        """Where tables derived from this log live: apart, so that writing them never keeps an append waiting.

        The statements are those of `package`; the table `ledger` says which version of their schema is there. With
        `fresh` what is there is thrown away, whatever state it is in, and `define` makes it anew. Closing this database
        closes that one, too.
        """
        ...

    def behind(self, wall: str) -> "Database":
        """The same database for reading on somebody's behalf: only projects with these keys, apart by commas.

        A second wall behind the predicates of the statements, where the database has one; `*` is everything.
        """
        ...

    def is_gone(self) -> bool:
        """Whether somebody took away what was opened here, or put another in its place."""
        ...

    def define(self, text: str, version: int) -> None:
        """Run a schema script, all or nothing, unless another process has brought the database there already."""
        ...

    def schema_version(self) -> int:
        """The version recorded in the database; 0 when it is empty."""
        ...

    def scrub(self) -> list[str]:
        """Overwrite what was removed, so that no trace is left in free space; returns what is beyond reach."""
        ...

    def check(self) -> list[str]:
        """Problems found by the database's own integrity check."""
        ...

    def wall(self) -> str:
        """What is wrong with the wall between projects; empty when it stands, or when the database has none."""
        ...

    def describe(self) -> dict[str, str]:
        """Versions and places, for `doctor`. No secrets."""
        ...

    def close(self) -> None: ...


class Blobs(Protocol):
    """Where the bytes of blobs live. Counting references is the log's work, in the same transaction as the events."""

    def prepare(self, digest: bytes, packed: bytes) -> None:
        """Make the bytes durable before the transaction that names them, where that is possible."""
        ...

    def row_data(self, packed: bytes) -> bytes | None:
        """What goes into the blob's row: the bytes themselves, or nothing when they live elsewhere."""
        ...

    def settle(self, digest: bytes, packed: bytes) -> None:
        """Inside the transaction that names the blob: make sure that a collector has not just taken it away."""
        ...

    def fetch(self, digest: bytes, row: Row | None) -> bytes:
        """The packed bytes, given the blob's row."""
        ...

    def remove(self, digests: Iterable[bytes]) -> None:
        """Inside the collecting transaction: delete the bytes."""
        ...

    def sweep(self, known: set[bytes], grace_us: int) -> int:
        """Delete bytes that no row names and that are older than the grace; returns how many."""
        ...
