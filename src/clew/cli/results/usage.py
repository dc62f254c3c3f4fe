"""`clew usage` for people: tokens and cost, a row for each group, with bars where the groups are times."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from clew.cli.output import table
from clew.cli.results.counts import cost, count
from clew.cli.times import clock
from clew.model.plain import plain

if TYPE_CHECKING:
    from clew.service.find.period_budgets import PeriodBudget
    from clew.service.find.spending import Counts
    from clew.service.find.usage import UsageReport, UsageRow
    from clew.service.find.usage_blocks import UsageBlock, UsageBlocks

TIMES = {"day", "week", "month"}
# A terminal shows so many days, the newest, when nobody asked for a time.
MOST_TIMES = 31
# Where a budget begins to warn.
NEARLY = 0.8


def print_usage(report: "UsageReport") -> None:
    if report.notice:
        click.secho(report.notice, fg="yellow", err=True)
    if not report.rows:
        click.echo("no usage in that time", err=True)
        print_budgets(report.budgets)
        return
    by_time = len(report.by) == 1 and report.by[0] in TIMES
    earlier = max(0, len(report.rows) - MOST_TIMES) if by_time and _is_everything() else 0
    _print_sums(report, report.rows[earlier:], _measured(report.rows[earlier:]) if by_time else [])
    if earlier:
        click.echo(f"the total also has {count(earlier, f'earlier {report.by[0]}')}; --since 2020 lists them", err=True)
    if report.unpriced:
        models = ", ".join(f"{plain(model)} ({tokens:,} tokens)" for model, tokens in sorted(report.unpriced.items()))
        click.echo(f"not in the cost, because there is no price for: {models}", err=True)
    click.echo(f"list prices of {report.prices_of}; your own go into prices.json in CLEW_HOME", err=True)
    print_budgets(report.budgets)


def _print_sums(report: "UsageReport", shown: "Sequence[UsageRow]", measured: Sequence[int]) -> None:
    columns = [*report.by, "answers", "input", "output", "cache read", "cache write", "cost"]
    rows = [[*_names(row, report.by), *_counts(row)] for row in shown]
    if any(row.budget_used is not None for row in shown):
        columns.append("of budget")
        for line, row in zip(rows, shown, strict=True):
            line.append("" if row.budget_used is None else f"{row.budget_used:.0%}")
    if report.by == ["session"]:
        columns.append("title")
        for line, row in zip(rows, shown, strict=True):
            line.append(row.title)
    if report.more:
        rows.append([f"{report.more:,} more"])
    rows.append(["total", *[""] * (len(report.by) - 1), *_counts(report.total)])
    table(columns, [row + [""] * (len(columns) - len(row)) for row in rows], measured=measured)


def print_usage_blocks(report: "UsageBlocks") -> None:
    if report.notice:
        click.secho(report.notice, fg="yellow", err=True)
    if not report.blocks:
        click.echo("no usage in that time", err=True)
        return
    people = len({block.person for block in report.blocks}) > 1
    columns = ["start", *(["person"] if people else []), "runtime", "answers", "tokens", "cost", "per minute"]
    rows = [
        [
            clock(block.start), *([block.person.removeprefix("person:")] if people else []), block.runtime or "-",
            f"{block.answers:,}", f"{block.tokens:,}", _money(block), f"{block.tokens_per_minute:,.0f}",
        ]
        for block in report.blocks
    ]  # fmt: skip
    table(columns, rows, measured=_measured(report.blocks))
    if report.more:
        click.echo(f"and {count(report.more, 'earlier window')}; --limit and --since show more", err=True)
    if missing := sum(block.unpriced for block in report.blocks):
        click.echo(f"not in the cost: {missing:,} tokens of models without a price", err=True)
    for block in report.blocks:
        if block.is_active:
            click.echo(_outlook(block), err=True)


def _outlook(block: "UsageBlock") -> str:
    """What the present window leads to."""
    left = max(0.0, block.end / 1e6 - datetime.now(UTC).timestamp()) / 60
    hours, minutes = divmod(round(left), 60)
    name = plain(block.runtime or "no program")
    return (
        f"{name}: until {clock(block.end)[-5:]}, in {f'{hours} h ' if hours else ''}{minutes} min; "
        f"{block.tokens_per_minute:,.0f} tokens a minute and {cost(block.cost_micros_per_hour)} an hour lead to "
        f"{block.projected_tokens:,} tokens, {cost(block.projected_cost_micros)}"
    )


def print_budgets(budgets: "list[PeriodBudget]", *, least: float = 0.0) -> None:
    """Say how much of the budgets is used; only of those that are used at least so far."""
    for budget in budgets:
        if budget.budget_used >= least:
            color = "red" if budget.budget_used > 1 else "yellow" if budget.budget_used >= NEARLY else None
            click.secho(plain(budget_line(budget)), fg=color, err=True)


def budget_line(budget: "PeriodBudget") -> str:
    whose = f" of {budget.project}" if budget.project else ""
    when = "today" if budget.period == "day" else f"this {budget.period}"
    if budget.budget_cost_micros is not None:
        used, limit = cost(budget.cost_micros), cost(budget.budget_cost_micros)
    else:
        used, limit = f"{budget.tokens:,}", f"{budget.budget_tokens or 0:,} tokens"
    over = ": over the budget" if budget.budget_used > 1 else ""
    return f"budget{whose} {when}: {used} of {limit} used, {budget.budget_used:.0%}{over}"


def _names(row: "UsageRow", by: list[str]) -> list[str]:
    return [(row.by[name][:10] if name == "session" else row.by[name]) or "-" for name in by]


def _counts(row: "UsageRow") -> list[str]:
    numbers = (row.answers, row.input, row.output, row.cache_read, row.cache_write)
    return [*(f"{number:,}" for number in numbers), _money(row)]


def _is_everything() -> bool:
    """Whether a person looks at the usage of all times."""
    context = click.get_current_context(silent=True)
    times = ("when", "since", "until", "top")
    return sys.stdout.isatty() and context is not None and not any(context.params.get(name) for name in times)


def _measured(rows: "Sequence[Counts]") -> list[int]:
    """What the bars show: the cost; the tokens when nothing has a price."""
    costs = [row.cost_micros for row in rows]
    return costs if any(costs) else [row.tokens for row in rows]


def _money(counts: "Counts") -> str:
    return cost(counts.money)
