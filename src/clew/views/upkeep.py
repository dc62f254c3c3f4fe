"""Keep the views up to date with the log.

An append never waits for a view. A reader updates the views before it reads, and a capture updates them as it goes.
Each step folds some events and stores its position in the same transaction, so a crash loses nothing and the next
process continues from the stored position.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, cast

import msgspec

from clew.model.errors import Damaged, InvalidInput, SchemaNewer, StoreError
from clew.store import Store
from clew.store.derived import (
    EVERY_PROJECT,
    DerivedTables,
    Row,
    Transaction,
    open_derived_tables,
    schema_of,
    table_names,
)
from clew.store.log.feed import end_position
from clew.views.catalog import PACKAGE, load_views, versions
from clew.views.contract import Rebuilding

# Each view brings tables of its own, so another view makes another schema.
LAYOUT = 8
SCHEMA = 100 * LAYOUT + len(versions())
# On PostgreSQL each row also has its project, for row-level security.
POSTGRES_SCHEMA = 100
VERSION_TABLE = "clew_views"
RECORD = """
DROP TABLE IF EXISTS {version_table};
CREATE TABLE {version_table} (version BIGINT PRIMARY KEY);
INSERT INTO {version_table} (version) VALUES ({version});
"""
# How many events one transaction folds at the most; `folding.STEP_SECONDS` limits its time.
STEP = 2000

REBUILT = "the views were damaged and have been built again from the log"
OUTDATED = "the views were made by another version of clew and have been built again from the log"


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """How many events were folded, about how many are left, and a notice for the user."""

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
        # The position that all views have reached, as this object last saw it.
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
                raise  # The file is not damaged: another program made it.
        self._notice = REBUILT
        return self._defined(open_derived_tables(self.store, PACKAGE, VERSION_TABLE, fresh=True))

    def _defined(self, database: DerivedTables) -> DerivedTables:
        """The database with the tables of this program."""
        try:
            version = database.schema_version()
            known = SCHEMA + (POSTGRES_SCHEMA if database.remote else 0)
            if version > known:
                raise SchemaNewer(
                    f"the views of this log have schema {version}, made by a newer clew; this program knows schemas up "
                    f"to {known}: upgrade clew (`pip install -U clew`)",
                    found=version,
                    expected=known,
                )
            if version < known:
                self._notice = self._notice or (OUTDATED if version else "")
                text = schema_of(PACKAGE, database.dialect)
                if version or not database.remote:
                    # A remote database without our version table may hold somebody else's table of this name.
                    # Functions read the tables of PostgreSQL, and go with them.
                    drop = "DROP TABLE IF EXISTS {table}" + (" CASCADE;\n" if database.remote else ";\n")
                    drops = (drop.format(table=table) for table in table_names(PACKAGE, database.dialect))
                    text = "".join(drops) + text
                database.apply_schema(text + RECORD.format(version_table=VERSION_TABLE, version=known), known)
            database.fence(known)
        except BaseException:
            database.close()
            raise
        return database

    def pop_notice(self) -> str:
        """The notice for the user, for example about a rebuild; each is returned once."""
        notice, self._notice = self._notice, ""
        return notice

    def restricted_to(self, projects: str) -> "Views":
        """The same views, reading through row-level security: keys of projects, or `*` for all."""
        return self if projects == EVERY_PROJECT else cast(Views, _Restricted(self, projects))

    @contextmanager
    def read(self, projects: str = EVERY_PROJECT) -> Iterator[Transaction]:
        """A read transaction on the views as they are.

        It raises `Rebuilding` when the views are damaged or another process started a rebuild; the caller retries.
        """
        with self._reading(projects) as tx:
            yield tx
            if min(_reached(tx.run("views")).values()) < self._seen:
                raise Rebuilding("the views are being built again; ask again")

    @contextmanager
    def _reading(self, projects: str = EVERY_PROJECT) -> Iterator[Transaction]:
        with self._recovering() as database, database.restricted_to_projects(projects).read() as tx:
            yield tx

    @contextmanager
    def _recovering(self) -> Iterator[DerivedTables]:
        """The views' database. A damaged one is deleted, and the next read rebuilds it."""
        database = self.database
        try:
            yield database
        except StoreError as error:
            if isinstance(error, Rebuilding) or not self._deletes_damaged(database, error):
                raise
            raise Rebuilding(f"{error}; every row comes from the log, and the views are rebuilt from it") from error

    def _deletes_damaged(self, database: DerivedTables, error: StoreError) -> bool:
        """Delete the views if the error is about their file and not the log's; returns whether they were deleted."""
        with self._lock:
            if self._database is not database:
                return True  # By another thread.
            damaged_file = error.details.get("place")
            if damaged_file is None or damaged_file != database.describe()["place"]:
                return False
            database.close()
            self._database = None
            if not database.was_replaced():
                open_derived_tables(self.store, PACKAGE, VERSION_TABLE, fresh=True).close()
            self._notice = REBUILT
            return True

    # Folding ----------------------------------------------------------------------------------------------------------

    def catch_up(self, *, limit: int | None = None) -> Step:
        """Fold the new events of the log: all of them, or at most `limit`."""
        done = 0
        while True:
            step = self._step_again(STEP if limit is None else min(STEP, limit - done))
            done += step.done
            if not step.left or (limit is not None and done >= limit):
                return Step(done=done, left=step.left)

    def lag(self) -> int:
        """By how many positions the views lag behind the log."""
        with self._reading() as tx:
            reached = _reached(tx.run("views"))
        return max(0, end_position(self.store) - min(reached.values()))

    def _step_again(self, most: int) -> Step:
        try:
            return self._step(most)
        except Rebuilding:
            return self._step(most)

    def _step(self, most: int) -> Step:
        with self._reading() as tx:
            reached = _reached(tx.run("views"))
        # Read after the views' positions: a view beyond this position was built from another log.
        last = end_position(self.store)
        if all(position == last for position in reached.values()):
            self._seen = last
            return Step(done=0, left=0)
        from clew.views.folding import Folding  # Views that are up to date need no fold.

        with self._recovering() as database, database.write() as tx:
            reached = self._begin(tx, database.dialect)
            last = end_position(self.store)
            after = min(reached.values())
            if after >= last:
                self._seen = last
                return Step(done=0, left=0)
            # The views at the lowest position advance together, up to the position of the next view.
            group = [view for view in load_views() if reached[view.name] == after]
            upto = min((position for position in reached.values() if position > after), default=last)
            folding = Folding(tx, group, self.store, database.dialect)
            done, after = folding.fold(after=after, upto=upto, most=most)
            for view in group:
                tx.run("view_set", name=view.name, version=versions()[view.name], position=after)
        if after == last:
            self._seen = last
        # Positions have gaps on PostgreSQL, so `left` is an estimate.
        return Step(done=done, left=max(0, last - after))

    def _begin(self, tx: Transaction, dialect: str, *, clears_newer: bool = False) -> dict[str, int]:
        """The position of each view; a view of an older version or of another log is cleared and starts at 0."""
        tx.run("views_lock")
        stored = {name: (version, position) for name, version, position in tx.run("views")}
        last = end_position(self.store)
        reached = {}
        for view in load_views():
            known = versions()[view.name]
            version, position = stored.get(view.name, (0, 0))
            if version > known and not clears_newer:
                # Two programs that each clear the other's view would build it again for ever.
                raise SchemaNewer(
                    f"the view {view.name} of this log has version {version}, made by a newer clew; this program makes "
                    f"version {known}: use the newer clew, or rebuild the views with this one",
                    found=version,
                    expected=known,
                )
            if version != known or position > last:
                if version and version != known:
                    self._notice = OUTDATED
                view.clear(tx, dialect)
                position = 0
                tx.run("view_set", name=view.name, version=known, position=0)
            reached[view.name] = position
        return reached

    def rebuild(self, name: str = "") -> None:
        """Clear one view, or all; `catch_up` then rebuilds them."""
        if name and name not in versions():
            raise InvalidInput(f"no view {name!r}; there are {', '.join(versions())}")
        with self._recovering() as database, database.write() as tx:
            self._begin(tx, database.dialect, clears_newer=True)
            for view in load_views():
                if name in ("", view.name):
                    view.clear(tx, database.dialect)
                    tx.run("view_set", name=view.name, version=versions()[view.name], position=0)

    def merge(self) -> None:
        """Merge the text index anew, where the database does not do so by itself."""
        with self._recovering() as database:
            if database.dialect == "lite":
                with database.write() as tx:
                    tx.run("words_merge")

    def purge(self) -> list[str]:
        """Remove all traces of erased events from the views' files; returns the traces that clew cannot remove."""
        try:
            with self._reading() as tx:
                is_empty = not any(position for _, _, position in tx.run("views"))
            # Views that were never read are not built now, but free space is overwritten either way.
            if not is_empty:
                self.catch_up()
            self.merge()
            with self._recovering() as database:
                return database.overwrite_free_space()
        except Rebuilding:
            return []  # The damaged views were deleted, with everything in them.


class _Restricted:
    """The views, of which reads see only some projects. Everything else is delegated to the views."""

    def __init__(self, views: Views, projects: str) -> None:
        self._views = views
        self._projects = projects

    def read(self) -> AbstractContextManager[Transaction]:
        return self._views.read(self._projects)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._views, name)


def _reached(rows: Sequence[Row]) -> dict[str, int]:
    """The position of each view of this program; 0 for one that is missing or has another version."""
    stored = {(name, version): position for name, version, position in rows}
    return {name: stored.get((name, version), 0) for name, version in versions().items()}
