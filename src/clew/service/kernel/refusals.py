"""Refusals are counted before they are recorded, so that many of them do not fill the log and none is left out.

The first refusals of an operation to a principal in a minute have an entry each. Further ones share entries, each for
as many as all before it. What is left when the minute is over is recorded with the next refusal of anybody.
"""

import threading
from collections.abc import Iterator
from typing import NamedTuple
from weakref import WeakKeyDictionary

from clew.store import Store

MINUTE_US = 60_000_000
# How many refusals of one operation to one principal get an entry each within a minute.
SINGLE = 10
MOST_KEYS = 10_000


class LeftOver(NamedTuple):
    principal: str
    operation: str
    times: int


class Refusals:
    """The refusals of one store that this process has seen and not recorded yet."""

    def __init__(self) -> None:
        self.has_baseline = False
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str, int], tuple[int, int]] = {}
        """By principal, operation and minute: how many there were, and how many of them are recorded."""

    def add(self, principal: str, operation: str, now: int) -> int:
        """Count a refusal; returns how many refusals the caller has to record in an entry now, 0 for none."""
        key = (principal, operation, now // MINUTE_US)
        with self._lock:
            total, recorded = self._counts.get(key, (0, 0))
            total += 1
            is_due = total <= SINGLE or total == 2 * recorded or len(self._counts) > MOST_KEYS
            self._counts[key] = (total, total if is_due else recorded)
        return total - recorded if is_due else 0

    def left_over(self, now: int) -> Iterator[LeftOver]:
        """Take the unrecorded refusals of earlier minutes out of the counts."""
        with self._lock:
            over = [key for key in self._counts if key[2] < now // MINUTE_US]
            left = [(key, self._counts.pop(key)) for key in over]
        return (
            LeftOver(principal, operation, total - recorded)
            for (principal, operation, _), (total, recorded) in left
            if total > recorded
        )


_of_stores: WeakKeyDictionary[Store, Refusals] = WeakKeyDictionary()


def refusals_of(store: Store) -> Refusals:
    return _of_stores.setdefault(store, Refusals())
