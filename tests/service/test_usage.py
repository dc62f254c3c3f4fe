"""Usage: every answer counted once, summed up by whatever is asked for, at the right price, on the right day."""

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from clew.model.errors import BudgetExceeded, InvalidInput, NotFound
from clew.model.events import CallMade, Draft, MessageAdded, RuntimeAttached, TurnEnded, Usage, UsageCounted
from clew.service import Context, call
from clew.store import Store
from clew.store.log.opening import Forking
from support.talks import DAY, HOUR, ME, MONDAY, add, on, opened

MESSAGE = "msg_0123456789abcdefgh"
# In US dollars for a million tokens, so in millionths of one for a token.
PRICES = {"m": {"input": 1, "output": 10, "cache_read": 0.5, "cache_write": 2}, "n": {"input": 100, "output": 100}}


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")


@pytest.fixture
def context(store: Store, tmp_path: Path) -> Iterator[Context]:
    (tmp_path / "prices.json").write_text(json.dumps({"models": PRICES}))
    context = on(store, home=str(tmp_path))
    yield context
    context.close()


def answer(message: str = "", at: int = MONDAY, model: str = "m", side: str = "", **used: int) -> Draft:
    body = MessageAdded(role="assistant", text="x", message=message, model=model, side=side, usage=Usage(**used))
    return Draft(body=body, said_at=at)


def usage(context: Context, *by: str, **filters: Any) -> Any:
    return call(context, "usage", {"by": list(by), **filters} if by else filters)


def tokens(context: Context, *by: str, **filters: Any) -> dict[Any, tuple[int, int]]:
    """Input and output by whatever is asked for."""
    rows = usage(context, *by, **filters).rows
    found = {tuple(row.by.values()): (row.input, row.output) for row in rows}
    return {key[0] if len(key) == 1 else key: value for key, value in found.items()}


def total(context: Context, **filters: Any) -> Any:
    return usage(context, **filters).total


# Once -----------------------------------------------------------------------------------------------------------------


def test_what_several_records_tell_of_one_answer_adds_up(context: Context) -> None:
    # A record after the first has only what came on top.
    opened(context, answer(MESSAGE, input=100, output=5), answer(MESSAGE, output=7), answer(MESSAGE))
    found = total(context)
    assert (found.input, found.output, found.answers) == (100, 12, 1)


def test_an_answer_without_an_id_is_an_answer_of_its_own(context: Context) -> None:
    opened(context, answer(input=1), answer(input=2), TurnEnded(usage=Usage(input=4), model="m"))
    opened(context, answer(input=8), Draft(body=UsageCounted(usage=Usage(input=16), model="m")))
    assert (total(context).input, total(context).answers) == (31, 5)


def test_a_copy_is_counted_for_the_one_that_was_stored_first(context: Context) -> None:
    first = opened(context, answer(MESSAGE, input=100, output=5))
    second = opened(context, answer(MESSAGE, input=100, output=5), answer(MESSAGE + "x", input=1))
    assert tokens(context, "session") == {first.id: (100, 5), second.id: (1, 0)}
    lines = {one.id: one.tokens for one in call(context, "sessions", {})}
    assert lines == {first.id: 105, second.id: 1}


def test_what_comes_on_top_after_it_was_copied_still_counts(context: Context) -> None:
    first = opened(context, answer(MESSAGE, input=100, output=5))
    opened(context, answer(MESSAGE, input=100, output=5))
    add(context, first, answer(MESSAGE, output=7))
    assert tokens(context, "session") == {first.id: (100, 12)}


def test_a_record_that_came_again_counts_at_its_new_time_alone(context: Context) -> None:
    told = lambda version, at, **used: msgspec.structs.replace(answer(at=at, **used), source=f"r~{version}")  # noqa: E731
    session = opened(context, told(1, MONDAY, input=5))
    assert tokens(context, "hour") == {"2020-05-04 00:00": (5, 0)}
    add(context, session, told(2, MONDAY + HOUR, input=7))
    assert tokens(context, "hour") == {"2020-05-04 01:00": (7, 0)}


def test_a_copy_counts_once_the_first_record_came_again(context: Context) -> None:
    """The new version is later in the log than the copy."""
    first = opened(context, msgspec.structs.replace(answer(MESSAGE, input=100), source="r~1"))
    second = opened(context, answer(MESSAGE, input=100))
    assert tokens(context, "session") == {first.id: (100, 0)}
    add(context, first, msgspec.structs.replace(answer(MESSAGE, input=101), source="r~2"))
    assert tokens(context, "session") == {second.id: (100, 0)}


