"""The operations that only look: which snapshots there are, what differs between two points, what is in a file."""

from collections.abc import Callable
from itertools import islice
from typing import Annotated

import msgspec

from clew.model.access import Right
from clew.model.errors import Conflict, InvalidInput, TooLarge
from clew.model.events import Event, WorkspaceRestored, WorkspaceSnapshotted
from clew.model.file_tree import FILE, FOLDER, LARGE, LINK, Entry, decode_pieces, shown
from clew.model.lineage import parting
from clew.model.session import Session
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.workspaces.changes import WORDS, Changed, changed, unified
from clew.service.workspaces.comparing import Difference, compare, compare_entries
from clew.service.workspaces.points import At, all_of, entries_of, events_of, find, point_at, thinned_at
from clew.service.workspaces.snapshot import WORKSPACE
from clew.service.workspaces.who_changed import ChangingCall, calls_before, causes_of
from clew.store.objects import objects

# A text that is larger is not compared line by line.
COMPARED_BYTES = 256 * 1024
COMPARED_LINES = 5_000
# What `cat` gives as text; a larger file is read as a stream.
SHOWN_BYTES = 8 * 1024 * 1024


class PointInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot or a restore of a session."""

    session: str
    seq: int
    at: int
    event: str
    """snapshot, restore, or undo: what a restore kept before it began."""
    snapshot: str
    label: str
    folder: str
    machine: str
    files: int
    bytes: int
    skipped: int
    commit: str
    branch: str
    paths: list[str]
    changed: int = 0
    """How many files are not as in the snapshot before."""
    calls: tuple[ChangingCall, ...] = ()
    """The calls of the session that can have changed files since the point before."""
    thinned_at: int | None = None
    """When the files were deleted, because newer or older ones are enough; the event stays."""


class FileDifference(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between the files of two points."""

    left: str
    left_seq: int
    right: str
    right_seq: int
    changes: list[Changed]


class WorkspaceFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file, a link or a folder in a snapshot."""

    path: str
    kind: str
    size: int
    mode: str
    digest: str
    """Its object, with which a stream reads its bytes; empty for a link or a file in pieces."""
    text: str
    """The content of a text, the target of a link, or the names in a folder."""
    is_binary: bool
    seq: int


@operation(right=Right.READ, route="GET /sessions/{session}/workspace/snapshots", group=WORKSPACE, reads_views=True)
def workspace_log(context: Context, session: Session) -> list[PointInfo]:
    """List the snapshots and restores of a session, newest first, with those that were thinned."""
    context.views.catch_up()
    found = []
    when = None
    calls = calls_before(context, session)
    for event in reversed(all_of(context, session)):
        body = event.body
        if isinstance(body, WorkspaceSnapshotted | WorkspaceRestored):
            found.append(msgspec.structs.replace(_info(event, body), calls=calls.get(event.seq, ())))
        else:
            when = when or thinned_at(context, session)
            found.append(_thinned(event, when(event.seq)[0]))
    return found


@operation(right=Right.READ, route="GET /sessions/{left}/workspace/diff", group=WORKSPACE, reads_views=True)
def workspace_diff(
    context: Context,
    left: Session,
    right: Session | None = None,
    *,
    at: Annotated[int, msgspec.Meta(ge=1, description="The event of the first. [default: the snapshot before]")]
    | None = None,
    upto: Annotated[int, msgspec.Meta(ge=1, description="The event of the second. [default: the last snapshot]")]
    | None = None,
    path: Annotated[str, msgspec.Meta(description="Only this file or folder.")] = "",
    flat: Annotated[bool, msgspec.Meta(description="Only names, without lines.")] = False,
    limit: Annotated[int, msgspec.Meta(ge=1, le=100_000, description="How many files at the most.")] = 10_000,
) -> FileDifference:
    """Compare the files of two points: of one session, or of two, such as two forks."""
    new = point_at(context, right or left, upto)
    if right is None and at is None:
        points = [event.seq for event in events_of(context, left, upto=new.seq) if event.seq < new.seq]
        if not points:
            raise InvalidInput(f"session {left.id} has one snapshot; name another point to compare it with")
        old = point_at(context, left, points[-1])
    else:
        old = point_at(context, left, at)
    if path:
        sides = [_found(context, point.tree, path) for point in (old, new)]
        differences = compare_entries(context.store, sides[0], sides[1], path.strip("/").encode())
    else:
        differences = compare(context.store, old.tree, new.tree)
    context.views.catch_up()
    differing = list(islice(differences, limit + 1))
    if len(differing) > limit:
        raise TooLarge(f"more than {limit:,} files differ; name a path, or raise the limit", limit=limit)
    causes = causes_of(context, right or left, old.seq, new.seq, differing)
    if right is not None and not shares_events(context, left, right, upto=old.seq):
        causes = [None] * len(differing)
    changes = [
        msgspec.structs.replace(
            changed(context.store, difference) if flat else _with_lines(context, difference), causes=cause
        )
        for difference, cause in zip(differing, causes, strict=True)
    ]
    return FileDifference(left=old.session, left_seq=old.seq, right=new.session, right_seq=new.seq, changes=changes)


@operation(right=Right.READ, route="GET /sessions/{session}/workspace/file", group=WORKSPACE)
def workspace_cat(
    context: Context,
    session: Session,
    path: Annotated[str, msgspec.Meta(description="The file, below the folder of the snapshot.")],
    *,
    at: At | None = None,
) -> WorkspaceFile:
    """Show a file of a session as it was at an event."""
    point = point_at(context, session, at)
    entry = find(context.store, point.tree, path)
    text, is_binary = "", False
    if entry.kind == LINK:
        text = shown(entry.target)
    elif entry.kind == FOLDER:
        text = "".join(
            f"{shown(below.name)}{'/' if below.kind == FOLDER else ''}\n"
            for below in entries_of(context.store, entry.digest)
        )
    elif entry.size <= SHOWN_BYTES:
        data = _masked(context)(_data(context, entry))
        is_binary = _is_binary(data)
        text = "" if is_binary else data.decode("utf-8", "replace")
    else:
        is_binary = True
    return WorkspaceFile(
        path=shown(path.encode("utf-8", "surrogateescape")), kind=WORDS[entry.kind], size=entry.size,
        mode=f"{entry.mode:o}", digest=entry.digest.hex() if entry.kind == FILE else "", text=text,
        is_binary=is_binary, seq=point.seq,
    )  # fmt: skip


def _thinned(event: Event, at: int) -> PointInfo:
    name = "restore" if event.kind == WorkspaceRestored.kind else "snapshot"
    return PointInfo(
        session=event.session, seq=event.seq, at=event.at, event=name, snapshot="", label="", folder="", machine="",
        files=0, bytes=0, skipped=0, commit="", branch="", paths=[], thinned_at=at,
    )  # fmt: skip


def shares_events(context: Context, left: Session, right: Session, *, upto: int) -> bool:
    """Whether two sessions have the same events up to one of them."""
    return left.id == right.id or upto <= parting(context.store.lineage(left), context.store.lineage(right))


def _info(event: Event, body: WorkspaceSnapshotted | WorkspaceRestored) -> PointInfo:
    kept = body.workspace
    label, event_name, paths, count = "", "restore", list[str](), 0
    if isinstance(body, WorkspaceSnapshotted):
        label, event_name, count = body.label, "undo" if body.restores else "snapshot", body.changed
    else:
        paths = [*body.paths]
    return PointInfo(
        session=event.session, seq=event.seq, at=event.at, snapshot=body.snapshot, folder=kept.folder,
        event=event_name, label=label, machine=kept.machine, files=kept.files, bytes=kept.bytes,
        skipped=kept.skipped, commit=kept.commit, branch=kept.branch, paths=paths, changed=count,
    )  # fmt: skip


def _found(context: Context, tree: bytes, path: str) -> Entry | None:
    from clew.model.errors import NotFound

    try:
        return find(context.store, tree, path)
    except NotFound:
        return None


def _with_lines(context: Context, difference: Difference) -> Changed:
    """The change with the lines of its text, or why there are none."""
    sides = (difference.before, difference.after)
    if any(side is not None and side.kind == FOLDER for side in sides):
        return changed(context.store, difference)
    texts = []
    for side in sides:
        if side is None:
            texts.append("")
            continue
        if side.kind == LINK:
            texts.append(shown(side.target) + "\n")
            continue
        if side.size > COMPARED_BYTES:
            return changed(context.store, difference, note="too large for lines")
        data = _data(context, side)
        if _is_binary(data):
            return changed(context.store, difference, note="binary")
        texts.append(_masked(context)(data).decode("utf-8", "replace"))
    if max(text.count("\n") for text in texts) > COMPARED_LINES:
        return changed(context.store, difference, note="too large for lines")
    return changed(context.store, difference, lines=unified(texts[0], texts[1], shown(difference.path)))


def _data(context: Context, entry: Entry) -> bytes:
    """The bytes of a file that is small enough to be in memory."""
    if entry.kind != LARGE:
        return objects.load(context.store, entry.digest.hex())
    pieces = decode_pieces(objects.load(context.store, entry.digest.hex()))
    if sum(size for _, size in pieces) > SHOWN_BYTES:
        raise Conflict("the pieces of this file are larger than it is; the snapshot cannot be used")
    return b"".join(objects.load(context.store, digest.hex()) for digest, _ in pieces)


def _masked(context: Context) -> Callable[[bytes], bytes]:
    """Masks what a caller may not see, before anything is compared or cut."""
    if not context.masks_answers:
        return lambda data: data
    from clew.service.privacy.masking import masker

    return masker(context)


def _is_binary(data: bytes) -> bool:
    return b"\0" in data[:8192]
