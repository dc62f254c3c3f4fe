"""The working set of every session: which files, apps and data sources it touched, how, and by which call."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from clew.model.events import CallMade, CallReturned, Event
from clew.model.session import Session
from clew.model.working_set import touches
from clew.store.derived import Transaction
from clew.views.contract import LATEST, LONGEST, Bodies, storable, when

MOST_OF_TYPE = 50
FILE = "file"
# A path that a session has not touched yet, and one that no session has.
NOTHING = (0, 0)
NOBODY = (0, 0, 0)


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
    version: ClassVar[int] = 2
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
        project = self._session(key).project_key
        gone = [
            _sums(project, key, what, sessions=-1, read=-read, written=-written, last_at=0,
                  writers=-int(written > 0), writers_read=-read if written else 0)
            for type, what, read, written, _, _ in self._tx.run("files_of", session=key)
            if type == FILE
        ]  # fmt: skip
        self._tx.run("files_drop", session=key)
        self._tx.many("paths_add", gone)
        for path in gone:
            one = {"project": project, "what": path["what"]}
            self._tx.run("paths_drop", **one)
            last = self._tx.run("paths_last", **one, name=path["name"])
            writer = self._tx.run("paths_last", **one, name=path["name"], least_written=1)
            (last_session, last_at, _), (last_writer, writer_at, _) = (rows[0] if rows else NOBODY
                                                                       for rows in (last, writer))  # fmt: skip
            self._tx.run("paths_last_set", **one, last_session=last_session, last_at=last_at, last_writer=last_writer,
                         writer_at=writer_at)  # fmt: skip

    def finish(self) -> None:
        added = [
            self._added(row, before.get((row["type"], row["what"]), NOTHING))
            for key, rows in self._rows.items()
            for before in [self._known(key)]
            for row in rows.values()
            if row["type"] == FILE
        ]
        self._tx.many("files_add", [row for rows in self._rows.values() for row in rows.values()])
        self._tx.many("paths_add", added)

    def _known(self, key: int) -> dict[tuple[str, str], tuple[int, int]]:
        """How often a session had read and written each path before."""
        rows = self._tx.run("files_of", session=key)
        return {(type, what): (read, written) for type, what, read, written, _, _ in rows}

    @staticmethod
    def _added(row: dict[str, Any], before: tuple[int, int]) -> dict[str, Any]:
        """What a session adds to the sums of a file, given how often it had read and written it before."""
        read, written = before[0] + row["read"], before[1] + row["written"]
        was_writer, is_writer = before[1] > 0, written > 0
        return _sums(
            row["project"], row["session"], row["what"], sessions=int(before == NOTHING), read=row["read"],
            written=row["written"], last_at=row["last_at"], writers=is_writer - was_writer,
            writers_read=(read if is_writer else 0) - (before[0] if was_writer else 0), is_writer=is_writer,
        )  # fmt: skip

    @staticmethod
    def clear(tx: Transaction, dialect: str) -> None:
        tx.run("files_clear")
        tx.run("paths_clear")


def _sums(
    project: int, session: int, what: str, *, sessions: int, read: int, written: int, last_at: int, writers: int,
    writers_read: int, is_writer: bool = False,
) -> dict[str, Any]:  # fmt: skip
    return {
        "project": project, "what": what, "name": name_of(what), "sessions": sessions, "read": read,
        "written": written, "last_at": last_at, "last_session": session, "writers": writers,
        "writers_read": writers_read, "writer_at": last_at if is_writer else 0, "last_writer": session,
    }  # fmt: skip


VIEW = FilesView
