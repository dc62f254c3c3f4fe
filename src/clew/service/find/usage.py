"""The operation `usage`: tokens and cost by day, agent, person, project, runtime, model or session."""

import enum
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Annotated, Any

import msgspec

from clew.model.access import Right
from clew.model.dates import Period
from clew.model.events import Budget
from clew.model.retention import DAY_US
from clew.model.session import Session
from clew.service.find.filters import (
    Agent,
    Person,
    Project,
    Runtime,
    Since,
    Until,
    When,
    now,
    principal,
    project_key,
    runtime_name,
    times,
)
from clew.service.find.spending import ALWAYS, Counts, counted_against_budget, price_table, share_of
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.store.projects import list_projects
from clew.views.contract import storable
from clew.views.prices import Prices
from clew.views.sessions import SessionNames
from clew.views.usage import UsageSum, usage_sum

HOUR_US = DAY_US // 24
# 1990. Earlier times are wrong clocks, so they are not split into days.
EARLIEST = 631_152_000_000_000
YEAR_US = 366 * DAY_US


class By(enum.StrEnum):
    DAY = "day"
    MONTH = "month"
    AGENT = "agent"
    PERSON = "person"
    PROJECT = "project"
    RUNTIME = "runtime"
    MODEL = "model"
    SESSION = "session"
    MACHINE = "machine"


class UsageRow(Counts, kw_only=True):
    """The usage of one group, named by `by`."""

    by: dict[str, str]
    title: str = ""
    budget_tokens: int | None = None
    budget_cost_micros: int | None = None
    budget_used: float | None = None


class UsageReport(msgspec.Struct, frozen=True, kw_only=True):
    """Usage by group and in total, and the tokens of each model without a price."""

    by: list[str]
    rows: list[UsageRow]
    total: UsageRow
    unpriced: dict[str, int]
    prices_of: str
    notice: str = ""


def usage_rows(report: UsageReport) -> list[list[Any]]:
    """The report as a table for other programs; the cost is in US dollars."""
    counts = ("answers", "input", "output", "cache_read", "cache_write", "reasoning")
    rows: list[list[Any]] = [[*report.by, *counts, "cost_usd", "unpriced_tokens"]]
    for used in report.rows:
        numbers = [getattr(used, name) for name in counts]
        rows.append([*used.by.values(), *numbers, f"{used.cost_micros / 1e6:.6f}", used.unpriced])
    return rows


@operation(right=Right.SEE, route="GET /usage", filters_by_reach=True, reads_views=True, rows=usage_rows)
def usage(
    context: Context,
    *,
    by: Annotated[list[By], msgspec.Meta(description="What to sum up by; several are combined.")] | None = None,
    project: Project = "",
    agent: Agent = "",
    person: Person = "",
    runtime: Runtime = "",
    model: Annotated[str, msgspec.Meta(description="Only this model.")] = "",
    session: Session | None = None,
    when: When = "",
    since: Since = "",
    until: Until = "",
) -> UsageReport:
    """Sum up tokens and their cost; each answer of an llm counts once, even if several sessions hold it."""
    chosen = list(dict.fromkeys(by or [By.DAY]))
    period = times(when, since, until)
    context.views.catch_up()
    only = {
        "project": project_key(context, project, Right.SEE) if project else None, "agent": storable(agent) or None,
        "person": storable(principal(person)) if person else None, "runtime": runtime_name(context, runtime) or None,
        "session": session.key if session else None,
    }  # fmt: skip
    sessions = _sessions(context, {column: value for column, value in only.items() if value is not None})
    sums = _Sums(chosen, price_table(context), list_projects(context.store))
    for spent in _spending(context, period, [session.key] if session else None):
        names = sessions.get(spent.session)
        if names is not None and model in ("", spent.model):
            sums.add(spent, names)
    rows = sums.sorted()
    if chosen == [By.SESSION]:
        _compare_budgets(context, rows)
    return UsageReport(
        by=list(map(str, chosen)), rows=rows, total=sums.total, unpriced=sums.unpriced, prices_of=sums.prices.date,
        notice=context.views.pop_notice(),
    )  # fmt: skip


