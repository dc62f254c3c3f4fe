"""Forks: a child shares its parent's history up to an event, costs the same at any depth, and outlives its parent."""

import pytest

from clew.model.errors import InvalidInput, WrongState
from clew.model.events import (
    Budget,
    Draft,
    SessionArchived,
    SessionClosed,
    SessionForked,
    SessionPaused,
    TurnEnded,
    Usage,
)
from clew.model.lineage import Segment
from clew.model.session import Session
from clew.store import Store
from clew.store.log.erase import erase
from clew.store.log.opening import Forking
from clew.store.log.verify import verify
from store.rows import counts, unchanged
from store.words import ADA, messages, opened, say, seqs


@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_a_child_reads_its_parent_up_to_the_event_it_was_forked_at(store: Store, session: Session, at: int) -> None:
    store.append(session, [say("two"), say("three"), say("four")])
    child = store.open(Forking(parent=session, at=at), actor=ADA)
    store.append(child, [say("own")])
    store.append(session, [say("later")])
    assert messages(list(store.read(child))) == [*["two", "three", "four"][: at - 1], "own"]
    assert seqs(list(store.read(child))) == list(range(1, at + 3))
    assert list(store.read(child))[:at] == list(store.read(session))[:at]


def test_without_an_event_a_fork_is_made_at_the_head(store: Store, session: Session) -> None:
    store.append(session, [say("two"), say("three")])
    child = store.open(Forking(parent=session), actor=ADA)
    assert (child.parent, child.upto, store.head(child).head) == (session.id, 3, 4)


def test_the_first_own_event_of_a_child_says_where_it_comes_from(store: Store, session: Session) -> None:
    child = store.open(Forking(parent=session, title="Another way"), actor=ADA)
    [event] = list(store.read(child, after=1))
    assert event.body == SessionForked(parent=session.id, upto=1, title="Another way")
    assert (event.session, event.actor) == (child.id, ADA)


def test_a_child_is_of_its_parents_project_and_agent(store: Store) -> None:
    parent = opened(store, project="demo", agent="fred", title="A title", metadata='{"a":1}')
    child = store.open(Forking(parent=parent), actor=ADA)
    assert (child.project, child.agent, child.title, child.metadata) == ("demo", "fred", "A title", '{"a":1}')
    assert store.session(child.id) == child


def test_parent_and_child_go_on_without_each_other(store: Store, session: Session) -> None:
    child = store.open(Forking(parent=session), actor=ADA)
    store.append(child, [say("child"), Draft(body=SessionClosed())])
    assert store.head(session).head == 1
    store.append(session, [say("parent", source="same")])
    store.append(store.open(Forking(parent=session), actor=ADA), [say("child", source="same")])
    assert messages(list(store.read(session))) == ["parent"]


def test_a_fork_of_a_fork_hangs_on_the_session_that_wrote_the_event(store: Store, session: Session) -> None:
    store.append(session, [say("two"), say("three")])
    child = store.open(Forking(parent=session, at=2), actor=ADA)
    store.append(child, [say("four")])
    above, below = (
        store.open(Forking(parent=child, at=2), actor=ADA),
        store.open(Forking(parent=child, at=3), actor=ADA),
    )
    assert (above.parent, above.upto) == (session.id, 2)
    assert (below.parent, below.upto) == (child.id, 3)
    assert store.children(session) == [(child.id, 2), (above.id, 2)]
    assert store.children(child) == [(below.id, 3)]
    # The event still says whom the caller forked.
    assert next(store.read(above, after=2)).body == SessionForked(parent=child.id, upto=2)


def test_a_lineage_names_who_wrote_what(store: Store, session: Session) -> None:
    store.append(session, [say("two"), say("three")])
    child = store.open(Forking(parent=session, at=2), actor=ADA)
    grandchild = store.open(Forking(parent=child, at=3), actor=ADA)
    parts = store.lineage(grandchild)
    assert parts[:2] == [Segment(session.key, session.id, 1, 2), Segment(child.key, child.id, 3, 3)]
    assert (parts[2].id, parts[2].first) == (grandchild.id, 4)


@pytest.mark.parametrize("at", [0, -1, 3, 2**70])
def test_a_fork_needs_an_event_of_the_session(store: Store, session: Session, at: int) -> None:
    store.append(session, [say("two")])
    with unchanged(store), pytest.raises(InvalidInput):
        store.open(Forking(parent=session, at=at), actor=ADA)


def test_a_fork_writes_as_much_at_any_depth(store: Store, session: Session) -> None:
    costs = []
    for depth in (10, 1000):
        store.append(session, [say(str(number)) for number in range(depth)])
        before = counts(store)
        store.open(Forking(parent=session), actor=ADA)
        costs.append({table: count - before[table] for table, count in counts(store).items()})
    assert costs[0] == costs[1]
    assert sum(costs[0].values()) == 3


def test_a_fork_of_many_forks_at_an_old_event_has_one_ancestor(store: Store, session: Session) -> None:
    store.append(session, [say("two")])
    youngest = session
    for _ in range(30):
        youngest = store.open(Forking(parent=youngest, at=2), actor=ADA)
    assert [part.id for part in store.lineage(youngest)] == [session.id, youngest.id]


def test_a_long_line_of_forks_is_read_whole(store: Store, session: Session) -> None:
    youngest = session
    for number in range(30):
        store.append(youngest, [say(str(number))])
        youngest = store.open(Forking(parent=youngest), actor=ADA)
    assert messages(list(store.read(youngest))) == [str(number) for number in range(30)]
    assert verify(store, youngest).ok


@pytest.mark.parametrize("end", [[SessionPaused()], [SessionClosed()], [SessionClosed(), SessionArchived()]])
def test_a_session_that_takes_nothing_more_can_be_forked(
    store: Store, session: Session, end: list[SessionClosed]
) -> None:
    store.append(session, [say("kept"), *(Draft(body=body) for body in end)])
    child = store.open(Forking(parent=session), actor=ADA)
    store.append(child, [say("on we go")])
    assert messages(list(store.read(child))) == ["kept", "on we go"]
    assert store.head(child).state == "active"


def test_a_child_is_readable_after_its_parent_was_archived(store: Store, session: Session) -> None:
    store.append(session, [say("kept")])
    child = store.open(Forking(parent=session), actor=ADA)
    store.append(session, [Draft(body=SessionClosed()), Draft(body=SessionArchived())])
    assert messages(list(store.read(child))) == ["kept"]


def test_a_child_has_its_parents_budget_and_what_was_spent_of_it(store: Store) -> None:
    parent = opened(store, budget=Budget(tokens=100))
    store.append(parent, [Draft(body=TurnEnded(usage=Usage(input=90)))])
    head = store.head(store.open(Forking(parent=parent), actor=ADA))
    assert (head.budget, head.spent_tokens) == (Budget(tokens=100), 90)


def test_an_erased_session_cannot_be_forked(store: Store) -> None:
    """A child would bring back the title that the caller still has in its hands, and hide below a grave."""
    session = opened(store, title="a name to forget")
    erase(store, session, actor=ADA)
    with unchanged(store), pytest.raises(WrongState):
        store.open(Forking(parent=session), actor=ADA)
