"""The session list: one row per session, with what a person wants to see at a glance."""

from typing import Any, ClassVar

import msgspec

from clew.model.events import (
    KINDS,
    AnyBody,
    ApprovalAsked,
    ApprovalGiven,
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
    TextPart,
    TitleGiven,
    TurnEnded,
    TurnStarted,
    UsageCounted,
)
from clew.model.labels import LABEL
from clew.model.session import LIFECYCLE, QUIET_US, UNANSWERED_US, State
from clew.store.derived import Row, Transaction
from clew.views.contract import LATEST, Bodies, Sessions, is_first, origin_of, storable, when

# The steps that count as activity; leases, handoffs and retention do not.
WORK = ("work", "knowledge")
# The tools with which agents ask a person.
ASKING = frozenset(
    "AskUserQuestion ExitPlanMode ask_user ask_user_question ask_followup_question request_user_input question".split()
)


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
    """The native id of the session that started this one as a subagent."""
    waiting: int = 0
    """Whether the agent has answered or asked something, and no person has replied yet."""
    titled: int = 0
    """Whether a person gave it its title; what its program calls it counts no more."""
    empty: int = 1
    """Whether a program began it and nothing was said or done in it. What a person opened or labelled is not empty."""


def status_parameters(status: str, now: int) -> dict[str, Any]:
    """The parameters of a statement that looks for sessions with this status."""
    return {"status": status, "quiet_since": now - QUIET_US, "unanswered_since": now - UNANSWERED_US}


def session_row(row: Row) -> SessionRow:
    return SessionRow(*row)


def take(row: SessionRow, event: Event, *, is_new: bool = True) -> None:
    """Update a row with its session's next event. An event that revises an earlier one is not counted again."""
    row.events += 1
    # A pruned event still changed the state; a kind that is not clew's own counts as work.
    body = event.body
    step = KINDS.get(body.kind, Opaque).step if isinstance(body, Removed) else body.step
    row.state = LIFECYCLE[row.state].get(step, row.state)
    row.empty = int(bool(row.empty) and _leaves_empty(body, step))
    _update_times(row, event, is_said=event.said_at is not None or (event.source is None and step in WORK))
    _update_facts(row, event, is_new=is_new)
    # A subagent answers to the session that started it.
    row.waiting = int(not row.called_by and _is_waiting(row, event))


def _leaves_empty(body: AnyBody, step: str) -> bool:
    """Whether a session in which only such events happened has nothing in it: no prompt, no answer, no work."""
    match body:
        case SessionOpened(metadata=metadata, title=title):
            return bool(origin_of(metadata).runtime) and not title
        case SessionForked():
            return False
        case MessageAdded(role=role):
            return role not in ("user", "assistant")
        case Removed():
            return step not in (*WORK, LABEL)
        case Opaque() | TurnStarted() | TurnEnded() | UsageCounted():
            return True
        case _:
            return step not in (*WORK, LABEL)


def _is_waiting(row: SessionRow, event: Event) -> bool:
    match event.body:
        case MessageAdded(role="assistant", side="", content=content):
            # What a model thinks is not yet an answer.
            return any(isinstance(part, TextPart) for part in content) or bool(row.waiting)
        case MessageAdded(role="user", side="") | CallReturned(side="") | TurnStarted() | ApprovalGiven():
            return False
        case CallMade(side="", tool=tool):
            return tool in ASKING
        case TurnEnded():
            return row.turns > 0
        case ApprovalAsked():
            return True
        case _:
            return bool(row.waiting)


def _update_times(row: SessionRow, event: Event, *, is_said: bool) -> None:
    """Update the times of a row. `is_said`: the event has a time of its own, not only the time of its capture."""
    row.kept_at = max(row.kept_at, event.at)
    if is_said:
        at = min(when(event), LATEST)
        row.said_at = max(row.said_at, at)
        row.began_at = min(row.began_at or at, at)
    row.last_at = row.said_at or row.kept_at


def _update_facts(row: SessionRow, event: Event, *, is_new: bool) -> None:
    match body := event.body:
        case MessageAdded():
            row.turns += is_new and body.role == "user" and not body.side
        case CallMade():
            row.calls += is_new
        case CallReturned():
            row.errors += is_new and body.failed
        case RuntimeAttached():
            row.runtime = body.runtime
            row.machine = body.machine or row.machine
            row.folder = body.cwd or row.folder
        case TitleGiven() | SessionTitled():
            _update_title(row, body)
        case SessionOpened(title=title, private=private) | SessionForked(title=title, private=private):
            row.title, row.person, row.private = title, event.actor, int(private)
        case PrivacySet(private=private):
            row.private = int(private)
        case SessionClosed(outcome=outcome):
            row.outcome = outcome
        case SessionResumed():
            row.outcome = ""


def _update_title(row: SessionRow, body: TitleGiven | SessionTitled) -> None:
    """Take a title; one that a person gave is replaced by a person alone."""
    if isinstance(body, TitleGiven) or not row.titled:
        row.title = body.title
    row.titled = int(bool(row.titled) or isinstance(body, TitleGiven))


class SessionsView:
    """The fold of the list."""

    name: ClassVar[str] = "sessions"
    version: ClassVar[int] = 4
    bodies: ClassVar[Bodies] = None

    def __init__(self, tx: Transaction, session: Sessions, dialect: str) -> None:
        self._tx = tx
        self._session = session
        self._session_rows: dict[int, SessionRow] = {}

    def add(self, key: int, event: Event) -> None:
        row = self._session_rows.get(key)
        if row is None:
            row = self._session_rows[key] = (None if is_first(event) else self._stored_row(key)) or self._new_row(key)
        take(row, event, is_new=not self._session.corrects(key, event))

    def forget(self, key: int) -> None:
        self._session_rows.pop(key, None)
        self._tx.run("sessions_drop", session=key)

    def finish(self) -> None:
        rows: list[dict[str, Any]] = [
            {name: storable(value) if isinstance(value, str) else value for name, value in columns.items()}
            for columns in map(msgspec.structs.asdict, self._session_rows.values())
        ]
        self._tx.many("sessions_set", rows)

    @staticmethod
    def clear(tx: Transaction, dialect: str) -> None:
        tx.run("sessions_clear")

    def _stored_row(self, key: int) -> SessionRow | None:
        rows = self._tx.run("sessions_row", session=key)
        return session_row(rows[0]) if rows else None

    def _new_row(self, key: int) -> SessionRow:
        session = self._session(key)
        origin = origin_of(session.metadata)
        return SessionRow(
            session=key, project=session.project_key, id=session.id, agent=session.agent, runtime=origin.runtime,
            machine=origin.machine, called_by=origin.parent,
        )  # fmt: skip


VIEW = SessionsView
