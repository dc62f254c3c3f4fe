"""What sessions used, in tokens and in money: counted here and nowhere else, so that every surface says the same."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from clew.model.events import Budget, SessionForked, Usage
from clew.model.session import Head, Session
from clew.service.kernel.context import Context
from clew.views import prices
from clew.views.prices import Prices
from clew.views.usage import UsageSum, usage_sum

ALWAYS = 2**62


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

    def add(self, spent: UsageSum, table: Prices) -> int:
        """Add a sum; returns the number of tokens without a price."""
        self.input += spent.input
        self.output += spent.output
        self.cache_read += spent.cache_read
        self.cache_write += spent.cache_write
        self.reasoning += spent.reasoning
        self.answers += spent.answers
        counts = Usage(
            input=spent.input, output=spent.output, cache_read=spent.cache_read, cache_write=spent.cache_write,
            cache_write_hour=spent.cache_write_hour,
        )  # fmt: skip
        # The cost that a program reports is more exact than the list price.
        cost = spent.cost_micros or table.cost(spent.model, counts)
        if cost is None:
            unpriced = spent.input + spent.output + spent.cache_read + spent.cache_write
            self.unpriced += unpriced
            return unpriced
        self.cost_micros += cost
        return 0


def price_table(context: Context) -> Prices:
    """The shipped prices, overridden by `prices.json` in the clew home if that exists."""
    own = Path(context.home) / "prices.json" if context.home else None
    return prices.load(own if own is not None and own.exists() else None)


def used_by(context: Context, keys: Sequence[int]) -> dict[int, Counts]:
    """What each of these sessions used itself; the usage of those without a row is all zero."""
    table = price_table(context)
    used = {key: Counts() for key in keys}
    with context.views.read() as tx:
        rows = tx.run("usage_sums", since=0, until=ALWAYS, offset=0, keys=msgspec.json.encode(list(keys)).decode())
    for spent in map(usage_sum, rows):
        used[spent.session].add(spent, table)
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
