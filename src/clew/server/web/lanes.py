"""Where sessions are on an axis of time: a lane for each agent, in percent of the width, for a template."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from clew.model.session import Status
from clew.service.sessions.line import SessionLine

# So many sessions at once are drawn in one lane; more are counted.
MOST_ROWS = 8
ROW, BAR = 16, 12
NARROWEST = 0.5
GOING_ON = (Status.ACTIVE, Status.WAITING)


class Bar(NamedTuple):
    """A session: its place in percent, its row, and itself."""

    x: float
    width: float
    y: int
    line: SessionLine
    is_going_on: bool
    ended_at: int


class Lane(NamedTuple):
    name: str
    bars: list[Bar]
    height: int
    more: int
    """Sessions that found no row."""
    sessions: int
    errors: int


class Tick(NamedTuple):
    """A line across the lanes, and its time in microseconds."""

    x: float
    at: int
    is_day: bool


def lanes(
    lines: Iterable[SessionLine], name_of: Callable[[SessionLine], str], *, start: int, end: int, now: int
) -> list[Lane]:
    """A lane for each name, the one with the latest activity first."""
    by_name: dict[str, list[SessionLine]] = {}
    for line in lines:
        by_name.setdefault(name_of(line), []).append(line)
    return [_lane(name, members, start, end, now) for name, members in by_name.items()]


def _lane(name: str, members: list[SessionLine], start: int, end: int, now: int) -> Lane:
    bars: list[Bar] = []
    free_from: list[float] = []
    more = 0
    for line in sorted(members, key=lambda line: line.began_at):
        is_going_on = line.status in GOING_ON
        ended_at = max(line.last_at, now) if is_going_on else line.last_at
        x = _percent(line.began_at, start, end)
        width = max(_percent(ended_at, start, end) - x, NARROWEST)
        x = min(x, 100 - NARROWEST)
        row = next((row for row, free in enumerate(free_from) if free <= x), len(free_from))
        if row == MOST_ROWS:
            more += 1
            continue
        free_from[row : row + 1] = [x + width + 0.1]
        bars.append(Bar(round(x, 3), round(min(width, 100 - x), 3), row * ROW + 2, line, is_going_on, ended_at))
    height = max(1, len(free_from)) * ROW + 2
    return Lane(name, bars, height, more, len(members), sum(line.errors for line in members))


def ticks(start: int, end: int, zone: datetime) -> list[Tick]:
    """The lines of the axis, at round times of the zone of `zone`: as fine as four to eight of them fit."""
    step = next((step for step in STEPS if (end - start) / step.total_seconds() / 1e6 <= 8), STEPS[-1])
    begin = datetime.fromtimestamp(start / 1e6, zone.tzinfo)
    at = begin.replace(hour=0, minute=0, second=0, microsecond=0)
    made = []
    while (us := round(at.timestamp() * 1e6)) < end:
        if us > start:
            made.append(Tick(round(_percent(us, start, end), 3), us, step >= timedelta(days=1)))
        at += step
    return made


STEPS: Sequence[timedelta] = (
    timedelta(minutes=5), timedelta(minutes=10), timedelta(minutes=15), timedelta(hours=1), timedelta(hours=3),
    timedelta(days=1), timedelta(days=4), timedelta(days=14), timedelta(days=60),
)  # fmt: skip


def _percent(at: int, start: int, end: int) -> float:
    return min(100.0, max(0.0, 100.0 * (at - start) / (end - start)))
