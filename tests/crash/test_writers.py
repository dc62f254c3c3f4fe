"""Many writers, one session (T9). A child that meets any error ends with it, and with it the test."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from clew.model.session import Session
from clew.store import Store, open_store
from clew.store.log.opening import Opening
from clew.store.log.verify import verify
from support.children import Child
from support.drafts import batch, batch_names, check_history, check_order, name, names

WRITERS = [f"w{number}" for number in range(8)]
APPENDS = 500
OPTIMISTIC_APPENDS = 25
THREAD_APPENDS = 150


def new_session(store: Store) -> Session:
    return store.open(Opening(project="p", title="t"), actor="person:test")


def test_eight_processes_that_append_to_one_session_lose_nothing_and_never_meet_a_lock(store_url: str) -> None:
    with open_store(store_url) as store, ExitStack() as stack:
        session = new_session(store)
        children = {
            writer: stack.enter_context(Child("appender.py", store_url, session.id, writer)) for writer in WRITERS
        }
        for child in children.values():
            child.hear("ready")
        for child in children.values():
            child.tell(0, APPENDS)
        acknowledged: list[str] = []
        for writer, child in children.items():
            child.finish()
            acknowledged += [
                each for (first,) in child.heard("acknowledged") for each in batch_names(writer, int(first))
            ]
        assert len(acknowledged) >= len(WRITERS) * APPENDS
        check_history(list(store.read(session)), acknowledged=acknowledged)
        assert verify(store, session).problems == []


def test_only_one_of_eight_writers_who_expect_the_same_head_wins(store_url: str) -> None:
    with open_store(store_url) as store, ExitStack() as stack:
        session = new_session(store)
        arguments = [(store_url, session.id, writer, OPTIMISTIC_APPENDS) for writer in WRITERS]
        children = [stack.enter_context(Child("optimist.py", *each)) for each in arguments]
        for child in children:
            child.hear("ready")
        for child in children:
            child.tell()
        for child in children:
            child.finish()
        wins = [tuple(map(int, words)) for child in children for words in child.heard("won")]
        assert all(seq == head + 1 for head, seq, _ in wins), "something was appended in between"
        assert sorted(seq for _, seq, _ in wins) == list(range(2, len(WRITERS) * OPTIMISTIC_APPENDS + 2))
        assert sum(refused for _, _, refused in wins) > 0, "nobody ever met a competitor"
        stored = names(list(store.read(session)))
        check_order(stored)
        assert set(stored) == {name(writer, number) for writer in WRITERS for number in range(OPTIMISTIC_APPENDS)}


def test_eight_threads_that_append_through_one_store_lose_nothing(store: Store) -> None:
    session = new_session(store)

    def append(writer: str) -> list[str]:
        acknowledged: list[str] = []
        while len(acknowledged) < THREAD_APPENDS:
            drafts = batch(writer, len(acknowledged))
            seqs = store.append(session, drafts, actor=f"agent:{writer}").seqs
            assert seqs == list(range(seqs[0], seqs[0] + len(drafts))), "a batch was torn apart"
            acknowledged += batch_names(writer, len(acknowledged))
        return acknowledged

    with ThreadPoolExecutor(len(WRITERS)) as pool:
        acknowledged = [each for names in pool.map(append, WRITERS) for each in names]
    check_history(list(store.read(session)), acknowledged=acknowledged)
    assert verify(store, session).problems == []
