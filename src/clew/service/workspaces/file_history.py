"""The history of a file: what it was at each snapshot of its folder, newest first, under each of its names.

The folder is followed, not a session: snapshots of all sessions that worked in it are one row. A restored folder has
the history of the snapshot that it was restored from, and so a fork has the history of its parent.
"""

import os
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from clew.model.access import Right
from clew.model.errors import NotFound
from clew.model.events import Event, WorkspaceRestored, WorkspaceSnapshotted
from clew.model.file_tree import FOLDER, Entry, shown
from clew.model.session import Session
from clew.model.steps import end_step
from clew.service.kernel.context import Context
from clew.service.workspaces.points import by_name, events_of
from clew.service.workspaces.renames import renamed_from
from clew.store.log.feed import events_at
from clew.store.log.rows import EVERYTHING
from clew.views.contract import storable
from clew.views.points import FolderPoint

# So many points of a folder are read at once.
PAGE = 500


class Version(NamedTuple):
    """A file at a point: its path below the folder of the point, and what was there; None where there was nothing."""

    point: FolderPoint
    path: bytes
    entry: Entry | None


class Step(NamedTuple):
    """A change of a file: the first version that has it, and the last one that has not; None before all snapshots."""

    newer: Version
    older: Version | None


class FileHistory:
    """Walks back through the versions of files, as far as the caller may read them."""

    def __init__(self, context: Context, session: Session | None = None) -> None:
        """What a fork inherited is read through the fork, `session`, whoever may read its ancestors."""
        self._context = context
        self._session = session
        self._trees: dict[bytes, Mapping[bytes, Entry]] = {}
        self._lines: dict[int, list[FolderPoint]] = {}
        self._folders: dict[tuple[str, tuple[str, ...]], list[FolderPoint]] = {}
        self._own = self.points_of(session) if session is not None else []
        self._inherited = {(point.session, point.seq) for point in self._own}

    # Points -----------------------------------------------------------------------------------------------------------

    def points_of(self, session: Session) -> list[FolderPoint]:
        """The points of a session and of its ancestors, in order."""
        if session.key not in self._lines:
            keys = {part.id: part.key for part in self._context.store.lineage(session)}
            self._lines[session.key] = [
                point
                for event in events_of(self._context, session)
                if (point := _point_of(event, keys.get(event.session, session.key))) is not None
            ]
        return self._lines[session.key]

    def newest(self, machine: str, path: str, before: int = EVERYTHING) -> FolderPoint | None:
        """The newest point of a folder that has this absolute path in it."""
        folders = _folders_above(path)
        key = (machine, folders)
        known = self._folders.get(key)
        if known is None:
            own = [point for point in self._own if point.machine == machine and point.folder in folders]
            points = {point.position: point for point in [*self._read(machine, folders), *own]}
            known = self._folders[key] = [points[position] for position in sorted(points)]
        at = bisect_left(known, before, key=lambda point: point.position)
        return known[at - 1] if at else None

    def _read(self, machine: str, folders: tuple[str, ...]) -> list[FolderPoint]:
        names = msgspec.json.encode([storable(folder) for folder in folders]).decode()
        points: list[FolderPoint] = []
        before, is_more = EVERYTHING, True
        while is_more:
            with self._context.views.read() as tx:
                rows = tx.run(
                    "points_before", machine=storable(machine), names=names, before=before, limit=PAGE,
                    **self._context.reach(Right.READ),
                )  # fmt: skip
            points += [FolderPoint(*row) for row in rows]
            is_more = len(rows) == PAGE
            before = points[-1].position if points else 0
        return points

    def _source(self, point: FolderPoint, path: bytes) -> FolderPoint | None:
        """The snapshot that a path was restored from; None if it was not restored."""
        if not point.is_restore:
            return None
        session = self.session_of(point)
        if point.is_partial and not _is_restored(events_at(self._context.store, session, [point.seq]), path):
            return None
        line = self.points_of(session)
        return next((p for p in reversed(line) if p.seq < point.seq and p.tree == point.tree), None)

    def session_of(self, point: FolderPoint) -> Session:
        """The session that wrote the event of a point, or the one through which it is read."""
        if self._session is not None and (point.session, point.seq) in self._inherited:
            return self._session
        return self._context.store.sessions(keys=[point.session])[0].session

    def _before(self, version: Version) -> Version | None:
        """The same path at the point before, of those whose files are still kept."""
        point, path = version.point, version.path
        while True:
            source = self._source(point, path) or self.newest(
                point.machine, absolute(point, path), before=point.position
            )
            if source is None and point.session:
                line = self.points_of(self.session_of(point))
                source = next((p for p in reversed(line) if p.seq < point.seq), None)
            if source is None:
                return None
            if source.machine == point.machine and source.folder != point.folder:
                path = _moved(path, point.folder, source.folder)
            try:
                return Version(source, path, self.entry(source, path))
            except NotFound:  # A retention has removed the files of this snapshot.
                point = source

    # Files ------------------------------------------------------------------------------------------------------------

    def entry(self, point: FolderPoint, path: bytes) -> Entry | None:
        """The entry at a path at a point."""
        entry = Entry(b"", FOLDER, digest=bytes.fromhex(point.tree))
        for part in path.split(b"/"):
            if entry.kind != FOLDER:
                return None
            tree = self._tree(entry.digest)
            if part not in tree:
                return None
            entry = tree[part]
        return entry

    def path_of(self, point: FolderPoint, text: str) -> bytes:
        """The path that a person wrote, with names as they are in the tree; empty if there is none."""
        path = b""
        for part in text.split("/"):
            above = self.entry(point, path) if path else Entry(b"", FOLDER, digest=bytes.fromhex(point.tree))
            below = self._tree(above.digest) if above is not None and above.kind == FOLDER else {}
            name = next((name for name in below if name == os.fsencode(part) or shown(name) == part), b"")
            if not name:
                return b""
            path = path + b"/" + name if path else name
        return path

    def _tree(self, digest: bytes) -> Mapping[bytes, Entry]:
        tree = self._trees.get(digest)
        if tree is None:
            tree = self._trees[digest] = by_name(self._context.store, digest)
        return tree

    def steps(self, version: Version, live: str = "") -> Iterator[Step]:
        """The changes of a file, newest first; the last step has no older version. `live` is a path on this machine."""
        while True:
            end_step()
            older = self._before(version)
            if older is not None and older.entry is None and version.entry is not None:
                renamed = renamed_from(self._context.store, older.point, version, live)
                if renamed is not None:
                    older = Version(older.point, *renamed)
            if older is None or not _is_same(version.entry, older.entry):
                yield Step(version, older)
            if older is None or (older.entry is None and version.entry is not None):
                return
            version, live = older, ""


