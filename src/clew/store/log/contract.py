"""The contract in front of the log: one log of events for every session, the only truth. Every promise is here.

The promises hold on SQLite and PostgreSQL alike and are tested literally on both:

* What an append returned is on disk. It survives the death of any process, and power loss if the disk honours fsync.
* Seqs are 1, 2, 3 ... in a session, without gap or repetition, and never change.
* The same source in a session is stored once, for ever, however often and by any caller.
* A batch is stored whole or not at all.
* Only the holder of the current lease writes while a lease is held; the check is part of the write.
* A tail shows events in the order they became visible and never skips one.
* A reader holds one page of events in memory, however long the session is. Pages have no gap and no duplicate.

What lies beside the log has functions of its own that take a `Store`: leases, retention and erasure, sessions that
arrive from another store (log/), objects, native files, access records, the audit tree, cursors and answers.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from clew.model.events import Draft, Event
from clew.model.lineage import Segment
from clew.model.session import Head, Session
from clew.store.log.opening import Forking, Opening
from clew.store.log.plan import Appended, Request
from clew.store.log.problems import Verified
from clew.store.log.rows import EVERYTHING, Child, Listed
from clew.store.reach import EVERYWHERE, ReachParameters


class EventLog(Protocol):
    """The sessions and their events. Safe to share between threads."""

    def open(self, opening: Opening | Forking, *, actor: str) -> Session:
        """Open a session or a child of one, with its first event; the actor owns it."""
        ...

    def session(self, prefix: str, reach: ReachParameters = EVERYWHERE) -> Session:
        """The session with this id, or with the only id that begins so, among those in reach."""
        ...

    def sessions(
        self,
        *,
        keys: Iterable[int] | None = None,
        project: str = "",
        agent: str = "",
        state: str = "",
        before: Session | None = None,
        limit: int = 50,
    ) -> list[Listed]:
        """Sessions and where they stand, newest first; with `keys` these and no other."""
        ...

    def head(self, session: Session) -> Head:
        """Where the session stands now."""
        ...

    def append(
        self,
        session: Session,
        drafts: Iterable[Draft],
        *,
        actor: str = "",
        expect: int | None = None,
        lease: int | None = None,
    ) -> Appended:
        """Store the drafts as the next events, all or none, and return once they are on disk.

        A draft whose source is already in the session is not stored again; its seq is returned. `expect` is the head
        the caller has seen, `lease` the epoch of the lease it holds. Callers that append at the same time share one
        commit. A lost connection is tried again for a while; what was committed unseen is found by its source and not
        repeated. When a budget is exceeded everything is stored, the session is paused, and BudgetExceeded says so.
        """
        ...

    def prepare(
        self,
        session: Session,
        drafts: Iterable[Draft],
        *,
        actor: str = "",
        expect: int | None = None,
        lease: int | None = None,
    ) -> Request:
        """The same append, encoded and checked but not stored, for a caller who commits several together."""
        ...

    def commit(self, requests: Sequence[Request]) -> None:
        """Store prepared appends in one commit, shared with every other caller; each request keeps its outcome."""
        ...

    def read(
        self,
        session: Session,
        *,
        after: int = 0,
        upto: int | None = None,
        kinds: Iterable[str] | None = None,
        limit: int = EVERYTHING,
    ) -> Iterator[Event]:
        """The events of a session through all its ancestors, oldest first; with `kinds` only events of these."""
        ...

    def tail(
        self, *, after: int = 0, project: str = "", limit: int = EVERYTHING, reach: ReachParameters = EVERYWHERE
    ) -> Iterator[Event]:
        """The events of all sessions in reach after a position, in the order they became visible."""
        ...

    def last_position(self) -> int:
        """The position of the newest event that a tail would show."""
        ...

    def wait(self, *, after: int, timeout: float) -> bool:
        """Wait for an event after this position; False when the time is over and there is none."""
        ...

    def lineage(self, session: Session) -> list[Segment]:
        """Which ancestor wrote which part of this session's history, oldest first."""
        ...

    def children(self, session: Session, reach: ReachParameters = EVERYWHERE) -> list[Child]:
        """The direct forks of this session's own events that are in reach."""
        ...

    def verify(self, session: Session) -> Verified:
        """Recompute the digests of what this session wrote itself, and compare its rows with its events."""
        ...
