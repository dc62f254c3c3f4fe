"""`clew usage` for people: tokens and cost, a row for each group."""

from typing import TYPE_CHECKING

import click

from clew.cli.output import table
from clew.cli.results.counts import cost
from clew.model.plain import plain

if TYPE_CHECKING:
    from clew.service.find.usage import UsageReport, UsageRow


def print_usage(report: "UsageReport") -> None:
    if report.notice:
        click.secho(report.notice, fg="yellow", err=True)
    if not report.rows:
        click.echo("no usage in that time", err=True)
        return
    budgets = any(row.budget_used is not None for row in report.rows)
    columns = [*report.by, "answers", "input", "output", "cache read", "cache write", "cost"]
    rows = [[*_names(row, report.by), *_counts(row)] for row in report.rows]
    if budgets:
        columns.append("of budget")
        for line, row in zip(rows, report.rows, strict=True):
            line.append("" if row.budget_used is None else f"{row.budget_used:.0%}")
    if report.by == ["session"]:
        columns.append("title")
        for line, row in zip(rows, report.rows, strict=True):
            line.append(row.title)
    total = ["total", *[""] * (len(report.by) - 1), *_counts(report.total)]
    table(columns, [*rows, total + [""] * (len(columns) - len(total))])
    if report.unpriced:
        models = ", ".join(f"{plain(model)} ({count:,} tokens)" for model, count in sorted(report.unpriced.items()))
        click.echo(f"not in the cost, because there is no price for: {models}", err=True)
    click.echo(f"list prices of {report.prices_of}; your own go into prices.json in CLEW_HOME", err=True)


def _names(row: "UsageRow", by: list[str]) -> list[str]:
    return [(row.by[name][:10] if name == "session" else row.by[name]) or "-" for name in by]


def _counts(row: "UsageRow") -> list[str]:
    numbers = (row.answers, row.input, row.output, row.cache_read, row.cache_write)
    return [
        *(f"{number:,}" for number in numbers),
        cost(row.cost_micros if row.cost_micros or not row.unpriced else None),
    ]
