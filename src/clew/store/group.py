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


class Group(Generic[T]):
    """Runs `commit` on the requests of concurrent callers, in the order of their arrival."""

    def __init__(self, commit: Callable[[Callable[[], list[T]]], None]) -> None:
        """`commit` calls what it is given once it holds the write lock: that is the round it carries out."""
        self._commit = commit
        self._mutex = threading.Lock()
        self._waiting: deque[_Place[T]] = deque()
        self._led = False

    def submit(self, request: T) -> None:
        """Return once the request was carried out; `commit` keeps each outcome in its request."""
        with self._mutex:
            place = None if not self._led else _Place(request)
            self._led = True
            if place is not None:
                self._waiting.append(place)
        if place is None or not place.wait():
            self._lead(request)

    def _lead(self, request: T) -> None:
        places: list[_Place[T]] = []

        def round() -> list[T]:
            # Taken as late as possible: whoever came while the write lock was awaited shares this commit.
            with self._mutex:
                while self._waiting and len(places) < MOST:
                    places.append(self._waiting.popleft())
            return [request, *(place.request for place in places)]

        try:
            self._commit(round)
        finally:
            for place in places:
                place.call(done=True)
            with self._mutex:
                following = self._waiting.popleft() if self._waiting else None
                self._led = following is not None
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
