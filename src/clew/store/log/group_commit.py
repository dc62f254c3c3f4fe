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
    """Runs `commit` on the requests of concurrent callers, in the order of their arrival."""

    def __init__(self, commit: Callable[[Sequence[T]], None]) -> None:
        self._commit = commit
        self._mutex = threading.Lock()
        self._gathered = threading.Condition(self._mutex)
        self._waiting: deque[_Caller[T]] = deque()
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
        caller = _Caller(requests)
        try:
            if not self._queue(caller):
                return
            callers = self._take()
        except BaseException:
            self._leave(caller)
            raise
        self._lead(requests, callers)

    def _queue(self, caller: "_Caller[T]") -> bool:
        """Wait for the turn of this caller: True when it leads, False when its requests are done."""
        with self._mutex:
            if not self._led:
                self._led = caller.leads = True
                return True
            caller.turn.acquire()
            self._waiting.append(caller)
            if len(self._waiting) == self._expected:
                self._gathered.notify()
        caller.turn.acquire()
        return caller.leads

    def _take(self) -> "list[_Caller[T]]":
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
            callers = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST))]
            self._expected = len(callers) + 1
        return callers

    def _lead(self, requests: Sequence[T], callers: "list[_Caller[T]]") -> None:
        try:
            self._commit(
                [*requests, *(request for caller in callers for request in caller.requests)] if callers else requests
            )
        finally:
            for caller in callers:
                caller.turn.release()
            self._pass_on()

    def _pass_on(self) -> None:
        """The next caller in the queue leads; without one, the next that arrives."""
        with self._mutex:
            following = self._waiting.popleft() if self._waiting else None
            self._led = following is not None
            if following is not None:
                following.leads = True
                following.turn.release()

    def _leave(self, caller: "_Caller[T]") -> None:
        """A caller was interrupted: the others must not wait for it."""
        with self._mutex:
            if caller in self._waiting:
                self._waiting.remove(caller)
                return
        if caller.leads:
            self._pass_on()


class _Caller(Generic[T]):
    """A caller in the queue. Its turn, a lock, is released when its requests are done or it has to lead."""

    __slots__ = ("leads", "requests", "turn")

    def __init__(self, requests: Sequence[T]) -> None:
        self.requests = requests
        self.leads = False
        self.turn = threading.Lock()
