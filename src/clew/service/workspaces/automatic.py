"""Snapshots that nobody asks for: after a turn, in projects whose setting `workspaces` is `on`.

They are taken in the background, by what captures sessions, and no agent waits for them. They are only of folders that
are surely workspaces: a repository, or a folder that somebody kept by hand before; never a home folder or one above it.
"""

import os
from typing import Annotated

import msgspec

from clew.model.access import Right
from clew.model.errors import ClewError
from clew.model.session import Session
from clew.service.kernel.call import permit
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.workspaces.commits import record_commits
from clew.service.workspaces.points import events_of, folder_of
from clew.service.workspaces.room import AUTOMATIC_FLOOR, make_room, refuse_full_disk
from clew.service.workspaces.saving import Limits
from clew.service.workspaces.snapshot import record, refuse_on_server, resolved, save
from clew.store.log.thinning import AUTOMATIC

SETTING = "workspaces"
# A larger folder is kept when somebody asks for it.
LIMITS = Limits(largest_file=256 * 1024**2, most_bytes=2 * 1024**3, most_files=200_000)


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the workspace of a session: its snapshot, or why there is none."""

    session: str
    snapshot: str = ""
    seq: int = 0
    commits: list[str] = []
    """The commits that were made in its folder and are recorded now."""
    error: str = ""


@operation(right=Right.APPEND, filters_by_reach=True, hidden=True)
def workspace_keep(
    context: Context, sessions: Annotated[list[str], msgspec.Meta(description="Sessions in which something happened.")]
) -> list[Kept]:
    """Record the commits of these sessions, and keep their files where their project's setting `workspaces` is on."""
    refuse_on_server(context)
    kept = []
    for id in sorted(set(sessions)):
        session = context.store.session(id, context.reach(None))
        try:
            permit(context, Right.APPEND, session)
            kept += _keep(context, session)
        except ClewError as error:
            kept.append(Kept(session=id, error=str(error)))
    return kept


def _keep(context: Context, session: Session) -> list[Kept]:
    folder = folder_of(context, session)
    if not folder or not os.path.isdir(folder):
        return []
    commits = record_commits(context, session, os.fsencode(folder))
    if context.setting(session.project, SETTING) != "on":
        return [Kept(session=session.id, commits=commits)] if commits else []
    root = resolved(folder, session) if events_of(context, session) else _repository(resolved(folder, session))
    if not root or _is_above_home(root):
        return []
    refuse_full_disk(context, AUTOMATIC_FLOOR)
    make_room(context, session.project)
    saved = save(context, session, root, limits=LIMITS, floor=AUTOMATIC_FLOOR)
    taken = record(context, session, root, saved, label=AUTOMATIC)
    return [Kept(session=session.id, snapshot=taken.snapshot, seq=taken.seq, commits=commits)]


def _repository(folder: bytes) -> bytes:
    """The repository around a folder; empty if there is none."""
    while not os.path.exists(os.path.join(folder, b".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return b""
        folder = parent
    return folder


def _is_above_home(folder: bytes) -> bool:
    """Whether it is a home folder, or one above it."""
    home = os.path.realpath(os.fsencode(os.path.expanduser("~")))
    return (home + b"/").startswith(folder.rstrip(b"/") + b"/")
