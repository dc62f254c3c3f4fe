"""The operation `workspace_snapshot`: keep the files of a folder as they are now, as an event of a session."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec
from blake3 import blake3

from clew.model.access import Right
from clew.model.errors import Conflict, Denied, InvalidInput, NotFound
from clew.model.events import AnyBody, Draft, Workspace, WorkspaceSnapshotted
from clew.model.file_tree import shown
from clew.model.ids import check_name
from clew.model.session import Session, apply
from clew.service.kernel.context import Context
from clew.service.kernel.registry import Group, operation
from clew.service.privacy.mask_on_write import masks_secrets, text_masked_if_required
from clew.service.workspaces.changed_files import with_changes
from clew.service.workspaces.commits import record_commits
from clew.service.workspaces.git_index import record_git
from clew.service.workspaces.ignoring import Rules
from clew.service.workspaces.points import by_name, events_of, folder_of
from clew.service.workspaces.remembered import FOLDER, Remembered
from clew.service.workspaces.room import FLOOR, refuse_full_disk, warning_of
from clew.service.workspaces.saving import Limits, Saved, Saving
from clew.service.workspaces.scan import Scan, Skipped
from clew.store.objects import objects

WORKSPACE = Group("workspace", "The files of a session: keep them, compare them, and go back to them.")
LONGEST_LABEL = 500


class SnapshotTaken(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot: its name, the event that has it, and what is in it."""

    snapshot: str
    seq: int
    files: int
    bytes: int
    new_bytes: int
    """How many bytes the store did not have before."""
    skipped: list[Skipped]
    """What was left out that no rule of yours ignores, such as secrets, and files that changed while they were read."""
    warning: str = ""
    """That the project is near its quota, or beyond it."""


@operation(right=Right.APPEND, group=WORKSPACE, repeatable=True)
def workspace_snapshot(
    context: Context,
    folder: Annotated[str, msgspec.Meta(description="The folder. [default: that of the session]")] = "",
    *,
    session: Session,
    label: Annotated[str, msgspec.Meta(description="A word about it.")] = "",
    with_secrets: Annotated[bool, msgspec.Meta(description="Take in files that look like secrets, too.")] = False,
    largest: Annotated[int, msgspec.Meta(ge=0, description="Leave out larger files. [default: 8 GiB]")] | None = None,
    most: Annotated[int, msgspec.Meta(ge=0, description="Refuse a folder of more bytes. [default: 32 GiB]")]
    | None = None,
    lease: Annotated[int, msgspec.Meta(description="The epoch of the lease you hold.")] | None = None,
) -> SnapshotTaken:
    """Keep the files of a folder as they are now, as an event of a session.

    Left out is what .gitignore and .clewignore name, what programs make again, such as node_modules, and what looks
    like a secret. When nothing has changed since the session's last snapshot, that one is returned.
    """
    refuse_on_server(context)
    root = resolved(folder or folder_of(context, session), session)
    label = text_masked_if_required(context, session.project, check_name(label, "a label", longest=LONGEST_LABEL))
    # What the session cannot take is refused before a file is read.
    apply(context.store.head(session), WorkspaceSnapshotted(snapshot=""), session.id)
    limits = Limits()
    limits = msgspec.structs.replace(
        limits, largest_file=limits.largest_file if largest is None else largest,
        most_bytes=limits.most_bytes if most is None else most,
    )  # fmt: skip
    saved = save(context, session, root, with_secrets=with_secrets, limits=limits)
    record_commits(context, session, root, lease=lease)
    taken = record(context, session, root, saved, label=label, lease=lease)
    return msgspec.structs.replace(taken, warning=warning_of(context, session.project))


def refuse_on_server(context: Context) -> None:
    """Refuse to touch the files of a server on behalf of somebody on another machine."""
    if context.answers_leave_machine and not context.may_use_machine:
        raise Denied("files are kept and restored on the machine where they are, with the store opened there")


def resolved(folder: str, session: Session) -> bytes:
    """The whole path of a folder, without links; refused when it is none."""
    if not folder:
        raise InvalidInput(f"session {session.id} has no folder on this machine; name one", session=session.id)
    path = os.path.realpath(os.fsencode(os.path.expanduser(folder)))
    if not os.path.isdir(path):
        raise NotFound(f"there is no folder {shown(path)}", path=shown(path))
    return path