def test_a_period_that_ends_inside_of_a_quarter_of_an_hour_counts_what_is_in_it(context: Context) -> None:
    minute = HOUR // 60
    opened(context, *(answer(at=MONDAY + number * minute, input=1 << number) for number in (3, 10, 20, 40)))
    for bounds, expected in (
        ({"since": "2020-05-04 00:05"}, {10, 20, 40}), ({"until": "2020-05-04 00:19"}, {3, 10}),
        ({"since": "2020-05-04 00:05", "until": "2020-05-04 00:11"}, {10}),
        ({"since": "2020-05-04 00:18", "until": "2020-05-04 00:39"}, {20}),
    ):  # fmt: skip
        assert total(context, **bounds).input == sum(1 << number for number in expected), bounds


def test_short_ids_are_a_sessions_own(context: Context) -> None:
    for _ in range(2):
        opened(context, answer("turn-1", input=10), answer("turn-1", input=5))
    assert (total(context).input, total(context).answers) == (30, 2)


def test_a_fork_does_not_count_what_it_shares(context: Context) -> None:
    parent = opened(context, answer(MESSAGE, input=100), answer(input=50))
    child = context.store.open(Forking(parent=parent), actor=ME)
    add(context, child, answer(input=7))
    # A runtime that copies the history when it forks tells the same answers again.
    add(context, child, answer(MESSAGE, input=100))
    assert tokens(context, "session") == {parent.id: (150, 0), child.id: (7, 0)}


def test_subagents_count_where_they_are_told(context: Context) -> None:
    call_ = CallMade(call="1", tool="Task", side="helper", model="n", message=MESSAGE, usage=Usage(input=3))
    session = opened(context, answer(input=10), answer(side="helper", model="n", input=5), Draft(body=call_))
    assert tokens(context, "session") == {session.id: (18, 0)}
    assert tokens(context, "model") == {"m": (10, 0), "n": (8, 0)}


def test_what_is_erased_counts_no_more_and_its_copy_does(context: Context) -> None:
    first = opened(context, answer(MESSAGE, input=100), answer(input=1))
    second = opened(context, answer(MESSAGE, input=100))
    assert tokens(context, "session") == {first.id: (101, 0)}
    call(context, "erase", {"session": first.id})
    assert tokens(context, "session") == {second.id: (100, 0)}


def test_however_unbelievable_a_count_it_is_summed_up(context: Context) -> None:
    opened(context, answer(input=-5, output=2**62), answer(output=2**62))
    found = total(context)
    assert (found.input, found.output) == (0, 2 * 2**40)


# By -------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def month(context: Context) -> dict[str, str]:
    """Two sessions of different projects, agents, people, programs, machines and models."""
    one = opened(
        context, RuntimeAttached(runtime="codex", machine="laptop"), answer(at=MONDAY, input=1, output=2),
        answer(at=MONDAY + DAY, model="n", input=4), project="shop", agent="reviewer", title="One",
    )  # fmt: skip
    other = opened(
        context, answer(at=MONDAY + 30 * DAY, input=8, cache_read=16, cache_write=32, reasoning=64), title="Other",
        actor="person:bob", metadata='{"runtime": "pi", "machine": "server"}',
    )  # fmt: skip
    return {"one": one.id, "other": other.id}


def test_by_whatever_is_asked_for(context: Context, month: dict[str, str]) -> None:
    for by, expected in {
        "day": {"2020-05-04": (1, 2), "2020-05-05": (4, 0), "2020-06-03": (8, 0)},
        "week": {"2020-W19": (5, 2), "2020-W23": (8, 0)},
        "month": {"2020-05": (5, 2), "2020-06": (8, 0)},
        "agent": {"reviewer": (5, 2), "": (8, 0)},
        "person": {ME: (5, 2), "person:bob": (8, 0)},
        "project": {"shop": (5, 2), "default": (8, 0)},
        "runtime": {"codex": (5, 2), "pi": (8, 0)},
        "machine": {"laptop": (5, 2), "server": (8, 0)},
        "model": {"m": (9, 2), "n": (4, 0)},
        "session": {month["one"]: (5, 2), month["other"]: (8, 0)},
    }.items():
        assert tokens(context, by) == expected
    assert list(tokens(context)) == ["2020-05-04", "2020-05-05", "2020-06-03"]
    assert tokens(context, "month", "model", "month") == {
        ("2020-05", "m"): (1, 2), ("2020-05", "n"): (4, 0), ("2020-06", "m"): (8, 0),
    }  # fmt: skip
    assert usage(context, "month", "model", "month").by == ["month", "model"]


