"""Reading: by range through forks of forks, by position across sessions, and waiting for more."""

import itertools
import os
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from clew.model.errors import AmbiguousId, ClewError, InvalidInput, NotFound
from clew.model.events import Draft, OperationCalled, SessionClosed
from clew.model.session import Session
from clew.store import Store, open_store
from clew.store.cursors import move_cursor, read_cursor
from clew.store.log.opening import Forking
from clew.store.projects import control_log
from store.crowd import Crowd, at_once, await_
from store.rows import unchanged
from store.words import ADA, kinds, learn, messages, opened, say, seqs

ROUNDS = 20
PATIENCE_SECONDS = 30.0


# One session ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def grandchild(store: Store, session: Session) -> Session:
    """Twelve events in three segments: 1-4 of a session, 5-8 of its fork, 9-12 of the fork's fork."""
    store.append(session, [say(f"root {seq}") for seq in (2, 3, 4, 5, 6)])
    child = store.open(Forking(parent=session, at=4), actor=ADA)
    store.append(child, [say(f"child {seq}") for seq in (6, 7, 8, 9)])
    grandchild = store.open(Forking(parent=child, at=8), actor=ADA)
    store.append(grandchild, [say(f"grandchild {seq}") for seq in (10, 11, 12)])
    store.append(child, [say("child later")])
    return grandchild


def test_a_fork_of_a_fork_reads_through_its_ancestors(store: Store, session: Session, grandchild: Session) -> None:
    events = list(store.read(grandchild))
    assert seqs(events) == list(range(1, 13))
    assert messages(events) == [
        *("root 2", "root 3", "root 4", "child 6", "child 7", "child 8"),
        *("grandchild 10", "grandchild 11", "grandchild 12"),
    ]
    assert [event.session for event in events] == [session.id] * 4 + [grandchild.parent] * 4 + [grandchild.id] * 4


def test_every_range_and_limit_is_a_slice_of_the_whole(store: Store, grandchild: Session) -> None:
    whole = list(store.read(grandchild))
    edges = (0, 1, 4, 5, 8, 9, 12, 20)
    for after, upto, limit in itertools.product(edges, (*edges, None), (0, 1, 3, 5, 100)):
        end = len(whole) if upto is None else upto
        assert list(store.read(grandchild, after=after, upto=upto, limit=limit)) == whole[after:end][:limit]


def test_kinds_are_read_in_order_through_ancestors(store: Store, session: Session) -> None:
    store.append(session, [learn("a"), say("no"), learn("b"), say("later")])
    child = store.open(Forking(parent=session, at=4), actor=ADA)
    store.append(child, [say("no"), learn("c"), Draft(body=SessionClosed())])
    found = list(store.read(child, kinds=["session_closed", "fact_learned"]))
    assert (seqs(found), kinds(found)) == ([2, 4, 7, 8], ["fact_learned"] * 3 + ["session_closed"])
    assert seqs(list(store.read(child, kinds=["fact_learned"], upto=4))) == [2, 4]


# All sessions ---------------------------------------------------------------------------------------------------------


def test_a_tail_shows_every_session_in_the_order_of_the_commits(store: Store, session: Session) -> None:
    other = opened(store, project="another")
    for number in range(3):
        store.append(session, [say(f"a{number}")])
        store.append(other, [say(f"b{number}"), say(f"c{number}")])
    events = list(store.tail())
    assert messages(events) == ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2"]
    positions = [event.position for event in events]
    assert positions == sorted(set(positions))
    assert positions[-1] == store.last_position()


def test_a_tail_in_pages_is_the_tail(store: Store, session: Session) -> None:
    store.append(session, [say(str(number)) for number in range(10)])
    pages, after = [], 0
    while page := list(store.tail(after=after, limit=3)):
        assert len(page) <= 3
        pages += page
        after = page[-1].position
    assert pages == list(store.tail())


def test_a_tail_of_a_project_shows_only_that(store: Store, session: Session) -> None:
    other = opened(store, project="another")
    store.append(other, [say("theirs")])
    store.append(session, [say("ours")])
    assert messages(list(store.tail(project="demo"))) == ["ours"]
    assert messages(list(store.tail(project="another"))) == ["theirs"]
    assert list(store.tail(project="unknown")) == []


