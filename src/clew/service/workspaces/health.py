"""How the workspaces of a store are, for `clew doctor`: the setting, the newest snapshot, quotas, and damage."""

from typing import NamedTuple

import msgspec

from clew.model.errors import Damaged, NotFound
from clew.service.access.settings import WORKSPACE_QUOTA, disk_limit
from clew.service.kernel.context import Context
from clew.service.workspaces.usage import usage_of
from clew.store.log.feed import newest_of_kinds
from clew.store.log.thinning import KINDS, sessions_with_snapshots
from clew.store.objects import objects

# The topmost objects of so many snapshots are read.
READ = 20


class WorkspaceHealth(NamedTuple):
    """What was found of workspaces; `newest_at` is 0 without any snapshot."""

    on: list[str]
    """The projects whose setting `workspaces` is on; empty text is all of them."""
    newest_at: int
    damaged: int
    """How many of the newest snapshots cannot be read."""
    quotas: list[str]
    over: bool


def check_workspaces(context: Context) -> WorkspaceHealth:
    """Look at the settings, at the newest snapshots, and at the projects that have a quota."""
    settings = context.settings_of("workspaces")
    events = newest_of_kinds(context.unrestricted, KINDS, limit=READ)
    quotas, over = [], False
    values = context.settings_of(WORKSPACE_QUOTA)
    projects = {project for project in values if project}
    if "" in values:
        projects |= {session.project for session in sessions_with_snapshots(context.unrestricted)}
    for project in sorted(projects):
        value = context.setting(project, WORKSPACE_QUOTA)
        if quota := disk_limit(value):
            stored = usage_of(context, project).stored
            quotas.append(f"{project} {stored / quota:.0%} of {value}")
            over = over or stored >= quota
    return WorkspaceHealth(
        on=sorted(project for project, value in settings.items() if value == "on"),
        newest_at=max((event.at for event in events), default=0),
        damaged=sum(not _is_readable(context, getattr(event.body, "blob", "")) for event in events),
        quotas=quotas,
        over=over,
    )


def _is_readable(context: Context, name: str) -> bool:
    try:
        return not name or bool(objects.load(context.unrestricted, name))
    except (NotFound, Damaged, msgspec.DecodeError):
        return False
