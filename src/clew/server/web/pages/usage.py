"""Usage: tokens and money of a period, by time and by one more column, with budgets and windows of five hours."""

import csv
import io
from collections import Counter
from datetime import date, timedelta
from typing import Any, NamedTuple

from clew.model.dates import period
from clew.model.errors import InvalidInput, NotFound
from clew.model.plain import plain
from clew.server.http.problems import STATUS
from clew.server.web.charts import bars
from clew.server.web.page_request import Download, Page, PageRequest
from clew.server.web.pages.filters import Filters, filters_of
from clew.server.web.rendering import link
from clew.service.find.filters import now
from clew.service.find.period_budgets import PeriodBudget
from clew.service.find.spending import Counts
from clew.service.find.usage import UsageReport, UsageRow, usage_rows

NOT_FILTERS = frozenset({"by", "session", "top"})
COLUMNS = ("model", "project", "runtime", "agent", "person", "machine", "session")
TIMES = ("day", "week", "month")
PERIODS = ("7 days", "30 days", "90 days", "this month", "last month", "this year")
PERIOD = "30 days"
SERIES = 5
ROWS = 50
TOP = 10
BLOCKS = 8
MOST_BARS = 100
OTHERS = "others"
# Before that much of a period is over, a rate leads anywhere.
LEAST_SHARE = 0.02


class Burn(NamedTuple):
    """A budget, how much of its period is over, and where its rate leads."""

    budget: PeriodBudget
    share_over: float
    projected: float
    """The share of the budget that is used at the end of the period if it goes on so."""


def usage(request: PageRequest) -> Page:
    """The page; with `part`, what it fetches by itself: the most expensive sessions and the windows of five hours."""
    filters, column, time = _asked(request)
    if request.query.get("part") == "more":
        return _more(request, filters)
    # Sessions are too many for a bar each.
    second = "model" if column == "session" else column
    chips = filters.chips("/usage", by=column, per=time)
    values: dict[str, Any] = {
        "column": column, "chips": [chip for chip in chips if chip.name != "when"], "given": filters.given,
        "problem": "", "rows": [], "bars": [], "series": [], "total": None, "unpriced": {}, "prices_of": "", "rest": 0,
        "columns": [(name, link("/usage", by=name, per=time, **filters.given), name == column) for name in COLUMNS],
        "times": [(name, link("/usage", by=column, per=name, **filters.given), name == time) for name in TIMES],
        "periods": _periods(filters.given, column), "time": time, "burns": [],
        "csv": link("/usage.csv", by=column, per=time, **filters.given),
        "more": link("/usage", part="more", **filters.given),
    }  # fmt: skip
    try:
        arguments = filters.arguments()
        by_time = request.call("usage", by=[time, second], **arguments)
        rows, rest = _sessions(request, arguments) if column == "session" else _summed(by_time, column)
    except (InvalidInput, NotFound) as error:
        return Page("usage/page.html", {**values, "problem": request.told(error)}, STATUS[error.code])
    sums = Counter[str]()
    for row in by_time.rows:
        sums[row.by[second]] += row.cost_micros or row.tokens
    series = [name for name, _ in sums.most_common(SERIES)]
    return Page(
        "usage/page.html",
        {
            **values, "rows": rows, "rest": rest, "total": by_time.total,
            "unpriced": by_time.unpriced, "prices_of": by_time.prices_of, "series": [*series, *_others(sums)],
            "bars": bars(_spans(by_time.rows, time, second, series), series),
            "is_money": bool(by_time.total.cost_micros),
            "burns": [_burn(budget, request.now) for budget in by_time.budgets],
        },
    )  # fmt: skip


def usage_csv(request: PageRequest) -> Page | Download:
    """The table of the page as a file, by time as well."""
    filters, column, time = _asked(request)
    report = request.call("usage", by=[time, column], **filters.arguments())
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\r\n")
    for row in usage_rows(report):
        rows.writerow([_harmless(cell) if isinstance(cell, str) else cell for cell in row])
    return Download("usage.csv", text.getvalue().encode())


def _harmless(text: str) -> str:
    """The text of a cell, changed so that no spreadsheet takes it for a formula."""
    text = plain(text)
    return f"'{text}" if text.lstrip()[:1] in ("=", "+", "-", "@") else text


