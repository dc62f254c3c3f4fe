"""`clew overview` for people: what each turn of a session used, and how each tool did."""

from typing import TYPE_CHECKING

import click

from clew.cli.output import table
from clew.cli.results.counts import cost, number_if_any
from clew.cli.times import ago
from clew.model.figures import duration

if TYPE_CHECKING:
    from clew.service.sessions.overview import Overview

# More turns are left to --json.
MOST_TURNS = 50


def print_overview(overview: "Overview") -> None:
    spent = f", {overview.tokens:,} tokens, {cost(overview.cost_micros)}" if overview.tokens else ""
    click.echo(f"{overview.session} at event {overview.seq} of {overview.head}: {overview.state}{spent}")
    turns = overview.turns[-MOST_TURNS:]
    if turns:
        table(
            ("turn at", "began", "calls", "failed", "tokens", "cached", "cost"),
            (
                (
                    str(turn.seq) if turn.seq else "before", ago(turn.at) if turn.at else "",
                    number_if_any(turn.calls), number_if_any(turn.errors), number_if_any(turn.tokens),
                    number_if_any(turn.cached_tokens), cost(turn.cost_micros) if turn.tokens else "",
                )
                for turn in turns
            ),
        )  # fmt: skip
    if len(turns) < len(overview.turns):
        click.echo(f"the last {len(turns)} of {len(overview.turns):,} turns; --json has all", err=True)
    if overview.tools:
        click.echo()
        table(
            ("tool", "calls", "failed", "median", "slowest", "at"),
            (
                (
                    tool.tool, f"{tool.calls:,}", number_if_any(tool.failed), duration(tool.median_us),
                    duration(tool.slowest_us), str(tool.slowest_seq) if tool.slowest_seq else "",
                )
                for tool in overview.tools
            ),
        )  # fmt: skip
