"""The operation `usage`: tokens and cost by day, week, month, agent, person, project, runtime, model or session."""

import enum
from datetime import date, timedelta
from typing import Annotated, Any

import msgspec

from clew.model.access import Right
from clew.model.events import Budget
from clew.model.session import Session
from clew.service.find.filters import (
    Agent,
    Person,
    Project,
    Runtime,
    Since,
    Until,
    When,
    principal,
    project_keys,
    runtime_name,
    times,
)
from clew.service.find.period_budgets import PeriodBudget, period_budgets
from clew.service.find.spending import (
    Counts,
    counted_against_budget,
    price_table,
    reached_sessions,
    share_of,
    spent_by_day,
)
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.store.projects import list_projects
from clew.views.contract import storable
from clew.views.prices import Prices
from clew.views.sessions import SessionNames
from clew.views.usage import UsageSum


class By(enum.StrEnum):
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


TIMES = {By.DAY, By.WEEK, By.MONTH}
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
    sessions = reached_sessions(context, _only(context, project, agent, person, runtime, session))
    sums = _Sums(chosen, price_table(context), list_projects(context.store))
    for spent in spent_by_day(context, period, [session.key] if session else None):
        names = sessions.get(spent.session)
        if names is not None and model in ("", spent.model):
            sums.add(spent, names)
    rows = sums.by_time() if top is None and TIMES & set(chosen) else sums.by_cost()
    rows, more = rows[:top], len(rows[top:]) if top else 0
    if chosen == [By.SESSION]:
        _compare_budgets(context, rows)
    return UsageReport(
        by=list(map(str, chosen)), rows=rows, more=more, total=sums.total, unpriced=sums.unpriced,
        prices_of=sums.prices.date, budgets=period_budgets(context), notice=context.views.pop_notice(),
    )  # fmt: skip


def _only(
    context: Context, project: str, agent: str, person: str, runtime: str, session: Session | None
) -> dict[str, Any]:
    """The values that a session must have to be counted."""
    only = {
        "project": project_keys(context, project, Right.SEE) if project else None, "agent": storable(agent) or None,
        "person": storable(principal(person)) if person else None, "runtime": runtime_name(context, runtime) or None,
        "session": session.key if session else None,
    }  # fmt: skip
    return {column: value for column, value in only.items() if value is not None}


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

    def by_time(self) -> list[UsageRow]:
        """The rows in the order of their columns, so that days, weeks and months follow each other."""
        return sorted(self._rows.values(), key=lambda used: tuple(used.by.values()))

    def by_cost(self) -> list[UsageRow]:
        """The rows, the most expensive first."""
        return sorted(self.by_time(), key=lambda used: (-used.cost_micros, -used.tokens))


def _value(name: By, session: SessionNames, spent: UsageSum, projects: dict[int, str]) -> str:
    match name:
        case By.DAY | By.WEEK | By.MONTH:
            return _period_of(name, date(1970, 1, 1) + timedelta(days=spent.day))
        case By.MODEL:
            return spent.model
        case By.PROJECT:
            return projects.get(session.project, "")
        case By.SESSION:
            return session.id
        case _:
            return str(getattr(session, str(name)))


def _period_of(name: By, day: date) -> str:
    """The day, the week of ISO 8601 or the month that holds this day."""
    if name is By.WEEK:
        year, week, _ = day.isocalendar()
        return f"{year}-W{week:02}"
    return str(day) if name is By.DAY else str(day)[:7]


def _compare_budgets(context: Context, rows: list[UsageRow]) -> None:
    for used in rows:
        session = context.store.session(used.by["session"])
        head = context.store.head(session)
        if head.budget != Budget():
            used.budget_tokens, used.budget_cost_micros = head.budget_tokens, head.budget_cost_micros
            used.budget_used = share_of(head.budget, *counted_against_budget(context, session, head, used))
