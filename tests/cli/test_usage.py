"""`clew usage` as people look at it: bars, windows of five hours, the top, budgets that warn, narrow terminals."""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from clew import connect
from clew.cli import fitting
from clew.model.events import Draft, MessageAdded, Usage
from support.terminal import Terminal

from .conftest import Clew

MONDAY = 1_588_579_200_000_000  # 2020-05-04 08:00 UTC
HOUR = 3_600_000_000


def spend(home: Path, at: int, tokens: int) -> None:
    with connect(home=home, principal="person:ada") as plane:
        body = MessageAdded(role="assistant", text="x", model="claude-sonnet-4-5", usage=Usage(input=tokens))
        plane.session(title=f"spent {tokens}").append(Draft(body=body, said_at=at))


def on_terminal(home: Path, words: Sequence[str], columns: int) -> list[str]:
    """What a terminal of so many columns shows, without blanks at the ends of lines."""
    env = {
        # Whoever runs the tests may have said how wide a terminal is.
        **{name: value for name, value in os.environ.items() if not name.startswith(("CLEW_", "COLUMNS", "LINES"))},
        "CLEW_HOME": str(home),
        "CLEW_PRINCIPAL": "person:ada", "CLEW_PAGER": "", "NO_COLOR": "1", "TZ": "UTC",
    }  # fmt: skip
    with Terminal([sys.executable, "-m", "clew", *words], env, columns=columns) as terminal:
        assert terminal.end() == 0
        return [line.rstrip() for line in terminal.seen.splitlines()]


def test_weeks_have_bars(clew: Clew, home: Path) -> None:
    for week, tokens in enumerate((1_000_000, 500_000, 1)):
        spend(home, MONDAY + week * 7 * 24 * HOUR, tokens)
    head, _, *rows = clew("usage", "--by", "week").out.splitlines()
    assert head.split()[:2] == ["week", "answers"]
    assert [(row.split()[0], row.split()[-1]) for row in rows[:3]] == [
        ("2020-W19", "█" * 20), ("2020-W20", "█" * 10), ("2020-W21", "▏"),
    ]  # fmt: skip
    assert "█" not in rows[3]
    assert "█" not in clew("usage", "--by", "week", "--csv").out
    assert "█" not in clew("usage", "--by", "model").out


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_no_sum_is_cut_however_narrow_a_terminal_is(home: Path, columns: int) -> None:
    for day in range(3):
        spend(home, MONDAY + day * 24 * HOUR, 12_345_678 * (day + 1))
    for words in (["usage"], ["usage", "--blocks"], ["usage", "--top", "2"], ["sessions"]):
        shown = on_terminal(home, words, columns)
        assert all(len(line) <= columns for line in shown if "─" in line or "$" in line), shown
        numbers = [line for line in shown if "$" in line]
        assert not [line for line in numbers if "…" in line.partition("spent")[0]], numbers
    assert any(line.startswith(" 2020-05-06") and line.endswith("██") for line in on_terminal(home, ["usage"], columns))


def test_a_terminal_shows_the_newest_days_and_says_that_there_are_more(home: Path) -> None:
    for day in range(40):
        spend(home, MONDAY + day * 24 * HOUR, 1000)
    shown = "\n".join(on_terminal(home, ["usage"], 100))
    assert "2020-05-04" not in shown
    assert "2020-06-12" in shown
    assert "the total also has 9 earlier days; --since 2020 lists them" in shown
    assert "2020-05-04" in "\n".join(on_terminal(home, ["usage", "--since", "2020"], 100))


def test_the_present_window_says_where_it_leads(clew: Clew, home: Path) -> None:
    spend(home, MONDAY, 1000)
    spend(home, time.time_ns() // 1000, 2000)
    shown = clew("usage", "--blocks")
    assert " 2020-05-04 08:00   -         1         1,000" in shown.out
    assert "no program: until " in shown.err
    assert " tokens a minute and $0.07 an hour lead to " in shown.err
    assert len(clew("usage", "--blocks", "--limit", "1", "--json").objects[0]["blocks"]) == 1
    assert "and 1 earlier window; --limit and --since show more" in clew("usage", "--blocks", "-n", "1").err


def test_options_of_sums_and_of_windows_are_told_apart(clew: Clew) -> None:
    assert "--by does not go with --blocks" in clew("usage", "--blocks", "--by", "model").err
    assert "--limit goes only with --blocks" in clew("usage", "--limit", "3").err
    assert clew("usage", "--limit", "3").code == 2


def test_a_budget_of_the_week_warns_in_usage_in_the_list_and_in_doctor(clew: Clew, home: Path) -> None:
    assert clew("setting", "set", "budget_week", "$2").code == 0
    spend(home, time.time_ns() // 1000, 600_000)
    assert clew("usage").err.splitlines()[-1] == "budget this week: $1.80 of $2.00 used, 90%"
    assert clew().err.splitlines()[-1] == "budget this week: $1.80 of $2.00 used, 90%"
    assert "90% of the budget for this week is used\n" in clew("doctor").out
    assert clew("doctor").code == 0
    spend(home, time.time_ns() // 1000, 600_000)
    assert clew("usage", "--when", "2019").err.endswith(
        "budget this week: $3.60 of $2.00 used, 180%: over the budget\n"
    )
    doctor = clew("doctor")
    assert doctor.code == 1
    assert "180% of the budget for this week is used" in doctor.out
    assert clew("setting", "set", "budget_week", "none").code == 0
    assert "budget" not in clew("usage").err


def test_a_list_without_a_budget_near_its_end_says_nothing(clew: Clew, home: Path) -> None:
    assert clew("setting", "set", "budget_week", "$200").code == 0
    spend(home, time.time_ns() // 1000, 600_000)
    assert "budget" not in clew().err


def test_bars_are_what_each_is_of_the_largest() -> None:
    assert fitting.bars([80, 40, 1, 0, 10], 10) == ["█" * 10, "█" * 5, "▏", "", "█▎"]
    assert fitting.bars([0, 0]) == ["", ""]
    assert fitting.bars([]) == []


def test_a_narrow_terminal_leaves_columns_out_and_never_the_first() -> None:
    names, widths = ["cost", "cache read", "runtime", "title"], [10, 10, 11, 60]
    assert fitting.kept(names, widths, 51) == [0, 1, 2, 3]
    assert fitting.kept(names, widths, 40) == [0, 2, 3]
    assert fitting.kept(names, widths, 30) == [0, 3]
    assert fitting.kept(names, widths, 5) == [0, 3]
    assert fitting.cut(names, widths, 60) == [10, 10, 11, 21]


def test_a_path_is_cut_at_its_beginning() -> None:
    assert fitting.end_of("/home/ada/app.py", 16) == "/home/ada/app.py"
    assert fitting.end_of("/home/ada/app.py", 10) == "…da/app.py"
    assert fitting.end_of("東京/東京.py", 8) == "…東京.py"
    assert fitting.end_of("abc", 1) == "…"