def test_a_tail_is_empty_beyond_the_end(store: Store, session: Session) -> None:
    assert list(store.tail(after=store.last_position())) == []
    assert list(store.tail(after=2**70)) == []


def test_a_follower_of_the_tail_misses_nothing_of_many_writers(store: Store, session: Session, store_url: str) -> None:
    with open_store(store_url) as elsewhere:
        sessions = [session, opened(store), opened(store, project="another")]
        found, done = [], threading.Event()

        def follow() -> None:
            after = 0
            while not done.is_set() or store.last_position() > after:
                for event in store.tail(after=after, limit=7):
                    found.append((event.session, event.seq))
                    after = event.position

        def write(log: Store, one: Session, writer: int) -> None:
            for number in range(ROUNDS):
                log.append(one, [say(f"{writer} {number}")] * (1 + number % 3))

        def write_all() -> None:
            try:
                logs = itertools.product((store, elsewhere), sessions)
                outcomes = at_once([partial(write, log, one, number) for number, (log, one) in enumerate(logs)])
                assert outcomes == [None] * 6
            finally:
                done.set()

        assert at_once([follow, write_all]) == [None, None]
        assert sorted(found) == sorted(
            (session.id, seq) for session in sessions for seq in seqs(list(store.read(session)))
        )


# Waiting --------------------------------------------------------------------------------------------------------------


def test_waiting_is_over_at_once_when_there_is_more(store: Store, session: Session) -> None:
    assert store.wait(after=0, timeout=0)


def test_waiting_gives_up_when_nothing_comes(store: Store, session: Session) -> None:
    assert not store.wait(after=store.last_position(), timeout=0.05)


@pytest.mark.parametrize("where", ["another thread", "another process's store"])
def test_waiting_ends_with_an_append_of(store: Store, session: Session, store_url: str, where: str) -> None:
    """Two writers take turns, each waiting for the other: one missed wake-up and a turn is over too late."""
    with open_store(store_url) as elsewhere:
        logs = (store, elsewhere if where == "another process's store" else store)
        start = store.last_position()

        def take_turns(own: int) -> None:
            for turn in range(2 * ROUNDS):
                if turn % 2 == own:
                    logs[own].append(session, [say(f"turn {turn}")])
                else:
                    assert logs[own].wait(after=start + turn, timeout=PATIENCE_SECONDS), "nobody woke the waiting"

        assert at_once([lambda: take_turns(0), lambda: take_turns(1)]) == [None, None]
        assert messages(list(store.read(session))) == [f"turn {turn}" for turn in range(2 * ROUNDS)]


@pytest.mark.parametrize("database", ["sqlite"])
def test_a_wait_ends_when_a_commit_could_have_left_no_trace(store: Store, session: Session, tmp_path: Path) -> None:
    """Two commits within a tick of the kernel's clock can leave a file of the same size and time."""
    file = tmp_path / "clew.db-wal"
    mark = store.mark()
    while not mark[-1]:
        os.utime(file)
        mark = store.mark()
    changed_at = file.stat().st_mtime_ns
    await_(lambda: time.time_ns() - changed_at > 200_000_000)
    waiting = Crowd([lambda: store.wait_for_commit(since=mark, timeout=10 * PATIENCE_SECONDS)])
    assert waiting.outcomes() == [None]


def test_waiting_does_not_end_for_what_a_tail_never_shows(store: Store, session: Session) -> None:
    """Otherwise a follower that waits and then reads the tail would turn without rest."""
    after = list(store.tail())[-1].position
    control = control_log(store, "demo", ADA)
    store.append(control, [Draft(body=OperationCalled(operation="verify"))])
    assert list(store.tail(after=after)) == []
    assert not store.wait(after=after, timeout=0.05)


# Cursors --------------------------------------------------------------------------------------------------------------


def test_a_cursor_starts_at_nothing_and_remembers_where_it_was_moved(store_url: str) -> None:
    with open_store(store_url) as store:
        assert read_cursor(store, "indexer") == 0
        move_cursor(store, "indexer", 7)
        move_cursor(store, "indexer", 9)
        move_cursor(store, "other", 3)
    with open_store(store_url) as store:
        assert (read_cursor(store, "indexer"), read_cursor(store, "other"), read_cursor(store, "new")) == (9, 3, 0)