def save(
    context: Context,
    session: Session,
    root: bytes,
    *,
    with_secrets: bool = False,
    limits: Limits | None = None,
    also: bytes = b"",
    floor: int = FLOOR,
) -> Saved:
    """Put the files of a folder into the store; what is in the tree `also` is never left out.

    It ends with `DiskFull` before the disk has less free space than the floor.
    """
    refuse_full_disk(context, floor)
    masks = masks_secrets(context, session.project)
    limits = limits or Limits()
    for is_second in (False, True):
        remembered = Remembered(remembered_path(context, root, with_secrets, masks))
        if is_second or not _is_kept(context, remembered.root):
            remembered.forget()
        try:
            saved = _save_once(
                context, root, remembered, with_secrets=with_secrets, masks=masks, limits=limits, also=also,
                floor=floor,
            )  # fmt: skip
            if not also:
                with suppress(OSError):  # Then the next snapshot reads every file again.
                    remembered.save(saved.tree)
            return saved
        except Conflict:
            # What was remembered is not in the store any more: a retention removed the last snapshot meanwhile.
            if is_second:
                raise
        finally:
            remembered.close()
    raise AssertionError("the second try returns or raises")


def record(
    context: Context,
    session: Session,
    root: bytes,
    saved: Saved,
    *,
    label: str = "",
    restores: str = "",
    lease: int | None = None,
) -> SnapshotTaken:
    """Append the event of a snapshot, unless it is the last one of the session already."""
    name = saved.tree.hex()
    in_git = record_git(context, session, root, git_memory(context, root))
    state = in_git.state
    workspace = Workspace(
        folder=shown(root), machine=context.machine, files=saved.files, bytes=saved.bytes, skipped=len(saved.skipped),
        commit=state.commit, branch=state.branch, began_at=saved.began_at,
    )  # fmt: skip
    body = WorkspaceSnapshotted(
        snapshot=name, blob=name, label=label, restores=restores, git=in_git.record, workspace=workspace
    )
    events = events_of(context, session)
    if events and _is_same(events[-1].body, body):
        seq = events[-1].seq
    else:
        body = with_changes(context.store, root, body, events)
        seq = context.store.append(session, [Draft(body=body)], actor=context.principal, lease=lease).seqs[0]
    skipped = [*saved.skipped, Skipped(".git", in_git.why)] if in_git.why else saved.skipped
    return SnapshotTaken(
        snapshot=name, seq=seq, files=saved.files, bytes=saved.bytes, new_bytes=saved.new_bytes, skipped=skipped
    )


def _is_same(last: AnyBody, body: WorkspaceSnapshotted) -> bool:
    """Whether the last event of a workspace says all that a new snapshot would."""
    if not isinstance(last, WorkspaceSnapshotted) or (body.label and last.label != body.label):
        return False
    workspace = msgspec.structs.replace(last.workspace, began_at=body.workspace.began_at)
    return msgspec.structs.replace(last, label=body.label, workspace=workspace, changed=0, changes=()) == body


def _save_once(
    context: Context,
    root: bytes,
    remembered: Remembered,
    *,
    with_secrets: bool,
    masks: bool,
    limits: Limits,
    also: bytes,
    floor: int,
) -> Saved:
    holds_secret = None
    if masks:
        from clew.service.privacy.masking import masker_of

        mask = masker_of(context).mask
        holds_secret = lambda data: bool(mask(data)[1])  # noqa: E731  # It has no name outside.
    scan = Scan(
        root, remembered, rules=Rules(with_secrets=with_secrets), own=own_folder(context, root),
        taken_in=lambda tree: by_name(context.store, tree),
    )  # fmt: skip
    saving = Saving(
        context.store, root, scan, remembered, limits=limits, holds_secret=holds_secret,
        on_progress=context.on_progress, refuse_full=lambda: refuse_full_disk(context, floor),
    )  # fmt: skip
    return saving.save(also)


def own_folder(context: Context, root: bytes) -> bytes:
    """The folder of clew's own store, which no snapshot takes in; refused as the folder of a snapshot."""
    home = os.path.realpath(os.fsencode(context.home)) if context.home else b""
    if home and (root + b"/").startswith(home + b"/"):
        raise InvalidInput(f"{shown(root)} is the folder of clew's own store; name another one", path=shown(root))
    return home


def remembered_path(context: Context, root: bytes, *marks: bool) -> Path | None:
    """Where it is remembered what the last such snapshot of this folder saw."""
    if not context.home:
        return None
    return Path(context.home) / FOLDER / blake3(b"\0".join([root, bytes(marks)])).hexdigest(16)


def git_memory(context: Context, root: bytes) -> Path | None:
    """Where it is remembered how this folder stood in git."""
    path = remembered_path(context, root, False)
    return path.with_name(f"{path.name}.git") if path is not None else None


def _is_kept(context: Context, root: bytes) -> bool:
    """Whether an event names this snapshot, so that all that it names is in the store."""
    if not root:
        return False
    try:
        return objects.stat(context.store, root.hex()).refs > 0
    except NotFound:
        return False
