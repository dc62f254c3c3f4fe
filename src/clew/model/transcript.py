"""A session as a transcript: turns, and in each turn what was said and done. Every surface renders this one value.

A turn is a prompt and everything until the next one. An item is one event, or a call with its return. Rewinds and
revisions are applied (course.py): withdrawn events are one item that counts them, and a corrected record stands at the
place of its first form. What is removed or damaged is an item that says so; everything else stays readable.

The fold needs only the events of one stretch of the session and the course of that stretch, so a transcript is read a
page at a time. A turn that is longer than a page comes in pieces.
"""

import enum
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from clew.model import events as e
from clew.model.course import Answers, Course, is_prompt
from clew.model.events import Event, Usage

# What a turn says of itself, so that it needs no item.
ABOUT_TURN = (e.TurnStarted, e.TurnEnded, e.UsageCounted)
# Only these are withdrawn by a rewind; knowledge and files stay.
SPOKEN = frozenset(body.kind for body in (e.MessageAdded, e.CallMade, e.CallReturned, e.Compacted, *ABOUT_TURN))
# Of no use to a reader of the conversation.
BOOKKEEPING = frozenset(
    body.kind
    for body in (
        e.SessionOpened, e.ScratchSet, e.ScratchCleared, e.BodiesPruned, e.LeaseTaken, e.LeaseReleased,
        e.SessionTagged, e.SessionUntagged, e.SessionStarred, e.SessionUnstarred, e.NoteRemoved,
    )
)  # fmt: skip


class Type(enum.StrEnum):
    MESSAGE = "message"
    CALL = "call"
    RETURN = "return"
    """A return whose call is not part of the conversation."""
    COMPACTION = "compaction"
    KNOWLEDGE = "knowledge"
    FILE = "file"
    MARK = "mark"
    """Something about the session: its lifecycle, a lease, a handoff."""
    RAW = "raw"
    """A record that this program does not know."""
    REMOVED = "removed"
    """A body that was pruned or erased, or is damaged."""
    WITHDRAWN = "withdrawn"
    """Events that a rewind took back."""


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was said or done.

    `seq` is its place and its id; `event` what happened, in its newest form, and `returned` the return of a call.
    `duration_us` and `exit_code` are those of a call, `withdrawn` is how many events a rewind took back.
    """

    seq: int
    type: Type
    at: int
    event: Event | None = None
    returned: Event | None = None
    duration_us: int | None = None
    exit_code: int | None = None
    withdrawn: int = 0

    @property
    def seqs(self) -> tuple[int, ...]:
        """The seqs that lead to this item."""
        members = (event.seq for event in (self.event, self.returned) if event is not None)
        return (self.seq, *(seq for seq in members if seq != self.seq))

    @property
    def side(self) -> str:
        """The subagent inside the session that said this; empty for the session's own agent."""
        return "" if self.event is None else getattr(self.event.body, "side", "")

    @property
    def is_bookkeeping(self) -> bool:
        """Whether the item is of no use to a reader of the conversation."""
        return self.event is not None and self.event.kind in BOOKKEEPING


