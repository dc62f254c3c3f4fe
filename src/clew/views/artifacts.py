"""The artifacts of every session: what it saved, by the event that saved it."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from clew.model.events import ArtifactSaved, Event
from clew.model.session import Session
from clew.store.derived import Transaction
from clew.views.contract import LATEST, Bodies, storable, when

# A size is what somebody wrote into the log, believable or not; a database counts only so far.
LARGEST_SIZE = 2**62


class SavedArtifact(NamedTuple):
    """An artifact, and who its session is."""

    id: str
    title: str
    project: int
    seq: int
    name: str
    blob: str
    size: int
    media_type: str
    at: int
    progress: int
    versions: int = 1


class ArtifactsView:
    """The fold of the artifacts."""

    name: ClassVar[str] = "artifacts"
    version: ClassVar[int] = 2
    bodies: ClassVar[Bodies] = (ArtifactSaved,)

    def __init__(self, tx: Transaction, session: Callable[[int], Session], dialect: str) -> None:
        self._tx = tx
        self._session = session
        self._rows: dict[int, list[dict[str, Any]]] = {}

    def add(self, key: int, event: Event) -> None:
        if isinstance(event.body, ArtifactSaved):
            artifact = event.body
            row = {
                "project": self._session(key).project_key, "session": key, "seq": event.seq,
                "name": storable(artifact.name), "blob": storable(artifact.blob),
                "size": min(max(artifact.size, 0), LARGEST_SIZE), "media_type": storable(artifact.media_type),
                "progress": int(artifact.progress),
                "at": min(when(event), LATEST),
            }  # fmt: skip
            self._rows.setdefault(key, []).append(row)

    def forget(self, key: int) -> None:
        self._rows.pop(key, None)
        self._tx.run("artifacts_drop", session=key)

    def finish(self) -> None:
        self._tx.many("artifacts_add", [row for rows in self._rows.values() for row in rows])

    @staticmethod
    def clear(tx: Transaction, dialect: str) -> None:
        tx.run("artifacts_clear")


VIEW = ArtifactsView