def absolute(point: FolderPoint, path: bytes) -> str:
    """The absolute path of a file, as text."""
    return f"{point.folder.rstrip('/')}/{shown(path)}"


def _is_same(one: Entry | None, other: Entry | None) -> bool:
    """Whether the content is the same, or there is none."""
    if one is None or other is None:
        return one is other
    return (one.kind, one.digest, one.target) == (other.kind, other.digest, other.target)


def _folders_above(path: str) -> tuple[str, ...]:
    folders = []
    while path not in ("", "/"):
        path = os.path.dirname(path)
        folders.append(path)
    return tuple(folders)


def _moved(path: bytes, folder: str, other: str) -> bytes:
    """A path below one folder as a path below another one; folders that are not in each other have the same paths."""
    folder, other = folder.rstrip("/") + "/", other.rstrip("/") + "/"
    if folder.startswith(other):
        return os.fsencode(folder.removeprefix(other)) + path
    return path.removeprefix(os.fsencode(other.removeprefix(folder))) if other.startswith(folder) else path


def _is_restored(events: Mapping[int, Event], path: bytes) -> bool:
    """Whether a restore of some paths was about this one."""
    text = shown(path)
    for event in events.values():
        if isinstance(event.body, WorkspaceRestored):
            folder = event.body.workspace.folder.rstrip("/")
            below = [
                os.path.normpath(os.path.join(folder, part)).removeprefix(f"{folder}/") for part in event.body.paths
            ]
            return any(text == part or text.startswith(f"{part}/") for part in below)
    return False


def _point_of(event: Event, key: int) -> FolderPoint | None:
    body = event.body
    if not isinstance(body, WorkspaceSnapshotted | WorkspaceRestored) or not body.blob:
        return None
    at = event.at if event.said_at is None else event.said_at
    is_restore = isinstance(body, WorkspaceRestored)
    return FolderPoint(
        session=key, seq=event.seq, position=event.position, at=at, began_at=body.workspace.began_at or at,
        machine=body.workspace.machine, folder=body.workspace.folder, tree=body.blob, is_restore=int(is_restore),
        is_partial=int(isinstance(body, WorkspaceRestored) and bool(body.paths)), commit=body.workspace.commit,
    )  # fmt: skip
