"""Keeping the views in step: whoever reads brings them up to date, nobody who appends waits, and idleness is free."""

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from clew.model.errors import InvalidInput, SchemaNewer, StoreError
from clew.model.session import Session
from clew.store import Store, open_store
from clew.store.projects import control_log
from clew.views import upkeep
from clew.views.catalog import load_views, versions
from clew.views.contract import Rebuilding
from clew.views.upkeep import POSTGRES_SCHEMA, SCHEMA, VERSION_TABLE, Step, Views
from store.crowd import Crowd, at_once
from store.rows import change, query
from store.words import ADA, opened, say
from support.children import environment
from views.logs import check_against_log, contents, found_by_words

NAMES = list(versions())
ALL = {"before_at": 2**62, "before": 2**62, "limit": 100}


@pytest.fixture
def views(store: Store) -> Iterator[Views]:
    views = Views(store)
    yield views
    views.close()


def talk(store: Store, count: int, *, sessions: int = 3) -> list[Session]:
    """Some sessions with this many messages among them, one after the other."""
    found = [opened(store) for _ in range(sessions)]
    for number in range(count):
        store.append(found[number % sessions], [say(f"message number{number}")], actor=ADA)
    return found


def positions(views: Views) -> dict[str, int]:
    with views.database.read() as tx:
        return {name: position for name, _, position in tx.run("views")}


# Step by step ---------------------------------------------------------------------------------------------------------


def test_views_of_an_empty_log_are_up_to_date(views: Views) -> None:
    assert views.catch_up() == Step(done=0, left=0)
    assert views.lag() == 0


def test_a_step_says_how_much_was_done_and_how_much_is_left(store: Store, views: Views) -> None:
    talk(store, 7)
    assert views.lag() == 10 + least(store)
    assert views.catch_up(limit=4) == Step(done=4, left=6)
    assert views.catch_up(limit=4) == Step(done=4, left=2)
    assert views.lag() == 2
    assert views.catch_up(limit=4) == Step(done=2, left=0)
    assert views.catch_up() == Step(done=0, left=0)
    check_against_log(store, views)


def test_one_call_catches_up_however_much_there_is(store: Store, views: Views, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "STEP", 3)
    talk(store, 20)
    assert views.catch_up() == Step(done=23, left=0)
    check_against_log(store, views)


def test_events_of_the_control_log_are_in_no_view(store: Store, views: Views) -> None:
    store.append(control_log(store, "demo", ADA), [say("who did what")], actor=ADA)
    assert views.catch_up() == Step(done=0, left=0)
    [session] = talk(store, 1, sessions=1)
    store.append(control_log(store, "demo", ADA), [say("who did what")], actor=ADA)
    assert views.catch_up() == Step(done=2, left=0)
    assert [row[0] for row in contents(views)["listing"]] == [session.key]


def test_a_stretch_of_the_control_log_is_passed_over(store: Store, views: Views) -> None:
    """One view stands before it, the others behind it, and more comes after it."""
    [session] = talk(store, 1, sessions=1)
    store.append(control_log(store, "demo", ADA), [say("who did what")], actor=ADA)
    views.catch_up()
    views.rebuild("text")
    assert views.catch_up(limit=2).done == 2
    store.append(session, [say("afterwards")], actor=ADA)
    assert views.catch_up() == Step(done=1, left=0)
    check_against_log(store, views)


@pytest.mark.parametrize("name", ["", *NAMES])
def test_a_view_is_built_again_alone_or_with_all(store: Store, views: Views, name: str) -> None:
    talk(store, 9)
    views.catch_up()
    before = contents(views)
    views.rebuild(name)
    assert positions(views) == {one: 0 if name in ("", one) else 12 + least(store) for one in NAMES}
    assert views.catch_up(limit=5) == Step(done=5, left=7)
    # What comes now is taken in by all of them, the one that is behind when it gets there.
    opened(store)
    while views.catch_up(limit=2).left:
        pass
    check_against_log(store, views)
    for table, rows in before.items():
        assert set(map(str, rows)) <= set(map(str, contents(views)[table]))


def least(store: Store) -> int:
    """The position before the first; a server's database had other logs before."""
    return int(query(store, "SELECT coalesce(min(position), 1) FROM event")[0][0]) - 1


def test_views_at_different_places_come_together(store: Store, views: Views) -> None:
    events = 2 * len(NAMES) + 1
    talk(store, events)
    for number, name in enumerate(NAMES):
        views.rebuild(name)
        views.catch_up(limit=events - 2 * number)
    assert len(set(positions(views).values())) == len(NAMES)
    views.catch_up()
    check_against_log(store, views)


