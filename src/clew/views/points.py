"""The snapshots and restores of all sessions, by the folder that they are of: what happened to its files, in order."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from clew.model.events import Event, WorkspaceRestored, WorkspaceSnapshotted
from clew.model.session import Session
from clew.store.derived import Transaction
from clew.views.contract import LATEST, Bodies, storable, when


class FolderPoint(NamedTuple):
    """The files of a folder at one moment, and the event that says so."""

    session: int
    seq: int
    position: int
    at: int
    began_at: int
    """When clew began to read the files; what changed after that may be missing."""
    machine: str
    folder: str
    tree: str
    is_restore: int
    is_partial: int
    """Whether only some paths were restored."""
    commit: str


class PointsView:
    """The fold of the points."""

    name: ClassVar[str] = "points"
    version: ClassVar[int] = 1
    bodies: ClassVar[Bodies] = (WorkspaceSnapshotted, WorkspaceRestored)

    def __init__(self, tx: Transaction, session: Callable[[int], Session], dialect: str) -> None:
        self._tx = tx
        self._session = session
        self._rows: dict[int, list[dict[str, Any]]] = {}

    def add(self, key: int, event: Event) -> None:
        body = event.body
        if not isinstance(body, WorkspaceSnapshotted | WorkspaceRestored) or not body.blob:
            return
        at = min(when(event), LATEST)
        began_at = min(max(body.workspace.began_at, 0), at) or at
        row = {
            "project": self._session(key).project_key, "session": key, "seq": event.seq, "position": event.position,
            "at": at, "began_at": began_at, "machine": storable(body.workspace.machine),
            "folder": storable(body.workspace.folder), "tree": storable(body.blob),
            "is_restore": int(isinstance(body, WorkspaceRestored)),
            "is_partial": int(isinstance(body, WorkspaceRestored) and bool(body.paths)),
            "commit_id": storable(body.workspace.commit),
        }  # fmt: skip
        self._rows.setdefault(key, []).append(row)

    def forget(self, key: int) -> None:
        self._rows.pop(key, None)
        self._tx.run("points_drop", session=key)

    def finish(self) -> None:
        self._tx.many("points_add", [row for rows in self._rows.values() for row in rows])

    @staticmethod
    def clear(tx: Transaction, dialect: str) -> None:
        tx.run("points_clear")


VIEW = PointsView
