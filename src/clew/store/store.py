"""The opened store: the log over a database and the pack stores of its objects. log/contract.py states its promises."""

import copy
import time
from collections.abc import Iterable, Iterator, Sequence

from clew.model.events import Draft, Event
from clew.model.lineage import Segment
from clew.model.session import Head, Session
from clew.store.database.contract import EVERY_PROJECT, Database, Mark
from clew.store.log import opening as openings
from clew.store.log import sessions
from clew.store.log.appending import Appender
from clew.store.log.contract import EventLog
from clew.store.log.opening import Forking, Opening
from clew.store.log.plan import Appended, Request
from clew.store.log.problems import Verified
from clew.store.log.reading import Reader
from clew.store.log.rows import EVERYTHING, Child, Listed
from clew.store.log.writing import write
from clew.store.objects.pack_store import PackStores
from clew.store.reach import EVERYWHERE, ReachParameters


class Store(EventLog):
    """The log, and what every function beside the log takes: the database is for the modules of the store alone."""

    def __init__(self, database: Database, pack_stores: PackStores) -> None:
        self.database = database
        self.pack_stores = pack_stores
        self.projects = EVERY_PROJECT
        """The keys of the projects that row-level security shows in reads, separated by commas; `*` is all."""
        self.unrestricted = self
        """The same store without that restriction, for rows that belong to no project: its caller rules on each."""
        self._appender = Appender(database, pack_stores)
        self._reader = Reader(database, pack_stores)

    def restricted_to(self, projects: str) -> "Store":
        """The same store, reading through the database's row-level security: keys of projects, or `*` for all."""
        restricted = copy.copy(self)
        restricted.projects = projects
        restricted.database = self.database.restricted_to_projects(projects)
        restricted._reader = Reader(restricted.database, self.pack_stores)
        return restricted

    @property
    def is_remote(self) -> bool:
        """Whether the database runs elsewhere, so that a commit is a round trip and its outcome can stay unknown."""
        return self.database.remote

    def now(self) -> int:
        """About what the database's clock shows, in microseconds. No lease is decided by this."""
        return self.database.now()

    def close(self) -> None:
        self.database.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The log ----------------------------------------------------------------------------------------------------------

    def open(self, opening: Opening | Forking, *, actor: str) -> Session:
        openings.check(opening, actor)
        with self.database.write() as tx:
            plan = openings.open_in(tx, opening, actor)
            write(tx, [plan], self.pack_stores)
        return plan.session

    def session(self, prefix: str, reach: ReachParameters = EVERYWHERE) -> Session:
        return sessions.session_by_prefix(self.database, prefix, reach)

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
        if keys is not None:
            return sessions.sessions_with(self.database, keys)
        return sessions.list_sessions(
            self.database, project=project, agent=agent, state=state, before=before, limit=limit
        )

    def head(self, session: Session) -> Head:
        with self.database.read() as tx:
            return sessions.head_in(tx, session)

    def append(
        self,
        session: Session,
        drafts: Iterable[Draft],
        *,
        actor: str = "",
        expect: int | None = None,
        lease: int | None = None,
    ) -> Appended:
        request = self._appender.prepare(session, drafts, actor=actor, expect=expect, lease=lease)
        return self._appender.append(request)

    def prepare(
        self,
        session: Session,
        drafts: Iterable[Draft],
        *,
        actor: str = "",
        expect: int | None = None,
        lease: int | None = None,
    ) -> Request:
        return self._appender.prepare(session, drafts, actor=actor, expect=expect, lease=lease)

    def commit(self, requests: Sequence[Request]) -> None:
        self._appender.commit(requests)

    def read(
        self,
        session: Session,
        *,
        after: int = 0,
        upto: int | None = None,
        kinds: Iterable[str] | None = None,
        limit: int = EVERYTHING,
    ) -> Iterator[Event]:
        if kinds is not None:
            return self._reader.read_kinds(session, tuple(kinds), after=after, upto=upto, limit=limit)
        return self._reader.read(session, after=after, upto=upto, limit=limit)

    def tail(
        self, *, after: int = 0, project: str = "", limit: int = EVERYTHING, reach: ReachParameters = EVERYWHERE
    ) -> Iterator[Event]:
        return self._reader.tail(after=after, project=project, limit=limit, reach=reach)

    def last_position(self) -> int:
        return self._reader.last_position()

    def wait(self, *, after: int, timeout: float) -> bool:
        end = time.monotonic() + timeout
        while True:
            mark = self.database.mark()
            if self.last_position() > after:
                return True
            left = end - time.monotonic()
            if left <= 0:
                return False
            self.database.wait(left, mark)

    def mark(self) -> Mark:
        """What has been seen of commits so far; `wait_for_commit` takes it."""
        return self.database.mark()

    def wait_for_commit(self, *, since: Mark, timeout: float) -> None:
        """Wait until anything may have been committed after the mark, an event or a row beside the log."""
        self.database.wait(timeout, since)

    def wake(self) -> None:
        """End every wait of this process now."""
        self.database.wake()

    def lineage(self, session: Session) -> list[Segment]:
        return sessions.lineage(self.database, session)

    def children(self, session: Session, reach: ReachParameters = EVERYWHERE) -> list[Child]:
        return sessions.children(self.database, session, reach)

    def verify(self, session: Session) -> Verified:
        from clew.store.log.verify import verify  # Seldom asked for, and not needed to append.

        return verify(self, session)
