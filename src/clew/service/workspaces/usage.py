"""The operation `workspace_usage`: how much the snapshots of each project take, and the quota of each."""

from typing import Annotated

import msgspec

from clew.model.access import Right, Target
from clew.service.access.settings import WORKSPACE_QUOTA, disk_limit
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.workspaces.snapshot import WORKSPACE
from clew.store.log.thinning import sessions_with_snapshots, snapshots_of
from clew.store.objects.walking import sizes_below


class WorkspaceUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What the snapshots of a project take. What several projects share counts in each."""

    project: str
    sessions: int
    snapshots: int
    newest_at: int
    objects: int
    bytes: int
    """Of the files and folders, each content once."""
    stored: int
    """What these take compressed."""
    quota: int | None
    """The limit of `stored` that is set; automatic snapshots stop there."""


@operation(right=Right.ADMINISTER, route="GET /workspaces/usage", filters_by_reach=True, group=WORKSPACE)
def workspace_usage(
    context: Context, *, project: Annotated[str, msgspec.Meta(description="Only this project. [default: all]")] = ""
) -> list[WorkspaceUsage]:
    """Show how much the snapshots of each project take on the disk, and its quota."""
    sessions = [
        session for session in sessions_with_snapshots(context.store, project)
        if context.caller.rule(Right.ADMINISTER, Target(project=session.project)).allowed
    ]  # fmt: skip
    names = sorted({session.project for session in sessions})
    found = [usage_of(context, name) for name in names]
    return sorted(found, key=lambda usage: -usage.stored)


def usage_of(context: Context, project: str) -> WorkspaceUsage:
    """What the snapshots of a project take."""
    store = context.unrestricted
    sessions = sessions_with_snapshots(store, project)
    roots: set[str] = set()
    snapshots, newest = 0, 0
    for session in sessions:
        for event in snapshots_of(store, session):
            snapshots, newest = snapshots + 1, max(newest, event.at)
            roots.add(getattr(event.body, "blob", ""))
    objects, size, stored = sizes_below(store, roots - {""})
    return WorkspaceUsage(
        project=project, sessions=len(sessions), snapshots=snapshots, newest_at=newest, objects=objects, bytes=size,
        stored=stored, quota=disk_limit(context.setting(project, WORKSPACE_QUOTA)),
    )  # fmt: skip
