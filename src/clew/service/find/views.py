"""The views: bring them up to date, or build them again from the log."""

from typing import Annotated

import msgspec

from clew.model.access import Right
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.views.upkeep import Step


@operation(right=Right.SEE, reads_views=True, hidden=True, on_server=Step(done=0, left=0))
def views_step(
    context: Context, *, limit: Annotated[int, msgspec.Meta(ge=1, description="Events at the most.")] = 10_000
) -> Step:
    """Fold some of the log's new events into the views, so that the caller can show progress."""
    step = context.views.catch_up(limit=limit)
    return msgspec.structs.replace(step, notice=context.views.pop_notice())


@operation(right=Right.ADMINISTER, reads_views=True, hidden=True)
def views_rebuild(context: Context, *, view: str = "") -> Step:
    """Start the rebuild of a view, or of all; `views_step` continues it."""
    context.views.rebuild(view)
    return context.views.catch_up(limit=1)
