"""The operation `workspace_restore`: go back to a snapshot in place."""

import os
from collections.abc import Mapping
from typing import Annotated

import msgspec

from clew.model.access import Right
from clew.model.errors import Conflict, InvalidInput, NotFound, TooLarge
from clew.model.events import Draft, Workspace, WorkspaceRestored
from clew.model.file_tree import FOLDER, MOST_ENTRIES, Entry, shown
from clew.model.session import Session, Status, apply
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.sessions.list import sessions
from clew.service.workspaces.changes import Changed, changed
from clew.service.workspaces.comparing import Difference, compare, compare_entries
from clew.service.workspaces.git_index import record_git
from clew.service.workspaces.points import At, Point, entries_of, folder_of, point_at
from clew.service.workspaces.restoring import Restoring
from clew.service.workspaces.saving import Saved
from clew.service.workspaces.snapshot import WORKSPACE, git_memory, own_folder, record, refuse_on_server, resolved, save

# So many sessions of a folder are looked at for one that is at work.
LOOKED_AT = 200

Paths = Annotated[list[str], msgspec.Meta(description="Only these files and folders. [default: all]")]


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """How many files were written, removed and left as they were."""

    written: int
    removed: int
    unchanged: int
    undo: int | None
    """The event that has the files as they were before; restore it to undo this. None when nothing was there."""


class _Plan(msgspec.Struct, frozen=True):
    """What a restore starts from and goes to."""

    root: bytes
    point: Point
    now: Saved | None
    selected: Mapping[bytes, tuple[Entry | None, Entry | None]] | None
    """With `paths`, these, as they are now and as they will be."""


@operation(right=Right.READ, group=WORKSPACE, hidden=True)
def workspace_preview(
    context: Context, session: Session, paths: Paths | None = None, *, at: At | None = None, folder: str = ""
) -> list[Changed]:
    """Show what a restore would write and remove; it changes no file."""
    refuse_on_server(context)
    plan = _plan(context, session, paths or [], at, folder)
    return [changed(context.store, difference) for difference in _differences(context, plan)]


@operation(right=Right.APPEND, group=WORKSPACE, reads_views=True)
def workspace_restore(
    context: Context,
    session: Session,
    paths: Paths | None = None,
    *,
    at: At | None = None,
    folder: Annotated[str, msgspec.Meta(description="Restore into this folder. [default: that of the session]")] = "",
    force: Annotated[bool, msgspec.Meta(description="Also when another session's agent is at work there.")] = False,
) -> Restored:
    """Make the files of a folder as they were at an event: content, modes and links, and no file that was not there.

    What is there before is kept as a snapshot first, so that every restore can be undone. What no snapshot takes in
    stays as it is. A restore that was interrupted goes on when it is run again.
    """
    refuse_on_server(context)
    if not force:
        _refuse_when_at_work(context, session, folder)
    body = WorkspaceRestored(snapshot="")
    apply(context.store.head(session), body, session.id)
    plan = _plan(context, session, paths or [], at, folder)
    differences = list(_differences(context, plan))
    _refuse_unsaved(plan, differences)
    undo = None
    if plan.now is not None and plan.now.tree != plan.point.tree:
        undo = record(context, session, plan.root, plan.now, restores=plan.point.tree.hex()).seq
    restoring = Restoring(context.store, plan.root)
    _restore(context, plan, restoring)
    name, in_git = plan.point.tree.hex(), record_git(context, session, plan.root, git_memory(context, plan.root))
    body = WorkspaceRestored(
        snapshot=name,
        blob=name,
        paths=tuple(sorted(paths or [])),
        git=in_git.record,
        workspace=Workspace(
            folder=shown(plan.root), machine=context.machine, files=restoring.written, commit=in_git.state.commit,
            branch=in_git.state.branch,
        ),
    )  # fmt: skip
    if differences or plan.now is None:
        context.store.append(session, [Draft(body=body)], actor=context.principal)
    return Restored(
        written=restoring.written,
        removed=restoring.removed,
        unchanged=max(0, _count(context, plan) - restoring.written),
        undo=undo,
    )


# The plan -------------------------------------------------------------------------------------------------------------


