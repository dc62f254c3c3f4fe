"""The opened store: the log over one database and one place for objects. log/contract.py states its promises."""

import copy
import time
from collections.abc import Iterable, Iterator, Sequence
from types import MappingProxyType

import msgspec

from clew.model.errors import Conflict
from clew.model.events import Budget, Draft, Event
from clew.model.ids import check_name
from clew.model.lineage import Segment
from clew.model.session import Head, Session
from clew.store.database.contract import Blobs, Database, Parameters, Transaction
from clew.store.log import opening, sessions
from clew.store.log.appending import Appender
from clew.store.log.opening import Forking, Opening
from clew.store.log.plan import Appended, Plan, Request
from clew.store.log.reading import Reader
from clew.store.log.rows import EVERYTHING, PAGE, Listed
from clew.store.log.writing import write
from clew.store.objects import objects

# The reach of a caller who may see everything.
EVERYWHERE: Parameters = MappingProxyType({})


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    session: Session
    head: int


class Store:
    """The log over one database and one place for objects. Safe to share between threads."""

    def __init__(self, database: Database, blobs: Blobs) -> None:
        self.database = database
        self.blobs = blobs
        self._appender = Appender(database, blobs)
        self._reader = Reader(database, blobs)

    def restricted_to(self, projects: str) -> "Store":
        """The same store, reading through the database's row-level security, if it has any."""
        restricted = copy.copy(self)
        restricted.database = self.database.restricted_to_projects(projects)
        restricted._reader = Reader(restricted.database, self.blobs)
        return restricted

    def now(self) -> int:
        """About what the database's clock shows, in microseconds."""
        return self.database.now()

    def close(self) -> None:
        self.database.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Sessions ---------------------------------------------------------------------------------------------------------

    def open(self, what: Opening | Forking, *, actor: str) -> Session:
        opening.check(what, actor)
        with self.database.write() as tx:
            plan = opening.open_in(tx, what, actor)
            write(tx, [plan], self.blobs)
        return plan.session

    def open_session(
        self,
        *,
        project: str,
        actor: str,
        agent: str = "",
        title: str = "",
        metadata: str = "{}",
        budget: Budget | None = None,
        private: bool = False,
        id: str | None = None,
        control: bool = False,
    ) -> Opened:
        """Open a session with its first event; who opens it owns it."""
        session = self.open(
            Opening(
                project=project, agent=agent, title=title, metadata=metadata, budget=budget, private=private, id=id,
                control=control,
            ),
            actor=actor,
        )  # fmt: skip
        return Opened(session=session, head=1)

    def fork(self, session: Session, *, actor: str, at: int | None = None, title: str | None = None) -> Session:
        return self.open(Forking(parent=session, at=at, title=title), actor=actor)

    def session(self, prefix: str, reach: Parameters = EVERYWHERE) -> Session:
        return sessions.session_by_prefix(self.database, prefix, reach)

    def projects(self) -> dict[int, str]:
        """Every project by its key."""
        with self.database.read() as tx:
            return dict(tx.run("projects"))

    def keys_of(self, ids: Iterable[str]) -> dict[str, int]:
        return sessions.keys_of(self.database, ids)

    def session_by_key(self, key: int) -> Session:
        """The session with this key, which there is."""
        with self.database.read() as tx:
            return sessions.session_in(tx, key)

    def sessions(
        self, *, project: str = "", agent: str = "", state: str = "", before: Session | None = None, limit: int = 50
    ) -> list[Listed]:
        return sessions.list_sessions(
            self.database, project=project, agent=agent, state=state, before=before, limit=limit
        )

    def standing(self, keys: Iterable[int]) -> dict[int, Listed]:
        return sessions.sessions_with(self.database, keys)

    def control_session(self, project: str, actor: str) -> Session:
        """The session that keeps a project's own record: who asked for what. Not listed among the others."""
        found = sessions.control_session(self.database, project)
        if found is not None:
            return found
        try:
            return self.open(Opening(project=project, title=f"control log of {project}", control=True), actor=actor)
        except Conflict:
            # Another caller was first; a project has one of them.
            found = sessions.control_session(self.database, project)
            if found is None:
                raise
            return found

    def head(self, session: Session) -> Head:
        with self.database.read() as tx:
            return sessions.head_in(tx, session)

    # Appending --------------------------------------------------------------------------------------------------------

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
        repeated.
        When a budget is exceeded everything is stored, the session is paused, and BudgetExceeded says so.
        """
        return self.submit(self.request(session, drafts, actor=actor, expect=expect, lease=lease))

    def submit(self, request: Request) -> Appended:
        """Commit a request that was made ready, together with those of other callers."""
        return self._appender.append(request)

    def request(
        self,
        session: Session,
        drafts: Iterable[Draft],
        *,
        actor: str = "",
        expect: int | None = None,
        lease: int | None = None,
    ) -> Request:
        """An append made ready, for who gathers those of many callers and carries them out together."""
        return self._appender.prepare(session, drafts, actor=actor, expect=expect, lease=lease)

    def outcome(self, request: Request) -> Appended:
        return self._appender.outcome(request)

    def carry_out(self, requests: Sequence[Request]) -> None:
        self._appender.commit(requests)

    # Reading ----------------------------------------------------------------------------------------------------------

    def read(
        self, session: Session, *, after: int = 0, upto: int | None = None, limit: int = EVERYTHING
    ) -> list[Event]:
        return list(self._reader.read(session, after=after, upto=upto, limit=limit))

    def read_kinds(self, session: Session, kinds: Iterable[str], *, upto: int | None = None) -> list[Event]:
        return list(self._reader.read_kinds(session, list(kinds), after=0, upto=upto, limit=EVERYTHING))

    def tail(
        self, *, after: int = 0, project: str = "", limit: int = PAGE, reach: Parameters = EVERYWHERE
    ) -> list[Event]:
        return list(self._reader.tail(after=after, project=project, limit=limit, reach=reach))

    def entries(self, *, after: int, limit: int = PAGE) -> Iterator[tuple[Session, Event]]:
        return self._reader.entries(after=after, limit=limit)

    def own_sources(self, session: Session, *, before: int) -> list[tuple[str, str]]:
        return self._reader.own_sources(session, before=before)

    def own_events(self, session: Session, *, after: int = 0, upto: int) -> Iterator[Event]:
        return self._reader.own_events(session, after=after, upto=upto)

    def last_position(self) -> int:
        return self._reader.last_position()

    def end_position(self) -> int:
        return self._reader.end_position()

    def wait(self, *, after: int, timeout: float) -> bool:
        """Whether there is an event after this position, waiting for one until the time is over."""
        end = time.monotonic() + timeout
        while True:
            wakes = self.database.wake_count()
            if self.last_position() > after:
                return True
            left = end - time.monotonic()
            if left <= 0:
                return False
            self.database.wait(left, wakes)

    def lineage(self, session: Session) -> list[Segment]:
        return sessions.lineage(self.database, session)

    def children(self, session: Session, reach: Parameters = EVERYWHERE) -> list[tuple[str, int]]:
        return sessions.children(self.database, session, reach)

    def is_reached(self, project: int, reach: Parameters) -> bool:
        """Whether any session of a project is in reach."""
        with self.database.read() as tx:
            return bool(tx.run("project_reached", project=project, **reach))

    # Cursors ----------------------------------------------------------------------------------------------------------

    def cursor(self, name: str) -> int:
        """The position a reader of this name has come to; 0 for a new one."""
        with self.database.read() as tx:
            rows = tx.run("cursor_read", name=name)
            return int(rows[0][0]) if rows else 0

    def move_cursor(self, name: str, position: int) -> None:
        """Remember how far a reader has come."""
        check_name(name, "the name of a cursor")
        with self.database.write() as tx:
            tx.run("cursor_move", name=name, position=position)

    # Blobs ------------------------------------------------------------------------------------------------------------

    def save_blob(self, data: bytes) -> str:
        return objects.save(self, data)

    def load_blob(self, digest: str) -> bytes:
        return objects.load(self, digest)

    def collect_blobs(self, *, grace_us: int = objects.GRACE_US) -> tuple[int, int]:
        return objects.collect(self, grace_us=grace_us)

    def blob_in(self, tx: Transaction, digest: bytes) -> bytes:
        return objects.load_in(tx, self.blobs, digest)

    def plan(self, tx: Transaction, session: Session) -> Plan:
        return opening.plan_in(tx, session)

    def head_in(self, tx: Transaction, session: Session) -> Head:
        return sessions.head_in(tx, session)
