"""The map of a whole session: where its prompts, errors, edits and decisions are, as paths that a template draws.

A path for each type holds all of its marks, so the map of a session of any length has the same few elements.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from clew.service.sessions.overview import Landmark

WIDTH = 1000
TYPES = ("prompt", "edit", "error", "decision", "mark")
# The height of a lane, and how many stretches of the map lead somewhere.
LANE, STRETCHES = 7, 40


class Lane(NamedTuple):
    """The marks of one type as the data of an SVG path; and where the next and the one before are, 0 for none."""

    type: str
    path: str
    total: int
    previous: int
    next: int


class Stretch(NamedTuple):
    """A part of the map that leads to the first thing in it: its place, its events, and how many marks are in it."""

    x: float
    width: float
    seq: int
    first: int
    last: int
    marks: int


class SessionMap(NamedTuple):
    lanes: list[Lane]
    stretches: list[Stretch]
    height: int
    head: int
    here: float
    """Where the reader is, from 0 to `WIDTH`."""
    here_width: float


def session_map(landmarks: Sequence[Landmark], head: int, *, first: int, last: int, current: int) -> SessionMap:
    """The map of a session with so many events; the page shows `first` to `last`, and the reader is at `current`."""
    seqs = {type: [mark.seq for mark in landmarks if mark.type == type] for type in TYPES}
    lanes = [
        Lane(
            type, _path(found, number, head), len(found), _before(found, current), _after(found, current)
        )
        for number, (type, found) in enumerate(seqs.items())
    ]  # fmt: skip
    here = _x(first, head)
    return SessionMap(
        lanes, _stretches([mark.seq for mark in landmarks], head), LANE * len(TYPES), head, here,
        max(3.0, round(_x(last + 1, head) - here, 1)),
    )  # fmt: skip


def _x(seq: int, head: int) -> float:
    return round((seq - 1) * WIDTH / max(1, head), 1)


def _path(seqs: list[int], lane: int, head: int) -> str:
    """A bar for each mark; marks that would lie on each other are one."""
    width = max(1.5, min(8.0, WIDTH / max(1, head)))
    top, height = lane * LANE + 1, LANE - 2
    bars, end = [], -1.0
    for seq in seqs:
        x = _x(seq, head)
        if x < end:
            continue
        end = x + width
        bars.append(f"M{x:g} {top}h{width:.1f}v{height}h-{width:.1f}z")
    return "".join(bars)


def _stretches(seqs: list[int], head: int) -> list[Stretch]:
    count = max(1, min(STRETCHES, head))
    made = []
    for number in range(count):
        first, last = number * head // count + 1, (number + 1) * head // count
        low, high = bisect_left(seqs, first), bisect_right(seqs, last)
        seq = seqs[low] if low < high else first
        made.append(Stretch(round(WIDTH * number / count, 1), round(WIDTH / count, 1), seq, first, last, high - low))
    return made


def _before(seqs: list[int], current: int) -> int:
    index = bisect_left(seqs, current)
    return seqs[index - 1] if index else 0


def _after(seqs: list[int], current: int) -> int:
    index = bisect_right(seqs, current)
    return seqs[index] if index < len(seqs) else 0