class Subagent(msgspec.Struct, frozen=True, kw_only=True):
    """A session that was called in a turn; its transcript is read by itself."""

    session: str
    title: str
    agent: str
    state: str
    began_at: int
    last_at: int
    events: int
    turns: int
    calls: int
    errors: int


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn, or the piece of one that is on a page: `begins` says that the prompt is in this piece.

    `seq` is the place of the prompt; 0 before the first one. `usage` and `ended_at` are those of this piece.
    """

    seq: int
    at: int
    ended_at: int
    begins: bool
    usage: Usage | None = None
    stop_reason: str = ""
    items: list[Item] = []
    subagents: list[Subagent] = []

    @property
    def duration_us(self) -> int:
        return self.ended_at - self.at


def joined(turns: Iterable[Turn]) -> Iterator[Turn]:
    """Whole turns, made of the pieces of consecutive pages."""
    whole: Turn | None = None
    for turn in turns:
        if whole is None or turn.begins or turn.seq != whole.seq:
            if whole is not None:
                yield whole
            whole = turn
            continue
        whole = msgspec.structs.replace(
            whole, ended_at=max(whole.ended_at, turn.ended_at), usage=added(whole.usage, turn.usage),
            stop_reason=turn.stop_reason or whole.stop_reason, items=[*whole.items, *turn.items],
            subagents=[*whole.subagents, *turn.subagents],
        )  # fmt: skip
    if whole is not None:
        yield whole


def added(first: Usage | None, second: Usage | None) -> Usage | None:
    """The sum of two usages."""
    if first is None or second is None:
        return first or second
    counts = {name: getattr(first, name) + getattr(second, name) for name in Usage.__struct_fields__ if name != "fast"}
    return Usage(**counts, fast=first.fast or second.fast)


# The fold -------------------------------------------------------------------------------------------------------------

Read = Callable[[int], Event | None]


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """What the fold of a stretch has to know about the rest of the session.

    `read` reads one event of the session. `turn` is the place of the prompt before the stretch, 0 if there is none,
    `said_at` the time by the runtime's clock when the stretch begins.
    """

    course: Course
    read: Read
    call_of: Callable[[int], int]
    turn: int = 0
    said_at: int | None = None


def whole(course: Course, read: Read, *, said_at: int | None = None) -> Stretch:
    """The stretch that is a whole session."""
    return Stretch(course=course, read=read, call_of=lambda place: course.calls.get(place, 0), said_at=said_at)


def turns(events: Iterable[Event], stretch: Stretch) -> Iterator[Turn]:
    """The turns of a stretch of a session, from all its events in order. Only one turn is in memory."""
    open_turn = _OpenTurn(stretch.turn, begins=False)
    folding = _Folding(stretch)
    for event in events:
        for item, about in folding.add(event):
            # The first form of a record decides, as in the view: a later one can be of another kind.
            if item is not None and item.seq == event.seq and is_prompt(event):
                if not open_turn.is_empty:
                    yield open_turn.turn()
                open_turn = _OpenTurn(item.seq, begins=True)
            open_turn.add(item, about)
    for item in folding.finish():
        open_turn.add(item, None)
    if not open_turn.is_empty:
        yield open_turn.turn()


def items(events: Iterable[Event], stretch: Stretch) -> Iterator[Item]:
    """Only the items of a stretch, for a reader that holds no whole turn."""
    folding = _Folding(stretch)
    for event in events:
        for item, _ in folding.add(event):
            if item is not None:
                yield item
    yield from folding.finish()


class _OpenTurn:
    """A turn while its items come."""

    def __init__(self, seq: int, *, begins: bool) -> None:
        self._seq = seq
        self._begins = begins
        self._items: list[Item] = []
        self._usage: Usage | None = None
        self._stop_reason = ""
        self._times: list[int] = []

    @property
    def is_empty(self) -> bool:
        return not self._items and self._usage is None and not self._stop_reason

    def add(self, item: Item | None, about: Event | None) -> None:
        if item is not None:
            self._items.append(item)
            self._times += [item.at, item.at + (item.duration_us or 0)]
        if about is not None:
            self._times.append(about.at if about.said_at is None else about.said_at)
            self._usage = added(self._usage, getattr(about.body, "usage", None))
            self._stop_reason = getattr(about.body, "stop_reason", "") or self._stop_reason

    def turn(self) -> Turn:
        at = self._items[0].at if self._items else self._times[0]
        return Turn(
            seq=self._seq, at=at, ended_at=max(self._times), begins=self._begins, usage=self._usage,
            stop_reason=self._stop_reason, items=self._items,
        )  # fmt: skip


class _Folding:
    """Makes the items of a stretch, event by event."""

    def __init__(self, stretch: Stretch) -> None:
        self._course = stretch.course
        self._read = stretch.read
        self._call_of = stretch.call_of
        self._answers = Answers(stretch.course, stretch.read, stretch.call_of)
        self._withdrawn = 0
        self._withdrawn_at = 0
        self._last = 0
        # A captured record without a time of its own gets the time of the record before.
        self._said_at = stretch.said_at

    def add(self, event: Event) -> Iterator[tuple[Item | None, Event | None]]:
        """The items that the next event completes; an event about the turn comes second."""
        place = event.seq
        is_live = self._course.is_live(place)
        if is_live:
            yield from ((item, None) for item in self.finish())
        self._last = place
        if place in self._course.revisions or event.kind == e.Rewound.kind:
            return
        event = self._newest(place, event)
        if not is_live and event.kind in SPOKEN and not self._answers.keep(event, place):
            self._count_withdrawn(event, place)
            return
        if isinstance(event.body, ABOUT_TURN):
            yield None, event
            return
        if event.kind == e.CallReturned.kind and self._is_shown(self._course.calls.get(place, 0)):
            return
        item = self._item(event, place)
        about = event if isinstance(event.body, e.MessageAdded | e.CallMade) else None
        if item.returned is None or isinstance(event.body, e.CallMade | e.Removed):
            yield item, about
            return
        # A revision made something else of the call.
        yield msgspec.structs.replace(item, returned=None, duration_us=None, exit_code=None), about
        yield self._item(item.returned, self._course.returns[place]), None

    def finish(self) -> Iterator[Item]:
        """The item of a withdrawn stretch that has ended."""
        if self._withdrawn:
            yield Item(
                seq=self._last, type=Type.WITHDRAWN, at=self._withdrawn_at, withdrawn=self._withdrawn,
            )  # fmt: skip
        self._withdrawn = 0

    def _newest(self, place: int, event: Event) -> Event:
        newest = self._course.newest.get(place)
        return event if newest is None else self._read(newest) or event

    def _count_withdrawn(self, event: Event, place: int) -> None:
        # A return stays with its call, and what a turn says of itself is no event of the conversation.
        if isinstance(event.body, ABOUT_TURN):
            return
        if event.kind == e.CallReturned.kind and self._is_shown(self._course.calls.get(place, 0)):
            return
        self._withdrawn += 1
        self._withdrawn_at = self._time(event)

    def _is_shown(self, call: int) -> bool:
        """Whether a call is part of the conversation."""
        if not call:
            return False
        if self._course.is_live(call):
            return True
        made = self._read(self._course.newest.get(call, call))
        return made is not None and self._answers.keep(made, call)

    def _item(self, event: Event, place: int) -> Item:
        at = self._time(event)
        returned, duration, code = None, None, None
        if back := self._course.returns.get(place, 0):
            returned = self._read(self._course.newest.get(back, back))
        if returned is not None:
            # The times of captured records are comparable only with each other.
            clocks = ("said_at",) if event.said_at is not None and returned.said_at is not None else ("at",)
            duration = max(0, getattr(returned, clocks[0]) - getattr(event, clocks[0]))
            code = exit_code(returned)
        return Item(
            seq=place, type=type_of(event), at=at, event=event, returned=returned, duration_us=duration, exit_code=code
        )

    def _time(self, event: Event) -> int:
        if event.said_at is not None:
            self._said_at = event.said_at
            return event.said_at
        return self._said_at if event.source and self._said_at is not None else event.at


_KNOWLEDGE = (e.FactLearned, e.FactRetired, e.DecisionMade, e.DecisionReversed, e.ProgressNoted)
_FILES = (e.ArtifactSaved, e.CommitsMade, e.WorkspaceSnapshotted, e.WorkspaceRestored)


def type_of(event: Event) -> Type:
    """The type of an item that this event is, or begins."""
    match event.body:
        case e.Removed():
            return Type.REMOVED
        case e.Opaque():
            return Type.RAW
        case e.MessageAdded():
            return Type.MESSAGE
        case e.CallMade():
            return Type.CALL
        case e.CallReturned():
            return Type.RETURN
        case e.Compacted():
            return Type.COMPACTION
        case body if isinstance(body, _KNOWLEDGE):
            return Type.KNOWLEDGE
        case body if isinstance(body, _FILES):
            return Type.FILE
        case _:
            return Type.MARK


def exit_code(returned: Event) -> int | None:
    """The exit code in the output of a call, where programs commonly write it."""
    body = returned.body
    if not isinstance(body, e.CallReturned) or b"exit" not in bytes(body.output)[:100_000]:
        return None
    try:
        value: Any = msgspec.json.decode(body.output)
        if isinstance(value, str):
            value = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
    for holder in (value, value.get("metadata") if isinstance(value, dict) else None):
        code = holder.get("exit_code", holder.get("exitCode")) if isinstance(holder, dict) else None
        if isinstance(code, int) and not isinstance(code, bool) and abs(code) < 2**31:
            return code
    return None
