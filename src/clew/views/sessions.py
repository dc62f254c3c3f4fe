"""The list: a line for each session, with what a person wants to see of it at a glance."""

from typing import Any, ClassVar

import msgspec

from clew.model.events import (
    KINDS,
    CallMade,
    CallReturned,
    Event,
    MessageAdded,
    Opaque,
    PrivacySet,
    Removed,
    RuntimeAttached,
    SessionClosed,
    SessionForked,
    SessionOpened,
    SessionResumed,
    SessionTitled,
)
from clew.model.session import LIFECYCLE, State
from clew.store.derived import Row, Transaction
from clew.views.contract import LATEST, Sessions, is_first, origin_of, storable, when

# Steps that are somebody's work on the session, as opposed to its keeping.
WORK = ("work", "knowledge")


class SessionRow(msgspec.Struct):
    """A session in the list; the fields are the columns of its row, in their order.

    The counts are of the session's own events, not of those it shares with the session it was forked from. `said_at`
    and `kept_at` are the newest times of a runtime's clock and of the log's.
    """

    session: int
    project: int
    id: str
    title: str = ""
    agent: str = ""
    person: str = ""
    runtime: str = ""
    machine: str = ""
    folder: str = ""
    state: str = str(State.OPENED)
    outcome: str = ""
    events: int = 0
    turns: int = 0
    calls: int = 0
    errors: int = 0
    began_at: int = 0
    said_at: int = 0
    kept_at: int = 0
    last_at: int = 0
    private: int = 0
    called_by: str = ""
    """What its runtime calls the session that it is a subagent of."""


def session_row(row: Row) -> SessionRow:
    return SessionRow(*row)


def take(line: SessionRow, event: Event, *, is_new: bool = True) -> None:
    """Update a line with its session's next event. An event that only repeats an earlier one is not counted again."""
    line.events += 1
    # A pruned body did its step all the same; a kind of somebody else's counts as work.
    body = event.body
    step = KINDS.get(body.kind, Opaque).step if isinstance(body, Removed) else body.step
    line.state = LIFECYCLE[line.state].get(step, line.state)
    _update_times(line, event, is_said=event.said_at is not None or (event.source is None and step in WORK))
    _update_facts(line, event, is_new=is_new)


def _update_times(line: SessionRow, event: Event, *, is_said: bool) -> None:
    """Update the times of a line. `is_said` tells that the event has a time of its own, beside that of its capture."""
    line.kept_at = max(line.kept_at, event.at)
    if is_said:
        at = min(when(event), LATEST)
        line.said_at = max(line.said_at, at)
        line.began_at = min(line.began_at or at, at)
    line.last_at = line.said_at or line.kept_at


def _update_facts(line: SessionRow, event: Event, *, is_new: bool) -> None:
    match body := event.body:
        case MessageAdded(role="user", side=""):
            line.turns += is_new
        case CallMade():
            line.calls += is_new
        case CallReturned(failed=True):
            line.errors += is_new
        case RuntimeAttached():
            line.runtime = body.runtime
            line.machine = body.machine or line.machine
            line.folder = body.cwd or line.folder
        case SessionTitled(title=title):
            line.title = title
        case SessionOpened(title=title, private=private) | SessionForked(title=title, private=private):
            line.title, line.person, line.private = title, event.actor, int(private)
        case PrivacySet(private=private):
            line.private = int(private)
        case SessionClosed(outcome=outcome):
            line.outcome = outcome
        case SessionResumed():
            line.outcome = ""


class SessionsView:
    """The fold of the list."""

    name: ClassVar[str] = "sessions"
    version: ClassVar[int] = 2

    def __init__(self, tx: Transaction, session: Sessions, dialect: str) -> None:
        self._tx = tx
        self._session = session
        self._lines: dict[int, SessionRow] = {}

    def add(self, key: int, event: Event) -> None:
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = (None if is_first(event) else self._known(key)) or self._new(key)
        take(line, event, is_new=not self._session.corrects(key, event))

    def forget(self, key: int) -> None:
        self._lines.pop(key, None)
        self._tx.run("sessions_drop", session=key)

    def finish(self) -> None:
        rows: list[dict[str, Any]] = [
            {name: storable(value) if isinstance(value, str) else value for name, value in columns.items()}
            for columns in map(msgspec.structs.asdict, self._lines.values())
        ]
        self._tx.many("sessions_set", rows)

    @staticmethod
    def clear(tx: Transaction, dialect: str) -> None:
        tx.run("sessions_clear")

    def _known(self, key: int) -> SessionRow | None:
        rows = self._tx.run("sessions_row", session=key)
        return session_row(rows[0]) if rows else None

    def _new(self, key: int) -> SessionRow:
        one = self._session(key)
        origin = origin_of(one.metadata)
        return SessionRow(
            session=key, project=one.project_key, id=one.id, agent=one.agent, runtime=origin.runtime,
            machine=origin.machine, called_by=origin.parent,
        )  # fmt: skip


VIEW = SessionsView
