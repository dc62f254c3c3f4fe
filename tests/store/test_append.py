"""Appending: whole batches, gapless seqs, each source once, and only where the caller thinks the log is."""

from collections.abc import Callable

import pytest
from msgspec import Raw

from clew.model.errors import (
    BudgetExceeded,
    ClewError,
    InvalidInput,
    NotFound,
    SourceReused,
    StaleHead,
    TooLarge,
    WrongState,
)
from clew.model.events import (
    ArtifactSaved,
    Budget,
    CallMade,
    Draft,
    MessageAdded,
    Opaque,
    SessionArchived,
    SessionClosed,
    SessionResumed,
    TurnEnded,
    Usage,
)
from clew.model.session import Session
from clew.store import Store, open_store
from clew.store.log.prepare import LARGEST_BYTES
from store.rows import unchanged
from store.words import big, kinds, learn, messages, opened, say, seqs

REFUSED: dict[str, tuple[type[ClewError], Callable[[], Draft]]] = {
    "what the lifecycle forbids": (WrongState, lambda: Draft(body=SessionResumed())),
    "an unknown blob": (NotFound, lambda: Draft(body=ArtifactSaved(name="a", blob="0" * 64, size=1))),
    "no blob at all": (NotFound, lambda: Draft(body=ArtifactSaved(name="a", blob="../../etc/passwd", size=1))),
    "a used source": (SourceReused, lambda: say("another text", source="used")),
    "a used source with a large body": (SourceReused, lambda: say(big("another text"), source="used")),
    "a lone surrogate": (InvalidInput, lambda: say("\ud800")),
    "a body beyond the limit": (TooLarge, lambda: say("x" * LARGEST_BYTES)),
}


# Batches --------------------------------------------------------------------------------------------------------------


def test_a_batch_becomes_the_next_events_in_its_order(store: Store, session: Session) -> None:
    appended = store.append(session, [say("one"), say("two"), say("three")])
    assert (appended.seqs, appended.deduplicated, appended.head) == ([2, 3, 4], [], 4)
    assert messages(list(store.read(session))) == ["one", "two", "three"]


@pytest.mark.parametrize("place", ["first", "last"])
@pytest.mark.parametrize("reason", REFUSED)
def test_a_batch_with_one_refused_draft_writes_nothing(store: Store, session: Session, reason: str, place: str) -> None:
    store.append(session, [say("used text", source="used")])
    error, refused = REFUSED[reason]
    batch = [say("fine"), say(big("fine too")), refused()]
    if place == "first":
        batch.reverse()
    with unchanged(store), pytest.raises(error):
        store.append(session, batch)


def test_an_empty_batch_writes_nothing_and_tells_the_head(store: Store, session: Session) -> None:
    with unchanged(store):
        appended = store.append(session, [])
    assert (appended.seqs, appended.head) == ([], 1)


def test_seqs_have_no_gap_whatever_was_refused_or_repeated(store: Store, session: Session) -> None:
    for number in range(1, 8):
        store.append(session, [say(f"{number}-{turn}") for turn in range(number)])
        store.append(session, [say("always the same", source="once")])
        with pytest.raises(WrongState):
            store.append(session, [say(), Draft(body=SessionResumed())])
    assert seqs(list(store.read(session))) == list(range(1, 1 + 1 + 28 + 1))


def test_an_event_keeps_what_came_with_its_draft(store: Store, session: Session) -> None:
    body = MessageAdded(role="assistant", text="done", model="some-model")
    store.append(session, [Draft(body=body, source="line 7", said_at=123)], actor="agent:fred")
    [event] = list(store.read(session, after=1))
    assert (event.session, event.seq, event.actor, event.source, event.said_at) == (
        session.id, 2, "agent:fred", "line 7", 123,
    )  # fmt: skip
    assert event.body == body


def test_a_draft_without_a_source_comes_back_without_one(store: Store, session: Session) -> None:
    store.append(session, [say()])
    [event] = list(store.read(session, after=1))
    assert event.source is None


