"""The operation `usage_blocks`: usage by the windows of five hours that the limits of subscriptions go by.

A window belongs to one person and one program. It begins with the hour of the first answer after the window before, and
both ends are whole hours of UTC, so the hour alone says which window an answer is in. Programs do not record where a
provider's window began; this is where it began if clew has every answer of that person in that program.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import Annotated, Any

import msgspec

from clew.model.access import Right
from clew.model.dates import Period
from clew.service.find.filters import Person, Runtime, Since, Until, When, principal, runtime_name, times
from clew.service.find.spending import ALWAYS, HOUR_US, Counts, cost_of, price_table
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.views.contract import storable
from clew.views.usage import HourSum, hour_sum

HOURS = 5
# A rate of less than that says nothing: a single answer would lead to millions.
LEAST_MINUTES = 5.0
MINUTE_US = HOUR_US // 60


class UsageBlock(Counts, kw_only=True):
    """The usage of one person in one program in one window of five hours.

    An active window is not over. Its rates count from its first answer until now, those of others until their last
    answer; its projection is what it will have used at its end if that goes on. It is the same as the usage of a window
    that is over.
    """

    person: str
    runtime: str
    start: int
    end: int
    first_at: int = 0
    last_at: int = 0
    is_active: bool = False
    tokens_per_minute: float = 0.0
    cost_micros_per_hour: int = 0
    projected_tokens: int = 0
    projected_cost_micros: int = 0


class UsageBlocks(msgspec.Struct, frozen=True, kw_only=True):
    """Windows of five hours, the oldest first."""

    blocks: list[UsageBlock]
    more: int
    """The number of earlier windows left out."""
    prices_of: str
    notice: str = ""


def block_rows(report: UsageBlocks) -> list[list[Any]]:
    """The windows as a table for other programs; times are in microseconds since 1970, the cost in US dollars."""
    counts = ("answers", "input", "output", "cache_read", "cache_write", "reasoning")
    rows: list[list[Any]] = [
        ["person", "runtime", "start", "end", "active", *counts, "cost_usd", "tokens_per_minute", "usd_per_hour",
         "projected_tokens", "projected_usd"]
    ]  # fmt: skip
    rows += [
        [
            block.person, block.runtime, block.start, block.end, int(block.is_active),
            *(getattr(block, name) for name in counts), f"{block.cost_micros / 1e6:.6f}",
            f"{block.tokens_per_minute:.1f}", f"{block.cost_micros_per_hour / 1e6:.6f}", block.projected_tokens,
            f"{block.projected_cost_micros / 1e6:.6f}",
        ]
        for block in report.blocks
    ]  # fmt: skip
    return rows


@operation(
    right=Right.SEE, route="GET /usage/blocks", filters_by_reach=True, reads_views=True, rows=block_rows, hidden=True
)
def usage_blocks(
    context: Context,
    *,
    person: Person = "",
    runtime: Runtime = "",
    when: When = "",
    since: Since = "",
    until: Until = "",
    limit: Annotated[int, msgspec.Meta(ge=1, le=10_000, description="How many at the most, the newest.")] = 20,
) -> UsageBlocks:
    """Sum up tokens and their cost by windows of five hours, with the rate and, in the present one, where it leads."""
    period = times(when, since, until)
    context.views.catch_up()
    only = {
        "person": storable(principal(person)) if person else None,
        "runtime": runtime_name(context, runtime) or None,
    }
    given = {column: value for column, value in only.items() if value is not None} | dict(context.reach(Right.SEE))
    with context.views.read() as tx:
        hours = [hour_sum(row) for row in tx.run("usage_hours", **given)]
    table = price_table(context)
    blocks = [(block, used) for block, used in _blocks(hours) if _overlaps(block, period)]
    blocks.sort(key=lambda pair: (pair[0].start, pair[0].person, pair[0].runtime))
    shown, now = [], context.store.now()
    for block, used_hours in blocks[-limit:]:
        for used in used_hours:
            block.add(used.spent, cost_of(used.spent, table))
        _project(block, now)
        shown.append(block)
    return UsageBlocks(
        blocks=shown, more=len(blocks) - len(shown), prices_of=table.date, notice=context.views.pop_notice()
    )


def _blocks(hours: list[HourSum]) -> Iterator[tuple[UsageBlock, list[HourSum]]]:
    """The windows of each person and program, each with its hours, whose usage is not yet added."""
    hours.sort(key=lambda used: (used.spent.person, used.spent.runtime, used.spent.span))
    for (person, runtime), own in groupby(hours, key=lambda used: (used.spent.person, used.spent.runtime)):
        block, inside = None, list[HourSum]()
        for used in own:
            start = used.spent.span * HOUR_US
            if block is None or start >= block.end:
                if block is not None:
                    yield block, inside
                inside = []
                block = UsageBlock(
                    person=person, runtime=runtime, start=start, end=start + HOURS * HOUR_US, first_at=used.first_at
                )
            block.first_at, block.last_at = min(block.first_at, used.first_at), max(block.last_at, used.last_at)
            inside.append(used)
        if block is not None:
            yield block, inside


def _overlaps(block: UsageBlock, period: Period) -> bool:
    return block.end > (period.start or 0) and block.start < (ALWAYS if period.end is None else period.end)


def _project(block: UsageBlock, now: int) -> None:
    """Fill in the rates, and what they lead to."""
    block.is_active = block.start <= now < block.end
    upto = now if block.is_active else block.last_at
    minutes = max(LEAST_MINUTES, (upto - block.first_at) / MINUTE_US)
    left = (block.end - now) / MINUTE_US if block.is_active else 0.0
    block.tokens_per_minute = round(block.tokens / minutes, 1)
    block.cost_micros_per_hour = round(block.cost_micros / minutes * 60)
    block.projected_tokens = block.tokens + round(block.tokens / minutes * left)
    block.projected_cost_micros = block.cost_micros + round(block.cost_micros / minutes * left)