# Finding sessions -----------------------------------------------------------------------------------------------------


def test_a_unique_beginning_names_a_session(store: Store) -> None:
    one, two = opened(store, id="abc" + "0" * 17), opened(store, id="abd" + "0" * 17)
    assert store.session("abc") == one
    assert store.session("abd000") == two
    assert store.session(one.id) == one
    assert store.session(f"  {one.id.upper()}\n") == one


def test_an_ambiguous_beginning_names_the_candidates(store: Store) -> None:
    ids = [opened(store, id="abc" + digit * 17).id for digit in "0123456789"]
    with pytest.raises(AmbiguousId) as refusal:
        store.session("abc")
    candidates = refusal.value.details["candidates"]
    assert len(candidates) >= 2
    assert set(candidates) <= set(ids)


def test_a_whole_id_is_never_ambiguous(store: Store) -> None:
    short, _ = opened(store, id="abc"), opened(store, id="abcd")
    assert store.session("abc") == short


def test_an_unknown_beginning_is_not_found(store: Store, session: Session) -> None:
    other = "0" if session.id[0] != "0" else "1"
    with pytest.raises(NotFound) as refusal:
        store.session(other * 20)
    assert not isinstance(refusal.value, AmbiguousId)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "%",
        "_",
        "abc%",
        "'; DROP TABLE event; --",
        "a" * 21,
        "a\x00b",
        "\ud800",
        "é",
        "🙂",
        "l",
        "-1",
        "../x",
        "~",
    ],
)
def test_text_that_is_no_id_is_refused_before_any_query(store: Store, session: Session, text: str) -> None:
    with unchanged(store), pytest.raises(InvalidInput):
        store.session(text)


def test_an_id_is_given_once(store: Store) -> None:
    opened(store, id="abc" + "0" * 17)
    with unchanged(store), pytest.raises(ClewError):
        opened(store, id="abc" + "0" * 17)


def test_sessions_are_listed_newest_first_in_pages(store: Store) -> None:
    ids = [opened(store).id for _ in range(7)]
    found: list[str] = []
    before = None
    while page := store.sessions(before=before, limit=3):
        found += [listed.session.id for listed in page]
        before = page[-1].session
    assert found == ids[::-1]


def test_sessions_are_listed_by_project_agent_and_state(store: Store) -> None:
    a, b = opened(store, agent="x"), opened(store, agent="y")
    c = opened(store, project="another", agent="x")
    store.append(b, [Draft(body=SessionClosed())])

    def found(**filters: str) -> set[str]:
        return {listed.session.id for listed in store.sessions(**filters)}  # type: ignore[arg-type]

    assert found(project="demo") == {a.id, b.id}
    assert found(agent="x") == {a.id, c.id}
    assert found(state="closed") == {b.id}
    assert found(project="another", agent="x", state="opened") == {c.id}
    assert found(project="Demo") == set()


def test_a_listed_session_is_as_it_was_opened_and_stands(store: Store) -> None:
    session = opened(store, agent="fred", title="A title", metadata='{"a":1}')
    store.append(session, [say()])
    [listed] = store.sessions()
    assert listed.session == store.session(session.id) == session
    assert listed.head == store.head(session)


@pytest.mark.parametrize("project", ["", "x" * 1001])
def test_a_project_needs_a_name(store: Store, project: str) -> None:
    with unchanged(store), pytest.raises(InvalidInput):
        opened(store, project=project)


def test_the_control_log_is_neither_listed_nor_tailed_nor_found(store: Store) -> None:
    control = control_log(store, "demo", ADA)
    assert control_log(store, "demo", ADA) == control
    assert control_log(store, "another", ADA) != control
    assert store.sessions() == []
    assert list(store.tail()) == []
    with pytest.raises(NotFound):
        store.session(control.id)


def test_a_project_has_one_control_log_however_many_ask_first(store: Store, store_url: str) -> None:
    with open_store(store_url) as elsewhere:
        logs = [store, elsewhere] * 4
        found = at_once([partial(control_log, log, "demo", ADA) for log in logs])
    assert len({session.id for session in found}) == 1
