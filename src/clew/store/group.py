"""Group commit: callers that append at the same time share one transaction and one fsync.

There is no writer thread. The first caller to arrive leads: it carries out every request that is waiting, while those
who come meanwhile queue up for the next round, led by the first of them. A caller alone pays nothing for the sharing.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
MOST = 256
GATHER_SECONDS = 0.0003


class Group(Generic[T]):
    """Runs `commit` on the requests of concurrent callers, in the order of their arrival."""

    def __init__(self, commit: Callable[[list[T]], None]) -> None:
        self._commit = commit
        self._mutex = threading.Lock()
        self._gathered = threading.Condition(self._mutex)
        self._waiting: deque[_Place[T]] = deque()
        self._expected = 0
        self._led = False

    def submit(self, request: T) -> None:
        """Return once the request was carried out; `commit` keeps each outcome in its request."""
        with self._mutex:
            alone = not self._led
            if alone:
                self._led = True
                places = self._take() if self._expected > 1 else []
            else:
                place = _Place(request)
                self._waiting.append(place)
                if len(self._waiting) == self._expected:
                    self._gathered.notify()
        if not alone:
            if place.wait():
                return
            with self._mutex:
                places = self._take()
        self._lead(request, places)

    def _take(self) -> "list[_Place[T]]":
        """Everybody who waits, after a moment for those of the last round to come back.

        Without that moment rounds of one and of many alternate, and half of the commits are not shared.
        """
        if len(self._waiting) < self._expected - 1:
            self._expected -= 1
            self._gathered.wait(GATHER_SECONDS)
        places = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST))]
        self._expected = len(places) + 1
        return places

    def _lead(self, request: T, places: "list[_Place[T]]") -> None:
        try:
            self._commit([request, *[place.request for place in places]])
        finally:
            with self._mutex:
                following = self._waiting.popleft() if self._waiting else None
                self._led = following is not None
            for place in places:
                place.call(done=True)
            if following is not None:
                following.call(done=False)


class _Place(Generic[T]):
    """A caller's place in the queue: it sleeps until its request is done or it has to lead."""

    __slots__ = ("_done", "_turn", "request")

    def __init__(self, request: T) -> None:
        self.request = request
        self._done = False
        self._turn = threading.Lock()
        self._turn.acquire()

    def wait(self) -> bool:
        """Whether the request was carried out; if not, the caller leads."""
        self._turn.acquire()
        return self._done

    def call(self, *, done: bool) -> None:
        self._done = done
        self._turn.release()
