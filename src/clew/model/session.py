"""A session's identity, its head, and the lifecycle: one table and one pure function.

    opened ──work──▶ active           opened ──paused──▶ paused         opened ──closed──▶ closed
    active ──paused──▶ paused         paused ──resumed──▶ active        paused ──closed──▶ closed
    active ──closed──▶ closed         closed ──resumed──▶ active        closed ──archived──▶ archived

    An archived session can be read, labelled, forked and forgotten; nothing else. Erasure ends every state.

Every accepted event passes through `apply`, so no path around the table exists.
"""

import enum

import msgspec

from clew.model.errors import Damaged, InvalidInput, WrongState
from clew.model.events import (
    Body,
    Budget,
    BudgetSet,
    CallMade,
    MessageAdded,
    Opaque,
    SessionForked,
    SessionOpened,
    TurnEnded,
    Usage,
    UsageCounted,
)

# The bodies that can report a cost.
SPENDING = (MessageAdded, CallMade, UsageCounted, TurnEnded)
# A budget warns when this much of it is used.
WARNS_AT = 0.8
# Both databases can count further than this.
MOST_SPENT = 2**62


class State(enum.StrEnum):
    OPENED = "opened"
    ACTIVE = "active"
    PAUSED = "paused"
    CLOSED = "closed"
    ARCHIVED = "archived"
    ERASED = "erased"


class Status(enum.StrEnum):
    """What a person sees of a session: its state, and of an active one whether somebody is at work on it.

    It is waiting when its agent has answered or asked something and no person has replied yet.
    """

    OPENED = "opened"
    ACTIVE = "active"
    WAITING = "waiting"
    IDLE = "idle"
    PAUSED = "paused"
    CLOSED = "closed"
    ARCHIVED = "archived"
    ERASED = "erased"


# An active session is idle when nothing has happened in it for this long. An answer waits longer for its reader.
QUIET_US = 3_600_000_000
UNANSWERED_US = 24 * QUIET_US


