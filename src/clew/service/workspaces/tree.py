"""The operation `workspace_tree`: what is in a folder of a session, as it was at an event."""

import os
from typing import Annotated

import msgspec

from clew.model.access import Right
from clew.model.file_tree import FILE, FOLDER, Entry, shown
from clew.model.session import Session
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.workspaces.changes import WORDS
from clew.service.workspaces.points import At, entries_of, find, point_at
from clew.service.workspaces.snapshot import WORKSPACE


class TreeEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A file, a link or a folder."""

    name: str
    path: str
    kind: str
    """file, link or folder."""
    size: int
    """Of a folder: of all files below it."""
    files: int
    """How many files there are below a folder; 1 for anything else."""
    mode: str
    digest: str
    """Its object; empty for a link, a folder, or a file in pieces."""
    target: str
    """Where a link points to."""


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """A page of what is in a folder."""

    session: str
    seq: int
    """The event with the snapshot."""
    snapshot: str
    path: str
    is_folder: bool
    """Whether the path is a folder; otherwise it is the only entry."""
    total: int
    """How many entries the folder has in all."""
    entries: list[TreeEntry]
    """Folders first, then by name."""
    next: str
    """The name to go on after; empty at the end."""


@operation(right=Right.READ, route="GET /sessions/{session}/workspace/tree", group=WORKSPACE)
def workspace_tree(
    context: Context,
    session: Session,
    path: Annotated[str, msgspec.Meta(description="A folder below that of the snapshot. [default: all of it]")] = "",
    *,
    at: At | None = None,
    after: Annotated[str, msgspec.Meta(description="Go on after this name.")] = "",
    limit: Annotated[int, msgspec.Meta(ge=1, le=10_000, description="How many entries at the most.")] = 1000,
) -> Tree:
    """List a folder of a session as it was at an event."""
    point = point_at(context, session, at)
    entry = find(context.store, point.tree, path)
    is_folder = entry.kind == FOLDER
    below = sorted(entries_of(context.store, entry.digest), key=_order) if is_folder else [entry]
    names = [shown(one.name) for one in below]
    first = names.index(after) + 1 if after in names else 0
    page = below[first : first + limit]
    whole = shown(os.path.normpath(os.fsencode(path)).strip(b"/")) if path.strip("/.") else ""
    return Tree(
        session=point.session, seq=point.seq, snapshot=point.tree.hex(), path=whole, is_folder=is_folder,
        total=len(below), entries=[_entry(one, whole, is_folder=is_folder) for one in page],
        next=shown(page[-1].name) if first + limit < len(below) else "",
    )  # fmt: skip


def _order(entry: Entry) -> tuple[bool, bytes]:
    return entry.kind != FOLDER, entry.name


def _entry(entry: Entry, folder: str, *, is_folder: bool) -> TreeEntry:
    name = shown(entry.name)
    path = (f"{folder}/{name}" if folder else name) if is_folder else folder
    return TreeEntry(
        name=name, path=path, kind=WORDS[entry.kind], size=entry.size, files=entry.count, mode=f"{entry.mode:o}",
        digest=entry.digest.hex() if entry.kind == FILE else "", target=shown(entry.target),
    )  # fmt: skip
