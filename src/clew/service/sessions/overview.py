"""A session at a glance, now or as it was at an event: its landmarks, what each turn used, and how each tool did.

All of it comes from views, so it costs the same for a session with long texts as for one with short ones.
"""

from bisect import bisect_right
from collections.abc import Iterable
from statistics import median_low
from typing import Annotated, NamedTuple

import msgspec

from clew.model.access import Right
from clew.model.course import Branch, Course
from clew.model.errors import InvalidInput
from clew.model.events import KINDS, RuntimeAttached
from clew.model.lineage import clip
from clew.model.session import LIFECYCLE, Session, State
from clew.service.find.spending import Counts, cost_of, price_table
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.store.derived import Row, Transaction
from clew.store.log.feed import events_at
from clew.views.landmarks import MARK
from clew.views.usage import usage_sum

PROMPT, ERROR = "prompt", "error"
# How many turns and landmarks one answer has at the most; a map of a session has no room for more.
MOST = 20_000

Upto = Annotated[int, msgspec.Meta(ge=1, description="The session as it was at this event.")]


class Landmark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where something is: a prompt, an error (at its call), an edit, a decision, or a mark such as `compacted`.

    `name` is the tool of an edit, or the kind of a mark.
    """

    seq: int
    type: str
    name: str = ""


class Landmarks(msgspec.Struct, frozen=True, kw_only=True):
    """The landmarks of a session, in order; `more` is the number of those that were left out."""

    session: str
    head: int
    landmarks: list[Landmark]
    more: int = 0


class TurnSum(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn did and used. The one before the first prompt has seq 0. `cost_micros` is None without a price."""

    seq: int
    at: int
    calls: int
    errors: int
    tokens: int
    cached_tokens: int
    cost_micros: int | None


class ToolSum(msgspec.Struct, frozen=True, kw_only=True):
    """How a tool did: times are of calls that returned; a seq is 0 if there is no such call."""

    tool: str
    calls: int
    failed: int
    median_us: int
    slowest_us: int
    slowest_seq: int
    last_seq: int
    last_failed_seq: int


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """A session at the event `seq`: its state, what it had used until then, its turns and its tools.

    A fork has the turns that it shares with the session it was forked from, so sums are those of its whole history.
    """

    session: str
    head: int
    seq: int
    at: int
    state: str
    tokens: int
    cached_tokens: int
    cost_micros: int | None
    turns: list[TurnSum]
    tools: list[ToolSum]


@operation(right=Right.READ, route="GET /sessions/{session}/landmarks", reads_views=True, hidden=True)
def landmarks(context: Context, session: Session, *, upto: Upto | None = None) -> Landmarks:
    """Tell where the prompts, errors, edits, decisions and marks of a session are, as a map shows them."""
    history = _History(context, session, upto)
    found = history.landmarks()
    return Landmarks(
        session=session.id, head=history.head, landmarks=found[:MOST], more=max(0, len(found) - MOST)
    )  # fmt: skip


@operation(right=Right.READ, route="GET /sessions/{session}/overview", reads_views=True)
def overview(context: Context, session: Session, *, upto: Upto | None = None) -> Overview:
    """Show what each turn of a session used and how each tool did, now or as of an event."""
    history = _History(context, session, upto)
    calls = history.calls()
    turns = _Turns(history.prompts())
    total = Counts()
    prices = price_table(context)
    for row in history.rows("usage_by_place"):
        spent = usage_sum(row)
        cost = cost_of(spent, prices)
        # The statement has a place where others have a day.
        turns.counts_at(spent.span).add(spent, cost)
        total.add(spent, cost)
    for call in calls:
        turns.add_call(call)
    event = events_at(context.store, session, [history.end]).get(history.end)
    return Overview(
        session=session.id, head=history.head, seq=history.end,
        at=0 if event is None else event.at if event.said_at is None else event.said_at,
        state=_state(history.landmarks(), has_worked=bool(turns.has_any or calls)),
        tokens=total.tokens, cached_tokens=total.cache_read, cost_micros=total.money,
        turns=turns.sums()[:MOST], tools=_tools(calls),
    )  # fmt: skip


# Reading the views ----------------------------------------------------------------------------------------------------


class _Call(NamedTuple):
    """A call, whether it failed, and how long it took; None while it has not returned."""

    seq: int
    tool: str
    failed: bool
    duration_us: int | None


