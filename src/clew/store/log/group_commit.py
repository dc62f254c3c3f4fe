"""Group commit: callers that append at the same time share one transaction and one fsync.

There is no writer thread. The first caller to arrive leads: it carries out every request that is waiting, while those
who come meanwhile queue up for the next round, led by the first of them. A caller alone pays nothing for the sharing.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
MOST = 256
GATHER_SECONDS = 0.0003
# How many rounds at most go by before those of the last one are waited for again.
LONGEST_PAUSE = 32


class GroupCommit(Generic[T]):
    """Runs `commit` on the requests of concurrent callers, in the order of their received_event."""

    def __init__(self, commit: Callable[[Sequence[T]], None]) -> None:
        self._commit = commit
        self._mutex = threading.Lock()
        self._gathered = threading.Condition(self._mutex)
        self._waiting: deque[_Place[T]] = deque()
        self._expected = 0
        self._led = False
        # Rounds to go before anybody is waited for, and how many there will be if that is in vain again.
        self._pause = 0
        self._next_pause = 1

    def submit(self, requests: Sequence[T]) -> None:
        """Return once the caller's requests were carried out; `commit` keeps each outcome in its request."""
        with self._mutex:
            alone = not self._led and self._expected < 2
            if alone:
                self._led = True
        if alone:
            self._lead(requests, [])
            return
        place = _Place(requests)
        try:
            if not self._queue(place):
                return
            places = self._take()
        except BaseException:
            self._leave(place)
            raise
        self._lead(requests, places)

    def _queue(self, place: "_Place[T]") -> bool:
        """Wait for the turn of this place: True when it leads, False when its request is done."""
        with self._mutex:
            if not self._led:
                self._led = place.leads = True
                return True
            place.turn.acquire()
            self._waiting.append(place)
            if len(self._waiting) == self._expected:
                self._gathered.notify()
        place.turn.acquire()
        return place.leads

    def _take(self) -> "list[_Place[T]]":
        """Every waiting caller, after a moment in which those of the last round may come back.

        Without that moment rounds of one and of many alternate, and half of the commits are not shared. Where callers
        meet only by chance none comes back, and the leader waits for them less and less often.
        """
        with self._mutex:
            waiting = len(self._waiting)
            if self._pause:
                self._pause -= 1
            elif waiting < self._expected - 1:
                self._expected -= 1
                self._gathered.wait(GATHER_SECONDS)
                if len(self._waiting) > waiting:
                    self._next_pause = 1
                else:
                    self._pause = self._next_pause
                    self._next_pause = min(2 * self._next_pause, LONGEST_PAUSE)
            places = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST))]
            self._expected = len(places) + 1
        return places

    def _lead(self, requests: Sequence[T], places: "list[_Place[T]]") -> None:
        try:
            self._commit([*requests, *(each for place in places for each in place.requests)] if places else requests)
        finally:
            for place in places:
                place.turn.release()
            self._pass_on()

    def _pass_on(self) -> None:
        """The next caller in the queue leads; without one, the next that arrives."""
        with self._mutex:
            following = self._waiting.popleft() if self._waiting else None
            self._led = following is not None
            if following is not None:
                following.leads = True
                following.turn.release()

    def _leave(self, place: "_Place[T]") -> None:
        """A caller was interrupted: the others must not wait for it."""
        with self._mutex:
            if place in self._waiting:
                self._waiting.remove(place)
                return
        if place.leads:
            self._pass_on()


class _Place(Generic[T]):
    """A caller's place in the queue. Its turn, a lock, is released when its request is done or it has to lead."""

    __slots__ = ("leads", "requests", "turn")

    def __init__(self, requests: Sequence[T]) -> None:
        self.requests = requests
        self.leads = False
        self.turn = threading.Lock()
