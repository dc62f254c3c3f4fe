"""The budget of a session: what it may use, how much of that it has used, and what happens when it used more."""

from collections.abc import Iterable
from typing import Annotated

import msgspec

from clew.model.access import Right
from clew.model.events import Budget, BudgetSet, Draft
from clew.model.session import SPENDING, Head, Session, with_unmetered
from clew.service.find.spending import counted_against_budget, price_table, used_by
from clew.service.kernel.call import permit
from clew.service.kernel.context import Context
from clew.service.kernel.effects import Effect, permit_effect
from clew.service.kernel.registry import operation
from clew.service.sessions.lifecycle import budget_of
from clew.service.sessions.line import SessionLine, session_line
from clew.views.contract import Rebuilding


@operation(right=Right.SEE, route="POST /sessions/{session}/budget", reads_views=True)
def budget(
    context: Context,
    session: Session,
    *,
    tokens: Annotated[int, msgspec.Meta(ge=1, description="Tokens it may use.")] | None = None,
    usd: Annotated[float, msgspec.Meta(ge=0, le=1e9, description="US dollars it may cost.")] | None = None,
    unlimited: Annotated[bool, msgspec.Meta(description="Remove the budget.")] = False,
) -> SessionLine:
    """Show or set what a session may use, in tokens and US dollars.

    For all sessions of a day, a week or a month: `clew setting set budget_week '$50'`, which warns and stops nothing.
    """
    wanted = Budget() if unlimited else budget_of(tokens, usd)
    if wanted is None:
        permit(context, Right.ADMINISTER, session)
    else:
        permit_effect(context, Effect.BUDGET, session)
        context.views.catch_up()  # A view that has to be built again is built before anything is written.
        context.store.append(session, [Draft(body=BudgetSet(budget=wanted))], actor=context.principal)
    return session_line(context, session)


def unmetered(context: Context, session: Session, head: Head, drafts: Iterable[Draft] = ()) -> int:
    """What list prices say that a session used, and these drafts, beyond the money that programs reported.

    The log counts what is reported, inside the commit. Only a budget in money needs the rest.
    """
    if head.budget_cost_micros is None:
        return 0
    table = price_table(context)
    spent = [(draft.body.model, draft.body.usage) for draft in drafts if isinstance(draft.body, SPENDING)]
    priced = sum(_price(table.cost(model, used)) for model, used in spent if used is not None and not used.cost_micros)
    return _unreported(context, session, head) + priced


def with_all_counted(context: Context, session: Session) -> Head:
    """The head of a session, with all the money that counts against its budget."""
    head = context.store.head(session)
    return with_unmetered(head, unmetered(context, session, head))


def _unreported(context: Context, session: Session, head: Head) -> int:
    try:
        context.views.catch_up()
    except Rebuilding:
        context.views.catch_up()
    _, cost = counted_against_budget(context, session, head, used_by(context, [session.key])[session.key])
    return cost - head.spent_cost_micros


def _price(cost_micros: int | None) -> int:
    return cost_micros or 0
