"""What sessions used, in tokens and in money: counted here and nowhere else, so that every surface says the same."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import msgspec

from clew.model.access import Right
from clew.model.dates import Period
from clew.model.events import Budget, SessionForked
from clew.model.retention import DAY_US
from clew.model.session import Head, Session
from clew.service.find.filters import now
from clew.service.kernel.context import Context
from clew.views import prices
from clew.views.prices import Prices
from clew.views.usage import QUARTER_US, UsageSum, usage_sum

ALWAYS = 2**62
HOUR_US = DAY_US // 24
# What usage can be told apart by, beside models and times: the columns of `UsageSum`.
COLUMNS = ("session", "project", "agent", "person", "runtime", "machine")
# 1990. Earlier times are wrong clocks, so they are not split into days.
EARLIEST = 631_152_000_000_000
YEAR_US = 366 * DAY_US


class Counts(msgspec.Struct, kw_only=True):
    """Sums of usage. `cost_micros` leaves out the `unpriced` tokens, which have no price."""

    answers: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    cost_micros: int = 0
    unpriced: int = 0

    @property
    def tokens(self) -> int:
        """All that was newly processed, as a budget counts it: cache reads are left out."""
        return self.input + self.output + self.cache_write

    @property
    def money(self) -> int | None:
        """The cost; None when no model used has a price."""
        return self.cost_micros if self.cost_micros or not self.unpriced else None

    def add(self, spent: UsageSum, cost: int | None) -> None:
        """Add a sum and its cost; tokens without a cost are `unpriced`."""
        self.input += spent.input
        self.output += spent.output
        self.cache_read += spent.cache_read
        self.cache_write += spent.cache_write
        self.reasoning += spent.reasoning
        self.answers += spent.answers
        if cost is None:
            self.unpriced += all_tokens(spent)
        else:
            self.cost_micros += cost


def all_tokens(spent: UsageSum) -> int:
    """All tokens of a sum, those from a cache as well."""
    return spent.input + spent.output + spent.cache_read + spent.cache_write


def cost_of(spent: UsageSum, table: Prices) -> int | None:
    """The cost of a sum; None without a price. The cost that a program reports is more exact than the list price."""
    if spent.cost_micros:
        return spent.cost_micros
    price = table.price(spent.model)
    return None if price is None else price.cost(spent)


def price_table(context: Context) -> Prices:
    """The shipped prices, overridden by `prices.json` in the clew home if that exists."""
    own = Path(context.home) / "prices.json" if context.home else None
    return prices.load(own if own is not None and own.exists() else None)


def used_by(context: Context, keys: Sequence[int]) -> dict[int, Counts]:
    """What each of these sessions used itself; the usage of those without a row is all zero."""
    table = price_table(context)
    used = {key: Counts() for key in keys}
    with context.views.read() as tx:
        rows = tx.run("usage_of", keys=msgspec.json.encode(list(keys)).decode())
    for spent in map(usage_sum, rows):
        used[spent.session].add(spent, cost_of(spent, table))
    return used


def counted_against_budget(context: Context, session: Session, head: Head, used: Counts) -> tuple[int, int]:
    """The tokens and the money that count against a session's budget.

    The log counts what programs report, as it is appended, and keeps it when the conversation is pruned. Usage also has
    what list prices say. A fork of a session with a budget begins with what that had used.
    """
    tokens, cost = used.tokens, used.cost_micros
    if session.parent is not None and head.budget != Budget():
        forked = next(iter(context.store.read(session, after=session.upto, limit=1)), None)
        if forked is not None and isinstance(forked.body, SessionForked):
            tokens, cost = tokens + forked.body.spent_tokens, cost + forked.body.spent_cost_micros
    return max(tokens, head.spent_tokens), max(cost, head.spent_cost_micros)


def share_of(budget: Budget, tokens: int, cost_micros: int) -> float | None:
    """How much of a budget is used; 1 is all of it. None without a budget."""
    limits = [(tokens, budget.tokens), (cost_micros, budget.cost_micros)]
    shares = (spent / limit if limit else float(spent > 0) for spent, limit in limits if limit is not None)
    return max(shares, default=None)


def usage_sums(
    context: Context, period: Period, columns: Collection[str] = (), *, span: int = ALWAYS, only: Mapping[str, Any]
) -> list[UsageSum]:
    """The usage of the sessions that the caller may see, by model, by these columns and by local day or hour.

    `only` has the values that a session must have. A period is summed up from quarters of an hour; inside of the
    quarters in which it begins and ends, each answer is looked at.
    """
    by: dict[str, Any] = {f"by_{column}": int(column in columns) for column in COLUMNS}
    given = {**by, **only, "span": span, **context.reach(Right.SEE)}
    sums: list[UsageSum] = []
    with context.views.read() as tx:
        [(first, beyond)] = tx.run("usage_times")
        start = max(first * QUARTER_US, period.start or 0)
        end = min(beyond * QUARTER_US, ALWAYS if period.end is None else period.end)
        for low, high, offset in _stretches(start, end) if span < ALWAYS else [(start, end, 0)]:
            for since, until in _partial_quarters(low, high):
                sums += map(usage_sum, tx.run("usage_within", since=since, until=until, offset=offset, **given))
            first, beyond = -(-low // QUARTER_US), high // QUARTER_US
            if first < beyond:
                sums += map(usage_sum, tx.run("usage_by", first=first, beyond=beyond, offset=offset, **given))
    return sums


def _partial_quarters(start: int, end: int) -> list[tuple[int, int]]:
    """The parts of a period that are not whole quarters: at its beginning and at its end."""
    first, last = -(-start // QUARTER_US) * QUARTER_US, end // QUARTER_US * QUARTER_US
    parts = [(start, end)] if last < first else [(start, first), (last, end)]
    return [(since, until) for since, until in parts if since < until]


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
