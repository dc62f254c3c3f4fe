"""The course of a conversation: which events belong to it now, which form of each record, which return to which call.

A log only grows, but a conversation can be taken back and corrected. Most events follow the one before; a course is the
list of the exceptions, so that any stretch of a session can be shown without reading the rest of it:

* A rewind (`Rewound`) starts a branch: the conversation goes on from its parent, an earlier event.
* A revision (a source with `~`) replaces the first form of its record, at the place of that first form.
* A return belongs to the newest open call with its id: some programs restart the numbers of calls with every answer.
* A prompt starts a turn.

The place of an event is its seq; forks share the seqs of their ancestors, so a place is unique in a whole history.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

from clew.model.events import CallMade, CallReturned, Event, MessageAdded, Rewound
from clew.model.source import REVISION, identity


class Branch(NamedTuple):
    """From the rewind at `seq` on, the conversation follows the event at `parent`; 0 is before the first event."""

    seq: int
    parent: int


class Revision(NamedTuple):
    """The event at `seq` is a newer form of the record at `place`."""

    seq: int
    place: int


class Turn(NamedTuple):
    """A prompt."""

    seq: int
    at: int


class Call(NamedTuple):
    """A call, waiting for its return."""

    seq: int
    id: str


class Return(NamedTuple):
    """The return of a call, by the places of both."""

    seq: int
    call: int


Trace = Branch | Revision | Turn | Call | Return


class Range(NamedTuple):
    """The places `first` to `last`."""

    first: int
    last: int


# Following a session --------------------------------------------------------------------------------------------------


class Places(Protocol):
    """The places of the records of a session."""

    def add(self, source: str | None, seq: int) -> int:
        """Take in the next event; returns the place of the record that it revises, 0 if it revises none."""
        ...

    def last(self, record: str) -> int | None:
        """The last place of a record, in the session or else in what it inherited."""
        ...


class Records(Places):
    """The places of the records of one session. `inherited` are those of the history that it was forked from."""

    def __init__(self, inherited: Callable[[], Places | None] = lambda: None) -> None:
        self._inherited = inherited
        self._first: dict[str, int] = {}
        self._last: dict[str, int] = {}

    def add(self, source: str | None, seq: int) -> int:
        name = identity(source)
        if not name:
            return 0
        if REVISION in (source or "") and name in self._first:
            return self._first[name]
        self._first.setdefault(name, seq)
        # A rewind names a record, and goes back to the last event of that record.
        self._last[name] = self._last[name.partition("/")[0]] = seq
        return 0

    def last(self, record: str) -> int | None:
        if record in self._last:
            return self._last[record]
        inherited = self._inherited()
        return None if inherited is None else inherited.last(record)


def traces(event: Event, places: Places, open_call: Callable[[str], int]) -> Iterator[Trace]:
    """What is exceptional about the next event. `open_call` returns the place of the newest open call, or 0."""
    body = event.body
    if event.kind == Rewound.kind:
        record = identity(body.to) if isinstance(body, Rewound) else None
        parent = places.last(record) if record else 0
        if parent is not None and record is not None:
            yield Branch(event.seq, parent)
        return
    if place := places.add(event.source, event.seq):
        yield Revision(event.seq, place)
    elif is_prompt(event):
        yield Turn(event.seq, event.at if event.said_at is None else event.said_at)
    elif isinstance(body, CallMade):
        yield Call(event.seq, body.call)
    elif isinstance(body, CallReturned) and (call := open_call(body.call)):
        yield Return(event.seq, call)


def is_prompt(event: Event) -> bool:
    """Whether the event starts a turn."""
    return isinstance(event.body, MessageAdded) and event.body.role == "user" and not event.body.side


# The course -----------------------------------------------------------------------------------------------------------


class Course:
    """The exceptions of a history up to the place `end`, or of a stretch of it."""

    def __init__(self, end: int, branches: Iterable[Branch] = ()) -> None:
        self.end = end
        self.ranges = live_ranges(list(branches), end)
        self._firsts = [part.first for part in self.ranges]
        self.newest: dict[int, int] = {}
        """The newest form of each revised record, by its place."""
        self.revisions: set[int] = set()
        self.returns: dict[int, int] = {}
        self.calls: dict[int, int] = {}
        """The call of each return, and the return of each call."""

    def add(self, trace: Revision | Return) -> None:
        """Take in a revision or a return."""
        if isinstance(trace, Revision):
            self.revisions.add(trace.seq)
            self.newest[trace.place] = max(trace.seq, self.newest.get(trace.place, 0))
        else:
            self.returns[trace.call], self.calls[trace.seq] = trace.seq, trace.call

    def is_live(self, place: int) -> bool:
        """Whether no rewind withdrew what happened at a place."""
        index = bisect_right(self._firsts, place) - 1
        return index >= 0 and place <= self.ranges[index].last

    def gap(self, place: int) -> Range:
        """The withdrawn stretch around a place that is not live."""
        index = bisect_right(self._firsts, place) - 1
        first = self.ranges[index].last + 1 if index >= 0 else 1
        return Range(first, self._firsts[index + 1] - 1 if index + 1 < len(self.ranges) else self.end)


def live_ranges(branches: list[Branch], end: int) -> list[Range]:
    """The places that the conversation consists of at the place `end`, oldest first."""
    starts = [branch.seq for branch in branches]
    ranges: list[Range] = []
    last = end
    while last > 0:
        index = bisect_right(starts, last) - 1
        branch = branches[index] if index >= 0 else Branch(0, 0)
        if branch.seq < last:
            ranges.append(Range(branch.seq + 1, last))
        # A parent lies before its rewind; a damaged row that says otherwise must not make this loop for ever.
        last = min(branch.parent, branch.seq - 1)
    return ranges[::-1]


class Following:
    """Follows a history from its first event on, through all the sessions that wrote it."""

    def __init__(self) -> None:
        self.records = Records()
        self.end = 0
        self.branches: list[Branch] = []
        self.others: list[Revision | Return] = []
        self._session = ""
        self._waiting: dict[str, list[int]] = {}

    def add(self, event: Event) -> None:
        """Take in the next event."""
        if event.session != self._session:
            # A source is unique within one session: @17 of an ancestor and @17 of its fork are different records.
            before = self.records
            self._session, self.records = event.session, Records(lambda: before)
        self.end = event.seq
        for trace in traces(event, self.records, self.open_call):
            match trace:
                case Branch():
                    self.branches.append(trace)
                case Call(seq, id):
                    self._waiting.setdefault(id, []).append(seq)
                case Revision() | Return():
                    self.others.append(trace)
                case Turn():
                    pass

    def open_call(self, id: str) -> int:
        """The place of the newest call with this id that has no return; it has one from now on."""
        return self._waiting[id].pop() if self._waiting.get(id) else 0


def course_of(events: Iterable[Event]) -> Course:
    """The course of a history that is read from its first event on."""
    following = Following()
    for event in events:
        following.add(event)
    course = Course(following.end, following.branches)
    for trace in following.others:
        course.add(trace)
    return course


# Answers in pieces ----------------------------------------------------------------------------------------------------


class Answers:
    """Which withdrawn pieces of an answer stay: the pieces of one answer belong together.

    Parallel calls are sibling records, so a program rewinds between the pieces of one answer. A withdrawn piece stays
    if the answer goes on right before or right after the withdrawn stretch.
    """

    def __init__(
        self, course: Course, read: Callable[[int], Event | None], call_of: Callable[[int], int] | None = None
    ) -> None:
        """`call_of` returns the call of a return that is outside of the stretch that the course is of."""
        self._course = course
        self._read = read
        self._call_of = call_of or (lambda place: course.calls.get(place, 0))
        self._beside: dict[int, frozenset[str]] = {}

    def keep(self, event: Event, place: int) -> bool:
        """Whether this withdrawn event is a piece of an answer that is still there."""
        answer = answer_of(event)
        return bool(answer) and answer in self.beside(place)

    def beside(self, place: int) -> frozenset[str]:
        """The answers on both sides of the withdrawn stretch around a place."""
        gap = self._course.gap(place)
        if gap.first not in self._beside:
            before = gap.first - 1
            # A return stands for its call.
            neighbours = (self._call_of(before) or before, gap.last + 1)
            read = (self._read(seq) for seq in neighbours if 0 < seq <= self._course.end)
            self._beside[gap.first] = frozenset(answer_of(event) for event in read if event is not None) - {""}
        return self._beside[gap.first]


def answer_of(event: Event) -> str:
    """The provider's id of the answer that an event is a piece of; empty for other events."""
    body = event.body
    return body.message if isinstance(body, MessageAdded | CallMade) else ""
