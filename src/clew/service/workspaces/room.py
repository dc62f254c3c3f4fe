"""Room for snapshots: a floor of free disk space, and the quota of a project.

An automatic snapshot stops early, so that it never fills a disk that a person needs; one that somebody asks for is
refused before it writes. A project that comes near its quota is warned; at the quota its old snapshots are thinned
more strictly, and when that is not enough, its automatic snapshots stop.
"""

import os
from contextlib import suppress
from pathlib import Path

from clew.model.errors import DiskFull, TooLarge
from clew.service.access.settings import WORKSPACE_QUOTA, disk_limit
from clew.service.kernel.context import Context
from clew.store.log.thinning import STRICT, sessions_with_snapshots, thin
from clew.store.maintenance import describe
from clew.store.objects.collection import collect
from clew.store.objects.folder import Folder

# Below so much free space no snapshot is taken.
AUTOMATIC_FLOOR, FLOOR = 1024**3, 256 * 1024**2
# From this share of its quota on a project is warned.
WARNED_SHARE = 0.8


def refuse_full_disk(context: Context, floor: int = FLOOR) -> None:
    """Refuse to write when the disk of the store has less free space than the floor."""
    for folder in _folders(context):
        while not folder.exists() and folder != folder.parent:
            folder = folder.parent
        with suppress(OSError):  # What cannot be asked is not known to be full.
            disk = os.statvfs(folder)
            free = disk.f_bavail * disk.f_frsize
            if free < floor:
                raise DiskFull(
                    f"{folder} has {free / 1e6:,.0f} MB free, and no snapshot is taken below {floor / 1e6:,.0f} MB; "
                    "free some space, or thin snapshots and collect",
                    free=free,
                    floor=floor,
                )


def _folders(context: Context) -> list[Path]:
    """The folders on this machine that a snapshot is written into; none for a database and a bucket elsewhere."""
    current = context.store.pack_stores.current
    folders = [current.path] if isinstance(current, Folder) else []
    if not context.store.is_remote:
        folders.append(Path(describe(context.store)["place"]).parent)
    return folders


def warning_of(context: Context, project: str) -> str:
    """What to say about the quota of a project; empty while there is room."""
    quota = disk_limit(context.setting(project, WORKSPACE_QUOTA))
    if quota is None:
        return ""
    stored = _stored(context, project)
    if stored < WARNED_SHARE * quota:
        return ""
    return f"the snapshots of {project} take {_size(stored)} of their quota of {_size(quota)}"


def make_room(context: Context, project: str) -> None:
    """Thin the snapshots of a project that is at its quota; `TooLarge` when that does not help."""
    quota = disk_limit(context.setting(project, WORKSPACE_QUOTA))
    if quota is None or _stored(context, project) < quota:
        return
    thinned = [
        thin(context.unrestricted, session, actor=context.principal, rule=STRICT).snapshots
        for session in sessions_with_snapshots(context.unrestricted, project)
    ]
    if any(thinned):
        collect(context.unrestricted)
    stored = _stored(context, project)
    if stored >= quota:
        raise TooLarge(
            f"the snapshots of {project} take {_size(stored)} and their quota is {_size(quota)}: no automatic one is "
            "taken; raise the quota, or erase sessions",
            stored=stored,
            limit=quota,
        )


def _stored(context: Context, project: str) -> int:
    from clew.service.workspaces.usage import usage_of

    return usage_of(context, project).stored


def _size(size: int) -> str:
    return f"{size / 1e9:,.2f} GB" if size >= 10**9 else f"{size / 1e6:,.1f} MB"
