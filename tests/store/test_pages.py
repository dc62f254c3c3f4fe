"""Reading a page at a time: nothing is missing between two pages, nothing comes twice, and little is held in memory."""

import tracemalloc
from collections.abc import Iterator

import pytest

from clew.model.events import Draft, Opaque
from clew.model.retention import Policy
from clew.model.session import Session
from clew.store import Store
from clew.store.log.feed import entries, own_events
from clew.store.log.opening import Forking
from clew.store.log.retention import apply_policies, set_policy
from store.words import ADA, learn, opened, say, seqs

KINDS = ("fact_learned", "message_added", "session_closed")


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.store.log.reading.EVENTS_PAGE", 3)
    monkeypatch.setattr("clew.store.log.reading.TAIL_PAGE", 3)
    monkeypatch.setattr("clew.store.log.feed.EVENTS_PAGE", 3)


@pytest.fixture
def child(store: Store) -> Session:
    """A fork with 9 events of its parent and 8 of its own."""
    parent = opened(store)
    store.append(parent, [say(f"p{n}") if n % 3 else learn(f"p{n}") for n in range(10)])
    forked = store.open(Forking(parent=parent, at=9), actor=ADA)
    store.append(forked, [say(f"c{n}") if n % 2 else learn(f"c{n}") for n in range(7)])
    return forked


def test_every_range_in_pages_is_the_range(store: Store, child: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    ranges = [
        {"after": after, "upto": upto, "limit": limit, "kinds": kinds}
        for after in (0, 2, 8, 9, 16)
        for upto in (None, 6, 9, 10, 17)
        for limit in (1, 3, 5, 100)
        for kinds in (None, KINDS, ("message_added",))
    ]
    whole = [list(store.read(child, **chosen)) for chosen in ranges]  # type: ignore[arg-type]
    monkeypatch.setattr("clew.store.log.reading.EVENTS_PAGE", 3)
    monkeypatch.setattr("clew.store.log.reading.TAIL_PAGE", 3)
    assert [list(store.read(child, **chosen)) for chosen in ranges] == whole  # type: ignore[arg-type]
    assert seqs(whole[0]) == [1]
    assert seqs(list(store.read(child))) == list(range(1, 18))


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("kinds", [None, KINDS])
def test_what_is_appended_between_two_pages_is_no_gap_and_no_end(
    store: Store, child: Session, kinds: tuple[str, ...] | None
) -> None:
    seen: list[int] = []
    for event in store.read(child, kinds=kinds):
        seen.append(event.seq)
        store.append(child, [say("meanwhile"), learn("meanwhile")])
        assert len(seen) < 40, "a reader that chases a writer never ends"
    known = [event.seq for event in store.read(child, kinds=kinds)]
    assert seen == known[: len(seen)]
    assert len(seen) >= 16 - (kinds is not None)


@pytest.mark.usefixtures("small_pages")
def test_what_is_pruned_between_two_pages_is_read_as_removed(store: Store, child: Session) -> None:
    set_policy(store, Policy(project="demo", keep_days=0))
    reader = store.read(child)
    first = [next(reader) for _ in range(2)]
    assert apply_policies(store, actor=ADA, now=2**60)
    rest = list(reader)
    # The last is the record of the removal itself.
    assert seqs([*first, *rest]) == list(range(1, 19))


@pytest.mark.usefixtures("small_pages")
def test_a_tail_and_the_feed_in_pages_show_everything_once(store: Store, child: Session) -> None:
    positions = [event.position for event in store.tail()]
    assert len(positions) == 11 + 8
    assert positions == sorted(set(positions))
    assert [entry.event.position for entry in entries(store, after=0)] == positions
    assert [event.position for event in store.tail(limit=7)] == positions[:7]
    assert seqs(list(own_events(store, child, upto=17))) == list(range(10, 18))


def test_a_long_session_is_read_in_little_memory(store: Store) -> None:
    session = opened(store)
    body = Opaque(kind="test.note", raw='{"text":"' + "x" * 30_000 + '"}')
    for _ in range(8):
        store.append(session, [Draft(body=body)] * 250)

    def sizes() -> Iterator[int]:
        for event in store.read(session, after=1):
            assert isinstance(event.body, Opaque)
            yield len(event.body.raw)

    tracemalloc.start()
    try:
        assert sum(sizes()) > 60_000_000
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()
