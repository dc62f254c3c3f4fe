"""The operation `workspace_here`: where the files of a session belong on this machine, and whether they are there."""

import os
from itertools import islice
from typing import Annotated

import msgspec

from clew.model.access import Right
from clew.model.errors import NotFound
from clew.model.events import RuntimeAttached, WorkspaceRestored, WorkspaceSnapshotted
from clew.model.file_tree import shown
from clew.model.session import Session
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.workspaces.comparing import compare
from clew.service.workspaces.points import At, Point, folder_of, point_at
from clew.service.workspaces.snapshot import own_folder, refuse_on_server, resolved, save
from clew.store.log.feed import readable_of_kind

NONE, SAME, MISSING, DIFFERS = "none", "same", "missing", "differs"
# Differences are counted so far.
COUNTED = 1000


class WorkspaceHere(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a session on this machine."""

    session: str
    state: str
    """none: no snapshot has them; same; missing: the folder is not there, or empty; differs."""
    folder: str = ""
    """The folder that they belong in."""
    cwd: str = ""
    """The folder to work in: that one, or the one below it in which the program worked."""
    was: str = ""
    """The folder that they were in."""
    snapshot: str = ""
    seq: int = 0
    files: int = 0
    changes: int = 0
    """How many differ, up to a thousand."""


@operation(right=Right.APPEND, hidden=True)
def workspace_here(
    context: Context,
    session: Session,
    *,
    at: At | None = None,
    folder: Annotated[str, msgspec.Meta(description="Where they shall be. [default: where they were]")] = "",
) -> WorkspaceHere:
    """Tell where the files of a session belong on this machine, and whether they are there; it changes no file."""
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