def test_an_unknown_view_is_refused_with_the_names_there_are(views: Views) -> None:
    names = "artifacts, commits, course, files, knowledge, labels, landmarks, points, sessions, text, usage"
    with pytest.raises(InvalidInput, match=f"no view 'everything'; there are {names}"):
        views.rebuild("everything")


# Versions -------------------------------------------------------------------------------------------------------------


def test_the_catalog_has_the_name_and_the_version_that_each_view_declares() -> None:
    assert {view.name: view.version for view in load_views()} == versions()


def test_a_view_of_an_older_version_is_built_again_and_that_is_said_once(
    store: Store, views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk(store, 5)
    views.catch_up()
    before = contents(views)
    monkeypatch.setitem(versions(), "text", versions()["text"] + 1)
    # So that it shows whether it was: a passage too many would stay.
    with views.database.write() as tx:
        tx.run("sessions_clear")
    assert views.catch_up() == Step(done=8, left=0)
    assert views.pop_notice() == upkeep.OUTDATED
    assert views.pop_notice() == ""
    assert contents(views)["passage"] == before["passage"]
    assert contents(views)["listing"] == [], "only the view of another version is built again"
    assert views.catch_up() == Step(done=0, left=0)


def test_two_versions_on_one_log_do_not_clear_each_others_views(
    store_url: str, store: Store, views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk(store, 5)
    views.catch_up()
    with monkeypatch.context() as newer_program:
        newer_program.setitem(versions(), "text", versions()["text"] + 1)
        views.catch_up()
        before = contents(views)
    talk(store, 1)
    with pytest.raises(SchemaNewer, match=r"the view text .* made by a newer clew.* rebuild the views with this one"):
        views.catch_up()
    with monkeypatch.context() as newer_program:
        newer_program.setitem(versions(), "text", versions()["text"] + 1)
        assert contents(views) == before
    views.rebuild()
    views.catch_up()
    check_against_log(store, views)


def test_a_program_that_has_the_views_open_refuses_to_write_those_of_a_newer_one(
    store_url: str, store: Store, views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk(store, 5)
    views.catch_up()
    newer = Views(store)
    with monkeypatch.context() as newer_program:
        newer_program.setattr(upkeep, "SCHEMA", SCHEMA + 1)
        newer.catch_up()
    before = contents(newer)
    talk(store, 1)
    with pytest.raises(SchemaNewer, match="restart it with the newer clew"):
        views.catch_up()
    assert contents(newer) == before
    newer.close()


def test_another_schema_is_made_anew_from_the_log(
    store_url: str, store: Store, views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk(store, 5)
    views.catch_up()
    before = contents(views)
    views.close()
    monkeypatch.setattr(upkeep, "SCHEMA", SCHEMA + 1)
    assert views.catch_up() == Step(done=8, left=0)
    assert contents(views) == before
    assert views.pop_notice() == upkeep.OUTDATED


def test_the_views_of_a_newer_program_are_refused_and_left_alone(
    store_url: str, store: Store, views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk(store, 5)
    views.catch_up()
    before = contents(views)
    views.close()
    newer = SCHEMA + 1 + (POSTGRES_SCHEMA if store.is_remote else 0)
    with views.database.write() as tx:
        tx.connection.execute(f"UPDATE {VERSION_TABLE} SET version = {newer}")  # type: ignore[attr-defined]
    views.close()
    with pytest.raises(SchemaNewer, match=r"made by a newer clew.*upgrade clew"):
        views.catch_up()
    monkeypatch.setattr(upkeep, "SCHEMA", SCHEMA + 1)
    assert contents(views) == before
    assert views.catch_up() == Step(done=0, left=0)


def test_a_table_that_was_there_before_the_views_is_somebody_elses(store_url: str, database: str) -> None:
    """On a server the views share their database with whoever else keeps tables there."""
    with open_store(store_url) as store:
        talk(store, 1)
        if database == "postgres":
            change(store, "CREATE TABLE listing (price TEXT)", "INSERT INTO listing VALUES ('9.99')")
            with pytest.raises(StoreError, match="listing"):
                Views(store).catch_up()
            assert query(store, "SELECT * FROM listing") == [("9.99",)]


# Another log ----------------------------------------------------------------------------------------------------------


def test_views_of_another_log_are_built_again(store: Store, views: Views) -> None:
    """A log was put back from a backup, or begun anew, and its views stayed where they were."""
    [gone, *_] = talk(store, 13)
    views.catch_up()
    change(store, f"DELETE FROM event WHERE session <> {gone.key}", f"DELETE FROM session WHERE key <> {gone.key}")
    change(store, "DELETE FROM event WHERE seq > 2", f"UPDATE head SET head = 2 WHERE session = {gone.key}")
    if store.database.remote:
        change(store, "UPDATE clock SET position = (SELECT max(position) FROM event)")
    views.catch_up()
    check_against_log(store, views)


def test_views_whose_file_was_taken_away_are_built_again_for_all_who_read(tmp_path: Path) -> None:
    """A file that is open stays readable when it is removed; who comes later would open another."""
    with open_store(f"sqlite:///{tmp_path}/clew.db") as store:
        views = Views(store)
        talk(store, 5)
        views.catch_up()
        (tmp_path / "clew-views.db").unlink()
        assert views.catch_up() == Step(done=8, left=0)
        with views.read() as one, views.read() as other:
            assert len(one.run("sessions_page", **ALL)) == len(other.run("sessions_page", **ALL)) == 3
        assert views.pop_notice() == ""
        views.close()


# Idle -----------------------------------------------------------------------------------------------------------------


def test_with_nothing_new_a_file_is_not_written(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/clew.db"
    with open_store(url) as store:
        views = Views(store)
        talk(store, 50)
        views.catch_up()
        seen = apsw.Connection(str(tmp_path / "clew-views.db"))
        before = files(tmp_path), seen.pragma("data_version")
        for _ in range(3):
            assert views.catch_up() == Step(done=0, left=0)
            assert len(found_by_words(views, "number7")["number7"]) == 1
        assert (files(tmp_path), seen.pragma("data_version")) == before
        seen.close()
        views.close()
    # Nor is it by a process that comes and goes.
    before_all = files(tmp_path)
    with open_store(url) as store:
        views = Views(store)
        assert views.catch_up() == Step(done=0, left=0)
        views.close()
    assert files(tmp_path) == before_all


def files(folder: Path) -> dict[str, tuple[bytes, int]]:
    """The files with their bytes and times, without the memory that SQLite's connections share."""
    return {
        path.name: (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.iterdir()
        if path.is_file() and not path.name.endswith("-shm")
    }


def test_with_nothing_new_a_server_has_nothing_to_write(postgres: Any) -> None:
    url = postgres.new_database()
    with open_store(url) as store, psycopg.connect(url, autocommit=True) as connection:
        views = Views(store)
        talk(store, 50)
        views.catch_up()
        used = []
        for _ in range(5):
            before = transactions(connection)
            for _ in range(20):
                assert views.catch_up() == Step(done=0, left=0)
            used.append(transactions(connection) - before)
        views.close()
        # The server itself may do something now and then, but not each time.
        assert min(used) == 0


def transactions(connection: psycopg.Connection) -> int:
    """How many transactions have written something, in the whole server."""
    [(number,)] = connection.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint").fetchall()
    return int(number)


def test_seeing_that_nothing_is_new_costs_the_same_whatever_the_size_of_the_log(tmp_path: Path) -> None:
    costs = []
    for count in (5, 1500):
        with open_store(f"sqlite:///{tmp_path}/{count}.db", synchronous="OFF") as store:
            views = Views(store)
            session = opened(store)
            store.append(session, [say(f"number{n}") for n in range(count)], actor=ADA)
            views.catch_up()
            costs.append(steps_of(store, views))
            views.close()
    assert costs[0] == costs[1] > 0


def steps_of(store: Store, views: Views) -> int:
    """How many steps SQLite makes for a look that finds nothing new."""
    steps: list[int] = []

    def count(event: dict[str, Any]) -> None:
        steps.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"])

    for database in (store.database, views.database):
        with database.read() as tx:
            tx.connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, count)  # type: ignore[attr-defined]
    assert views.catch_up() == Step(done=0, left=0)
    assert steps, "nothing was seen of what it did"
    return sum(steps)


# At the same time -----------------------------------------------------------------------------------------------------


def test_an_append_does_not_wait_for_whoever_takes_events_in(store_url: str) -> None:
    with open_store(store_url) as store, open_store(store_url) as elsewhere:
        [session] = talk(store, 3, sessions=1)
        views = Views(elsewhere)
        views.catch_up()
        with views.database.write() as tx:
            tx.run("views_lock")
            tx.run("sessions_clear")
            [appended] = Crowd([lambda: store.append(session, [say("meanwhile")], actor=ADA)]).outcomes()
            assert appended.seqs == [5]
        views.close()


def test_several_who_catch_up_at_once_take_each_event_in_once(store_url: str) -> None:
    """From the very first event on: nothing has been taken in by anybody yet."""
    with open_store(store_url) as store:
        talk(store, 60)
        stores = [open_store(store_url) for _ in range(4)]
        all_views = [Views(one) for one in stores]
        outcomes = at_once([one.catch_up for one in all_views])
        assert [step.left for step in outcomes] == [0] * 4
        assert sum(step.done for step in outcomes) == 63
        for views in all_views:
            check_against_log(store, views)
            views.close()
        for one in stores:
            one.close()


def test_one_view_shared_by_threads_takes_each_event_in_once(store: Store, views: Views) -> None:
    talk(store, 60)
    outcomes = at_once([views.catch_up] * 4)
    assert sum(step.done for step in outcomes) == 63
    check_against_log(store, views)


def test_what_is_appended_meanwhile_is_neither_skipped_nor_doubled(store_url: str) -> None:
    with open_store(store_url) as store, open_store(store_url) as elsewhere:
        sessions = [opened(store) for _ in range(3)]
        ours, theirs = Views(store), Views(elsewhere)
        writing = Crowd([lambda one=one: write(store, one) for one in sessions])
        reading = Crowd([lambda: follow(ours, writing, 1), lambda: follow(theirs, writing, 2)])
        assert [outcome for outcome in writing.outcomes() + reading.outcomes() if outcome is not None] == []
        ours.catch_up()
        check_against_log(store, ours)
        kept = contents(ours)
        ours.rebuild()
        theirs.catch_up()
        assert contents(ours) == kept
        assert found_by_words(ours, "number39")["number39"] == sorted((one.id, 41) for one in sessions)
        ours.close()
        theirs.close()


def write(store: Store, session: Session) -> None:
    for number in range(40):
        store.append(session, [say(f"number{number}")], actor=ADA)


def follow(views: Views, writing: Crowd, seed: int) -> None:
    chance = random.Random(seed)
    while writing.ended < 3:
        views.catch_up(limit=chance.choice([1, 2, 7, None]))


@pytest.mark.parametrize("whose", ["another program", "another thread"])
def test_views_that_are_begun_anew_meanwhile_are_not_taken_for_whole(store_url: str, whose: str) -> None:
    """Between catching up and reading: what is found then is too little, and says so."""
    with open_store(store_url) as store, open_store(store_url) as elsewhere:
        talk(store, 5)
        ours, theirs = Views(store), Views(elsewhere)
        ours.catch_up()
        (ours if whose == "another thread" else theirs).rebuild("sessions")
        with pytest.raises(Rebuilding, match="are being built again; ask again"), ours.read() as tx:
            assert tx.run("sessions_page", **ALL) == []
        ours.catch_up()
        with ours.read() as tx:
            assert len(tx.run("sessions_page", **ALL)) == 3
        ours.close()
        theirs.close()


# Large bodies ---------------------------------------------------------------------------------------------------------

MEMORY = """
import sys
from clew.store import open_store
from clew.views.upkeep import Views
with open_store(sys.argv[1]) as store:
    views = Views(store)
    print(views.catch_up().done)
    views.close()
# Not getrusage: that keeps the peak of whoever started this process.
print(next(int(line.split()[1]) // 1024 for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def test_five_hundred_bodies_of_a_megabyte_are_not_held_in_memory(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/clew.db"
    chance = random.Random(1)
    vocabulary = [f"{chance.getrandbits(32):x}" for _ in range(5000)]
    text = " ".join(chance.choices(vocabulary, k=120_000))
    with open_store(url, synchronous="OFF") as store:
        session = opened(store)
        store.append(session, [say(text)], actor=ADA)
        # The same event five hundred times, behind the log's back: appending them takes longer than all the rest.
        columns = "project, session, kind, version, at, said_at, actor, source, digest, body, blob, seal"
        change(
            store,
            "WITH RECURSIVE n (n) AS (SELECT 3 UNION ALL SELECT n + 1 FROM n WHERE n < 501) "
            f"INSERT INTO event (position, seq, {columns}) SELECT n, n, {columns} FROM n, event WHERE seq = 2",
        )
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, url], capture_output=True, text=True, check=True, env=environment()
    )
    taken, peak = map(int, done.stdout.split())
    assert taken == 501
    assert peak < 150, f"{peak} MB"