def test_the_total_is_that_of_all_rows(context: Context, month: dict[str, str]) -> None:
    found = usage(context, "session")
    for name in ("input", "output", "cache_read", "cache_write", "reasoning", "cost_micros", "answers", "unpriced"):
        assert getattr(found.total, name) == sum(getattr(row, name) for row in found.rows)
    assert (found.total.cache_read, found.total.cache_write, found.total.reasoning) == (16, 32, 64)
    assert [row.title for row in found.rows] == ["One", "Other"]


def test_narrowed_down(context: Context, month: dict[str, str]) -> None:
    for filters, expected in (
        ({"project": "shop"}, 5), ({"agent": "reviewer"}, 5), ({"person": "bob"}, 8), ({"person": ME}, 5),
        ({"runtime": "pi"}, 8), ({"model": "n"}, 4), ({"session": month["other"]}, 8), ({"when": "2020-05"}, 5),
        ({"since": "2020-05-05"}, 12), ({"until": "2020-05-04"}, 1), ({"when": "2020-05", "model": "m"}, 1),
        ({"agent": "nobody"}, 0), ({"agent": "a\0\udcff"}, 0), ({"when": "2019"}, 0), ({"when": "today"}, 0),
    ):  # fmt: skip
        assert total(context, **filters).input == expected, filters
    with pytest.raises(NotFound, match="no project 'x'"):
        usage(context, project="x")
    with pytest.raises(InvalidInput, match="Invalid enum value 'minute'"):
        usage(context, "minute")


def test_the_dearest_come_first_but_days_in_order(context: Context) -> None:
    for spent in (5, 50, 1):
        opened(context, answer(at=MONDAY - spent * DAY, input=spent), agent=f"agent{spent}")
    assert list(tokens(context, "agent")) == ["agent50", "agent5", "agent1"]
    assert list(tokens(context, "agent", "day")) == [
        ("agent1", "2020-05-03"), ("agent5", "2020-04-29"), ("agent50", "2020-03-15"),
    ]  # fmt: skip


def test_the_top_of_the_sessions_or_of_whatever_is_asked_for(context: Context) -> None:
    ids = [opened(context, answer(at=MONDAY + spent * DAY, input=spent)).id for spent in (5, 50, 1)]
    found = usage(context, top=2)
    assert (found.by, [row.by["session"] for row in found.rows], found.more) == (["session"], [ids[1], ids[0]], 1)
    assert found.total.input == 56
    assert list(tokens(context, "day", top=2)) == ["2020-06-23", "2020-05-09"]
    assert usage(context, "day", top=3).more == 0
    with pytest.raises(InvalidInput, match="top is 0; it must be a whole number from 1"):
        usage(context, top=0)


def test_nothing_was_used(context: Context) -> None:
    opened(context)
    found = usage(context)
    assert (found.rows, found.total.answers, found.unpriced) == ([], 0, {})


# What it cost ---------------------------------------------------------------------------------------------------------


def test_tokens_are_priced_by_the_persons_own_table(context: Context) -> None:
    opened(context, answer(input=1000, output=100, cache_read=10, cache_write=50, reasoning=90))
    assert total(context).cost_micros == 1000 + 100 * 10 + 5 + 50 * 2
    assert total(context).unpriced == 0


def test_shipped_prices_are_there_without_a_table(store: Store) -> None:
    context = on(store)
    opened(context, answer(model="claude-sonnet-4-5", input=1_000_000))
    found = usage(context)
    assert found.total.cost_micros == 3_000_000
    assert found.prices_of > "2026"
    context.close()


def test_what_a_program_says_it_cost_wins_answer_by_answer(context: Context) -> None:
    opened(context, answer(input=1000, cost_micros=7), answer(input=1000))
    assert total(context).cost_micros == 1007


def test_a_model_without_a_price_is_named_and_not_guessed(context: Context) -> None:
    opened(context, answer(model="nobody-knows", input=5, output=6), answer(model="", input=1), answer(input=10))
    found = usage(context, "model")
    assert found.unpriced == {"nobody-knows": 11, "(no model)": 1}
    assert (found.total.cost_micros, found.total.unpriced) == (10, 12)
    assert {row.by["model"]: (row.cost_micros, row.unpriced) for row in found.rows} == {
        "m": (10, 0), "nobody-knows": (0, 11), "": (0, 1),
    }  # fmt: skip


