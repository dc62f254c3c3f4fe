"""Many callers at the same time."""

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from clew.store import Store
from store.words import opened, say

PATIENCE_SECONDS = 60.0

Call = Callable[[], Any]


def at_once(calls: Sequence[Call]) -> list[Any]:
    """What each call returned or raised, when all of them start together."""
    start = threading.Barrier(len(calls))
    return Crowd(calls, start.wait).outcomes()


def in_one_commit(store: Store, calls: Sequence[Call]) -> list[Any]:
    """What each append returned or raised, when all of them have to share a commit."""
    elsewhere = opened(store, project="elsewhere")
    with store.database.write():
        # The first caller leads a commit of its own and waits for the lock held here; the rest queue up behind it.
        first = Crowd([lambda: store.append(elsewhere, [say()])])
        await_(lambda: store._appender._group._led)
        rest = Crowd(calls)
        # A call that is refused before it gets to the queue is finished already.
        await_(lambda: len(store._appender._group._waiting) + rest.finished() == len(calls))
    first.outcomes()
    return rest.outcomes()


def await_(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, "what was waited for does not happen"
        os.sched_yield()


class Crowd:
    """Calls under way, each in a thread of its own."""

    def __init__(self, calls: Sequence[Call], begin: Call = lambda: None) -> None:
        self._outcomes: list[Any] = [None] * len(calls)
        self._threads = [
            threading.Thread(target=self._run, args=(number, call, begin), daemon=True)
            for number, call in enumerate(calls)
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, number: int, call: Call, begin: Call) -> None:
        try:
            begin()
            self._outcomes[number] = call()
        except Exception as error:  # noqa: BLE001  # an outcome like any other, judged by the test
            self._outcomes[number] = error

    def finished(self) -> int:
        return sum(not thread.is_alive() for thread in self._threads)

    @property
    def ended(self) -> int:
        """How many calls have returned or raised."""
        return sum(not thread.is_alive() for thread in self._threads)

    def outcomes(self, *, patience_seconds: float = PATIENCE_SECONDS) -> list[Any]:
        for thread in self._threads:
            thread.join(patience_seconds)
            assert not thread.is_alive(), "a caller waits for ever"
        return self._outcomes
