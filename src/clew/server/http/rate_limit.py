"""How often somebody may ask: a bucket of tokens for each, filled steadily, in this process."""

import threading
import time

from clew.model.errors import TooManyRequests

MOST_BUCKETS = 10_000


class Rates:
    """Takes a token from a caller's bucket, or refuses."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._lock = threading.Lock()
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, who: str) -> None:
        now = time.monotonic()
        with self._lock:
            left, at = self._buckets.get(who, (self._burst, now))
            left = min(self._burst, left + (now - at) * self._rate)
            if left >= 1:
                if len(self._buckets) >= MOST_BUCKETS:
                    self._forget_full(now)
                self._buckets[who] = (left - 1, now)
                return
        raise TooManyRequests(f"more than {self._rate:g} requests a second; slow down and try again")

    def _forget_full(self, now: float) -> None:
        """A full bucket is as good as none."""
        kept = {
            who: (left, at) for who, (left, at) in self._buckets.items() if left + (now - at) * self._rate < self._burst
        }
        self._buckets = kept if len(kept) < MOST_BUCKETS else {}