def test_events_survive_reopening(store_url: str) -> None:
    with open_store(store_url) as store:
        session = opened(store)
        store.append(session, [say("kept"), say(big("kept too"))])
        before = list(store.read(session))
    with open_store(store_url) as store:
        assert list(store.read(store.session(session.id))) == before


def test_a_session_of_another_store_is_not_found(store: Store, session: Session) -> None:
    with unchanged(store), pytest.raises(NotFound):
        store.append(Session(id="0" * 20, key=2**40, project="demo", project_key=session.project_key), [say()])


# Sources --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["short", big("long")], ids=["in its row", "as a blob"])
def test_the_same_batch_twice_is_stored_once(store: Store, session: Session, text: str) -> None:
    batch = [say(text, source="a"), say("two", source="b")]
    first = store.append(session, batch)
    with unchanged(store):
        again = store.append(session, batch)
    assert (again.seqs, again.deduplicated, again.head) == (first.seqs, first.seqs, first.head)


def test_a_source_is_known_in_another_batch(store: Store, session: Session) -> None:
    store.append(session, [say("a", source="a"), say("b", source="b")])
    appended = store.append(session, [say("c", source="c"), say("a", source="a"), say("d"), say("b", source="b")])
    assert (appended.seqs, appended.deduplicated, appended.head) == ([4, 2, 5, 3], [2, 3], 5)
    assert messages(list(store.read(session))) == ["a", "b", "c", "d"]


def test_a_source_twice_in_one_batch_is_stored_once(store: Store, session: Session) -> None:
    appended = store.append(session, [say("a", source="a"), say("b"), say("a", source="a")])
    assert (appended.seqs, appended.deduplicated, appended.head) == ([2, 3, 2], [2], 3)


def test_a_source_is_known_after_reopening(store_url: str) -> None:
    with open_store(store_url) as store:
        session = opened(store)
        first = store.append(session, [say("a", source="a")])
    with open_store(store_url) as store:
        again = store.append(store.session(session.id), [say("a", source="a")])
    assert (again.seqs, again.deduplicated) == (first.seqs, first.seqs)


def test_a_source_is_the_sessions_own(store: Store, session: Session) -> None:
    store.append(session, [say("a", source="same")])
    other = opened(store)
    assert store.append(other, [say("b", source="same")]).deduplicated == []
    assert messages(list(store.read(other))) == ["b"]


def test_a_source_counts_whoever_sends_it_and_whenever_it_was_said(store: Store, session: Session) -> None:
    store.append(session, [say("a", source="a")], actor="one")
    with unchanged(store):
        body = MessageAdded(role="user", text="a")
        again = store.append(session, [Draft(body=body, source="a", said_at=7)], actor="two")
    assert again.deduplicated == [2]


@pytest.mark.parametrize(
    "other",
    [
        say("b", source="a"),
        say(big("a"), source="a"),
        learn("a", source="a"),
        Draft(body=MessageAdded(role="assistant", text="a"), source="a"),
        Draft(body=Opaque(kind="my.kind", raw='{"role":"user","text":"a"}'), source="a"),
    ],
    ids=["another text", "a large text", "another kind", "another role", "a foreign kind with the same text"],
)
@pytest.mark.parametrize("where", ["in a later batch", "in the same batch"])
def test_a_source_with_another_body_is_refused(store: Store, session: Session, where: str, other: Draft) -> None:
    batch = [say("fine"), say("a", source="a"), other]
    if where == "in a later batch":
        store.append(session, batch[:2])
        batch = [say("fine too"), other]
    with unchanged(store), pytest.raises(SourceReused) as refusal:
        store.append(session, batch)
    assert refusal.value.details["source"] == "a"
    assert refusal.value.details["seq"] == 3


def test_a_large_body_is_told_from_another_large_body_under_its_source(store: Store, session: Session) -> None:
    store.append(session, [say(big("a"), source="a")])
    with unchanged(store), pytest.raises(SourceReused):
        store.append(session, [say(big("b"), source="a")])


