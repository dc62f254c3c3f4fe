"""Keeping the views in step with the log.

Nobody who appends waits for a view: whoever reads one first brings it up to date, and whoever appends much (a capture,
a watcher) does so on the side. Each step takes some events in one transaction, together with how far it has come, so
that a process that dies in between loses nothing and the next goes on from there.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module

import msgspec

from clew.model.conversation import REVISION, identity
from clew.model.errors import Damaged, InvalidInput, SchemaNewer, StoreError
from clew.model.events import BodiesPruned, Event, SessionErased
from clew.model.session import Session
from clew.store import Store
from clew.store.derived import (
    DerivedTables,
    Row,
    Transaction,
    open_derived_tables,
    schema_of,
    statement_files,
    table_names,
)
from clew.store.log.feed import end_position, entries, own_events, own_records, session_by_key
from clew.views.contract import Rebuilding, View, is_first

PACKAGE = "clew.views"
# A view is a module and a file of statements with the same name; `views.sql` holds what all of them share.
VIEWS: tuple[type[View], ...] = tuple(
    import_module(f"{PACKAGE}.{file.stem}").VIEW for file in statement_files(PACKAGE) if file.stem != "views"
)
# Each view brings tables of its own, so another view makes another schema.
LAYOUT = 4
SCHEMA = 100 * LAYOUT + len(VIEWS)
VERSION_TABLE = "clew_views"
RECORD = """
DROP TABLE IF EXISTS {version_table};
CREATE TABLE {version_table} (version BIGINT PRIMARY KEY);
INSERT INTO {version_table} (version) VALUES ({version});
"""
# Events in one transaction, and about how long it may take: whoever else takes events in waits for it, and a server
# gives up a transaction that says nothing for seconds.
STEP = 2000
STEP_SECONDS = 1.0

REBUILT = "the views were damaged and have been built again from the log"
OUTDATED = "the views were made by another version of clew and have been built again from the log"


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """How many events were taken in, how many are left, and what a person should be told about it."""

    done: int
    left: int
    notice: str = ""


class Views:
    """The views of one log. Safe to share between threads."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._notice = ""
        self._lock = threading.Lock()
        self._database: DerivedTables | None = None
        # How far all of them have come, as last seen here.
        self._seen = 0

    def close(self) -> None:
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None
            self._seen = 0

    @property
    def database(self) -> DerivedTables:
        """The views' own database, opened and defined on first use."""
        with self._lock:
            if self._database is not None and self._database.was_replaced():
                self._database.close()
                self._database = None
            if self._database is None:
                self._database = self._opened()
            return self._database

    def _opened(self) -> DerivedTables:
        try:
            return self._defined(open_derived_tables(self.store, PACKAGE, VERSION_TABLE))
        except Damaged as error:
            if "place" not in error.details:
                raise  # Not damaged, but another program's.
        self._notice = REBUILT
        return self._defined(open_derived_tables(self.store, PACKAGE, VERSION_TABLE, fresh=True))

    def _defined(self, database: DerivedTables) -> DerivedTables:
        """The database with the tables of this program."""
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
                self._notice = self._notice or (OUTDATED if found else "")
                text = schema_of(PACKAGE, database.dialect)
                if found or not database.remote:
                    # A table that is there before ours were ever made is somebody else's.
                    drops = (f"DROP TABLE IF EXISTS {table};\n" for table in table_names(PACKAGE, database.dialect))
                    text = "".join(drops) + text
                database.apply_schema(text + RECORD.format(version_table=VERSION_TABLE, version=SCHEMA), SCHEMA)
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
        """The views, for reading, as they are.

        When they turn out to be damaged, or somebody else began to build them again, `Rebuilding` asks to look again.
        """
        with self._looking() as tx:
            yield tx
            if min(_reached(tx.run("views")).values()) < self._seen:
                raise Rebuilding("the views are being built again; ask again")

    @contextmanager
    def _looking(self) -> Iterator[Transaction]:
        with self._mending() as database, database.read() as tx:
            yield tx

    @contextmanager
    def _mending(self) -> Iterator[DerivedTables]:
        """The views' database. A damaged one is thrown away, and the next look builds it again."""
        database = self.database
        try:
            yield database
        except StoreError as error:
            if isinstance(error, Rebuilding) or not self._is_thrown_away(database, error):
                raise
            raise Rebuilding(f"{error}; it holds no more than the log does, and is built again from there") from error

    def _is_thrown_away(self, database: DerivedTables, error: StoreError) -> bool:
        """Whether the error was the views' own, so that they begin anew. The log can be damaged, too."""
        with self._lock:
            if self._database is not database:
                return True  # By another thread.
            place = error.details.get("place")
            if place is None or place != database.describe()["place"]:
                return False
            database.close()
            self._database = None
            if not database.was_replaced():
                open_derived_tables(self.store, PACKAGE, VERSION_TABLE, fresh=True).close()
            self._notice = REBUILT
            return True

    # Folding ----------------------------------------------------------------------------------------------------------

    def catch_up(self, *, limit: int | None = None) -> Step:
        """Take in what is new in the log: all of it, or a limited number of events."""
        done = 0
        while True:
            step = self._step_again(STEP if limit is None else min(STEP, limit - done))
            done += step.done
            if not step.left or (limit is not None and done >= limit):
                return Step(done=done, left=step.left)

    def behind(self) -> int:
        """How many positions the views are behind the log."""
        with self._looking() as tx:
            there = _reached(tx.run("views"))
        return max(0, end_position(self.store) - min(there.values()))

    def _step_again(self, most: int) -> Step:
        try:
            return self._step(most)
        except Rebuilding:
            return self._step(most)

    def _step(self, most: int) -> Step:
        with self._looking() as tx:
            reached = _reached(tx.run("views"))
        # Asked for after the views, which are then never further, unless they are another log's.
        last = end_position(self.store)
        if all(position == last for position in reached.values()):
            self._seen = last
            return Step(done=0, left=0)
        with self._mending() as database, database.write() as tx:
            reached = self._begin(tx, database.dialect)
            last = end_position(self.store)
            after = min(reached.values())
            if after >= last:
                self._seen = last
                return Step(done=0, left=0)
            # Views that have come as far as the one that is behind go on with it; the others are further already.
            group = [view for view in VIEWS if reached[view.name] == after]
            upto = min((position for position in reached.values() if position > after), default=last)
            folding = _Folding(tx, group, self.store, database.dialect)
            taken, after = self._take(folding, after=after, upto=upto, most=most)
            for view in group:
                tx.run("view_set", name=view.name, version=view.version, position=after)
        if after == last:
            self._seen = last
        # Positions have gaps on PostgreSQL, so this is about how many are left.
        return Step(done=taken, left=max(0, last - after))

    def _begin(self, tx: Transaction, dialect: str) -> dict[str, int]:
        """How far each view has come; one of another version, or of another log, begins again."""
        tx.run("views_lock")
        there = {name: (version, position) for name, version, position in tx.run("views")}
        last = end_position(self.store)
        reached = {}
        for view in VIEWS:
            version, position = there.get(view.name, (0, 0))
            if version != view.version or position > last:
                if version and version != view.version:
                    self._notice = OUTDATED
                view.clear(tx, dialect)
                position = 0
                tx.run("view_set", name=view.name, version=view.version, position=0)
            reached[view.name] = position
        return reached

    def _take(self, folding: "_Folding", *, after: int, upto: int, most: int) -> tuple[int, int]:
        """Take some events into some views; returns how many, and up to which position all has been seen."""
        taken = 0
        is_cut = False
        end = time.monotonic() + STEP_SECONDS
        for session, event in entries(self.store, after=after, limit=most):
            if event.position > upto:
                break
            folding.take(session, event)
            after, taken = event.position, taken + 1
            is_cut = taken == most or time.monotonic() > end
            if is_cut:
                break
        folding.write()
        return taken, after if is_cut else upto

    def rebuild(self, name: str = "") -> None:
        """Begin again with one view, or with all; `catch_up` does the work."""
        names = [view.name for view in VIEWS]
        if name and name not in names:
            raise InvalidInput(f"no view {name!r}; there are {', '.join(names)}")
        with self._mending() as database, database.write() as tx:
            self._begin(tx, database.dialect)
            for view in VIEWS:
                if name in ("", view.name):
                    view.clear(tx, database.dialect)
                    tx.run("view_set", name=view.name, version=view.version, position=0)

    def purge(self) -> list[str]:
        """Leave no trace of what was dropped from the log; returns what is beyond reach."""
        try:
            with self._looking() as tx:
                is_empty = not any(position for _, _, position in tx.run("views"))
            # Views that nobody has asked for yet are not built now; what was once in them may have left traces.
            if not is_empty:
                self.catch_up()
            with self._mending() as database:
                if database.dialect == "lite":
                    with database.write() as tx:
                        tx.run("words_merge")
                return database.overwrite_free_space()
        except Rebuilding:
            return []  # They are gone, with all that was in them.