def test_a_table_that_is_none_is_refused(context: Context) -> None:
    opened(context, answer(input=1))
    Path(context.home, "prices.json").write_text('{"models": {"m": {"input": -1, "output": 0}}}')
    with pytest.raises(InvalidInput, match=r"prices in .*prices.json cannot be used for 'm': input is -1"):
        usage(context)


def test_budgets_are_compared(context: Context) -> None:
    within = call(context, "open", {"budget_tokens": 1000})
    add(context, context.store.session(within.id), answer(input=100, output=150, cache_read=1000))
    dear = call(context, "open", {"budget_usd": 0.001, "budget_tokens": 10_000})
    with pytest.raises(BudgetExceeded):
        add(context, context.store.session(dear.id), answer(input=100, cost_micros=1500))
    free = opened(context, answer(input=1))
    found = {row.by["session"]: row for row in usage(context, "session").rows}
    assert (found[within.id].budget_tokens, found[within.id].budget_used) == (1000, 0.25)
    assert (found[dear.id].budget_cost_micros, found[dear.id].budget_used) == (1000, 1.5)
    assert (found[free.id].budget_tokens, found[free.id].budget_used) == (None, None)


# Days -----------------------------------------------------------------------------------------------------------------

BERLIN = ("2026-10-24 21:59", "2026-10-24 22:00", "2026-10-25 22:59", "2026-10-25 23:00", "2026-03-29 21:59")


def micros(text: str) -> int:
    return round(datetime.fromisoformat(f"{text}+00:00").timestamp() * 1e6)


