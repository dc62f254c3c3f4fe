"""Two trees compared by pairs: what was measured of one after the other, moments apart.

The control is the old tree against itself, in processes of its own and measured in the same way: what it may differ by
is noise. A figure is worse when its ratio is over the limit by more than that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import median
from typing import Literal

BEFORE, AFTER, CONTROL = "before", "after", "control"
NAMES = (BEFORE, AFTER, CONTROL)
# Every name is as often first as last, and each pair as often neighbours: no tree has the quieter place.
ORDERS = (
    (BEFORE, AFTER, CONTROL), (CONTROL, AFTER, BEFORE), (AFTER, BEFORE, CONTROL),
    (CONTROL, BEFORE, AFTER), (BEFORE, CONTROL, AFTER), (AFTER, CONTROL, BEFORE),
)  # fmt: skip
LIMIT = 0.05
RESAMPLES = 1000

Verdict = Literal["same", "better", "unclear", "WORSE"]
Samples = Mapping[str, Sequence[Sequence[float]]]
"""For each name its rounds, for each round its samples; those at the same place were measured one after the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One figure in both trees. The ratio is after to before, between `low` and `high` in 95 of 100 repetitions."""

    figure: str
    unit: str
    before: float
    after: float
    ratio: float
    low: float
    high: float
    control: float  # the old tree against itself: what the ratio would be if nothing had changed
    noise: float  # how far the control stays from 1 in 95 of 100 repetitions
    pairs: int
    verdict: Verdict


def compare(figure: str, unit: str, samples: Samples) -> Comparison:
    """Compare one figure."""
    pairs = _ratios(samples[AFTER], samples[BEFORE])
    controls = _ratios(samples[CONTROL], samples[BEFORE])
    ratio = _median(pairs)
    likely = _resampled(pairs)
    noise = sorted(max(value, 1 / value) - 1 for value in _resampled(controls))[RESAMPLES * 95 // 100]
    return Comparison(
        figure=figure,
        unit=unit,
        before=_median(samples[BEFORE]),
        after=_median(samples[AFTER]),
        ratio=ratio,
        low=likely[RESAMPLES * 5 // 200],
        high=likely[RESAMPLES * 195 // 200],
        control=_median(controls),
        noise=noise,
        pairs=sum(map(len, pairs)),
        verdict=_verdict(ratio, noise),
    )


def _ratios(over: Sequence[Sequence[float]], under: Sequence[Sequence[float]]) -> list[list[float]]:
    return [
        [high / low for high, low in zip(highs, lows, strict=True)] for highs, lows in zip(over, under, strict=True)
    ]


def _median(rounds: Sequence[Sequence[float]]) -> float:
    return median(value for samples in rounds for value in samples)


def _resampled(rounds: Sequence[Sequence[float]]) -> list[float]:
    """The median of many repetitions, each made of rounds and of their ratios as chance picks them (bootstrap)."""
    random = Random(1)
    medians = []
    for _ in range(RESAMPLES):
        picked = random.choices(rounds, k=len(rounds))
        medians.append(median(ratio for ratios in picked for ratio in random.choices(ratios, k=len(ratios))))
    return sorted(medians)


def _verdict(ratio: float, noise: float) -> Verdict:
    if ratio > 1 + LIMIT + noise:
        return "WORSE"
    if ratio > 1 + LIMIT:
        return "unclear"
    return "better" if 1 / ratio > 1 + LIMIT + noise else "same"
