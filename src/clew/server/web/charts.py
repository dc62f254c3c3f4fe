"""Where the parts of a chart are: a template draws them as SVG, so a chart needs no script."""

from calendar import day_abbr, day_name
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import NamedTuple

LEVELS = 4
WEEKS = 53
CELL, GAP = 11, 3
STEP = CELL + GAP
LABEL = 32
BARS_WIDTH, BARS_HEIGHT = 720, 160


class Cell(NamedTuple):
    """A day: its place, how much was done (0 to 4), and its words."""

    x: int
    y: int
    level: int
    day: date
    value: int


class Mark(NamedTuple):
    """A word at the edge of a chart, and where."""

    x: int
    name: str


class HeatMap(NamedTuple):
    cells: list[Cell]
    months: list[Mark]
    width: int
    height: int
    total: int
    days: int
    """On how many days something was done."""


class HourCell(NamedTuple):
    """An hour of the week: its place, how much was done in it (0 to 4), and its words."""

    x: int
    y: int
    level: int
    words: str
    value: int


class WeekMap(NamedTuple):
    cells: list[HourCell]
    days: list[Mark]
    hours: list[Mark]
    width: int
    height: int
    total: int


class Segment(NamedTuple):
    """A part of a bar: its place, and which of the series it belongs to."""

    y: float
    height: float
    series: int
    name: str
    value: int


class Bar(NamedTuple):
    x: float
    width: float
    label: str
    total: int
    segments: list[Segment]


def heat_map(values: Mapping[str, int], today: date) -> HeatMap:
    """The last year, a column for each week; `values` are by day, as 2026-11-19."""
    monday = today - timedelta(days=today.weekday() + 7 * (WEEKS - 1))
    most = max(values.values(), default=0)
    cells, months = [], []
    for number in range((today - monday).days + 1):
        day = monday + timedelta(days=number)
        week, weekday = divmod(number, 7)
        value = values.get(str(day), 0)
        cells.append(Cell(week * STEP, weekday * STEP, _level(value, most), day, value))
        if day.day <= 7 and weekday == 0 and week < WEEKS - 2:
            months.append(Mark(week * STEP, f"{day:%b}"))
    shown = [cell.value for cell in cells]
    return HeatMap(cells, months, WEEKS * STEP, 7 * STEP, sum(shown), sum(1 for value in shown if value))


def week_map(values: Mapping[tuple[int, int], int]) -> WeekMap:
    """The hours of a week, a row for each day; `values` are by weekday, of which Monday is 0, and hour."""
    most = max(values.values(), default=0)
    cells = [
        HourCell(LABEL + hour * STEP, weekday * STEP, _level(value, most), f"{day_name[weekday]} {hour:02}:00", value)
        for weekday in range(7)
        for hour in range(24)
        for value in (values.get((weekday, hour), 0),)
    ]
    days = [Mark(weekday * STEP, day_abbr[weekday]) for weekday in range(7)]
    hours = [Mark(LABEL + hour * STEP, f"{hour:02}") for hour in range(0, 24, 3)]
    return WeekMap(cells, days, hours, LABEL + 24 * STEP, 7 * STEP, sum(values.values()))


def _level(value: int, most: int) -> int:
    return 0 if not value else min(LEVELS, 1 + value * LEVELS // (most + 1))


def bars(rows: Sequence[tuple[str, Sequence[tuple[str, int]]]], series: Sequence[str]) -> list[Bar]:
    """A bar for each row of (label, [(series, value)]), stacked; a series that is not among `series` is the last."""
    most = max((sum(value for _, value in values) for _, values in rows), default=0) or 1
    step = BARS_WIDTH / max(1, len(rows))
    made = []
    for number, (label, values) in enumerate(rows):
        segments: list[Segment] = []
        top = float(BARS_HEIGHT)
        for name, value in values:
            height = value * BARS_HEIGHT / most
            top -= height
            index = series.index(name) if name in series else len(series)
            segments.append(Segment(round(top, 1), round(height, 1), index, name, value))
        width = max(1.0, min(40.0, step * 0.75))
        made.append(Bar(round(number * step + (step - width) / 2, 1), round(width, 1), label,
                        sum(value for _, value in values), segments))  # fmt: skip
    return made
