"""Where a file was before it was renamed: of the files that vanished at the same time, the one that is most like it."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from clew.model.errors import NotFound
from clew.model.file_tree import FILE, FOLDER, LARGE, Entry
from clew.service.workspaces.comparing import compare
from clew.service.workspaces.content import IN_MEMORY_BYTES, content_of, is_binary, lines_of
from clew.service.workspaces.points import entries_of
from clew.service.workspaces.same_lines import same_lines
from clew.store import Store
from clew.views.points import FolderPoint

if TYPE_CHECKING:
    from clew.service.workspaces.file_history import Version

# A renamed file has at least this share of its lines still.
LIKE = 0.5
# So many vanished files are compared line by line, and none that is larger.
MOST_COMPARED = 20
COMPARED_BYTES = 1024 * 1024
# Among so many files a renamed one is looked for.
MOST_VANISHED = 100_000


def renamed_from(store: Store, before: FolderPoint, version: "Version", live: str) -> tuple[bytes, Entry] | None:
    """The path and the entry that a new file had in the tree before; None if no file that vanished is like it."""
    new = version.entry
    if new is None or new.kind not in (FILE, LARGE) or not new.size:
        return None
    vanished: list[tuple[bytes, Entry]] = []
    try:
        for path, entry in _vanished(store, before, version, live):
            if entry.digest == new.digest:
                return path, entry
            if len(vanished) < MOST_VANISHED:
                vanished.append((path, entry))
        return _most_like(store, vanished, version, live)
    except NotFound:
        return None  # A retention has removed the files of this snapshot.


def _vanished(store: Store, before: FolderPoint, version: "Version", live: str) -> Iterator[tuple[bytes, Entry]]:
    """The files that are in the tree before and no more in the one after, or on the disk."""
    if not live:
        for difference in compare(store, bytes.fromhex(before.tree), bytes.fromhex(version.point.tree)):
            if difference.before is not None and difference.before.kind in (FILE, LARGE) and difference.after is None:
                yield difference.path, difference.before
        return
    root = os.fsencode(before.folder)
    folders = [(b"", bytes.fromhex(before.tree))]
    while folders:
        folder, tree = folders.pop()
        for entry in entries_of(store, tree):
            path = folder + b"/" + entry.name if folder else entry.name
            if entry.kind == FOLDER:
                folders.append((path, entry.digest))
            elif entry.kind in (FILE, LARGE) and not os.path.lexists(os.path.join(root, path)):
                yield path, entry


def _most_like(
    store: Store, vanished: list[tuple[bytes, Entry]], version: "Version", live: str
) -> tuple[bytes, Entry] | None:
    """The vanished file that shares most lines, if it shares enough of them."""
    new = version.entry
    if new is None or new.size > min(COMPARED_BYTES, IN_MEMORY_BYTES):
        return None
    name, ending = os.path.basename(version.path), os.path.splitext(version.path)[1]
    near = [
        (path, entry)
        for path, entry in vanished
        if entry.size <= COMPARED_BYTES and new.size / 2 <= entry.size <= new.size * 2
    ]
    near.sort(key=lambda file: (os.path.basename(file[0]) != name, os.path.splitext(file[0])[1] != ending, file[0]))
    if not near:
        return None
    data = _read(live) if live else content_of(store, new)
    lines = lines_of(data)
    best, best_share = None, LIKE
    for path, entry in near[:MOST_COMPARED]:
        old = content_of(store, entry)
        if is_binary(old) or is_binary(data):
            continue
        others = lines_of(old)
        share = sum(size for _, _, size in same_lines(others, lines)) / max(len(lines), len(others), 1)
        if share >= best_share and (best is None or share > best_share):
            best, best_share = (path, entry), share
    return best


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(COMPARED_BYTES)
