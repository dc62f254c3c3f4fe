"""Keeping the views in step with the log.

Nobody who appends waits for a view: whoever reads one first brings it up to date, and whoever appends much (a capture,
a watcher) does so on the side. Each step takes some events in one transaction, together with how far it has come, so
that a process that dies in between loses nothing and the next goes on from there.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from clew.model.errors import Damaged, InvalidInput, SchemaNewer
from clew.model.events import BodiesPruned, Event, SessionErased
from clew.model.session import Session
from clew.store import Store
from clew.store.contract import Database, Transaction
from clew.store.queries import sql
from clew.views.contract import Fold
from clew.views.listing import Listing
from clew.views.passages import Passages
from clew.views.spending import Spending
from clew.views.touched import WorkingSet

VIEWS: tuple[type[Fold], ...] = (Listing, WorkingSet, Spending, Passages)
SCHEMA = 1
LEDGER = "clew_views"
RECORD = """
DROP TABLE IF EXISTS {ledger};
CREATE TABLE {ledger} (version BIGINT PRIMARY KEY);
INSERT INTO {ledger} (version) VALUES ({version});
"""
# Events in one transaction.
STEP = 2000

REBUILT = "the views were damaged and have been built again from the log"


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """How many events were taken in, and how many are left."""

    done: int
    left: int


class Views:
    """The views of one log. Safe to share between threads."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._notice = ""
        self._lock = threading.Lock()
        self._database: Database | None = None

    def close(self) -> None:
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None

    @property
    def database(self) -> Database:
        """The views' own database, opened and defined on first use."""
        with self._lock:
            if self._database is None:
                self._database = self._opened()
            return self._database

    def _opened(self) -> Database:
        log = self.store.database
        try:
            database = log.beside("clew.views", LEDGER)
        except Damaged:
            database, self._notice = log.beside("clew.views", LEDGER, fresh=True), REBUILT
        try:
            found = database.schema_version()
            if found > SCHEMA:
                raise SchemaNewer(
                    f"the views of this log have schema {found}, made by a newer clew; this program knows schemas up "
                    f"to {SCHEMA}: upgrade clew (`pip install -U clew`)",
                    found=found,
                    expected=SCHEMA,
                )
            if found < SCHEMA:
                text = sql("schema.sql", database.dialect, "clew.views")
                database.define(text + RECORD.format(ledger=LEDGER, version=SCHEMA), SCHEMA)
        except BaseException:
            database.close()
            raise
        return database

    def told(self) -> str:
        """What a person should be told about the views, once."""
        notice, self._notice = self._notice, ""
        return notice

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """The views, for reading, as they are. A damaged database is thrown away; the next look builds it again."""
        with self._mending(), self.database.read() as tx:
            yield tx

    @contextmanager
    def _mending(self) -> Iterator[None]:
        try:
            yield
        except Damaged:
            if self.store.database.remote:
                raise
            with self._lock:
                if self._database is not None:
                    with suppress(Damaged):
                        self._database.close()
                self._database = None
                self.store.database.beside("clew.views", LEDGER, fresh=True).close()
                self._notice = REBUILT
            raise

    # Folding ----------------------------------------------------------------------------------------------------------

    def catch_up(self, *, limit: int | None = None) -> Step:
        """Take in what is new in the log: all of it, or a limited number of events."""
        done = 0
        while True:
            with self._mending():
                step = self._step(STEP if limit is None else min(STEP, limit - done))
            done += step.done
            if not step.left or not step.done or (limit is not None and done >= limit):
                return Step(done=done, left=step.left)

    def _step(self, most: int) -> Step:
        last = self.store.last_position()
        with self.database.read() as tx:
            if self._behind(tx.run("views")) >= last:
                return Step(done=0, left=0)
        with self.database.write() as tx:
            reached = self._begin(tx)
            after = min(reached.values())
            if after >= last:
                return Step(done=0, left=0)
            # Views that have come as far as the one that is behind go on with it; the others are further already.
            group = [view for view in VIEWS if reached[view.name] == after]
            upto = min((position for position in reached.values() if position > after), default=last)
            taken, after = self._take(tx, group, after, upto, most)
            for view in group:
                tx.run("view_set", name=view.name, version=view.version, position=after)
        # Positions have gaps on PostgreSQL, so this is about how many are left.
        return Step(done=taken, left=max(0, last - after))

    def _begin(self, tx: Transaction) -> dict[str, int]:
        """How far each view has come; one of another version begins again."""
        there = {name: (version, position) for name, version, position in tx.run("view_lock")}
        reached = {}
        for view in VIEWS:
            version, position = there.get(view.name, (0, 0))
            if version != view.version:
                view.clear(tx, self.database.dialect)
                position = 0
                tx.run("view_set", name=view.name, version=view.version, position=0)
            reached[view.name] = position
        return reached

    def _behind(self, rows: Sequence[Sequence[Any]]) -> int:
        there = {name: position for name, version, position in rows if (name, version) in _CURRENT}
        return min((there.get(view.name, 0) for view in VIEWS), default=0)

    def _take(self, tx: Transaction, group: list[type[Fold]], after: int, upto: int, most: int) -> tuple[int, int]:
        """Take some events into some views; returns how many, and the position of the last."""
        session = _Sessions(self.store)
        folds = [view(tx, session, self.database.dialect) for view in group]
        taken = 0
        for key, event in self.store.entries(after=after, limit=most):
            if event.position > upto:
                # All up to there has been seen.
                after = upto
                break
            after, taken = event.position, taken + 1
            if isinstance(event.body, SessionErased | BodiesPruned):
                session.forget(key)
                for fold in folds:
                    fold.forget(key)
                if isinstance(event.body, BodiesPruned):
                    for again in self.store.own_events(session(key), upto=event.seq):
                        _add(folds, key, again)
            else:
                _add(folds, key, event)
        else:
            after = after if taken == most else upto
        for fold in folds:
            fold.finish()
        return taken, after

    def rebuild(self, name: str = "") -> None:
        """Begin again with one view, or with all; `catch_up` does the work."""
        names = [view.name for view in VIEWS]
        if name and name not in names:
            raise InvalidInput(f"no view {name!r}; there are {', '.join(names)}")
        with self._mending(), self.database.write() as tx:
            self._begin(tx)
            for view in VIEWS:
                if name in ("", view.name):
                    view.clear(tx, self.database.dialect)
                    tx.run("view_set", name=view.name, version=view.version, position=0)

    def purge(self) -> list[str]:
        """Leave no trace of what was dropped from the log; returns what is beyond reach."""
        with self.database.read() as tx:
            if not self._behind(tx.run("views")):
                return []  # Nothing was ever taken in.
        self.catch_up()
        if self.database.dialect == "lite":
            with self.database.write() as tx:
                tx.run("words_merge")
        return self.database.scrub()


_CURRENT = {(view.name, view.version) for view in VIEWS}


def _add(folds: list[Fold], key: int, event: Event) -> None:
    for fold in folds:
        fold.add(key, event)


class _Sessions:
    """Who sessions are, by key, looked up once for each step."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._found: dict[int, Session] = {}

    def __call__(self, key: int) -> Session:
        if key not in self._found:
            self._found[key] = self._store.session_by_key(key)
        return self._found[key]

    def forget(self, key: int) -> None:
        self._found.pop(key, None)
