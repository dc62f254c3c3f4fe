"""Dates as people write them: the right day in the person's own zone, and never another error than bad input."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clew.model.dates import Period, period, since, until
from clew.model.errors import InvalidInput

BERLIN = ZoneInfo("Europe/Berlin")
# A Tuesday, in a zone that is an hour ahead of UTC in winter and two in summer.
NOW = datetime(2026, 11, 17, 14, 45, 30, 250_000, tzinfo=BERLIN)


def at(text: str, zone: tzinfo = BERLIN) -> int:
    """The microseconds of a local time, written in full or as far as it is not zero."""
    moment = datetime.fromisoformat(text).replace(tzinfo=zone)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def span(start: str | None, end: str | None) -> Period:
    return Period(start and at(start), end and at(end))


DAYS = {
    "today": ("2026-11-17", "2026-11-18"),
    "yesterday": ("2026-11-16", "2026-11-17"),
    "3 days ago": ("2026-11-14", "2026-11-15"),
    "1 day ago": ("2026-11-16", "2026-11-17"),
    "2 weeks ago": ("2026-11-02", "2026-11-09"),
    "a month ago": ("2026-10-01", "2026-11-01"),
    "2 years ago": ("2024-01-01", "2025-01-01"),
    "this week": ("2026-11-16", "2026-11-23"),
    "this month": ("2026-11-01", "2026-12-01"),
    "this year": ("2026-01-01", "2027-01-01"),
    "last week": ("2026-11-09", "2026-11-16"),
    "last month": ("2026-10-01", "2026-11-01"),
    "last quarter": ("2026-07-01", "2026-10-01"),
    "last year": ("2025-01-01", "2026-01-01"),
    "tuesday": ("2026-11-17", "2026-11-18"),
    "tue": ("2026-11-17", "2026-11-18"),
    "on tues": ("2026-11-17", "2026-11-18"),
    "last tuesday": ("2026-11-10", "2026-11-11"),
    "monday": ("2026-11-16", "2026-11-17"),
    "last monday": ("2026-11-16", "2026-11-17"),
    "wednesday": ("2026-11-11", "2026-11-12"),
    "november": ("2026-11-01", "2026-12-01"),
    "last november": ("2025-11-01", "2025-12-01"),
    "october": ("2026-10-01", "2026-11-01"),
    "in oct": ("2026-10-01", "2026-11-01"),
    "december": ("2025-12-01", "2026-01-01"),
    "oct 2026": ("2026-10-01", "2026-11-01"),
    "5 oct": ("2026-10-05", "2026-10-06"),
    "oct 5": ("2026-10-05", "2026-10-06"),
    "17 nov": ("2026-11-17", "2026-11-18"),
    "18 nov": ("2025-11-18", "2025-11-19"),
    "29 february": ("2024-02-29", "2024-03-01"),
    "5 october 2026": ("2026-10-05", "2026-10-06"),
    "october 5, 2026": ("2026-10-05", "2026-10-06"),
    "October 5th 2026": ("2026-10-05", "2026-10-06"),
    "2026": ("2026-01-01", "2027-01-01"),
    "2026-10": ("2026-10-01", "2026-11-01"),
    "2026-12": ("2026-12-01", "2027-01-01"),
    "2026-10-05": ("2026-10-05", "2026-10-06"),
    "2026-W41": ("2026-10-05", "2026-10-12"),
    "2026-W01": ("2025-12-29", "2026-01-05"),
    "2026-Q3": ("2026-07-01", "2026-10-01"),
    "2026-Q4": ("2026-10-01", "2027-01-01"),
    "  LAST \t Week ": ("2026-11-09", "2026-11-16"),
}
TIMES = {
    "this hour": ("2026-11-17T14:00", "2026-11-17T15:00"),
    "last hour": ("2026-11-17T13:45:30.250", "2026-11-17T14:45:30.250"),
    "past week": ("2026-11-10T14:45:30.250", "2026-11-17T14:45:30.250"),
    "past month": ("2026-10-17T14:45:30.250", "2026-11-17T14:45:30.250"),
    "past year": ("2025-11-17T14:45:30.250", "2026-11-17T14:45:30.250"),
    "last 7 days": ("2026-11-10T14:45:30.250", "2026-11-17T14:45:30.250"),
    "7d": ("2026-11-10T14:45:30.250", "2026-11-17T14:45:30.250"),
    "2w": ("2026-11-03T14:45:30.250", "2026-11-17T14:45:30.250"),
    "past 3 hours": ("2026-11-17T11:45:30.250", "2026-11-17T14:45:30.250"),
    "12h": ("2026-11-17T02:45:30.250", "2026-11-17T14:45:30.250"),
    "90m": ("2026-11-17T13:15:30.250", "2026-11-17T14:45:30.250"),
    "now": ("2026-11-17T14:45:30.250", None),
    "2 hours ago": ("2026-11-17T12:45:30.250", None),
    "an hour ago": ("2026-11-17T13:45:30.250", None),
    "2026-10-05 14:30": ("2026-10-05T14:30", "2026-10-05T14:31"),
    "2026-10-05T14:30:10": ("2026-10-05T14:30:10", "2026-10-05T14:30:11"),
    "2026-10-05T14:30:00Z": ("2026-10-05T16:30:00", "2026-10-05T16:30:01"),
    "2026-10-05T14:30:00+05:30": ("2026-10-05T11:00:00", "2026-10-05T11:00:01"),
    "2026-10-05 14:30 -0800": ("2026-10-06T00:30", "2026-10-06T00:31"),
    "2026-10-05T14:30:00.250Z": ("2026-10-05T16:30:00.250", "2026-10-05T16:30:00.250001"),
}
BOUNDS = {
    "since tuesday": ("2026-11-17", None),
    "from 2026-10": ("2026-10-01", None),
    "2026-10..": ("2026-10-01", None),
    "after october": ("2026-11-01", None),
    "until october": (None, "2026-11-01"),
    "..2026-10": (None, "2026-11-01"),
    "before october": (None, "2026-10-01"),
    "until 2 hours ago": (None, "2026-11-17T12:45:30.250"),
    "before 2026-10-05 14:30": (None, "2026-10-05T14:30"),
    "5 oct to 7 oct": ("2026-10-05", "2026-10-08"),
    "from monday to tuesday": ("2026-11-16", "2026-11-18"),
    "since monday until yesterday": ("2026-11-16", "2026-11-17"),
    "between 2026-10-05 and 2026-10-07": ("2026-10-05", "2026-10-08"),
    "2026-10-05..2026-10-07": ("2026-10-05", "2026-10-08"),
    "2026-09 .. 2026-10": ("2026-09-01", "2026-11-01"),
    "last week to now": ("2026-11-09", "2026-11-17T14:45:30.250"),
}


@pytest.mark.parametrize(("text", "bounds"), [*DAYS.items(), *TIMES.items(), *BOUNDS.items()])
def test_what_a_text_describes(text: str, bounds: tuple[str | None, str | None]) -> None:
    assert period(text, NOW) == span(*bounds)


@pytest.mark.parametrize(("text", "bounds"), DAYS.items())
def test_since_is_the_beginning_and_until_the_end_of_what_is_named(text: str, bounds: tuple[str, str]) -> None:
    assert (since(text, NOW), until(text, NOW)) == (at(bounds[0]), at(bounds[1]))


def test_until_a_moment_is_that_moment() -> None:
    assert until("2 hours ago", NOW) == since("2 hours ago", NOW) == at("2026-11-17T12:45:30.250")


HOUR = 3_600_000_000


@pytest.mark.parametrize(
    ("zone", "text", "hours"),
    [
        ("Europe/Berlin", "2026-03-29", 23),
        ("Europe/Berlin", "2026-10-25", 25),
        ("America/New_York", "2026-11-01", 25),
        ("Australia/Lord_Howe", "2026-04-05", 24.5),
        ("Africa/Cairo", "2026-04-24", 23),  # Midnight is skipped.
        ("America/Havana", "2026-11-01", 25),  # The hour after midnight comes twice.
        ("America/Sao_Paulo", "2018-02-17", 25),  # The hour before midnight comes twice.
        ("UTC", "2026-03-29", 24),
    ],
)
def test_a_day_is_as_long_as_it_is_where_the_person_lives(zone: str, text: str, hours: float) -> None:
    now = datetime(2026, 11, 17, 12, tzinfo=ZoneInfo(zone))
    found = period(text, now)
    assert found.start is not None
    assert found.end is not None
    assert (found.end - found.start) / HOUR == hours
    day = datetime.fromisoformat(text).date()
    first, before = (datetime.fromtimestamp((found.start - less) / 1e6, now.tzinfo) for less in (0, 1_000_000))
    assert (first.date(), before.date()) == (day, day - timedelta(days=1))


def test_days_keep_the_time_of_day_over_a_change_of_the_clocks_and_hours_do_not() -> None:
    now = datetime(2026, 10, 25, 12, tzinfo=BERLIN)
    assert since("1d", now) == at("2026-10-24T12:00")
    assert since("24h", now) == at("2026-10-24T13:00")


def test_hours_are_counted_through_the_hour_that_comes_twice() -> None:
    now = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1)
    assert since("1h", now) == at("2026-10-25T02:30")
    assert since("this hour", now) == at("2026-10-25T02:00") + HOUR


def test_a_fixed_offset_is_a_zone_too() -> None:
    zone = timezone(timedelta(hours=5, minutes=30))
    now = datetime(2026, 11, 17, 1, tzinfo=zone)
    assert period("yesterday", now) == Period(at("2026-11-16", zone), at("2026-11-17", zone))


def test_a_month_too_short_for_the_day_ends_with_its_last() -> None:
    assert since("past month", datetime(2026, 3, 31, 9, tzinfo=BERLIN)) == at("2026-02-28T09:00")


def test_the_first_and_the_last_year() -> None:
    now = NOW.astimezone(UTC)
    assert period("1970", now) == Period(0, at("1971-01-01", UTC))
    assert period("9999-12-31", now).end == period("9999", now).end == at("9999-12-31", UTC) + 24 * HOUR


@pytest.mark.parametrize(
    "text",
    """
    |next tuesday|tomorrow|soon|30 feb|31 june|29 feb 2026|2026-02-30|2026-13|2026-1-1-1|2026-W54|2026-Q5|1969|10000
    |1969-12-31|999999 years ago|999999 days|999999w ago|999999 hours ago|2026-10-05 25:00|2026-10-05 14:30+99|0 days
    |since|..|to|since next week|between monday|since since monday|tuesday to|last 2 tuesdays|٣ days ago|9999-W52
    |100 years|my|٢٠٢٦
    """.replace("\n    ", "").split("|"),
)
def test_anything_else_is_refused_with_examples(text: str) -> None:
    for read in (period, since, until):
        with pytest.raises(InvalidInput, match=r"is not a valid date; write one like: .*yesterday.*2026-10-05"):
            read(text, NOW)


@pytest.mark.parametrize("text", ["7 oct to 5 oct", "october to december", "2026-10..2026-09", "now to now"])
def test_a_range_that_ends_before_it_begins_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=f"'{text}' ends before it begins"):
        period(text, NOW)


def test_more_than_a_line_is_refused_whatever_it_says() -> None:
    with pytest.raises(InvalidInput):
        period("today" + " " * 100, NOW)


def test_a_refusal_quotes_what_was_written_short_and_plain() -> None:
    with pytest.raises(InvalidInput) as refused:
        period("\x1b[31m" + "red\n" * 2_000_000, NOW)
    assert str(refused.value).startswith("'\\x1b[31mred red red")
    assert len(str(refused.value)) < 160


WORDS = "since until from to between and before after last past this on in ago week days hours tuesday oct 2026 9999 "
WORDS += "1970 999999 31 5 12 -W53 -Q1 T23:59:59.999999 +14:00 -12:00 Z .. , : a an year months may now today d h w y"


@given(
    text=st.text() | st.lists(st.sampled_from(WORDS.split()), max_size=7).map(" ".join)
    | st.lists(st.sampled_from(WORDS.split()), max_size=7).map("".join)
    | st.from_regex(r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{1,9}[+-][0-9]{2}:[0-9]{2}\Z"),
    now=st.datetimes(
        min_value=datetime(1971, 1, 1), timezones=st.sampled_from([UTC, BERLIN, ZoneInfo("Pacific/Apia")]),
        allow_imaginary=False,
    ),
)  # fmt: skip
@example(text="this year", now=datetime(9999, 12, 31, 23, 59, tzinfo=BERLIN))
@example(text="last year", now=datetime(1971, 1, 1, tzinfo=ZoneInfo("Pacific/Apia")))
def test_no_text_at_any_time_raises_anything_but_invalid_input(text: str, now: datetime) -> None:
    for read in (since, until):
        with suppress(InvalidInput):
            assert isinstance(read(text, now), int)
    try:
        found = period(text, now)
    except InvalidInput:
        return
    assert found.start is None or found.end is None or found.start < found.end
