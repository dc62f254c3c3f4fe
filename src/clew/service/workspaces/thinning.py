"""The operation `workspace_thin`: of old snapshots keep one of each hour, and later one of each day."""

from typing import Annotated

import msgspec

from clew.model.access import Right, Target
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.workspaces.snapshot import WORKSPACE
from clew.store.log.thinning import Thinned, sessions_with_snapshots, thin

SETTING = "snapshots"


@operation(
    right=Right.ADMINISTER, route="POST /workspaces/thin", filters_by_reach=True, audited=True, group=WORKSPACE
)  # fmt: skip
def workspace_thin(
    context: Context, *, project: Annotated[str, msgspec.Meta(description="Only this project. [default: all]")] = ""
) -> list[Thinned]:
    """Thin old snapshots now: all of a day are kept, then one an hour for a week, then one a day.

    A job does this daily. The newest snapshot of a session stays, and so does one with a label, one that a fork or an
    artifact stands on, and all of a project on legal hold or with the setting `snapshots` on `keep`.
    """
    return thin_all(context, project)


def thin_all(context: Context, project: str = "") -> list[Thinned]:
    """Thin the snapshots of the sessions that the caller administers."""
    thinned = []
    for session in sessions_with_snapshots(context.store, project):
        allowed = context.caller.rule(Right.ADMINISTER, Target(project=session.project)).allowed
        if allowed and context.setting(session.project, SETTING) != "keep":
            thinned.append(thin(context.store, session, actor=context.principal))
    return [session for session in thinned if session.snapshots]
