"""PostgreSQL goes down in the middle of everything and comes back (T12)."""

import time
from contextlib import ExitStack

from clew.store import open_store
from clew.store.log.opening import Opening
from clew.store.log.verify import verify
from support.children import Child
from support.drafts import batch_names, batch_size, check_history, draft
from support.postgres import Server

WRITERS = ["a", "b", "c", "d"]
RESTARTS = 5


def test_nothing_acknowledged_is_lost_or_stored_twice_when_postgres_is_stopped_at_once() -> None:
    with Server() as server, ExitStack() as stack:
        url = server.new_database()
        with open_store(url) as store:
            session = store.open(Opening(project="p", title="t"), actor="person:test")
        children = {writer: stack.enter_context(Child("appender.py", url, session.id, writer)) for writer in WRITERS}
        for child in children.values():
            child.hear("ready")
            child.tell(0)
        for _ in range(RESTARTS):
            await_appends(children, 30)
            server.crash()
            server.restart_after_crash()
            up = time.monotonic()
            await_appends(children, 1)
            print(f"every writer goes on {time.monotonic() - up:.1f} s after the server is up")
        acknowledged: list[str] = []
        under_way: list[list[str]] = []
        for writer, child in children.items():
            child.kill()
            firsts = [int(first) for (first,) in child.heard("acknowledged")]
            acknowledged += [each for first in firsts for each in batch_names(writer, first)]
            under_way.append(batch_names(writer, firsts[-1] + batch_size(firsts[-1])))
        with open_store(url) as store:
            check_history(list(store.read(session)), acknowledged=acknowledged, under_way=under_way)
            assert verify(store, session).problems == []
        print(f"{RESTARTS} restarts, {len(acknowledged)} drafts acknowledged")


def await_appends(children: dict[str, Child], count: int) -> None:
    """Wait until every writer has appended so many batches from now on."""
    ends = {writer: len(child.heard("acknowledged")) + count for writer, child in children.items()}
    for writer, child in children.items():
        while len(child.heard("acknowledged")) < ends[writer]:
            child.hear("acknowledged")


def test_a_log_that_was_idle_while_postgres_restarted_goes_on_as_if_nothing_happened() -> None:
    with Server() as server, open_store(server.new_database()) as store:
        session = store.open(Opening(project="p", title="t"), actor="person:test")
        store.append(session, [draft("w-0")])
        list(store.read(session))
        server.crash()
        server.restart_after_crash()
        assert [event.seq for event in store.read(session)] == [1, 2]
        assert store.append(session, [draft("w-1")]).seqs == [3]