class _History:
    """The rows of the views about one session and what it shares with its ancestors, up to an event."""

    def __init__(self, context: Context, session: Session, upto: int | None) -> None:
        context.views.catch_up()
        self._context = context
        self.head = context.store.head(session).head
        if upto is not None and upto > self.head:
            raise InvalidInput(f"session {session.id} has no event {upto}; its events are 1 to {self.head}")
        self.end = upto or self.head
        self._parts = clip(context.store.lineage(session), 1, self.end)

    def rows(self, statement: str) -> list[Row]:
        with self._context.views.read() as tx:
            return self._of_parts(tx, statement)

    def prompts(self) -> list[tuple[int, int]]:
        """The prompts of the conversation, without those that were rewound."""
        with self._context.views.read() as tx:
            branches = [Branch(*row) for row in self._of_parts(tx, "branches")]
            rows = self._of_parts(tx, "prompts_of")
        course = Course(self.end, branches)
        return [(seq, at) for seq, at in rows if course.is_live(seq)]

    def landmarks(self) -> list[Landmark]:
        found = [Landmark(seq=seq, type=type, name=name) for seq, type, name in self.rows("landmarks_of")]
        runtimes = [mark for mark in found if mark.name == RuntimeAttached.kind]
        # That a program began the session is no mark; that another one went on with it is.
        found = [mark for mark in found if mark not in runtimes[:1]]
        found += [Landmark(seq=seq, type=PROMPT) for seq, _ in self.prompts()]
        return sorted(found, key=lambda mark: mark.seq)

    def calls(self) -> list[_Call]:
        """The calls, each with its return; the return of a call can be in a fork of the session that made it."""
        returned = {call: (type, at, said_at) for call, type, at, said_at in self.rows("landmarks_returned")}
        calls = []
        for seq, tool, at, said_at in self.rows("landmarks_called"):
            outcome, back_at, back_said_at = returned.get(seq, (None, 0, 0))
            # The times of captured records are comparable only with each other.
            duration = max(0, back_said_at - said_at if said_at and back_said_at else back_at - at)
            calls.append(_Call(seq, tool, outcome == ERROR, duration if outcome else None))
        return calls

    def _of_parts(self, tx: Transaction, statement: str) -> list[Row]:
        parameters = ({"session": part.key, "first": part.first, "last": part.last} for part in self._parts)
        return [row for rows in tx.batch([(statement, one) for one in parameters]) for row in rows]


def _state(marks: Iterable[Landmark], *, has_worked: bool) -> str:
    """The state after these marks."""
    state = str(State.ACTIVE if has_worked else State.OPENED)
    for mark in marks:
        if mark.type == MARK:
            state = str(LIFECYCLE[state].get(KINDS[mark.name].step, state))
    return state


# Sums -----------------------------------------------------------------------------------------------------------------


class _Turns:
    """What each turn did and used; what was before the first prompt is a turn of its own."""

    def __init__(self, prompts: list[tuple[int, int]]) -> None:
        self._turns = [(0, 0), *prompts]
        self._firsts = [seq for seq, _ in self._turns]
        self._counts = [Counts() for _ in self._turns]
        self._calls = [0] * len(self._turns)
        self._errors = [0] * len(self._turns)

    @property
    def has_any(self) -> bool:
        return len(self._turns) > 1

    def counts_at(self, seq: int) -> Counts:
        return self._counts[self._index(seq)]

    def add_call(self, call: _Call) -> None:
        self._calls[self._index(call.seq)] += 1
        self._errors[self._index(call.seq)] += call.failed

    def sums(self) -> list[TurnSum]:
        sums = [
            TurnSum(
                seq=seq, at=at, calls=calls, errors=errors, tokens=counts.tokens, cached_tokens=counts.cache_read,
                cost_micros=counts.money,
            )
            for (seq, at), calls, errors, counts in zip(
                self._turns, self._calls, self._errors, self._counts, strict=True
            )
        ]  # fmt: skip
        return [turn for turn in sums if turn.seq or turn.calls or turn.tokens]

    def _index(self, seq: int) -> int:
        return bisect_right(self._firsts, seq) - 1


def _tools(calls: list[_Call]) -> list[ToolSum]:
    """How each tool did, the most used first."""
    by_tool: dict[str, list[_Call]] = {}
    for call in calls:
        by_tool.setdefault(call.tool, []).append(call)
    sums = [_tool(tool, made) for tool, made in by_tool.items()]
    return sorted(sums, key=lambda one: (-one.calls, one.tool))


def _tool(tool: str, calls: list[_Call]) -> ToolSum:
    timed = [(duration, call.seq) for call in calls if (duration := call.duration_us) is not None]
    slowest, slowest_seq = max(timed, default=(0, 0))
    return ToolSum(
        tool=tool, calls=len(calls), failed=sum(call.failed for call in calls),
        median_us=median_low(duration for duration, _ in timed) if timed else 0, slowest_us=slowest,
        slowest_seq=slowest_seq, last_seq=calls[-1].seq,
        last_failed_seq=max((call.seq for call in calls if call.failed), default=0),
    )  # fmt: skip
