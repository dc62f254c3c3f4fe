"""The rate limit: a token bucket for each credential, in the memory of this process.

By hand: a bucket is two numbers, and nothing has to be stored or shared.
"""

import threading
import time

from clew.model.errors import TooManyRequests

MOST_BUCKETS = 10_000


class Rates:
    """The buckets. `take` takes a token from one, or refuses."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._lock = threading.Lock()
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, credential: str) -> None:
        now = time.monotonic()
        with self._lock:
            left, at = self._buckets.get(credential, (self._burst, now))
            left = min(self._burst, left + (now - at) * self._rate)
            if left >= 1:
                if len(self._buckets) >= MOST_BUCKETS:
                    self._drop_full(now)
                self._buckets[credential] = (left - 1, now)
                return
        raise TooManyRequests(f"more than {self._rate:g} requests a second; slow down and try again")

    def _drop_full(self, now: float) -> None:
        """Drop full buckets: a caller without a bucket starts with a full one."""
        kept = {
            credential: (left, at)
            for credential, (left, at) in self._buckets.items()
            if left + (now - at) * self._rate < self._burst
        }
        self._buckets = kept if len(kept) < MOST_BUCKETS else {}
