"""The working set of every session: which files, apps and data sources it touched, how, and by which call."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from clew.model.events import CallMade, CallReturned, Event
from clew.model.session import Session
from clew.model.working_set import touches
from clew.store.derived import Transaction
from clew.views.contract import LATEST, LONGEST, Bodies, storable, when

MOST_OF_TYPE = 50


def name_of(path: str) -> str:
    """The lookup key of a path: its last part, in lower case."""
    return storable(path.replace("\\", "/").rstrip("/").rpartition("/")[2].lower()[-LONGEST:])


class TouchedFile(NamedTuple):
    """A file, app or data source that a session touched, and who the session is."""

    session: int
    type: str
    what: str
    read: int
    written: int
    read_seq: int
    written_seq: int
    last_at: int
    id: str
    title: str
    runtime: str
    project: int
    person: str


class FilesView:
    """The fold of the working set."""

    name: ClassVar[str] = "files"
    version: ClassVar[int] = 1
    bodies: ClassVar[Bodies] = (CallMade, CallReturned)

    def __init__(self, tx: Transaction, session: Callable[[int], Session], dialect: str) -> None:
        self._tx = tx
        self._session = session
        self._rows: dict[int, dict[tuple[str, str], dict[str, Any]]] = {}

    def add(self, key: int, event: Event) -> None:
        for touch in touches(event.body):
            # A path is looked up by its end, so a long one loses its beginning.
            type, path = storable(touch.type)[:MOST_OF_TYPE], storable(touch.what[-LONGEST:])
            row = self._rows.setdefault(key, {}).setdefault(
                (type, path),
                {
                    "project": self._session(key).project_key, "session": key, "type": type, "what": path,
                    "name": name_of(path), "read": 0, "written": 0, "read_seq": 0, "written_seq": 0, "last_at": 0,
                },
            )  # fmt: skip
            how = "written" if touch.how == "written" else "read"
            row[how] += 1
            row[f"{how}_seq"] = event.seq
            row["last_at"] = max(row["last_at"], min(when(event), LATEST))

    def forget(self, key: int) -> None:
        self._rows.pop(key, None)
        self._tx.run("files_drop", session=key)

    def finish(self) -> None:
        self._tx.many("files_add", [row for rows in self._rows.values() for row in rows.values()])

    @staticmethod
    def clear(tx: Transaction, dialect: str) -> None:
        tx.run("files_clear")


VIEW = FilesView
