"""Points in a session: which snapshot has the files as they were at an event, and what is in it."""

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated

import msgspec

from clew.model.errors import NotFound
from clew.model.events import (
    BodiesPruned,
    Event,
    Removed,
    RuntimeAttached,
    WorkspaceRestored,
    WorkspaceSnapshotted,
)
from clew.model.file_tree import FOLDER, Entry, decode_tree, shown
from clew.model.session import Session
from clew.service.kernel.context import Context
from clew.store import Store
from clew.store.log.feed import own_of_kind, readable_of_kind
from clew.store.log.thinning import THINNED
from clew.store.objects import objects

At = Annotated[int, msgspec.Meta(ge=1, description="As the files were at this event. [default: the last snapshot]")]


class Point(msgspec.Struct, frozen=True):
    """The files of a session at an event."""

    session: str
    seq: int
    tree: bytes
    event: Event


def events_of(context: Context, session: Session, *, upto: int | None = None) -> list[Event]:
    """The snapshots and restores of a session, its ancestors' too, in order; without those that were thinned."""
    found = all_of(context, session, upto=upto)
    return [event for event in found if isinstance(event.body, WorkspaceSnapshotted | WorkspaceRestored)]


def all_of(context: Context, session: Session, *, upto: int | None = None) -> list[Event]:
    """The snapshots and restores of a session, its ancestors' too, in order; those that were thinned have no body."""
    upto = context.store.head(session).head if upto is None else upto
    kinds = (WorkspaceSnapshotted.kind, WorkspaceRestored.kind)
    found = (event for kind in kinds for event in readable_of_kind(context.store, session, kind, upto=upto))
    return sorted(
        (event for event in found if isinstance(event.body, WorkspaceSnapshotted | WorkspaceRestored | Removed)),
        key=lambda event: event.seq,
    )


def thinned_at(context: Context, session: Session) -> Callable[[int], tuple[int, str]]:
    """The function that says when the snapshot of an event was thinned, and by which rule; (0, "") when not."""
    notes: list[tuple[int, int, int, str]] = []
    for part in context.store.lineage(session):
        # An ancestor notes what it thins after the event that a fork was made at.
        writer = session if part.id == session.id else context.unrestricted.session(part.id)
        for event in own_of_kind(context.unrestricted, writer, BodiesPruned.kind):
            if isinstance(event.body, BodiesPruned) and event.body.policy.startswith(THINNED):
                notes += [
                    (max(first, part.first), min(last, part.last), event.at, event.body.policy)
                    for first, last in event.body.ranges
                ]

    def when(seq: int) -> tuple[int, str]:
        return next(((at, policy) for first, last, at, policy in notes if first <= seq <= last), (0, ""))

    return when


def point_at(context: Context, session: Session, at: int | None) -> Point:
    """The files as they were at an event: the snapshot of this very event, or else the newest before it."""
    for event in reversed(all_of(context, session, upto=at)):
        body = event.body
        if isinstance(body, Removed):
            _refuse_thinned(context, session, event, at)
        if not isinstance(body, WorkspaceSnapshotted | WorkspaceRestored) or not body.blob:
            continue
        # What a restore saved before it began, or restored in part, is no state that the session was in.
        is_aside = bool(body.restores if isinstance(body, WorkspaceSnapshotted) else body.paths)
        if event.seq == at or not is_aside:
            return Point(session.id, event.seq, objects.digest_of(body.blob), event)
    where = f" at or before event {at}" if at is not None else ""
    raise NotFound(
        f"session {session.id} has no snapshot of its files{where}; take one of its folder, or name a later event"
    )


def _refuse_thinned(context: Context, session: Session, event: Event, at: int | None) -> None:
    """Say that the files of this event are gone, since when, and which are the nearest that are kept."""
    kept = [
        other.seq for other in events_of(context, session)
        if isinstance(other.body, WorkspaceSnapshotted | WorkspaceRestored) and other.body.blob
    ]  # fmt: skip
    nearest = [
        *(f"before it at {seq}" for seq in [seq for seq in kept if seq < event.seq][-1:]),
        *(f"after it at {seq}" for seq in [seq for seq in kept if seq > event.seq][:1]),
    ]
    when, rule = thinned_at(context, session)(event.seq)
    since = f" were thinned at {_day(when)} ({rule})" if when else " were removed"
    raise NotFound(
        f"the files of session {session.id} at event {at or event.seq} are those of the snapshot at {event.seq}, which"
        f"{since}; the nearest one that is kept is {' or '.join(nearest) or 'none'}",
        session=session.id,
        kept=kept[-100:],
    )


def _day(us: int) -> str:
    """A time in words, in UTC."""
    return datetime.fromtimestamp(us / 1e6, UTC).strftime("%Y-%m-%d %H:%M UTC")


def folder_of(context: Context, session: Session) -> str:
    """The folder on this machine that the session works in; empty when it is not known."""
    upto = context.store.head(session).head
    folders: dict[int, tuple[str, str]] = {}
    for event in events_of(context, session, upto=upto):
        if isinstance(event.body, WorkspaceSnapshotted | WorkspaceRestored):
            folders[event.seq] = (event.body.workspace.machine, event.body.workspace.folder)
    for event in readable_of_kind(context.store, session, RuntimeAttached.kind, upto=upto):
        # A program may work in a folder below the one that a snapshot is of.
        if isinstance(event.body, RuntimeAttached) and event.body.cwd and not folders:
            folders[event.seq] = (event.body.machine, event.body.cwd)
    for _, (machine, folder) in sorted(folders.items(), reverse=True):
        if folder and machine in ("", context.machine):
            return folder
    return ""


# What is in a tree ----------------------------------------------------------------------------------------------------


def entries_of(store: Store, tree: bytes) -> list[Entry]:
    """The entries of a folder, checked."""
    return decode_tree(objects.load(store, tree.hex()))


def by_name(store: Store, tree: bytes) -> Mapping[bytes, Entry]:
    return {entry.name: entry for entry in entries_of(store, tree)}


def find(store: Store, tree: bytes, path: str) -> Entry:
    """The entry at a path below a tree; `NotFound` if there is none."""
    parts = [part for part in os.path.normpath(path).split("/") if part not in ("", ".")]
    entry = Entry(b"", FOLDER, 0o755, digest=tree)
    for number, part in enumerate(parts):
        below = entries_of(store, entry.digest) if entry.kind == FOLDER else []
        named = [inner for inner in below if shown(inner.name) == part or inner.name == os.fsencode(part)]
        if not named:
            raise NotFound(f"{'/'.join(parts[: number + 1])} is not in this snapshot", path=path)
        entry = named[0]
    return entry