def status_of(state: str, *, is_waiting: bool, last_at: int, now: int) -> Status:
    if state != State.ACTIVE:
        return Status(state)
    if last_at < now - (UNANSWERED_US if is_waiting else QUIET_US):
        return Status.IDLE
    return Status.WAITING if is_waiting else Status.ACTIVE


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of a session. Only a new title, a privacy change and erasure change it.

    It is in `project` now. The project of `project_key` is the one it was opened in, with the name `opened_in`; it is
    another when that became part of `project`.
    """

    id: str
    key: int
    project: str
    project_key: int
    agent: str = ""
    title: str = ""
    metadata: str = "{}"
    parent: str | None = None
    upto: int = 0
    opened_at: int = 0
    owner: str = ""
    private: bool = False
    opened_in: str = ""


class Head(msgspec.Struct, frozen=True):
    """The state that the next append is checked against. Fields in the order of its row."""

    state: str
    head: int
    digest: bytes
    at: int = 0
    epoch: int = 0
    holder: str | None = None
    lease_until: int = 0
    budget_tokens: int | None = None
    budget_cost_micros: int | None = None
    spent_tokens: int = 0
    spent_cost_micros: int = 0

    @property
    def budget(self) -> Budget:
        return Budget(tokens=self.budget_tokens, cost_micros=self.budget_cost_micros)

    @property
    def over_budget(self) -> bool:
        return (self.budget_tokens is not None and self.spent_tokens > self.budget_tokens) or (
            self.budget_cost_micros is not None and self.spent_cost_micros > self.budget_cost_micros
        )


# The next state by state and step; a pair that is absent is refused.
_TABLE: dict[State, dict[str, State]] = {
    State.OPENED: {
        "opened": State.OPENED,
        "work": State.ACTIVE,
        "knowledge": State.ACTIVE,
        "people": State.OPENED,
        "keeping": State.OPENED,
        "label": State.OPENED,
        "paused": State.PAUSED,
        "closed": State.CLOSED,
        "erased": State.ERASED,
    },
    State.ACTIVE: {
        "work": State.ACTIVE,
        "knowledge": State.ACTIVE,
        "people": State.ACTIVE,
        "keeping": State.ACTIVE,
        "label": State.ACTIVE,
        "paused": State.PAUSED,
        "closed": State.CLOSED,
        "erased": State.ERASED,
    },
    State.PAUSED: {
        "people": State.PAUSED,
        "keeping": State.PAUSED,
        "label": State.PAUSED,
        "resumed": State.ACTIVE,
        "closed": State.CLOSED,
        "erased": State.ERASED,
    },
    State.CLOSED: {
        "people": State.CLOSED,
        "keeping": State.CLOSED,
        "label": State.CLOSED,
        "resumed": State.ACTIVE,
        "archived": State.ARCHIVED,
        "erased": State.ERASED,
    },
    State.ARCHIVED: {
        "keeping": State.ARCHIVED,
        "label": State.ARCHIVED,
        "erased": State.ERASED,
    },
    State.ERASED: {},
}
# Plain strings, as they are stored.
LIFECYCLE = {str(state): {step: str(after) for step, after in steps.items()} for state, steps in _TABLE.items()}

# The advice in an error: by the rejected step, otherwise by the state.
_INSTEAD = {
    "archived": "close it first",
    "resumed": "it is active already; append to it",
    "opened": "it is open already",
}
_WAY_OUT = {
    State.OPENED: "append something first, or close it",
    State.ACTIVE: "pause or close it first",
    State.PAUSED: "resume it first",
    State.CLOSED: "resume it first, or fork it",
    State.ARCHIVED: "an archived session is read-only; fork it to continue",
    State.ERASED: "its content was erased on request; open a new session",
}


def _way_out(state: str, step: str) -> str:
    going = state in (State.OPENED, State.ACTIVE) or (state == State.PAUSED and step == "archived")
    return _INSTEAD.get(step, _WAY_OUT[State(state)]) if going else _WAY_OUT[State(state)]


def apply(head: Head, body: Body | Opaque, session: str) -> Head:
    """The head after this body, or WrongState. Counts what was spent; never looks at a clock."""
    steps = LIFECYCLE.get(head.state)
    if steps is None:
        raise Damaged(f"session {session} is in the unknown state {head.state!r}; the store is damaged")
    state = steps.get(body.step)
    if state is None:
        raise WrongState(
            f"session {session} is {head.state} and takes no {body.kind}; {_way_out(head.state, body.step)}",
            session=session,
            state=str(head.state),
            kind=body.kind,
        )
    if isinstance(body, SPENDING) and body.usage is not None:
        return _spend(head, state, body.usage)
    if isinstance(body, BudgetSet):
        return with_budget(head, body.budget)
    if isinstance(body, SessionForked):
        return _spend(head, state, Usage(output=body.spent_tokens, cost_micros=body.spent_cost_micros))
    if isinstance(body, SessionOpened) and body.budget is not None:
        return with_budget(head, body.budget)
    return head if state == head.state else msgspec.structs.replace(head, state=state)


def _spend(head: Head, state: str, usage: Usage) -> Head:
    """Limit a sum to what a database can count; the reported figures are stored unchanged and unchecked."""
    return msgspec.structs.replace(
        head,
        state=state,
        spent_tokens=min(head.spent_tokens + max(usage.tokens, 0), MOST_SPENT),
        spent_cost_micros=min(head.spent_cost_micros + max(usage.cost_micros, 0), MOST_SPENT),
    )


def with_budget(head: Head, budget: Budget) -> Head:
    """The head under another budget; what was spent stays."""
    for limit in (budget.tokens, budget.cost_micros):
        if limit is not None and not 0 <= limit <= MOST_SPENT:
            raise InvalidInput(f"{limit} is not a valid budget; expected 0 to {MOST_SPENT}")
    return msgspec.structs.replace(head, budget_tokens=budget.tokens, budget_cost_micros=budget.cost_micros)


def with_unmetered(head: Head, cost_micros: int) -> Head:
    """The head with money that no program reported, to be compared with the budget; it is never stored."""
    return msgspec.structs.replace(head, spent_cost_micros=min(head.spent_cost_micros + cost_micros, MOST_SPENT))
