"""Dates as people write them: what is named, from its beginning to its end, in the person's own time zone.

A name is as long as it is precise: `2026-10` is a month, `3 days ago` a day, `2026-10-05 14:30` a minute. Days and
longer follow the calendar: weeks begin on Monday, and a day can have 23 or 25 hours. Hours and minutes are counted back
from now: `last hour` is 60 minutes, `2 hours ago` is a moment. A weekday, a month or a day of a month without a year is
the most recent one that has begun. This module reads no clock: the caller passes `now`.
"""

import re
from calendar import monthrange
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta

import msgspec

from clew.model.errors import InvalidInput
from clew.model.plain import plain

_WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_MONTHS = "january february march april may june july august september october november december".split()
# Three letters distinguish the names; the rest of the name is optional.
_WEEKDAY = {name[:n]: i for i, name in enumerate(_WEEKDAYS) for n in range(3, len(name) + 1)}
_MONTH = {name[:n]: i for i, name in enumerate(_MONTHS, 1) for n in range(3, len(name) + 1)}
_UNITS = (
    "m min mins minute minutes", "h hr hrs hour hours", "d day days",
    "w week weeks", "mo month months", "y year years",
)  # fmt: skip
_UNIT = {word: words.split()[-2] for words in _UNITS for word in words.split()}
_SHORT = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1)}
_IN_DAYS = {"day": 1, "week": 7}
_IN_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_DAY = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LONGEST = 100


class Period(msgspec.Struct, frozen=True):
    """From `start` to before `end`, in microseconds since the epoch; None is open."""

    start: int | None
    end: int | None


class _Named(msgspec.Struct, frozen=True):
    """The period that one name stands for. A moment has no end; alone it means from then on."""

    start: int
    end: int | None = None

    @property
    def over(self) -> int:
        return self.start if self.end is None else self.end


def period(text: str, now: datetime) -> Period:
    """What the text describes: one name, a bound such as `since` or `before` with a name, or two names."""
    words = _words(text)
    for pattern, bounds in _BOUNDS:
        if match := re.fullmatch(pattern, words):
            days = bounds(*(_named(name, now, text) for name in match.groups()))
            if days.start is not None and days.end is not None and days.end <= days.start:
                raise InvalidInput(f"{_quoted(text)} ends before it begins; put the earlier date first, with its year")
            return days
    named = _named(words, now, text)
    return Period(named.start, named.end)


def since(text: str, now: datetime) -> int:
    """The beginning of the named period."""
    return _named(_words(text), now, text).start


def until(text: str, now: datetime) -> int:
    """The end of the named period, so that until October includes October."""
    return _named(_words(text), now, text).over


def _words(text: str) -> str:
    return " ".join(text.lower().split()) if len(text) <= _LONGEST else ""


def _quoted(text: str) -> str:
    words = " ".join(text[:_LONGEST].split())
    return f"'{plain(words if len(words) <= 40 else words[:40] + '...')}'"


def _named(words: str, now: datetime, text: str) -> _Named:
    """The period that one name stands for; `text` is the whole input, for errors."""
    name = words.removeprefix("on ").removeprefix("in ")
    try:
        for pattern, read in _NAMES:
            if match := re.fullmatch(pattern, name, re.ASCII):
                return read(now, *match.groups())
    except (ValueError, OverflowError):
        pass  # The form is valid, but the day does not exist, or lies outside the years 1970 to 9999.
    raise InvalidInput(
        f"{_quoted(text)} is not a valid date; write one like: yesterday, last week, tuesday, 3 days ago, 2026-10-05"
    )


# Names ----------------------------------------------------------------------------------------------------------------


def _past(now: datetime, count: str, word: str) -> _Named:
    return _Named(_micros(_before(now, _UNIT[word], int(count))), _micros(now))


def _ago(now: datetime, count: str, word: str) -> _Named:
    unit = _UNIT[word]
    then = _before(now, unit, 1 if count in ("a", "an", "one") else int(count))
    return _Named(_micros(then)) if unit in _SHORT else _unit(now, unit, then.date())


