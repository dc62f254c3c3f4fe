"""Budgets of a day, a week or a month, for a project or for everything: they warn and stop nothing.

They are settings, `budget_day`, `budget_week` and `budget_month`. What counts is what `usage` counts.
"""

import msgspec

from clew.model.access import Right, Target
from clew.model.dates import period
from clew.model.events import Budget
from clew.service.access.settings import PERIODS, budget_limit
from clew.service.find.filters import now
from clew.service.find.spending import Counts, cost_of, price_table, share_of, usage_sums
from clew.service.kernel.context import Context
from clew.store.access.settings import list_settings
from clew.store.projects import list_projects, names_now


class PeriodBudget(msgspec.Struct, frozen=True, kw_only=True):
    """A budget of this day, week or month, and how much of it is used; `project` is empty for all projects together."""

    project: str
    period: str
    since: int
    budget_tokens: int | None
    budget_cost_micros: int | None
    tokens: int
    cost_micros: int
    budget_used: float


def period_budgets(context: Context) -> list[PeriodBudget]:
    """The budgets that the caller may see. Each counts the sessions that the caller may see."""
    limits = _limits(context)
    if not limits:
        return []
    today = now()
    starts = {name: period(f"this {name}", today).start or 0 for name in PERIODS}
    projects = list_projects(context.store)
    table = price_table(context)
    budgets = []
    for name in PERIODS:
        wanted = {project: limit for (project, of), limit in limits.items() if of == name}
        if not wanted:
            continue
        used = {project: Counts() for project in wanted}
        for spent in usage_sums(context, period(f"this {name}", today), ("project",), only={}):
            for project in {"", projects.get(spent.project, "")} & used.keys():
                used[project].add(spent, cost_of(spent, table))
        budgets += [
            PeriodBudget(
                project=project, period=name, since=starts[name], budget_tokens=limit.tokens,
                budget_cost_micros=limit.cost_micros, tokens=used[project].tokens,
                cost_micros=used[project].cost_micros,
                budget_used=share_of(limit, used[project].tokens, used[project].cost_micros) or 0.0,
            )
            for project, limit in sorted(wanted.items())
        ]  # fmt: skip
    return budgets


def _limits(context: Context) -> dict[tuple[str, str], Budget]:
    """The budgets that are set, by project and period."""
    limits: dict[tuple[str, str], Budget] = {}
    now = names_now(context.unrestricted)
    for (project, setting), value in list_settings(context.store).items():
        if now.get(project, project) != project:
            continue  # What a project of another name had, has the one it is part of.
        name = setting.removeprefix("budget_")
        limit = budget_limit(value) if name in PERIODS and name != setting else None
        is_seen = not context.reach(Right.SEE) or not project
        if limit and (is_seen or context.caller.rule(Right.SEE, Target(project=project)).allowed):
            limits[project, name] = limit
    return limits
