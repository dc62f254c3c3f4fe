"""Short requests go first: long work of one principal waits while short requests of others are on their way.

Python runs one thread of a process at a time, so a request that computes for long delays all others. Threads have no
priorities; instead long work is done in steps of a few milliseconds (`model/steps.py`) and gives way after each. It
waits for a limited time, so that it comes to an end however many short requests there are.
"""

import threading
import time
from collections import Counter

# A request that has computed for longer than this is long.
SHORT_SECONDS = 0.004
# Long work gives way after so much computing at the earliest.
STEP_SECONDS = 0.0005
# After a short request the next one of the same client mostly comes within this time.
PAUSE_SECONDS = 0.002
# Long work waits at most for so many times as long as its last step took, so it has a ninth of the time at the least.
MOST_TIMES = 8
LONGEST_WAIT_SECONDS = 0.25


class RightOfWay:
    """The short requests that are on their way in this process."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._short = Counter[str]()
        self.on_their_way = 0
        """Short requests of all principals."""
        self.waiting = 0
        """Long work that waits for a short request at the moment."""
        self._last = ("", 0.0)

    def begin(self, principal: str) -> None:
        """A short request of a principal begins."""
        with self._changed:
            self._short[principal] += 1
            self.on_their_way += 1

    def end(self, principal: str) -> None:
        """It has ended, or is long after all."""
        with self._changed:
            self.on_their_way -= 1
            self._short[principal] -= 1
            if not self._short[principal]:
                del self._short[principal]
            self._last = principal, time.monotonic()
            self._changed.notify_all()

    def give_way(self, principal: str, worked: float) -> None:
        """Wait until no other principal has a short request on its way; `worked` is how long the last step took."""
        end = time.monotonic() + min(LONGEST_WAIT_SECONDS, worked * MOST_TIMES)
        with self._changed:
            while (now := time.monotonic()) < end:
                until = end if self.on_their_way > self._short[principal] else self._pause_after(principal)
                if until <= now:
                    break
                self.waiting += 1
                self._changed.wait(min(until, end) - now)
                self.waiting -= 1

    def _pause_after(self, principal: str) -> float:
        last, ended_at = self._last
        return ended_at + PAUSE_SECONDS if last != principal else 0.0


class Work:
    """The work of one request, which is short until it has taken long."""

    def __init__(self, right_of_way: RightOfWay, principal: str, *, is_long: bool) -> None:
        self._right_of_way = right_of_way
        self._principal = principal
        self._is_long = is_long
        if not is_long:
            right_of_way.begin(principal)

    def start(self) -> None:
        """The work begins, in this thread."""
        self._began = self._stepped = time.thread_time()

    def end_step(self) -> None:
        now = time.thread_time()
        if now - self._began > SHORT_SECONDS:
            self.end()
        if self._is_long and now - self._stepped > STEP_SECONDS:
            self._right_of_way.give_way(self._principal, now - self._stepped)
            self._stepped = now

    @property
    def seconds(self) -> float:
        """The processor time so far, in the thread of the work."""
        return time.thread_time() - self._began

    def end(self) -> None:
        """The work has ended, or has turned out to be long: other work no longer waits for it."""
        if not self._is_long:
            self._is_long = True
            self._right_of_way.end(self._principal)
