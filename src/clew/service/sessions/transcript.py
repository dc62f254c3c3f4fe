"""The transcript of a session, a page at a time. Every surface renders what is returned here.

A page is a stretch of seqs with a bounded number of events of the conversation as it is now. The view of the course
knows what was rewound and revised, so nothing outside the page is read but the returns and forms that belong to it.
"""

from collections.abc import Callable, Iterator
from typing import Annotated

import msgspec

from clew.model.access import Right
from clew.model.course import Branch, Course, Range, Return, Revision
from clew.model.errors import InvalidInput
from clew.model.events import Event
from clew.model.lineage import Segment, clip
from clew.model.session import Session
from clew.model.transcript import Stretch, Turn, turns
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.sessions.events import Seq
from clew.service.sessions.subagents import subagents
from clew.store.derived import Row, Transaction
from clew.store.log.feed import events_at, readable_events
from clew.views.sessions import session_row

# Withdrawn events beside those of the page that are held in memory; further ones are read one at a time.
MOST_WITHDRAWN = 1000
# How many stretches of the conversation are searched for a prompt in one round trip.
RANGES = 50


class Transcript(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a transcript: the turns with what happened at the seqs `first` to `last`.

    `next` is the `after` of the next page, `previous` the `backward` of the page before this one; 0 if there is none.
    `cwd` is where the session works.
    """

    session: str
    cwd: str
    head: int
    first: int
    last: int
    next: int
    previous: int
    turns: list[Turn]


@operation(right=Right.READ, route="GET /sessions/{session}/transcript", reads_views=True, hidden=True)
def transcript(
    context: Context,
    session: Session,
    *,
    after: Annotated[Seq, msgspec.Meta(description="Go on after this seq: the `next` of the page before.")] = 0,
    backward: Annotated[int, msgspec.Meta(ge=1, description="The page that ends before this seq.")] | None = None,
    at: Annotated[int, msgspec.Meta(ge=1, description="The page around this seq.")] | None = None,
    last: Annotated[int, msgspec.Meta(ge=0, le=10_000, description="Begin with the last turns, so many.")]
    | None = None,
    upto: Annotated[int, msgspec.Meta(ge=1, description="The session as it was at this event.")] | None = None,
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000, description="How many events at the most.")] = 200,
) -> Transcript:
    """Read the transcript of a session: its turns, with calls beside their returns, without what was rewound."""
    if sum(given is not None for given in (backward, at, last)) + bool(after) > 1:
        raise InvalidInput("after, backward, at and last each choose a page; use one of them")
    context.views.catch_up()
    pages = _Pages(context, session, upto)
    if last is not None:
        after = pages.before_turns(last)
    if backward is not None:
        window = _backward(pages.course, backward - 1, limit)
    elif at is not None:
        window = _around(pages.course, pages.place(at), limit)
    else:
        window = _forward(pages.course, after, limit)
    return pages.page(window)


# Which seqs are on a page ---------------------------------------------------------------------------------------------


def _forward(course: Course, after: int, limit: int) -> Range:
    """The stretch after a seq; withdrawn events are with the live event behind them."""
    left = limit
    for part in course.ranges:
        count = part.last - max(part.first, after + 1) + 1
        if count >= left:
            end = part.last - count + left
            return Range(after + 1, course.end if end == course.ranges[-1].last else end)
        left -= max(0, count)
    return Range(after + 1, course.end)


def _backward(course: Course, last: int, limit: int) -> Range:
    last = min(last, course.end)
    left = limit
    for index, part in reversed(list(enumerate(course.ranges))):
        count = min(part.last, last) - part.first + 1
        if count >= left:
            first = part.first + count - left
            before = course.ranges[index - 1].last if index else 0
            return Range(before + 1 if first == part.first else first, last)
        left -= max(0, count)
    return Range(1, last)


def _around(course: Course, place: int, limit: int) -> Range:
    """The stretch around a place: half of it before, half of it from there on."""
    first = _backward(course, place - 1, limit // 2).first if place > 1 and limit > 1 else place
    return Range(first, max(place, _forward(course, place - 1, limit - limit // 2).last))


# Reading a page -------------------------------------------------------------------------------------------------------


class _Pages:
    """Reads pages of one session, as it was at an event."""

    def __init__(self, context: Context, session: Session, upto: int | None) -> None:
        self._context = context
        self._session = session
        self.head = context.store.head(session).head
        self.end = self.head if upto is None else min(upto, self.head)
        self._parts = clip(context.store.lineage(session), 1, self.end)
        with context.views.read() as tx:
            branches = self._of_parts(
                tx, "branches", lambda part: {"first": part.first, "last": part.last}
            )  # fmt: skip
        self.course = Course(self.end, [Branch(*row) for row in branches])
        self._held: dict[int, Event] = {}

    def page(self, window: Range) -> Transcript:
        """The transcript of a stretch."""
        first, last = min(window.first, self.end + 1), window.last
        with self._context.views.read() as tx:
            self._learn(tx, Range(first - 1, last))
            turn = self._prompt_before(tx, first)
        events = self._events(first, last)
        stretch = Stretch(
            course=self.course, read=self._read, call_of=self._call_of, turn=turn, said_at=self._said_before(first)
        )
        found = list(turns(events, stretch))
        return Transcript(
            session=self._session.id,
            cwd=self._folder(),
            head=self.head,
            first=first,
            last=last,
            next=last if last < self.end else 0,
            previous=first if first > 1 else 0,
            turns=self._with_subagents(found, first, last),
        )

    def place(self, seq: int) -> int:
        """The place of the item that an event belongs to."""
        if seq > self.end:
            raise InvalidInput(f"session {self._session.id} has no event {seq}; its events are 1 to {self.end}")
        with self._context.views.read() as tx:
            self._learn(tx, Range(seq, seq))
            revised = next((place for place, newest in self.course.newest.items() if seq == newest), seq)
            self._learn(tx, Range(revised, revised))
        return self.course.calls.get(revised, revised)

    def before_turns(self, number: int) -> int:
        """The seq before the last turns, so many."""
        with self._context.views.read() as tx:
            starts = [row[0] for row in self._prompts(tx, self.end, number)]
        if not number:
            return self.end
        return starts[-1] - 1 if len(starts) == number else 0

    def _events(self, first: int, last: int) -> Iterator[Event]:
        store = self._context.store
        read = readable_events(store, self._session, after=first - 1, upto=last)
        live = sum(max(0, min(part.last, last) - max(part.first, first) + 1) for part in self.course.ranges)
        if last - first + 1 > live + MOST_WITHDRAWN:
            return read
        self._held = {event.seq: event for event in read}
        # What belongs to the page and lies outside of it: forms, returns, and the neighbours of withdrawn stretches.
        newest, returns = self.course.newest, self.course.returns
        wanted = {*newest.values(), *returns.values(), *(newest.get(seq, seq) for seq in returns.values())}
        wanted |= {first - 1, last + 1, self._call_of(first - 1)}
        missing = [seq for seq in wanted - self._held.keys() if 0 < seq <= self.end]
        on_page = list(self._held.values())
        if missing:
            self._held |= events_at(store, self._session, missing)
        return iter(on_page)

    def _said_before(self, first: int) -> int | None:
        """The time by the runtime's clock at the beginning of the page, as far as the page knows it."""
        before = self._held.get(first - 1)
        events = self._held.values() if before is None or before.said_at is None else [before]
        return next((event.said_at for event in events if event.said_at is not None), None)

    def _read(self, seq: int) -> Event | None:
        if seq not in self._held:
            return events_at(self._context.store, self._session, [seq]).get(seq)
        return self._held[seq]

    def _call_of(self, place: int) -> int:
        """The call of a return; one outside of the page is looked up."""
        if place not in self.course.calls and place > 0 and place not in self._held:
            with self._context.views.read() as tx:
                self._learn(tx, Range(place, place))
        return self.course.calls.get(place, 0)

    # Views ------------------------------------------------------------------------------------------------------------

    def _of_parts(
        self, tx: Transaction, statement: str, parameters: Callable[[Segment], dict[str, int]]
    ) -> list[Row]:  # fmt: skip
        """The rows of a statement for each session that wrote a part of the history."""
        answers = tx.batch([(statement, {"session": part.key, **parameters(part)}) for part in self._parts])
        return [row for rows in answers for row in rows]

    def _folder(self) -> str:
        """The last folder that is known of the session or of its nearest ancestor."""
        with self._context.views.read() as tx:
            rows = self._of_parts(tx, "sessions_row", lambda _: {})
        return next((row.folder for row in map(session_row, reversed(rows)) if row.folder), "")

    def _learn(self, tx: Transaction, window: Range) -> None:
        """Add what is revised and returned in a stretch to the course."""
        rows = self._of_parts(
            tx, "course_window", lambda part: {"first": window.first, "last": window.last, "end": part.last}
        )
        for is_return, place, seq in rows:
            self.course.add(Return(seq, place) if is_return else Revision(seq, place))

    def _prompt_before(self, tx: Transaction, place: int) -> int:
        rows = self._prompts(tx, place - 1, 1) if place > 1 else []
        return rows[0][0] if rows else 0

    def _prompts(self, tx: Transaction, last: int, number: int) -> list[Row]:
        """The last prompts of the conversation up to a place, newest first."""
        stretches = [
            (part.key, max(part.first, live.first), min(part.last, live.last, last))
            for live in self.course.ranges
            for part in self._parts
            if max(part.first, live.first) <= min(part.last, live.last, last)
        ][::-1]
        found: list[Row] = []
        for index in range(0, len(stretches), RANGES):
            if len(found) >= number:
                break
            answers = tx.batch(
                [
                    ("turns_last", {"session": key, "first": low, "last": high, "limit": number})
                    for key, low, high in stretches[index : index + RANGES]
                ]
            )
            found += [row for rows in answers for row in rows]
        return found[:number]

    # Subagents --------------------------------------------------------------------------------------------------------

    def _with_subagents(self, found: list[Turn], first: int, last: int) -> list[Turn]:
        """The turns with the subagents that began in each of them."""
        if not found:
            return found
        begin = found[0].at if first > 1 else 0
        following = self._read(last + 1) if last < self.end else None
        end = None if following is None else following.at if following.said_at is None else following.said_at
        complete = list(found)
        for subagent in subagents(self._context, self._session):
            if subagent.began_at < begin or (end is not None and subagent.began_at >= end):
                continue
            index = max((i for i, turn in enumerate(found) if turn.at <= subagent.began_at), default=0)
            turn = complete[index]
            complete[index] = msgspec.structs.replace(turn, subagents=[*turn.subagents, subagent])
        return complete
