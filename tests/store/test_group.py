"""Group commit: callers that share a commit share nothing else."""

import signal
import threading
from functools import partial
from typing import Any

import pytest

from clew.model.errors import LeaseHeld, NotFound, SourceReused, StaleHead, StoreError, WrongState
from clew.model.events import ArtifactSaved, Draft, MessageAdded, Opaque, SessionResumed, TurnEnded, Usage
from clew.model.session import Session
from clew.store import Store, open_store
from clew.store.log.group_commit import GroupCommit
from clew.store.log.leases import acquire
from clew.store.log.verify import verify
from store.crowd import Crowd, at_once, await_, in_one_commit
from store.rows import change
from store.words import ADA, big, messages, opened, say, seqs

WRITERS = 16
ROUNDS = 10


def test_many_threads_each_get_their_own_seqs(store: Store, session: Session) -> None:
    def write(writer: int) -> list[list[int]]:
        batches = [[say(f"{writer} {number} {turn}") for turn in range(1 + number % 3)] for number in range(ROUNDS)]
        return [store.append(session, batch).seqs for batch in batches]

    outcomes = at_once([partial(write, writer) for writer in range(WRITERS)])
    events = {event.seq: event.body.text for event in store.read(session, after=1)}  # type: ignore[union-attr]
    for writer, batches in enumerate(outcomes):
        for number, batch in enumerate(batches):
            assert [events.pop(seq) for seq in batch] == [f"{writer} {number} {turn}" for turn in range(len(batch))]
            assert batch == list(range(batch[0], batch[0] + len(batch)))
    assert not events
    assert verify(store, session).ok


def test_many_threads_of_two_stores_leave_no_gap(store: Store, session: Session, store_url: str) -> None:
    with open_store(store_url) as elsewhere:

        def write(log: Store) -> None:
            for number in range(ROUNDS):
                log.append(session, [say(str(number)), say(str(number))])

        outcomes = at_once([partial(write, log) for log in [store, elsewhere] * 4])
    assert outcomes == [None] * 8
    assert seqs(list(store.read(session))) == list(range(1, 1 + 8 * ROUNDS * 2 + 1))
    assert verify(store, session).ok


def test_of_many_who_expect_the_same_head_one_wins(store: Store, session: Session) -> None:
    outcomes = in_one_commit(store, [partial(store.append, session, [say(str(n))], expect=1) for n in range(8)])
    losers = [outcome for outcome in outcomes if isinstance(outcome, StaleHead)]
    assert len(losers) == 7
    assert all(loser.details["head"] == 2 for loser in losers)
    assert store.head(session).head == 2


def test_of_many_who_send_the_same_source_one_stores_it(store: Store, session: Session) -> None:
    outcomes = in_one_commit(store, [lambda: store.append(session, [say("a", source="a")]) for _ in range(8)])
    assert [outcome.seqs for outcome in outcomes] == [[2]] * 8
    assert sorted(len(outcome.deduplicated) for outcome in outcomes) == [0] + [1] * 7
    assert messages(list(store.read(session))) == ["a"]


def test_a_batch_of_a_shared_commit_lies_together(store: Store, session: Session) -> None:
    calls = [partial(store.append, session, [say(f"{n} {turn}") for turn in range(3)]) for n in range(8)]
    for outcome in in_one_commit(store, calls):
        assert outcome.seqs == list(range(outcome.seqs[0], outcome.seqs[0] + 3))


REFUSED: dict[str, tuple[type[Exception] | None, Draft, dict[str, Any]]] = {
    "the state forbids": (WrongState, Draft(body=SessionResumed()), {}),
    "expects another head": (StaleHead, say("stale"), {"expect": 99}),
    "reuses a source": (SourceReused, say("another text", source="used"), {}),
    "names an unknown blob": (NotFound, Draft(body=ArtifactSaved(name="a", blob="0" * 64, size=1)), {}),
    "is from a source that is no Unicode": (None, say("no", source="\ud800"), {}),
    "is from a source with a zero byte": (None, say("no", source="a\x00b"), {}),
    "is of an actor that is no Unicode": (None, say("no"), {"actor": "\ud800"}),
    "is of an actor with a zero byte": (None, say("no"), {"actor": "a\x00b"}),
    "is of a kind with a zero byte": (None, Draft(body=Opaque(kind="my.\x00", raw="{}")), {}),
    "was said at no possible time": (None, Draft(body=MessageAdded(role="user", text="no"), said_at=2**70), {}),
    "counts more than there are numbers for": (None, Draft(body=TurnEnded(usage=Usage(input=2**70))), {}),
}