def _reached(rows: Sequence[Row]) -> dict[str, int]:
    """How far each view of this program has come."""
    there = {(name, version): position for name, version, position in rows}
    return {view.name: there.get((view.name, view.version), 0) for view in VIEWS}


class _Folding:
    """Some views under way in one transaction.

    What they have taken in is written now and then, so that it need not all be held in memory.
    """

    def __init__(self, tx: Transaction, group: list[type[View]], store: Store, dialect: str) -> None:
        self._store = store
        self._session = _Sessions(store)
        self._make: Callable[[], list[View]] = lambda: [view(tx, self._session, dialect) for view in group]
        self._begin()

    def _begin(self) -> None:
        self._folds = self._make()
        self._due = time.monotonic() + STEP_SECONDS

    def take(self, session: Session, event: Event) -> None:
        """Take in the next event of the log."""
        key = session.key
        if not isinstance(event.body, (SessionErased, BodiesPruned)):
            self._session.learn(session)
            self._add(key, event)
            return
        self._session.forget(key)
        for fold in self._folds:
            fold.forget(key)
        if isinstance(event.body, BodiesPruned):
            for again in own_events(self._store, self._session(key), upto=event.seq):
                self._add(key, again)

    def _add(self, key: int, event: Event) -> None:
        if is_first(event):
            self._session.begin(key)
        for fold in self._folds:
            fold.add(key, event)
        if time.monotonic() > self._due:
            self.write()

    def write(self) -> None:
        """Write what has been taken in."""
        for fold in self._folds:
            fold.finish()
        self._begin()


class _Sessions:
    """What folds ask about sessions, by their keys; what is not known is looked up once for each step."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._found: dict[int, Session] = {}
        self._said: dict[int, set[tuple[str, str]]] = {}

    def __call__(self, key: int) -> Session:
        if key not in self._found:
            self._found[key] = session_by_key(self._store, key)
        return self._found[key]

    def learn(self, session: Session) -> None:
        self._found.setdefault(session.key, session)

    def forget(self, key: int) -> None:
        self._found.pop(key, None)

    def corrects(self, key: int, event: Event) -> bool:
        if not event.source or REVISION not in event.source:
            return False
        said = self._said.get(key)
        if said is None:
            told = own_records(self._store, self(key), before=event.seq)
            said = self._said[key] = {(kind, identity(source)) for kind, source in told if REVISION in source}
        record = event.kind, identity(event.source)
        is_known = record in said
        said.add(record)
        return is_known

    def begin(self, key: int) -> None:
        """The session is read from its first event on."""
        self._said[key] = set()
