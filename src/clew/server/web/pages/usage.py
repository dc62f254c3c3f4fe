"""Usage: tokens and money of a period, by day and by one more column."""

from collections import Counter
from datetime import timedelta
from typing import Any

from clew.model.errors import InvalidInput, NotFound
from clew.server.http.problems import STATUS
from clew.server.web.charts import bars
from clew.server.web.page_request import Page, PageRequest
from clew.server.web.pages.filters import filters_of
from clew.server.web.rendering import link
from clew.service.find.filters import now
from clew.service.find.spending import Counts
from clew.service.find.usage import UsageReport, UsageRow

NOT_FILTERS = frozenset({"by", "session", "top"})
COLUMNS = ("model", "project", "runtime", "agent", "person", "machine", "session")
PERIODS = ("7 days", "30 days", "90 days", "this month", "last month", "this year")
PERIOD = "30 days"
SERIES = 5
ROWS = 50
MOST_BARS = 100
OTHERS = "others"


def usage(request: PageRequest) -> Page:
    query = dict(request.query)
    if not any(query.get(name) for name in ("when", "since", "until")):
        query["when"] = PERIOD
    column = query.get("by", "")
    column = column if column in COLUMNS else COLUMNS[0]
    filters = filters_of("usage", query, query.get("filter", ""), but=NOT_FILTERS)
    chips = filters.chips("/usage", by=column)
    values: dict[str, Any] = {
        "column": column, "chips": [chip for chip in chips if chip.name != "when"], "given": filters.given,
        "problem": "", "rows": [], "bars": [], "series": [], "total": None, "unpriced": {}, "prices_of": "", "rest": 0,
        "columns": [(name, link("/usage", by=name, **filters.given), name == column) for name in COLUMNS],
        "periods": _periods(filters.given, column),
    }  # fmt: skip
    # One call sums up both the table and the bars; sessions are too many for a bar each.
    second = "model" if column == "session" else column
    try:
        arguments = filters.arguments()
        by_day = request.call("usage", by=["day", second], **arguments)
        rows, rest = _sessions(request, arguments) if column == "session" else _summed(by_day, column)
    except (InvalidInput, NotFound) as error:
        return Page("usage/page.html", {**values, "problem": request.told(error)}, STATUS[error.code])
    sums = Counter[str]()
    for row in by_day.rows:
        sums[row.by[second]] += row.cost_micros or row.tokens
    series = [name for name, _ in sums.most_common(SERIES)]
    return Page(
        "usage/page.html",
        {
            **values, "rows": rows, "rest": rest, "total": by_day.total,
            "unpriced": by_day.unpriced, "prices_of": by_day.prices_of, "series": [*series, *_others(sums)],
            "bars": bars(_days(by_day.rows, second, series), series), "is_money": bool(by_day.total.cost_micros),
        },
    )  # fmt: skip


def _sessions(request: PageRequest, arguments: dict[str, Any]) -> tuple[list[UsageRow], int]:
    """The most expensive sessions, and the number of the others."""
    report = request.call("usage", by=["session"], top=ROWS, **arguments)
    return report.rows, report.more


def _summed(report: UsageReport, column: str) -> tuple[list[UsageRow], int]:
    """The rows of all days summed up, the most expensive first, and the number of those that are too many to show."""
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


def _days(rows: list[UsageRow], second: str, series: list[str]) -> list[tuple[str, list[tuple[str, int]]]]:
    """What each day used, the days without usage too; in money, or in tokens when nothing has a price."""
    has_price = any(row.cost_micros for row in rows)
    days: dict[str, Counter[str]] = {}
    for row in rows:
        name = row.by[second] if row.by[second] in series else OTHERS
        days.setdefault(row.by["day"], Counter())[name] += row.cost_micros if has_price else row.tokens
    order = [*series, OTHERS]
    return [
        (day, [(name, days[day][name]) for name in order if day in days and days[day][name]])
        for day in _all_days(sorted(days))
    ]


def _all_days(days: list[str]) -> list[str]:
    """Each day from the first to the last, or to today when that is near; the last hundred."""
    if not days:
        return []
    first, last = (type(now().date()).fromisoformat(day) for day in (days[0], days[-1]))
    count = min((last - first).days + 1, MOST_BARS)
    return [str(last - timedelta(days=back)) for back in reversed(range(count))]
