"""The course of every session: its turns, rewinds, revisions, and which return belongs to which call.

So a page of a transcript is read without the rest of the session.
"""

from hashlib import blake2b
from typing import Any, ClassVar

from clew.model.course import Branch, Call, Return, Revision, Turn, traces
from clew.model.events import Event
from clew.store.derived import Transaction
from clew.views.contract import LATEST, Bodies, Sessions

TABLES = ("turn", "branch", "revised", "called")


class CourseView:
    """The fold of the course."""

    name: ClassVar[str] = "course"
    version: ClassVar[int] = 1
    bodies: ClassVar[Bodies] = None

    def __init__(self, tx: Transaction, session: Sessions, dialect: str) -> None:
        self._tx = tx
        self._session = session
        self._own: dict[int, _OwnCourse] = {}

    def add(self, key: int, event: Event) -> None:
        own = self._own.get(key)
        if own is None:
            own = self._own[key] = _OwnCourse(key, self._session(key).project_key)
        open_call = lambda id: self._open_call(own, event, id)  # noqa: E731
        for trace in traces(event, self._session.places(key, event), open_call):
            own.add(trace)

    def _open_call(self, own: "_OwnCourse", event: Event, id: str) -> int:
        if call := own.open_call(id):
            return call
        rows = self._tx.run("called_newest_open", session=own.key, id=_number(id))
        if rows:
            self._tx.run("called_close", session=own.key, call=rows[0][0], returned=event.seq)
            return 0
        # A fork has a row for each inherited call that returned in it.
        while call := self._session.inherited_call(own.key, id):
            if not self._tx.run("called_returned", session=own.key, call=call):
                break
        return call

    def forget(self, key: int) -> None:
        self._own.pop(key, None)
        for table in TABLES:
            self._tx.run(f"{table}_drop", session=key)

    def finish(self) -> None:
        for table in TABLES:
            rows = [row for own in self._own.values() for row in own.rows_with_project(table)]
            self._tx.many(f"{table}_add", rows)

    @staticmethod
    def clear(tx: Transaction, dialect: str) -> None:
        for table in TABLES:
            tx.run(f"{table}_clear")


class _OwnCourse:
    """What is not yet written of one session."""

    def __init__(self, key: int, project: int) -> None:
        self.key = key
        self._project = project
        self._turns: list[Turn] = []
        self._branches: list[Branch] = []
        self._revisions: list[Revision] = []
        self._returned: dict[int, int] = {}
        self._ids: dict[int, str] = {}
        self._waiting: dict[str, list[int]] = {}

    def open_call(self, id: str) -> int:
        return self._waiting[id].pop() if self._waiting.get(id) else 0

    def add(self, trace: Branch | Revision | Turn | Call | Return) -> None:
        match trace:
            case Turn():
                self._turns.append(trace)
            case Branch():
                self._branches.append(trace)
            case Revision():
                self._revisions.append(trace)
            case Call(seq, id):
                self._returned[seq], self._ids[seq] = 0, id
                self._waiting.setdefault(id, []).append(seq)
            case Return(seq, call):
                # The call of an ancestor has a row of this session, too.
                self._returned[call] = seq

    def rows_with_project(self, table: str) -> list[dict[str, Any]]:
        return [{"project": self._project, **row} for row in self.rows(table)]

    def rows(self, table: str) -> list[dict[str, Any]]:
        key = self.key
        match table:
            case "turn":
                return [{"session": key, "seq": seq, "at": min(max(at, 0), LATEST)} for seq, at in self._turns]
            case "branch":
                return [{"session": key, "seq": seq, "parent": parent} for seq, parent in self._branches]
            case "revised":
                return [{"session": key, "seq": seq, "place": place} for seq, place in self._revisions]
            case _:
                return [
                    {"session": key, "call": call, "returned": returned, "id": _number(self._ids.get(call, ""))}
                    for call, returned in self._returned.items()
                ]


def _number(id: str) -> int:
    return int.from_bytes(blake2b(id.encode("utf-8", "replace"), digest_size=8).digest(), "big", signed=True)


VIEW = CourseView