def test_a_day_is_one_of_the_persons_own_zone(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    opened(context, *(answer(at=micros(text), input=10**number) for number, text in enumerate(BERLIN)))
    # On 25 October the clocks went back, and on 29 March forward.
    assert {day: count for day, (count, _) in tokens(context, "day").items()} == {
        "2026-03-29": 10_000, "2026-10-24": 1, "2026-10-25": 110, "2026-10-26": 1000,
    }  # fmt: skip
    assert tokens(context, when="2026-10-25") == {"2026-10-25": (110, 0)}
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert list(tokens(context, "day")) == ["2026-03-30", "2026-10-25", "2026-10-26"]


ZONES = ("Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Beirut")


def test_every_moment_is_on_its_day(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(4)
    first = datetime(2011, 12, 1, tzinfo=UTC)
    moments = [first + timedelta(minutes=chance.randrange(500_000)) for _ in range(400)]
    opened(context, *(answer(at=int(moment.timestamp()) * 1_000_000, input=1) for moment in moments))
    for zone in ZONES:
        monkeypatch.setenv("TZ", zone)
        days = [str(moment.astimezone(ZoneInfo(zone)).date()) for moment in moments]
        assert {day: count for day, (count, _) in tokens(context).items()} == {day: days.count(day) for day in days}


def test_no_clock_is_too_far_off(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    opened(context, answer(at=2**63 - 1, input=1), answer(at=-(2**63) + 1, input=2), answer(at=MONDAY, input=4))
    assert tokens(context) == {"1970-01-01": (2, 0), "2020-05-04": (4, 0), "9999-01-01": (1, 0)}
    assert sum(count for count, _ in tokens(context, "month").values()) == 7
    assert [one.last_at // HOUR for one in call(context, "sessions", {})] == [253_370_764_800_000_000 // HOUR]


def test_a_week_is_one_of_iso_8601(context: Context) -> None:
    for text in ("2020-12-31", "2021-01-03", "2021-01-04", "2026-11-15", "2026-11-16"):
        opened(context, answer(at=micros(f"{text} 12:00"), input=1))
    assert {week: count for week, (count, _) in tokens(context, "week").items()} == {
        "2020-W53": 2, "2021-W01": 1, "2026-W46": 1, "2026-W47": 1,
    }  # fmt: skip
    # The name of a week is one that every filter takes.
    assert total(context, when="2020-W53").input == 2


# Windows of five hours ------------------------------------------------------------------------------------------------


def blocks(context: Context, **filters: Any) -> list[Any]:
    return list(call(context, "usage_blocks", filters).blocks)


def hours(*numbers: float) -> list[Draft]:
    return [answer(at=MONDAY + round(number * HOUR), input=10, output=1) for number in numbers]


def test_a_window_is_five_hours_from_the_hour_of_its_first_answer(context: Context) -> None:
    opened(context, *hours(0.5, 4.99, 5, 9.9, 30))
    found = blocks(context)
    assert [((one.start - MONDAY) / HOUR, (one.end - MONDAY) / HOUR, one.answers) for one in found] == [
        (0, 5, 2), (5, 10, 2), (30, 35, 1),
    ]  # fmt: skip
    assert [one.cost_micros for one in found] == [40, 40, 20]
    # 22 tokens in the 269.4 minutes between the two answers; one answer alone counts as five.
    assert [(one.tokens_per_minute, one.cost_micros_per_hour) for one in found] == [(0.1, 9), (0.1, 8), (2.2, 240)]
    assert not any(one.is_active for one in found)
    assert [(one.projected_tokens, one.projected_cost_micros) for one in found] == [(22, 40), (22, 40), (11, 20)]


def test_a_window_is_one_of_a_person_and_a_program_over_all_sessions(context: Context) -> None:
    opened(context, RuntimeAttached(runtime="codex"), *hours(0))
    opened(context, RuntimeAttached(runtime="codex"), *hours(3), project="shop")
    opened(context, RuntimeAttached(runtime="pi"), *hours(1))
    opened(context, RuntimeAttached(runtime="codex"), *hours(2), actor="person:bob")
    found = [(one.person, one.runtime, (one.start - MONDAY) // HOUR, one.answers) for one in blocks(context)]
    assert found == [(ME, "codex", 0, 2), (ME, "pi", 1, 1), ("person:bob", "codex", 2, 1)]
    assert [one.runtime for one in blocks(context, runtime="pi")] == ["pi"]
    assert [one.person for one in blocks(context, person="bob")] == ["person:bob"]


def test_where_a_window_begins_depends_on_all_answers_and_not_on_those_asked_for(context: Context) -> None:
    opened(context, *hours(*range(0, 48, 3)))
    everything = blocks(context)
    assert [one.start for one in blocks(context, when="2020-05-05")] == [
        one.start for one in everything if one.end > MONDAY + DAY
    ]
    latest = call(context, "usage_blocks", {"limit": 2})
    assert (latest.blocks, latest.more) == (everything[-2:], len(everything) - 2)


def test_the_present_window_says_where_it_leads(context: Context) -> None:
    now = context.store.now()
    opened(context, answer(at=now - 10 * 60_000_000, input=1000))
    [block] = blocks(context)
    assert block.is_active
    minutes = (context.store.now() - block.first_at) / 60e6
    assert block.tokens_per_minute == pytest.approx(1000 / minutes, rel=0.01)
    left = (block.end - context.store.now()) / 60e6
    assert block.projected_tokens == pytest.approx(1000 + 1000 / minutes * left, rel=0.01)
    assert block.projected_cost_micros == pytest.approx(block.projected_tokens, rel=0.01)


def test_the_windows_have_all_that_was_used(context: Context, month: dict[str, str]) -> None:
    everything = total(context)
    for name in ("input", "output", "cache_read", "cache_write", "reasoning", "cost_micros", "answers"):
        assert getattr(everything, name) == sum(getattr(one, name) for one in blocks(context))


# Budgets of a day, a week and a month ---------------------------------------------------------------------------------


def set_budget(context: Context, period: str, value: str, **project: str) -> None:
    call(context, "setting_set", {"name": f"budget_{period}", "value": value, **project})


def test_a_budget_of_a_period_counts_all_sessions_of_its_project(context: Context) -> None:
    now = context.store.now()
    opened(context, answer(at=now, input=1000), project="shop")
    opened(context, answer(at=now, input=500), answer(at=MONDAY, input=9000))
    set_budget(context, "day", "$0.002")
    set_budget(context, "month", "1k tokens", project="shop")
    set_budget(context, "week", "none")
    found = usage(context, when="2019").budgets
    assert [(one.project, one.period, one.tokens, one.cost_micros, one.budget_used) for one in found] == [
        ("", "day", 1500, 1500, 0.75), ("shop", "month", 1000, 1000, 1.0),
    ]  # fmt: skip
    assert (found[0].budget_cost_micros, found[0].budget_tokens) == (2000, None)
    assert (found[1].budget_cost_micros, found[1].budget_tokens) == (None, 1000)


def test_a_budget_that_could_never_warn_is_refused(context: Context) -> None:
    opened(context, project="shop")
    for value in ("20", "$", "$-1", "5 M tokens", "5M", "1e9 tokens", "$1e3"):
        with pytest.raises(InvalidInput, match=r"is not a valid budget; use one such as \$20"):
            set_budget(context, "day", value)
    with pytest.raises(NotFound, match="no project 'shpo'; did you mean shop"):
        set_budget(context, "day", "$5", project="shpo")
