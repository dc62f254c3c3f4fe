"""The operation `usage`: tokens and cost by time, agent, person, project, runtime, machine, model or session."""

import enum
from datetime import UTC, date, datetime, timedelta
from heapq import nsmallest
from typing import Annotated, Any

import msgspec

from clew.model.access import Right
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
    in_project,
    principal,
    project_keys,
    runtime_name,
    times,
)
from clew.service.find.period_budgets import PeriodBudget, period_budgets
from clew.service.find.spending import (
    ALWAYS,
    COLUMNS,
    HOUR_US,
    Counts,
    all_tokens,
    cost_of,
    counted_against_budget,
    price_table,
    share_of,
    usage_sums,
)
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.store.projects import list_projects
from clew.views.contract import storable
from clew.views.prices import Prices
from clew.views.usage import UsageSum


class By(enum.StrEnum):
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    AGENT = "agent"
    PERSON = "person"
    PROJECT = "project"
    RUNTIME = "runtime"
    MODEL = "model"
    SESSION = "session"
    MACHINE = "machine"


TIMES = {By.HOUR, By.DAY, By.WEEK, By.MONTH}
Top = Annotated[int, msgspec.Meta(ge=1, le=10_000, description="Only the N most expensive; sessions without --by.")]


class UsageRow(Counts, kw_only=True):
    """The usage of one group, named by `by`."""

    by: dict[str, str]
    title: str = ""
    budget_tokens: int | None = None
    budget_cost_micros: int | None = None
    budget_used: float | None = None


class UsageReport(msgspec.Struct, frozen=True, kw_only=True):
    """Usage by group and in total, the tokens of each model without a price, and what is left of budgets."""

    by: list[str]
    rows: list[UsageRow]
    more: int = 0
    """The number of rows left out; the total has them."""
    total: UsageRow
    unpriced: dict[str, int]
    prices_of: str
    budgets: list[PeriodBudget] = []
    """The budgets of this day, week and month, whatever the report itself is narrowed down to."""
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
    top: Top | None = None,
) -> UsageReport:
    """Sum up tokens and their cost; each answer of an llm counts once, even if several sessions hold it."""
    chosen = list(dict.fromkeys(by or [By.DAY if top is None else By.SESSION]))
    period = times(when, since, until)
    context.views.catch_up()
    sums = _Sums(chosen, price_table(context), list_projects(context.store))
    only = _only(context, project, agent, person, runtime, storable(model), session)
    columns = [column for column in COLUMNS if By(column) in chosen]
    span = HOUR_US if By.HOUR in chosen else DAY_US if TIMES & set(chosen) else ALWAYS
    for spent in usage_sums(context, period, columns, span=span, only=only):
        sums.add(spent)
    rows, more = sums.by_cost(top)
    if By.SESSION in chosen:
        _name_sessions(context, rows)
    if top is None and TIMES & set(chosen):
        rows.sort(key=lambda used: tuple(used.by.values()))
    if chosen == [By.SESSION]:
        _compare_budgets(context, rows)
    return UsageReport(
        by=list(map(str, chosen)), rows=rows, more=more, total=sums.total, unpriced=sums.unpriced,
        prices_of=sums.prices.date, budgets=period_budgets(context), notice=context.views.pop_notice(),
    )  # fmt: skip


def _only(
    context: Context, project: str, agent: str, person: str, runtime: str, model: str, session: Session | None
) -> dict[str, Any]:
    """The values that usage must have to be counted."""
    only = {
        **(in_project(project_keys(context, project, Right.SEE)) if project else {}),
        "agent": storable(agent) or None, "person": storable(principal(person)) if person else None,
        "runtime": runtime_name(context, runtime) or None, "model": model or None,
        "session": session.key if session else None,
    }  # fmt: skip
    return {column: value for column, value in only.items() if value is not None}


class _Sums:
    """Usage, summed up by some columns."""

    def __init__(self, by: list[By], prices: Prices, projects: dict[int, str]) -> None:
        self._by = list(map(str, by))
        self._projects = projects
        self._spans_of_day = 24 if By.HOUR in by else 1
        self._rows: dict[tuple[str, ...], UsageRow] = {}
        self.prices = prices
        self.total = UsageRow(by={})
        self.unpriced: dict[str, int] = {}
        """The tokens of each model that has no price."""

    def add(self, spent: UsageSum) -> None:
        """Add the usage of one model."""
        key = tuple([self._value(column, spent) for column in self._by])
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = UsageRow(by=dict(zip(self._by, key, strict=True)))
        cost = cost_of(spent, self.prices)
        row.add(spent, cost)
        self.total.add(spent, cost)
        if cost is None:
            model = spent.model or "(no model)"
            self.unpriced[model] = self.unpriced.get(model, 0) + all_tokens(spent)

    def by_cost(self, top: int | None) -> tuple[list[UsageRow], int]:
        """The most expensive rows, and the number of the others. A session is there by its key."""
        order = lambda used: (-used.cost_micros, -used.tokens, *used.by.values())  # noqa: E731 - It is passed twice.
        rows = list(self._rows.values())
        if top is None:
            return sorted(rows, key=order), 0
        return nsmallest(top, rows, key=order), max(0, len(rows) - top)

    def _value(self, name: str, spent: UsageSum) -> str:
        match name:
            case By.HOUR:
                return f"{datetime.fromtimestamp(spent.span * 3600, UTC):%Y-%m-%d %H:00}"
            case By.DAY | By.WEEK | By.MONTH:
                return _period_of(name, date(1970, 1, 1) + timedelta(days=spent.span // self._spans_of_day))
            case By.MODEL:
                return spent.model
            case By.PROJECT:
                return self._projects.get(spent.project, "")
            case _:
                return str(getattr(spent, name))


def _name_sessions(context: Context, rows: list[UsageRow]) -> None:
    """Put the ids and the titles of sessions in place of their keys."""
    keys = msgspec.json.encode([int(used.by["session"]) for used in rows]).decode()
    with context.views.read() as tx:
        names = {str(key): (id, title) for key, id, title in tx.run("sessions_names", keys=keys)}
    for used in rows:
        used.by["session"], used.title = names[used.by["session"]]


def _period_of(name: str, day: date) -> str:
    """The day, the week of ISO 8601 or the month that holds this day."""
    if name == By.WEEK:
        year, week, _ = day.isocalendar()
        return f"{year}-W{week:02}"
    return str(day) if name == By.DAY else str(day)[:7]


def _compare_budgets(context: Context, rows: list[UsageRow]) -> None:
    for used in rows:
        session = context.store.session(used.by["session"])
        head = context.store.head(session)
        if head.budget != Budget():
            used.budget_tokens, used.budget_cost_micros = head.budget_tokens, head.budget_cost_micros
            used.budget_used = share_of(head.budget, *counted_against_budget(context, session, head, used))
