"""Append to a log in FOLDER, a small disk of its own, until it is full; then make room and go on: FOLDER SIZE THREADS.

SIZE is how many characters a text has. Every other thread gives its drafts sources. Says what happened.
"""

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

from clew.model.errors import ClewError
from clew.model.events import Draft, MessageAdded
from clew.store import Store, open_store
from clew.store.log import leases
from clew.store.log.opening import Opening
from clew.store.log.verify import verify
from clew.store.objects import objects
from support.drafts import check_order, message, name, names, without_source

ROOM_BYTES = 2_000_000
AFTERWARDS = 10


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())  # In one piece, because threads speak at once.


def code_of(act: Callable[[], object]) -> str:
    """The code of the error that this ends with."""
    try:
        act()
    except ClewError as error:
        return error.code
    return "none"


class Filler:
    """Several threads that fill a log."""

    def __init__(self, store: Store, size: int, threads: int) -> None:
        self.store = store
        self.size = size
        self.session = store.open(Opening(project="p", title="t"), actor="person:test")
        self.counts = [0] * threads

    def append(self, thread: int) -> None:
        self.store.append(self.session, [self.draft(thread)], actor=f"agent:w{thread}")
        self.counts[thread] += 1

    def draft(self, thread: int) -> Draft:
        draft = message(name(f"w{thread}", self.counts[thread]), self.size)
        return draft if thread % 2 else without_source(draft)

    def fill(self, thread: int) -> None:
        try:
            while True:
                self.append(thread)
        except ClewError as error:
            say("failed", error.code, error)

    def fill_together(self) -> None:
        with ThreadPoolExecutor(len(self.counts)) as pool:
            list(pool.map(self.fill, range(len(self.counts))))

    def check(self, store: Store, when: str) -> None:
        """Check that exactly what was acknowledged is stored, and say so."""
        expected = {name(f"w{thread}", number) for thread, count in enumerate(self.counts) for number in range(count)}
        events = list(store.read(self.session))
        stored = names(events)
        assert len(stored) == len(set(stored)), f"{when}: stored twice"
        assert set(stored) >= expected, f"{when}: lost {expected - set(stored)}"
        assert set(stored) <= expected, f"{when}: refused and yet stored {set(stored) - expected}"
        check_order(stored)
        bodies = [event.body for event in events if isinstance(event.body, MessageAdded)]
        assert bodies == [message(each, self.size).body for each in stored], f"{when}: a text changed"
        assert store.database.check() == [], when
        assert verify(store, self.session).problems == [], when
        say("readable", when)


def main(folder: Path, size: int, threads: int) -> None:
    ballast = folder / "ballast"
    ballast.write_bytes(bytes(ROOM_BYTES))
    url = f"sqlite:///{folder}/log/clew.db"
    with open_store(url) as store:
        filler = Filler(store, size, threads)
        filler.fill_together()
        say("acknowledged", sum(filler.counts))
        for thread in range(threads):
            say("again", code_of(partial(filler.append, thread)))
        filler.check(store, "full")
        say("other", code_of(lambda: store.open(Opening(project="p", title="t" * 1_000), actor="person:test")))
        say("other", code_of(lambda: objects.save(store, os.urandom(500_000))))
        say("other", code_of(lambda: leases.acquire(store, filler.session, holder="h", ttl_us=1, actor="person:test")))
        with open_store(url) as second:
            filler.check(second, "second")
        ballast.unlink()
        for number in range(AFTERWARDS):
            filler.append(number % threads)
        filler.check(store, "afterwards")
    say("left", *(path.name for path in folder.rglob("new-*")))
    leave_no_room(ballast)
    say("opened", code_of(lambda: open_store(url)))


def leave_no_room(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass


main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
