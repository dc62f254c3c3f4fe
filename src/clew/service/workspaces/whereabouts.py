"""Where the files of a session belong on this machine: in the folder of their snapshot, or in another one."""

import os
from itertools import islice

from clew.model.errors import NotFound
from clew.model.events import RuntimeAttached, WorkspaceRestored, WorkspaceSnapshotted
from clew.model.file_tree import shown
from clew.model.session import Session
from clew.service.handover.files_here import DIFFERS, MISSING, NONE, SAME, WorkspaceHere
from clew.service.kernel.context import Context
from clew.service.workspaces.comparing import compare
from clew.service.workspaces.points import Point, folder_of, point_at
from clew.service.workspaces.snapshot import own_folder, refuse_on_server, resolved, save
from clew.store.log.feed import readable_of_kind

# Differences are counted so far.
COUNTED = 1000


def whereabouts(context: Context, session: Session, at: int | None, folder: str) -> WorkspaceHere:
    """Where the files of a session with snapshots are."""
    refuse_on_server(context)
    try:
        point = point_at(context, session, at)
    except NotFound:
        return WorkspaceHere(session=session.id, state=NONE)
    kept = point.event.body
    if not isinstance(kept, WorkspaceSnapshotted | WorkspaceRestored):
        raise AssertionError("a point is a snapshot or a restore")
    was, worked_in = kept.workspace.folder, _worked_in(context, session, point, at)
    root, cwd = _places(context, session, kept.workspace.machine, was, worked_in, folder)
    own_folder(context, os.fsencode(root))
    state, changes = _state(context, session, point, root)
    return WorkspaceHere(
        session=session.id, state=state, folder=shown(os.fsencode(root)), cwd=shown(os.fsencode(cwd)), was=was,
        snapshot=point.tree.hex(), seq=point.seq, files=kept.workspace.files, changes=changes,
    )  # fmt: skip


def _worked_in(context: Context, session: Session, point: Point, at: int | None) -> str:
    """The folder that the program worked in."""
    upto = at if at is not None else context.store.head(session).head
    attached = [
        event.body.cwd
        for event in readable_of_kind(context.store, session, RuntimeAttached.kind, upto=upto)
        if isinstance(event.body, RuntimeAttached) and event.body.cwd
    ]
    return attached[-1] if attached else ""


def _places(context: Context, session: Session, machine: str, was: str, worked_in: str, folder: str) -> tuple[str, str]:
    """The folder for the files, and the one to work in."""
    below = os.path.relpath(worked_in, was) if worked_in and is_in(worked_in, was) else "."
    if folder:
        asked = os.path.realpath(os.path.expanduser(folder))
        if machine in ("", context.machine) and is_in(asked, os.path.realpath(was)) and os.path.isdir(was):
            return os.path.realpath(was), asked
        root = asked
    elif machine in ("", context.machine):
        root = was
    else:
        known = folder_of(context, session)
        # The same path, where that can be; else below the current folder.
        at_same_path = was if os.path.isdir(os.path.dirname(was)) else os.path.join(os.getcwd(), os.path.basename(was))
        root = known if known and os.path.isdir(known) else at_same_path
    root = os.path.realpath(root)
    return root, os.path.normpath(os.path.join(root, below))


def is_in(path: str, folder: str) -> bool:
    """Whether a path is a folder, or below it."""
    return os.path.normpath(path) == os.path.normpath(folder) or os.path.normpath(path).startswith(
        os.path.normpath(folder).rstrip("/") + "/"
    )


def _state(context: Context, session: Session, point: Point, root: str) -> tuple[str, int]:
    if not os.path.isdir(root) or not os.listdir(root):
        return MISSING, 0
    now = save(context, session, resolved(root, session), also=point.tree)
    changes = sum(1 for _ in islice(compare(context.store, now.tree, point.tree), COUNTED))
    return (DIFFERS, changes) if changes else (SAME, 0)