def _plan(context: Context, session: Session, paths: list[str], at: int | None, folder: str) -> _Plan:
    point = point_at(context, session, at)
    wanted = folder or folder_of(context, session)
    if not wanted:
        raise InvalidInput(f"session {session.id} has no folder on this machine; name one", session=session.id)
    root = os.path.realpath(os.fsencode(os.path.expanduser(wanted)))
    own_folder(context, root)
    now = None
    if os.path.isdir(root) and os.listdir(root):
        # The restored files are in the snapshot whatever rule leaves them out, so that none is replaced unsaved.
        now = save(context, session, resolved(wanted, session), also=point.tree)
    selected = {}
    for path in paths:
        relative = _relative(root, path)
        before = _find(context, now.tree, relative) if now is not None else None
        after = _find(context, point.tree, relative)
        if before is None and after is None:
            raise NotFound(f"{path} is neither in the folder nor in the snapshot", path=path)
        selected[relative] = (before, after)
    return _Plan(root, point, now, selected if paths else None)


def _relative(root: bytes, path: str) -> bytes:
    """A path below the root; refused when it leads out of it."""
    whole = os.path.normpath(os.path.join(root, os.fsencode(path)))
    if not whole.startswith(root.rstrip(b"/") + b"/"):
        raise InvalidInput(f"{path!r} is not below {shown(root)}; name files of the workspace", path=path)
    relative = whole[len(root.rstrip(b"/")) + 1 :]
    if b".git" in relative.lower().split(b"/"):
        raise InvalidInput(f"{path!r} belongs to git, which no snapshot has", path=path)
    return relative


def _find(context: Context, tree: bytes, path: bytes) -> Entry | None:
    entry = Entry(b"", FOLDER, digest=tree)
    for part in path.split(b"/"):
        if entry.kind != FOLDER:
            return None
        named = [below for below in entries_of(context.store, entry.digest) if shown(below.name) == shown(part)]
        if not named:
            return None
        entry = named[0]
    return entry


def _differences(context: Context, plan: _Plan) -> "list[Difference]":
    if plan.selected is None:
        found = compare(context.store, plan.now.tree if plan.now else b"", plan.point.tree)
    else:
        found = (
            difference
            for path, (before, after) in plan.selected.items()
            for difference in compare_entries(context.store, before, after, path)
        )
    differences = []
    for difference in found:
        differences.append(difference)
        if len(differences) > MOST_ENTRIES:
            raise TooLarge(f"more than {MOST_ENTRIES:,} files and folders would change", limit=MOST_ENTRIES)
    return differences


def _restore(context: Context, plan: _Plan, restoring: Restoring) -> None:
    if plan.selected is None:
        restoring.restore(plan.now.tree if plan.now else b"", plan.point.tree)
        return
    modes = {}
    for path in plan.selected:
        above = path.rpartition(b"/")[0]
        while above:
            entry = _find(context, plan.point.tree, above)
            if entry is not None and entry.kind == FOLDER:
                modes[above] = entry.mode
            above = above.rpartition(b"/")[0]
    restoring.restore_paths(plan.selected, modes)


def _count(context: Context, plan: _Plan) -> int:
    """How many files there are after the restore, of those that it is about."""
    if plan.selected is not None:
        return sum(after.count for _, after in plan.selected.values() if after is not None)
    return sum(entry.count for entry in entries_of(context.store, plan.point.tree))


# Refusals -------------------------------------------------------------------------------------------------------------


def _refuse_unsaved(plan: _Plan, differences: "list[Difference]") -> None:
    """Refuse to replace what could not be kept: a file that cannot be read, or is too large."""
    if plan.now is None:
        return
    written = {shown(difference.path) for difference in differences if difference.after is not None}
    lost = sorted(
        {skipped.path for skipped in plan.now.skipped if skipped.path in written and "changed" not in skipped.why}
    )
    if lost:
        raise Conflict(
            f"{lost[0]} would be replaced and could not be kept before ({len(lost)} such files); move it away",
            paths=lost[:100],
        )


def _refuse_when_at_work(context: Context, session: Session, folder: str) -> None:
    """Refuse while the agent of another session is at work in the folder."""
    root = folder or folder_of(context, session)
    if not root:
        return
    root = shown(os.path.realpath(os.fsencode(os.path.expanduser(root))))
    context.views.catch_up()
    for line in sessions(context, folder=root, limit=LOOKED_AT):
        if line.id != session.id and line.status == Status.ACTIVE and line.machine in ("", context.machine):
            raise Conflict(
                f"the agent of session {line.id} is at work in {root}; wait for it, restore into another folder, or "
                "say that it does not matter",
                session=line.id,
            )
