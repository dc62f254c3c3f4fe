"""Races: operations timed in turn, so that a disturbance of the machine disturbs all of them alike."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from statistics import median

_PARTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """One operation in a race. `run` does it once and returns the seconds it counts for."""

    name: str
    run: Callable[[], float]
    every: int = 1  # takes part in every n-th round only: for operations too slow, or too disturbing, for each


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured of one runner, in the order of the race: seconds, or bytes."""

    samples: Sequence[float]

    @property
    def median(self) -> float:
        return median(self.samples)

    def parts(self) -> list[float]:
        """Medians of consecutive parts of the race: how far they differ shows how far the whole can be trusted."""
        count = min(_PARTS, len(self.samples))
        edges = [len(self.samples) * part // count for part in range(count + 1)]
        return [median(self.samples[low:high]) for low, high in pairwise(edges)]


def race(runners: Sequence[Runner], *, rounds: int) -> dict[str, Figures]:
    """Run every runner once a round, in an order that changes from round to round, after one round to warm up."""
    random = Random(rounds)
    samples: dict[str, list[float]] = {runner.name: [] for runner in runners}
    for runner in runners:
        runner.run()
    for number in range(rounds):
        starters = [runner for runner in runners if number % runner.every == 0]
        random.shuffle(starters)
        for runner in starters:
            samples[runner.name].append(runner.run())
    return {name: Figures(taken) for name, taken in samples.items()}


def seconds(operation: Callable[[], object]) -> float:
    """Time one operation. Its result is freed after the clock has stopped."""
    start = time.perf_counter()
    result = operation()
    taken = time.perf_counter() - start
    del result
    return taken


def seconds_per_operation(operations: Sequence[Callable[[], object]], *, window_s: float) -> float:
    """Repeat each operation in a thread of its own; return the window divided by what all of them finished in it.

    What ends after the window does not count and its time does not either: a writer that waits long for a lock would
    otherwise stretch the window for all.
    """
    gate = threading.Barrier(len(operations))

    def repeat(operation: Callable[[], object]) -> int:
        gate.wait()
        end = time.perf_counter() + window_s
        done = 0
        while True:
            operation()
            if time.perf_counter() > end:
                return done
            done += 1

    with ThreadPoolExecutor(len(operations)) as threads:
        return window_s / sum(threads.map(repeat, operations))
