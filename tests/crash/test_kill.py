"""Processes that append are killed with SIGKILL at random moments (T1)."""

import os
import random
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from clew.store import open_store
from clew.store.log.opening import Opening
from clew.store.log.verify import verify
from support.children import Child
from support.drafts import batch_names, batch_size, check_history, has_sources
from support.postgres import Server

ROUNDS = int(os.environ.get("CLEW_KILL_ROUNDS", "200"))
# So many children wait for their turn, because a program takes longer to start than it is left to live.
WARM = 2


class Writer:
    """One of the writers of a session: it dies often and comes back each time, as another child."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.acknowledged: list[str] = []
        self.under_way: list[list[str]] = []
        self._next = 0

    def start(self, child: Child) -> None:
        """Let the child go on where the last one was killed."""
        child.tell(self._next)

    def die(self, child: Child, chance: random.Random) -> None:
        """Let the child live for a while from its first append on, then kill it and note what it had said."""
        with child:
            child.hear("acknowledged")
            time.sleep(chance.uniform(0.030, 0.200))  # Not waiting for anything: this is how long it may live.
            child.kill()
        for (first,) in child.heard("acknowledged"):
            self.acknowledged += batch_names(self.name, int(first))
            self._next = int(first) + batch_size(int(first))
        self.under_way.append(batch_names(self.name, self._next))
        # What was under way is appended again where that is safe, and left alone where it would be stored twice.
        if not has_sources(self._next):
            self._next += batch_size(self._next)


class Nursery:
    """Children that have started and wait for the number of their first draft."""

    def __init__(self, url: str, session: str, writers: Sequence[Writer]) -> None:
        self._url = url
        self._session = session
        self._waiting: deque[tuple[Writer, Child]] = deque()
        self._coming = deque(writers)

    def take(self) -> tuple[Writer, Child]:
        """The next child, and the writer that it is."""
        while self._coming and len(self._waiting) <= WARM:
            writer = self._coming.popleft()
            self._waiting.append((writer, Child("appender.py", self._url, self._session, writer.name)))
        self._waiting[0][1].hear("ready")
        return self._waiting.popleft()

    def close(self) -> None:
        for _, child in self._waiting:
            with child:
                pass


@contextmanager
def nursery(url: str, session: str, writers: Sequence[Writer]) -> Iterator[Nursery]:
    children = Nursery(url, session, writers)
    try:
        yield children
    finally:
        children.close()


def open_session(url: str) -> str:
    with open_store(url) as store:
        return store.open(Opening(project="p", title="t"), actor="person:test").id


def check(url: str, session: str, writers: Sequence[Writer]) -> None:
    """Check the whole log, as the next process to open it finds it."""
    with open_store(url) as store:
        place = store.session(session)
        acknowledged = [name for writer in writers for name in writer.acknowledged]
        check_history(
            list(store.read(place)),
            acknowledged=acknowledged,
            under_way=[batch for writer in writers for batch in writer.under_way],
        )
        assert store.database.check() == []
        assert verify(store, place).problems == []
    print(f"{sum(len(writer.under_way) for writer in writers)} kills, {len(acknowledged)} drafts acknowledged")


def kill_one_after_another(url: str, rounds: int, chance: random.Random) -> None:
    session = open_session(url)
    writer = Writer("w")
    with nursery(url, session, [writer] * rounds) as children:
        for number in range(rounds):
            _, child = children.take()
            writer.start(child)
            writer.die(child, chance)
            # Now and then somebody else finds what the child left; mostly the next child does.
            if number % 8 == 0:
                with open_store(url) as store:
                    assert store.database.check() == []
    check(url, session, [writer])


def kill_side_by_side(url: str, rounds: int, chance: random.Random) -> None:
    """Three writers at a time; whoever is killed comes back at once, while the others go on."""
    session = open_session(url)
    writers = [Writer(name) for name in "abc"]
    with nursery(url, session, writers * (rounds // 3)) as children, ExitStack() as stack:
        running: deque[tuple[Writer, Child]] = deque()
        for _ in range(rounds // 3 * 3):
            writer, child = children.take()
            writer.start(child)
            running.append((writer, stack.enter_context(child)))
            if len(running) == len(writers):
                oldest, child = running.popleft()
                oldest.die(child, chance)
        for writer, child in running:
            writer.die(child, chance)
    check(url, session, writers)


def test_nothing_acknowledged_is_lost_to_kill_9(tmp_path: Path, chance: random.Random) -> None:
    kill_one_after_another(f"sqlite:///{tmp_path}/clew.db", ROUNDS, chance)


def test_nothing_acknowledged_is_lost_when_one_of_several_writers_is_killed(
    tmp_path: Path, chance: random.Random
) -> None:
    kill_side_by_side(f"sqlite:///{tmp_path}/clew.db", ROUNDS // 4, chance)


def test_nothing_acknowledged_by_postgres_is_lost_when_its_client_is_killed(
    postgres: Server, chance: random.Random
) -> None:
    kill_one_after_another(postgres.new_database(), ROUNDS // 5, chance)


def test_nothing_acknowledged_by_postgres_is_lost_when_one_of_several_clients_is_killed(
    postgres: Server, chance: random.Random
) -> None:
    kill_side_by_side(postgres.new_database(), ROUNDS // 10, chance)
