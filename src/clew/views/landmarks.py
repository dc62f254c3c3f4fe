"""The landmarks of every session: its calls and returns, edits, decisions and changes of state, without their texts.

So the map of a session and the sums of its tools are made without reading the session.
"""

from typing import Any, ClassVar

from clew.model.events import (
    CallMade,
    CallReturned,
    Compacted,
    DecisionMade,
    Event,
    HandoffOffered,
    Removed,
    RuntimeAttached,
    SessionArchived,
    SessionClosed,
    SessionForked,
    SessionPaused,
    SessionResumed,
)
from clew.model.working_set import touches
from clew.store.derived import Transaction
from clew.views.contract import LATEST, Bodies, Sessions, storable

CALL, EDIT, RETURN, ERROR, DECISION, MARK = "call", "edit", "return", "error", "decision", "mark"
LONGEST_NAME = 100
STATES = (SessionPaused, SessionResumed, SessionClosed, SessionArchived)
MARKS = (Compacted, HandoffOffered, RuntimeAttached, SessionForked, *STATES)
# What is left of a removed event still says what it did to the state.
KINDS_OF_STATES = frozenset(body.kind for body in STATES)


class LandmarksView:
    """The fold of the landmarks."""

    name: ClassVar[str] = "landmarks"
    version: ClassVar[int] = 1
    bodies: ClassVar[Bodies] = (CallMade, CallReturned, DecisionMade, *MARKS, Removed)

    def __init__(self, tx: Transaction, session: Sessions, dialect: str) -> None:
        self._tx = tx
        self._session = session
        self._rows: dict[int, list[dict[str, Any]]] = {}

    def add(self, key: int, event: Event) -> None:
        landmark = _landmark(event)
        if landmark is None:
            return
        type, name = landmark
        row = {
            "project": self._session(key).project_key, "session": key, "seq": event.seq, "type": type,
            "name": storable(name[:LONGEST_NAME]), "at": min(max(event.at, 0), LATEST),
            "said_at": min(max(event.said_at or 0, 0), LATEST),
        }  # fmt: skip
        self._rows.setdefault(key, []).append(row)

    def forget(self, key: int) -> None:
        self._rows.pop(key, None)
        self._tx.run("landmarks_drop", session=key)

    def finish(self) -> None:
        self._tx.many("landmarks_add", [row for rows in self._rows.values() for row in rows])

    @staticmethod
    def clear(tx: Transaction, dialect: str) -> None:
        tx.run("landmarks_clear")


def _landmark(event: Event) -> tuple[str, str] | None:
    """The type and the name of an event that is a landmark."""
    match event.body:
        case CallMade(tool=tool) as body:
            return (EDIT if any(touch.how == "written" for touch in touches(body)) else CALL), tool
        case CallReturned(failed=failed):
            return (ERROR if failed else RETURN), ""
        case DecisionMade():
            return DECISION, ""
        case body if isinstance(body, MARKS) or body.kind in KINDS_OF_STATES:
            return MARK, body.kind
        case _:
            return None


VIEW = LandmarksView