@pytest.mark.parametrize("known", [False, True], ids=["a new session", "a session just written"])
@pytest.mark.parametrize("reason", REFUSED)
def test_the_others_are_not_disturbed_by_one_that(store: Store, session: Session, reason: str, known: bool) -> None:
    """What is refused alone is refused in company; what may be stored may, but never to the harm of the others."""
    other, bad = opened(store), opened(store)
    store.append(bad, [say("used text", source="used")])
    if known:
        for one in (session, other, bad):
            store.append(one, [say("before")])
    error, draft, options = REFUSED[reason]
    outcomes = in_one_commit(
        store,
        [
            lambda: store.append(session, [say("one")]),
            lambda: store.append(other, [say(big("two"))]),
            lambda: store.append(bad, [draft], **options),
            lambda: store.append(bad, [say("three")]),
            lambda: store.append(session, [say("four")]),
        ],
    )
    innocent = outcomes[:2] + outcomes[3:]
    assert not [outcome for outcome in innocent if isinstance(outcome, Exception)]
    assert error is None or type(outcomes[2]) is error
    assert sorted(spoken(store, session)) == ["four", "one"]
    assert spoken(store, other) == [big("two")]
    assert spoken(store, bad) == ["used text", "three"]
    assert all(verify(store, one).ok for one in (session, other, bad))


def spoken(store: Store, session: Session) -> list[str]:
    return [text for text in messages(list(store.read(session))) if text not in ("before", "no")]


def test_who_is_told_of_a_failure_has_nothing_stored(store: Store, session: Session, store_url: str) -> None:
    """The database fails for one session of a shared commit; the others may succeed or fail, but know which."""
    broken = opened(store)
    for _ in range(2):
        store.append(session, [say("before")])
    fail_to_write(store, broken)
    calls = [partial(store.append, one, [say(f"new {n}")]) for n, one in enumerate([session, broken, session, broken])]
    outcomes = in_one_commit(store, calls)
    assert [isinstance(outcome, StoreError) for outcome in outcomes[1::2]] == [True, True]
    told = {f"new {n}" for n in (0, 2) if not isinstance(outcomes[n], Exception)}
    assert {text for text in messages(list(store.read(session))) if text != "before"} == told


def fail_to_write(store: Store, session: Session) -> None:
    """Let the database refuse every new event of a session from now on, as a full or broken disk does."""
    if store.database.dialect == "lite":
        change(
            store,
            f"CREATE TRIGGER broken BEFORE INSERT ON event WHEN new.session = {session.key} "
            "BEGIN SELECT RAISE(ABORT, 'broken'); END",
        )
        return
    change(
        store,
        "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'broken'; END $$",
        f"CREATE TRIGGER broken BEFORE INSERT ON event FOR EACH ROW WHEN (new.session = {session.key}) "
        "EXECUTE FUNCTION fail()",
    )


def test_a_lease_keeps_others_out_of_a_shared_commit_too(store: Store, session: Session) -> None:
    lease = acquire(store, session, holder="ada", ttl_us=3_600_000_000, actor=ADA)
    outcomes = in_one_commit(
        store,
        [
            lambda: store.append(session, [say("not mine")]),
            lambda: store.append(session, [say("mine")], lease=lease.epoch),
            lambda: store.append(session, [say("not mine")]),
        ],
    )
    assert [type(outcome) for outcome in outcomes if isinstance(outcome, Exception)] == [LeaseHeld, LeaseHeld]
    assert messages(list(store.read(session))) == ["mine"]


class Interrupted(BaseException):
    """What Ctrl-C is to a program."""


def test_a_caller_interrupted_in_the_queue_does_not_stop_the_others() -> None:
    """Only the main thread meets signals; it may be the next to lead when it goes away."""
    leading, go_on, carried_out = threading.Event(), threading.Event(), []

    def commit(requests: object) -> None:
        leading.set()
        go_on.wait()
        carried_out.append(requests)

    group: GroupCommit[str] = GroupCommit(commit)
    first = Crowd([lambda: group.submit(["first"])])
    leading.wait()

    def interrupt() -> None:
        await_(lambda: len(group._waiting) == 1)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    def interrupted(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, interrupted)
    try:
        Crowd([interrupt])
        with pytest.raises(Interrupted):
            group.submit(["interrupted"])
    finally:
        signal.signal(signal.SIGUSR1, before)
    last = Crowd([lambda: group.submit(["last"])])
    go_on.set()
    first.outcomes()
    last.outcomes(patience_seconds=5)
    assert any("last" in str(requests) for requests in carried_out)
