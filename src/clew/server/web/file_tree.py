"""Paths as a tree: folders with what is in them; a folder that holds a single folder and nothing else is one entry."""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

# Deeper folders of a path are one entry.
DEEPEST = 20


class File(NamedTuple):
    """A file of a project: how many sessions touched it and how often, and when it was touched last."""

    project: str
    path: str
    sessions: int
    read: int
    written: int
    last_at: int


class Folder(msgspec.Struct):
    """A folder, with the sums of all that is below it."""

    name: str
    path: str
    folders: "dict[str, Folder]" = {}
    files: list[tuple[str, File]] = []
    count: int = 0
    written: int = 0
    last_at: int = 0


def projects_of(files: Iterable[File]) -> list[Folder]:
    """A tree for each project, the project that was touched last first."""
    roots: dict[str, Folder] = {}
    for file in files:
        root = roots.setdefault(file.project, Folder(name=file.project, path=""))
        _put(root, file)
    for root in roots.values():
        _join(root)
    return sorted(roots.values(), key=lambda root: -root.last_at)


def _put(root: Folder, file: File) -> None:
    *parents, name = [part for part in file.path.replace("\\", "/").split("/") if part] or [file.path]
    if len(parents) > DEEPEST:
        parents[DEEPEST:] = ["/".join(parents[DEEPEST:])]
    folder = root
    _sum(folder, file)
    at = "/" if file.path.startswith("/") else ""
    for part in parents:
        at += f"{part}/"
        name_in_tree = at.rstrip("/") if folder is root else part
        folder = folder.folders.setdefault(part, Folder(name=name_in_tree, path=at))
        _sum(folder, file)
    folder.files.append((name, file))


def _sum(folder: Folder, file: File) -> None:
    folder.count += 1
    folder.written += file.written
    folder.last_at = max(folder.last_at, file.last_at)


def _join(folder: Folder) -> None:
    """Join each folder with the only one that is in it; all of it without recursion, because paths can be deep."""
    waiting = [folder]
    while waiting:
        parent = waiting.pop()
        for key, child in list(parent.folders.items()):
            joined, names = child, [child.name]
            while len(joined.folders) == 1 and not joined.files:
                [joined] = joined.folders.values()
                names.append(joined.name)
            joined.name = "/".join(names)
            parent.folders[key] = joined
            waiting.append(joined)
        parent.files.sort(key=lambda entry: entry[0].lower())
        parent.folders = dict(sorted(parent.folders.items()))
