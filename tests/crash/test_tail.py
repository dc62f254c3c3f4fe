"""A reader that follows the log by position while many write (T9b)."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

import psycopg

from clew.model.events import Event
from clew.store import Store, open_store
from support.children import Child
from support.drafts import check_order, name, names
from support.postgres import Server

WRITERS = [f"w{number}" for number in range(8)]
SESSIONS = 5
BATCHES = 30
# A page that is smaller than what comes in, so that the reader often stops in the middle.
PAGE = 50
RUNS = 6
# The control, whose positions come out of order, ends at its first miss.
RUNS_OF_CONTROL = 20

T = TypeVar("T")


@contextmanager
def writers(script: str, url: str, *arguments: object) -> Iterator[list[Child]]:
    """Children that wait to be told how much to write."""
    with ExitStack() as stack:
        children = [stack.enter_context(Child(script, url, writer, *arguments)) for writer in WRITERS]
        for child in children:
            child.hear("ready")
        yield children


def follow(children: list[Child], fetch: Callable[[T | None], list[T]]) -> list[T]:
    """Let the children write, and read on from the last thing seen until they are done and nothing more comes."""
    done = len(children[0].heard("done")) + 1
    for child in children:
        child.tell(BATCHES)
    seen: list[T] = []
    while True:
        # Asked before the look, so that a look after the last write is made.
        over = all(len(child.heard("done")) == done for child in children)
        found = fetch(seen[-1] if seen else None)
        seen += found
        if over and not found:
            return seen


def written(children: list[Child]) -> set[str]:
    """The names of all that was written so far."""
    counts = [int(child.heard("done")[-1][0]) for child in children]
    return {name(writer, number) for writer, count in zip(WRITERS, counts, strict=True) for number in range(count)}


def check_seen(events: list[Event], store: Store, after: int) -> None:
    """Check that these are the events after a position: each once, in order, none missing."""
    positions = [event.position for event in events]
    assert positions == sorted(set(positions)), "not in increasing position"
    check_order(names(events))
    last: dict[str, int] = {}
    for event in events:
        assert event.seq == last.get(event.session, event.seq - 1) + 1, f"a seq of {event.session} is missing"
        last[event.session] = event.seq
    assert events == list(store.tail(after=after, limit=len(events) + 1)), "the reader missed something"


def follow_runs(url: str, runs: int) -> None:
    with open_store(url) as store, writers("many_sessions.py", url, SESSIONS) as children:
        seen: list[Event] = list(store.tail())
        for _ in range(runs):
            after = seen[-1].position

            def fetch(last: Event | None, after: int = after) -> list[Event]:
                position = last.position if last else after
                store.wait(after=position, timeout=0.02)
                return list(store.tail(after=position, limit=PAGE))

            events = follow(children, fetch)
            check_seen(events, store, after)
            seen += events
        assert set(names(seen)) == written(children)
        print(f"{len(seen)} events in {runs} runs, none missed")


def test_a_reader_of_postgres_sees_every_event_once_and_in_order_while_eight_write(postgres: Server) -> None:
    follow_runs(postgres.new_database(), RUNS)


def test_a_reader_of_sqlite_sees_every_event_once_and_in_order_while_eight_write(tmp_path: Path) -> None:
    follow_runs(f"sqlite:///{tmp_path}/clew.db", RUNS)


def test_a_reader_misses_rows_whose_positions_come_from_a_sequence(postgres: Server) -> None:
    """The other tests can fail: the same reader, with positions that become visible out of order, misses rows."""
    url = postgres.new_database()
    with psycopg.connect(url, autocommit=True) as connection, writers("by_sequence.py", url) as children:
        connection.execute("CREATE TABLE by_sequence (position BIGSERIAL PRIMARY KEY, name TEXT NOT NULL)")

        def fetch(last: tuple[int, str] | None) -> list[tuple[int, str]]:
            return connection.execute(
                "SELECT position, name FROM by_sequence WHERE position > %s ORDER BY position LIMIT %s",
                [last[0] if last else 0, PAGE],
            ).fetchall()

        for run in range(RUNS_OF_CONTROL):
            seen = {row[1] for row in follow(children, fetch)}
            missed = written(children) - seen
            if missed:
                print(f"run {run} missed {len(missed)} of {len(written(children))} rows")
                return
    raise AssertionError("the reader never missed anything, so the other tests prove nothing")