def _asked(request: PageRequest) -> tuple[Filters, str, str]:
    """The filters, the column and the span of time of the bars."""
    query = dict(request.query)
    filters = filters_of("usage", query, query.get("filter", ""), but=NOT_FILTERS)
    if not any(filters.given.get(name) for name in ("when", "since", "until")):
        filters.given["when"] = PERIOD
    column, time = query.get("by", ""), query.get("per", "")
    usual = "week" if filters.given.get("when") in ("this year", "last year") else "day"
    return filters, column if column in COLUMNS else COLUMNS[0], time if time in TIMES else usual


def _more(request: PageRequest, filters: Filters) -> Page:
    arguments = filters.arguments()
    top = request.call("usage", by=["session"], top=TOP, **arguments)
    within = {name: arguments[name] for name in ("person", "runtime", "when", "since", "until") if name in arguments}
    return Page("usage/more.html", {"top": top.rows, "blocks": request.call("usage_blocks", limit=BLOCKS, **within)})


def _burn(budget: PeriodBudget, at: int) -> Burn:
    end = period(f"this {budget.period}", now()).end or at
    share = min(1.0, max(0.0, (at - budget.since) / max(1, end - budget.since)))
    return Burn(budget, share, budget.budget_used / share if share > LEAST_SHARE else budget.budget_used)


def _sessions(request: PageRequest, arguments: dict[str, Any]) -> tuple[list[UsageRow], int]:
    """The most expensive sessions, and the number of the others."""
    report = request.call("usage", by=["session"], top=ROWS, **arguments)
    return report.rows, report.more


def _summed(report: UsageReport, column: str) -> tuple[list[UsageRow], int]:
    """The rows of all times summed up, the most expensive first, and the number of those that are too many to show."""
    sums: dict[str, UsageRow] = {}
    for row in report.rows:
        total = sums.setdefault(row.by[column], UsageRow(by={column: row.by[column]}))
        for name in Counts.__struct_fields__:
            setattr(total, name, getattr(total, name) + getattr(row, name))
    rows = sorted(sums.values(), key=lambda used: (-used.cost_micros, -used.tokens))
    return rows[:ROWS], max(0, len(rows) - ROWS)


def _others(sums: Counter[str]) -> list[str]:
    return [OTHERS] if len(sums) > SERIES else []


def _periods(given: dict[str, str], column: str) -> list[tuple[str, str, bool]]:
    others = {name: value for name, value in given.items() if name not in ("when", "since", "until")}
    return [(name, link("/usage", by=column, when=name, **others), given.get("when") == name) for name in PERIODS]


def _spans(
    rows: list[UsageRow], time: str, second: str, series: list[str]
) -> list[tuple[str, list[tuple[str, int]]]]:  # fmt: skip
    """What each day, week or month used, those without usage too; in money, or in tokens when nothing has a price."""
    has_price = any(row.cost_micros for row in rows)
    spans: dict[str, Counter[str]] = {}
    for row in rows:
        name = row.by[second] if row.by[second] in series else OTHERS
        spans.setdefault(row.by[time], Counter())[name] += row.cost_micros if has_price else row.tokens
    order = [*series, OTHERS]
    return [
        (span, [(name, spans[span][name]) for name in order if span in spans and spans[span][name]])
        for span in _all_spans(sorted(spans), time)
    ]


def _all_spans(spans: list[str], time: str) -> list[str]:
    """Each span from the first to the last; the last hundred."""
    if not spans:
        return []
    if time == "month":
        return spans[-MOST_BARS:]
    step = timedelta(days=7 if time == "week" else 1)
    first, last = _first_day(spans[0], time), _first_day(spans[-1], time)
    count = min((last - first) // step + 1, MOST_BARS)
    days = [last - back * step for back in reversed(range(count))]
    return [_week_of(day) if time == "week" else str(day) for day in days]


def _first_day(span: str, time: str) -> date:
    if time == "day":
        return date.fromisoformat(span)
    year, _, week = span.partition("-W")
    return date.fromisocalendar(int(year), int(week), 1)


def _week_of(day: date) -> str:
    year, week, _ = day.isocalendar()
    return f"{year}-W{week:02}"