def _sessions(context: Context, only: dict[str, Any]) -> dict[int, SessionNames]:
    """The sessions that the caller may see and that have these values, by key."""
    with context.views.read() as tx:
        rows = tx.run("sessions_all", **context.reach(Right.SEE))
    return {
        names.session: names
        for names in (SessionNames(*row) for row in rows)
        if all(getattr(names, column) == value for column, value in only.items())
    }  # fmt: skip


class _Sums:
    """Usage, summed up by some columns."""

    def __init__(self, by: list[By], prices: Prices, projects: dict[int, str]) -> None:
        self._by = by
        self._projects = projects
        self._rows: dict[tuple[str, ...], UsageRow] = {}
        self.prices = prices
        self.total = UsageRow(by={})
        self.unpriced: dict[str, int] = {}
        """The tokens of each model that has no price."""

    def add(self, spent: UsageSum, session: SessionNames) -> None:
        """Add the usage of one session and one model on one day."""
        key = tuple(_value(column, session, spent, self._projects) for column in self._by)
        if key not in self._rows:
            self._rows[key] = UsageRow(by=dict(zip(map(str, self._by), key, strict=True)))
            if By.SESSION in self._by:
                self._rows[key].title = session.title
        self.total.add(spent, self.prices)
        if unpriced_tokens := self._rows[key].add(spent, self.prices):
            model = spent.model or "(no model)"
            self.unpriced[model] = self.unpriced.get(model, 0) + unpriced_tokens

    def sorted(self) -> list[UsageRow]:
        """The rows by day or month if that is among the columns, else the most expensive first."""
        rows = sorted(self._rows.values(), key=lambda used: tuple(used.by.values()))
        if not {By.DAY, By.MONTH} & set(self._by):
            rows.sort(key=lambda used: (-used.cost_micros, -used.tokens))
        return rows


def _spending(context: Context, period: Period, keys: list[int] | None = None) -> list[UsageSum]:
    """The usage of each session by model and local day; one query per period with a constant offset from UTC."""
    only: dict[str, Any] = {} if keys is None else {"keys": msgspec.json.encode(keys).decode()}
    sums: list[UsageSum] = []
    with context.views.read() as tx:
        [(first, last)] = tx.run("usage_times")
        start = max(first, period.start or 0)
        end = min(last + 1, ALWAYS if period.end is None else period.end)
        for low, high, offset in _stretches(start, end):
            sums += map(usage_sum, tx.run("usage_sums", since=low, until=high, offset=offset, **only))
    return sums


def _stretches(start: int, end: int) -> list[tuple[int, int, int]]:
    """The periods between start and end with a constant offset from UTC, as (start, end, offset)."""
    today = now()
    zone, latest = today.tzinfo, int(today.timestamp()) * 1_000_000 + YEAR_US
    stretches: list[tuple[int, int, int]] = []
    at = start
    while at < end:
        # Go day by day, and hour by hour on a day on which the offset changes.
        offset = _offset(at, zone)
        step = DAY_US if offset == _offset(at + DAY_US, zone) else HOUR_US
        after = EARLIEST if at < EARLIEST else end if at >= latest else (at // step + 1) * step
        after = min(after, end)
        if stretches and stretches[-1][2] == offset:
            stretches[-1] = (stretches[-1][0], after, offset)
        else:
            stretches.append((at, after, offset))
        at = after
    return stretches


def _offset(at: int, zone: tzinfo | None) -> int:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=min(at, 2**57))
    return (moment.astimezone(zone).utcoffset() or timedelta()) // timedelta(microseconds=1)


def _value(name: By, session: SessionNames, spent: UsageSum, projects: dict[int, str]) -> str:
    match name:
        case By.DAY:
            return str(date(1970, 1, 1) + timedelta(days=spent.day))
        case By.MONTH:
            return str(date(1970, 1, 1) + timedelta(days=spent.day))[:7]
        case By.MODEL:
            return spent.model
        case By.PROJECT:
            return projects.get(session.project, "")
        case By.SESSION:
            return session.id
        case _:
            return str(getattr(session, str(name)))


def _compare_budgets(context: Context, rows: list[UsageRow]) -> None:
    for used in rows:
        session = context.store.session(used.by["session"])
        head = context.store.head(session)
        if head.budget != Budget():
            used.budget_tokens, used.budget_cost_micros = head.budget_tokens, head.budget_cost_micros
            used.budget_used = share_of(head.budget, *counted_against_budget(context, session, head, used))