def _hour(now: datetime) -> _Named:
    start = _micros(now.replace(minute=0, second=0, microsecond=0))
    return _Named(start, start + _SHORT["hour"] // _MICROSECOND)


def _weekday(now: datetime, last: str | None, word: str) -> _Named:
    back = (now.weekday() - _WEEKDAY[word]) % 7 or (7 if last else 0)
    return _unit(now, "day", now.date() - _DAY * back)


def _month(now: datetime, last: str | None, word: str) -> _Named:
    back = (now.month - _MONTH[word]) % 12 or (12 if last else 0)
    return _unit(now, "month", _back(now.date(), "month", back))


def _day_of_month(now: datetime, word: str, day: str, year: str | None) -> _Named:
    if year:
        return _unit(now, "day", date(int(year), _MONTH[word], int(day)))
    for tried in range(now.year, now.year - 9, -1):  # The last 29 February can be eight years ago.
        if int(day) <= monthrange(tried, _MONTH[word])[1]:
            day_of_year = date(tried, _MONTH[word], int(day))
            if day_of_year <= now.date():
                return _unit(now, "day", day_of_year)
    raise ValueError(day)


def _moment(now: datetime, minute: str, second: str | None, fraction: str | None, offset: str | None) -> _Named:
    moment = datetime.fromisoformat(f"{minute}{second or ''}{fraction or ''}{(offset or '').strip()}".upper())
    start = _micros(moment if moment.tzinfo else moment.replace(tzinfo=now.tzinfo))
    return _Named(start, start + (1 if fraction else 1_000_000 if second else 60_000_000))


_COUNT, _ANY_UNIT, _ANY_DAY, _ANY_MONTH = r"[1-9]\d{0,5}", *("|".join(words) for words in (_UNIT, _WEEKDAY, _MONTH))
# Compiled on first use: most commands read no date.
_NAMES: list[tuple[str, Callable[..., _Named]]] = [
    (r"now", lambda now: _Named(_micros(now))),
    (r"today", lambda now: _unit(now, "day", now.date())),
    (r"yesterday", lambda now: _unit(now, "day", now.date() - _DAY)),
    (r"this hour", _hour),
    (r"this (day|week|month|quarter|year)", lambda now, unit: _unit(now, unit, now.date())),
    (r"last (day|week|month|quarter|year)", lambda now, unit: _unit(now, unit, _back(now.date(), unit, 1))),
    (r"(?:last|past) (minute|hour|day|week|month|year)", lambda now, unit: _past(now, "1", unit)),
    (rf"(?:last |past )?({_COUNT}) ?({_ANY_UNIT})", _past),
    (rf"({_COUNT}|an?|one) ?({_ANY_UNIT}) ago", _ago),
    (rf"(last )?({_ANY_DAY})", _weekday),
    (rf"(last )?({_ANY_MONTH})", _month),
    (rf"({_ANY_MONTH}),? (\d{{4}})", lambda now, word, year: _unit(now, "month", date(int(year), _MONTH[word], 1))),
    (rf"({_ANY_MONTH}) (\d{{1,2}})(?:st|nd|rd|th)?(?:,? (\d{{4}}))?", _day_of_month),
    (
        rf"(\d{{1,2}})(?:st|nd|rd|th)? ({_ANY_MONTH})(?:,? (\d{{4}}))?",
        lambda now, day, word, year: _day_of_month(now, word, day, year),
    ),
    (r"(\d{4})", lambda now, y: _unit(now, "year", date(int(y), 1, 1))),
    (r"(\d{4})-(\d{1,2})", lambda now, y, m: _unit(now, "month", date(int(y), int(m), 1))),
    (r"(\d{4})-(\d{1,2})-(\d{1,2})", lambda now, y, m, d: _unit(now, "day", date(int(y), int(m), int(d)))),
    (r"(\d{4})-?w(\d{1,2})", lambda now, y, w: _unit(now, "week", date.fromisocalendar(int(y), int(w), 1))),
    (r"(\d{4})-?q([1-4])", lambda now, y, q: _unit(now, "quarter", date(int(y), int(q) * 3, 1))),
    (r"(\d{4}-\d\d-\d\d[t ]\d\d:\d\d)(?:(:\d\d)([.,]\d{1,9})?)?( ?(?:z|[+-]\d\d(?::?[0-5]\d)?))?", _moment),
]
_BOUNDS: list[tuple[str, Callable[..., Period]]] = [
    (r"between (.+) and (.+)", lambda x, y: Period(x.start, y.over)),
    (r"(?:(?:from|since) )?(.+?) ?\.\.", lambda x: Period(x.start, None)),
    (r"\.\. ?(.+)", lambda y: Period(None, y.over)),
    (r"(?:(?:from|since) )?(.+?)(?: to | until | ?\.\. ?)(.+)", lambda x, y: Period(x.start, y.over)),
    (r"(?:from|since) (.+)", lambda x: Period(x.start, None)),
    (r"after (.+)", lambda x: Period(x.over, None)),
    (r"until (.+)", lambda y: Period(None, y.over)),
    (r"before (.+)", lambda y: Period(None, y.start)),
]


# The calendar ---------------------------------------------------------------------------------------------------------


def _unit(now: datetime, unit: str, day: date) -> _Named:
    """The day, week, month, quarter or year that holds this day."""
    first = last = day
    if unit == "week":
        first = day - _DAY * day.weekday()
        last = first + _DAY * 6
    elif months := _IN_MONTHS.get(unit):
        begins = day.month - (day.month - 1) % months
        ends = begins + months - 1
        first, last = date(day.year, begins, 1), date(day.year, ends, monthrange(day.year, ends)[1])
    # The day after the last one that a date can be has no midnight.
    end = _midnight(last + _DAY, now) if last < date.max else _midnight(last, now) + _DAY // _MICROSECOND
    return _Named(_midnight(first, now), end)


def _midnight(day: date, now: datetime) -> int:
    # Where a change of the clocks skips or repeats midnight, this is the first moment of the day.
    return _micros(datetime.combine(day, time(), now.tzinfo))


def _before(now: datetime, unit: str, count: int) -> datetime:
    """The same time of day so many days or longer ago; or exactly so many hours or minutes ago."""
    if unit in _SHORT:
        return now.astimezone(UTC) - _SHORT[unit] * count
    return datetime.combine(_back(now.date(), unit, count), now.time(), now.tzinfo)


def _back(day: date, unit: str, count: int) -> date:
    """The day so many units earlier; in a month too short for it the last one."""
    if unit in _IN_DAYS:
        return day - _DAY * _IN_DAYS[unit] * count
    year, month = divmod(day.year * 12 + day.month - 1 - _IN_MONTHS[unit] * count, 12)
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def _micros(moment: datetime) -> int:
    if moment.year < _EPOCH.year:
        raise ValueError(moment)
    return (moment - _EPOCH) // _MICROSECOND
