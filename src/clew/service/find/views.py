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
    """Take what is new in the log into the views: some of it, so that progress can be shown."""
    step = context.views.catch_up(limit=limit)
    return msgspec.structs.replace(step, notice=context.views.told())


@operation(right=Right.ADMINISTER, reads_views=True, hidden=True)
def views_rebuild(context: Context, *, view: str = "") -> Step:
    """Begin to build a view, or all of them, again from the log; going on is `views_step`."""
    context.views.rebuild(view)
    return context.views.catch_up(limit=1)