def test_a_retry_succeeds_where_a_new_batch_would_be_refused(store: Store, session: Session) -> None:
    store.append(session, [say("a", source="a"), Draft(body=SessionClosed(), source="b")])
    with unchanged(store):
        again = store.append(session, [say("a", source="a"), Draft(body=SessionClosed(), source="b")])
    assert again.deduplicated == [2, 3]


@pytest.mark.parametrize("source", ["", "~", "~0123456789abcdefghjk"])
def test_a_source_is_neither_empty_nor_of_the_stores_own_making(store: Store, session: Session, source: str) -> None:
    with unchanged(store), pytest.raises(InvalidInput):
        store.append(session, [say(source=source)])


# Expectations ---------------------------------------------------------------------------------------------------------


def test_an_expected_head_is_accepted(store: Store, session: Session) -> None:
    assert store.append(session, [say(), say()], expect=1).head == 3
    assert store.append(session, [say()], expect=3).head == 4


@pytest.mark.parametrize("expect", [0, 1, 3, 2**70])
def test_a_stale_expectation_is_refused_with_the_head(store: Store, session: Session, expect: int) -> None:
    store.append(session, [say()])
    with unchanged(store), pytest.raises(StaleHead) as refusal:
        store.append(session, [say("new")], expect=expect)
    assert (refusal.value.details["head"], refusal.value.details["expect"]) == (2, expect)


def test_a_retry_with_its_old_expectation_is_deduplicated(store: Store, session: Session) -> None:
    batch = [say("a", source="a"), say("b", source="b")]
    store.append(session, batch, expect=1)
    store.append(session, [say("meanwhile")])
    with unchanged(store):
        again = store.append(session, batch, expect=1)
    assert (again.seqs, again.deduplicated, again.head) == ([2, 3], [2, 3], 4)


def test_a_retry_with_something_new_needs_the_present_head(store: Store, session: Session) -> None:
    store.append(session, [say("a", source="a")], expect=1)
    with unchanged(store), pytest.raises(StaleHead):
        store.append(session, [say("a", source="a"), say("b", source="b")], expect=1)
    assert store.append(session, [say("a", source="a"), say("b", source="b")], expect=2).seqs == [2, 3]


# States and budgets ---------------------------------------------------------------------------------------------------


def test_a_batch_may_pass_through_several_states(store: Store, session: Session) -> None:
    store.append(session, [say("last words"), Draft(body=SessionClosed()), Draft(body=SessionArchived())])
    assert store.head(session).state == "archived"
    with unchanged(store), pytest.raises(WrongState) as refusal:
        store.append(session, [say("too late")])
    assert refusal.value.details["state"] == "archived"


def test_a_session_over_its_budget_is_paused_with_everything_stored(store: Store) -> None:
    session = opened(store, budget=Budget(tokens=100))
    store.append(session, [Draft(body=TurnEnded(usage=Usage(input=60, cache_read=1000)))])
    with pytest.raises(BudgetExceeded) as refusal:
        store.append(session, [say("kept"), Draft(body=TurnEnded(usage=Usage(output=41)))])
    assert refusal.value.details["spent_tokens"] == 101
    assert refusal.value.details["head"] == store.head(session).head
    assert kinds(list(store.read(session, after=2))) == [
        "message_added",
        "turn_ended",
        "budget_exceeded",
        "session_paused",
    ]
    assert store.head(session).state == "paused"


def test_what_was_spent_up_to_the_budget_is_fine(store: Store) -> None:
    session = opened(store, budget=Budget(tokens=100, cost_micros=5))
    store.append(session, [Draft(body=TurnEnded(usage=Usage(input=60, output=40, cost_micros=5)))])
    assert store.head(session).state == "active"


def test_a_tool_call_comes_back_as_it_was_written(store: Store, session: Session) -> None:
    body = CallMade(call="1", tool="Bash", input=Raw(b'{ "command" : "ls",\n"n":1.0e3 }'))
    store.append(session, [Draft(body=body)])
    [event] = list(store.read(session, after=1))
    assert isinstance(event.body, CallMade)
    assert bytes(event.body.input) == b'{ "command" : "ls",\n"n":1.0e3 }'
