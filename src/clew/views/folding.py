"""Fold events into views: one step of an update, in one transaction, with the session lookups that the folds share."""

import time
from collections.abc import Callable, Sequence

from clew.model.course import Following, Places, Records
from clew.model.events import AnyBody, BodiesPruned, Event, Rewound, SessionErased
from clew.model.session import Session
from clew.model.source import REVISION, identity
from clew.store import Store
from clew.store.derived import Transaction
from clew.store.log.feed import entries, inherited_events, own_events, own_records, session_by_key
from clew.views.contract import View, is_first

# The limit of one transaction: other processes that update the views wait for it, and PostgreSQL ends a transaction
# that is idle for seconds.
STEP_SECONDS = 1.0


class Folding:
    """Folds some events into some views in one transaction.

    While it folds a pruned session again it writes the changed rows about once a second, so memory stays bounded.
    """

    def __init__(self, tx: Transaction, group: Sequence[type[View]], store: Store, dialect: str) -> None:
        self._store = store
        self._session = _Sessions(store)
        self._make: Callable[[], list[View]] = lambda: [view(tx, self._session, dialect) for view in group]
        self._begin()

    def _begin(self) -> None:
        self._folds = self._make()
        self._adds: dict[type[AnyBody], list[Callable[[int, Event], None]]] = {}
        self._due = time.monotonic() + STEP_SECONDS

    def fold(self, *, after: int, upto: int, most: int) -> tuple[int, int]:
        """Fold some events of the log; returns their number and the position that is now complete."""
        done = 0
        is_cut = False
        end = time.monotonic() + STEP_SECONDS
        for session, event in entries(self._store, after=after, limit=most):
            if event.position > upto:
                break
            self._take(session, event)
            after, done = event.position, done + 1
            is_cut = done == most or time.monotonic() > end
            if is_cut:
                break
        self._write()
        return done, after if is_cut else upto

    def _take(self, session: Session, event: Event) -> None:
        """Fold the next event of the log."""
        key = session.key
        if not isinstance(event.body, (SessionErased, BodiesPruned)):
            self._session.learn(session)
            self._add(key, event)
            return
        self._session.forget(key)
        for fold in self._folds:
            fold.forget(key)
        if isinstance(event.body, BodiesPruned):
            for earlier in own_events(self._store, self._session(key), upto=event.seq):
                self._add(key, earlier)
                if time.monotonic() > self._due:
                    self._write()

    def _add(self, key: int, event: Event) -> None:
        if is_first(event):
            self._session.begin(key)
        body = event.body.__class__
        adds = self._adds.get(body)
        if adds is None:
            folds = (fold for fold in self._folds if fold.bodies is None or issubclass(body, fold.bodies))
            adds = self._adds[body] = [fold.add for fold in folds]
        for add in adds:
            add(key, event)

    def _write(self) -> None:
        """Write the changed rows."""
        for fold in self._folds:
            fold.finish()
        self._begin()


class _Sessions:
    """Session lookups for folds; each session is read from the store once per step."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._by_key: dict[int, Session] = {}
        self._records: dict[int, set[tuple[str, str]]] = {}
        self._places: dict[int, _LazyPlaces] = {}
        self._following: dict[int, Following] = {}

    def __call__(self, key: int) -> Session:
        if key not in self._by_key:
            self._by_key[key] = session_by_key(self._store, key)
        return self._by_key[key]

    def learn(self, session: Session) -> None:
        self._by_key.setdefault(session.key, session)

    def forget(self, key: int) -> None:
        self._by_key.pop(key, None)

    def corrects(self, key: int, event: Event) -> bool:
        if not event.source or REVISION not in event.source:
            return False
        records = self._records.get(key)
        if records is None:
            earlier = own_records(self._store, self(key), before=event.seq)
            records = self._records[key] = {
                (record.kind, identity(record.source)) for record in earlier if REVISION in record.source
            }
        record = event.kind, identity(event.source)
        is_revision = record in records
        records.add(record)
        return is_revision

    def places(self, key: int, event: Event) -> Places:
        places = self._places.get(key)
        if places is None:
            places = self._places[key] = _LazyPlaces(self._store, self(key), self._inherited)
        places.before = event.seq
        return places

    def inherited_call(self, key: int, id: str) -> int:
        return self._inherited(self(key)).open_call(id)

    def _inherited(self, session: Session) -> Following:
        """What a fork inherited, read once per step and only if an event of the fork goes back to it."""
        if session.key not in self._following:
            following = self._following[session.key] = Following()
            for event in inherited_events(self._store, session):
                following.add(event)
        return self._following[session.key]

    def begin(self, key: int) -> None:
        """Note that the fold starts at the session's first event, so no earlier record exists."""
        self._records[key] = set()
        self._places[key] = _LazyPlaces(self._store, self(key), self._inherited, is_known=True)


class _LazyPlaces(Places):
    """The places of the records of one session. Its earlier records are read only if an event goes back to one."""

    def __init__(
        self, store: Store, session: Session, inherited: Callable[[Session], Following], *, is_known: bool = False
    ) -> None:
        self.before = 0
        self._store = store
        self._session = session
        self._records = Records(lambda: inherited(session).records if session.parent else None)
        self._is_known = is_known

    def add(self, source: str | None, seq: int) -> int:
        if not self._is_known and not (source and REVISION in source):
            return 0
        return self._known().add(source, seq)

    def last(self, record: str) -> int | None:
        return self._known().last(record)

    def _known(self) -> Records:
        if not self._is_known:
            self._is_known = True
            for record in own_records(self._store, self._session, before=self.before):
                if record.kind != Rewound.kind:
                    self._records.add(record.source, record.seq)
        return self._records
