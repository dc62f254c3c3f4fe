"""The operation `workspace_checkout`: the files of a session in a folder of its own, with what git knew of them."""

import os
from contextlib import closing
from typing import Annotated

import msgspec

from clew.model.access import Right
from clew.model.errors import ClewError, Conflict, InvalidInput
from clew.model.events import Draft, Workspace, WorkspaceRestored, WorkspaceSnapshotted
from clew.model.file_tree import shown
from clew.model.git_record import GitRecord
from clew.model.session import Session, apply
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.privacy.mask_on_write import masks_secrets
from clew.service.workspaces.cloning import Live
from clew.service.workspaces.git_checkout import Made, add_worktree, own_repository, remove, source_of
from clew.service.workspaces.git_index import add_intended, git_record_of
from clew.service.workspaces.git_left_out import restore_left_out
from clew.service.workspaces.git_state import Repository
from clew.service.workspaces.points import At, Point, events_of, point_at
from clew.service.workspaces.remembered import Remembered
from clew.service.workspaces.restoring import Restoring
from clew.service.workspaces.snapshot import WORKSPACE, own_folder, refuse_on_server, remembered_path


class CheckedOut(msgspec.Struct, frozen=True, kw_only=True):
    """A folder that a session's files were written into."""

    session: str
    folder: str
    snapshot: str
    files: int
    commit: str
    """Where the folder of the snapshot stood in git."""
    branch: str
    repository: str = ""
    """own, worktree, or empty: whether the new folder is a repository."""
    notes: list[str] = []
    """What is other than it was, and why."""


@operation(right=Right.READ, group=WORKSPACE)
def workspace_checkout(
    context: Context,
    session: Session,
    folder: Annotated[str, msgspec.Meta(description="A new folder, or an empty one.")],
    *,
    at: At | None = None,
    worktree: Annotated[bool, msgspec.Meta(description="Make it a worktree of the repository.")] = False,
    branch: Annotated[str, msgspec.Meta(description="With worktree: on a new branch of this name.")] = "",
    repository: Annotated[
        str, msgspec.Meta(description="The repository with the commit. [default: that of the snapshot]")
    ] = "",
) -> CheckedOut:
    """Write the files of a session into a new folder, which is the session's own from then on.

    A folder that was a repository of git is one again: at the same commit and branch, with the same index. With
    `worktree` it is a worktree of the repository that it was in, on no branch or on a new one.
    """
    refuse_on_server(context)
    if branch and not worktree:
        raise InvalidInput("a new branch is for a worktree; ask for a worktree, too", branch=branch)
    root = _new_folder(context, folder)
    point = point_at(context, session, at)
    kept = point.event.body
    if not isinstance(kept, WorkspaceSnapshotted | WorkspaceRestored):
        raise AssertionError("a point is a snapshot or a restore")
    record = git_record_of(context.store, kept.git, kept.workspace.commit, kept.workspace.branch)
    folders = [repository] if repository else _folders(context, session, point)
    made, notes = _made(
        context, root, folders, record, worktree=worktree, branch=branch, is_wanted=bool(worktree or repository)
    )
    try:
        files = _write(context, session, point, root, kept.workspace)
        if made is not None:
            notes += restore_left_out(context, made, masks=masks_secrets(context, session.project))
            add_intended(made.git, record)
    except BaseException:
        if made is not None:
            remove(made, record)
        raise
    body = WorkspaceRestored(
        snapshot=kept.snapshot, blob=kept.blob, git=kept.git,
        workspace=Workspace(
            folder=shown(root), machine=context.machine, files=files, commit=record.commit,
            branch=made.branch if made is not None else record.branch,
        ),
    )  # fmt: skip
    if _accepts(context, session, body):
        context.store.append(session, [Draft(body=body)], actor=context.principal)
    return CheckedOut(
        session=session.id, folder=shown(root), snapshot=point.tree.hex(), files=files, commit=record.commit,
        branch=body.workspace.branch, repository="" if made is None else "worktree" if made.is_worktree else "own",
        notes=notes,
    )  # fmt: skip


def _new_folder(context: Context, folder: str) -> bytes:
    """The whole path of the new folder. A caller elsewhere has no folder that a path could begin at."""
    path = os.path.expanduser(folder)
    if context.answers_leave_machine and not os.path.isabs(path):
        raise InvalidInput(f"{folder!r} is no whole path; write one such as /home/ada/copy or ~/copy", path=folder)
    root = os.path.abspath(os.fsencode(path))
    own_folder(context, root)
    if os.path.lexists(root) and (os.path.islink(root) or not os.path.isdir(root) or os.listdir(root)):
        raise Conflict(f"{shown(root)} exists and is not empty; name a new folder", path=shown(root))
    return root


def _folders(context: Context, session: Session, point: Point) -> list[str]:
    """The folders on this machine that the files were in, the newest first."""
    kept = [
        event.body.workspace
        for event in reversed(events_of(context, session, upto=point.seq))
        if isinstance(event.body, WorkspaceSnapshotted | WorkspaceRestored)
    ]
    return [*dict.fromkeys(place.folder for place in kept if place.folder and place.machine in ("", context.machine))]


def _made(
    context: Context,
    root: bytes,
    folders: list[str],
    record: GitRecord,
    *,
    worktree: bool,
    branch: str,
    is_wanted: bool,
) -> tuple[Made | None, list[str]]:
    """What the folder is in git; a note, or with `is_wanted` an error, where it cannot be what it was."""
    if not (record.commit or record.branch or is_wanted):
        return None, []
    try:
        if not (record.commit or record.branch):
            raise InvalidInput("the folder of the snapshot was in no repository of git")
        source = _source(folders, record)
        if worktree:
            return add_worktree(context.store, source, root, record, branch), []
        return own_repository(context.store, source, root, record), []
    except ClewError as error:
        if is_wanted:
            raise
        return None, [f"the folder is no repository: {error}"]


def _source(folders: list[str], record: GitRecord) -> Repository:
    """The repository with the commit, in the first of the folders that has it."""
    errors: list[ClewError] = []
    for folder in folders:
        try:
            return source_of(os.path.realpath(os.path.expanduser(os.fsencode(folder))), record)
        except ClewError as error:
            errors.append(error)
    if errors:
        raise errors[-1]  # Of the folder that the files were in first.
    raise InvalidInput("the snapshot is from another machine; name a clone of its repository on this one")


def _write(context: Context, session: Session, point: Point, root: bytes, kept: Workspace) -> int:
    """Write the files; those that are still in their folder are cloned where the file system can. Returns how many."""
    if kept.machine not in ("", context.machine):
        restoring = Restoring(context.store, root)
        restoring.restore(b"", point.tree)
        return restoring.written
    folder = os.fsencode(kept.folder)
    memory = remembered_path(context, folder, False, masks_secrets(context, session.project))
    with closing(Live(folder, Remembered(memory))) as live:
        restoring = Restoring(context.store, root, live=live)
        restoring.restore(b"", point.tree)
    return restoring.written


def _accepts(context: Context, session: Session, body: WorkspaceRestored) -> bool:
    """Whether the session can take the event, and the caller may append it: a closed one is only read."""
    from clew.service.kernel.call import permit

    try:
        permit(context, Right.APPEND, session)
        apply(context.store.head(session), body, session.id)
    except ClewError:
        return False
    return True
