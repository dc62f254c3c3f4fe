"""A session's events up to a seq, read from the log as often as a caller asks for them.

A small session is read once and stays in memory. Of a large one only a part is in memory at any time.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import chain, islice

from clew.model.events import AnyBody, CallMade, CallReturned, Event, MessageAdded, Opaque, TextPart
from clew.model.outline import Outline, outlined
from clew.model.session import Session
from clew.store import Store
from clew.store.log.feed import readable_events
from clew.store.log.rows import EVERYTHING

PAGE = 64
# An event that lies this close behind the last one read is read with those between them.
AHEAD = 32
# Events that were read are held up to this size, because parallel calls are read with their returns, out of order.
HELD_BYTES = 2 * 1024 * 1024
# A session whose texts are not longer than this is small.
SMALL_BYTES = 8 * 1024 * 1024
# The approximate memory of an event beside its text.
EVENT_BYTES = 1000


class History:
    """The events of a session, oldest first, and any of them by its seq.

    With `reads_damaged` a stand-in is read for each damaged event; without it the reader is refused.
    """

    def __init__(self, store: Store, session: Session, *, upto: int | None = None, reads_damaged: bool = False) -> None:
        self._reads_damaged = reads_damaged
        self.session = session
        self._store = store
        head = store.head(session).head
        self.last = head if upto is None else min(upto, head)
        self._all: dict[int, Event] | None = None
        self._held: OrderedDict[int, Event] = OrderedDict()
        self._held_bytes = 0
        self._ahead: Iterator[Event] = iter(())
        self._next = self.last + 1

    def __iter__(self) -> Iterator[Event]:
        if self._all is not None:
            return iter(self._all.values())
        return map(self.seen, self._stored(after=0, limit=EVERYTHING))

    def of_kinds(self, kinds: Sequence[str]) -> Iterator[Event]:
        """Only the events of these kinds."""
        if self._all is not None:
            return (event for event in self._all.values() if event.kind in kinds)
        return map(self.seen, self._store.read(self.session, kinds=kinds, upto=self.last))

    def outline(self) -> Outline:
        """Read the session once. Of a large session the texts are read again when they are needed."""
        first: dict[int, Event] = {}
        size = 0
        events = iter(self)
        for event in events:
            first[event.seq] = event
            size += text_bytes(event.body)
            if size > SMALL_BYTES:
                return Outline(map(outlined, chain(_taken_from(first), events)), self.read)
        self._all = first
        return Outline.in_memory(first)

    def read(self, seq: int) -> Event:
        """One event. To read most of them in order takes hardly longer than to read them all."""
        if self._all is not None and seq in self._all:
            return self._all[seq]
        if seq in self._held:
            return self._held[seq]
        if not self._next <= seq <= self._next + AHEAD:
            self._ahead, self._next = self._after(seq - 1), seq
        for event in self._ahead:
            self._next = event.seq + 1
            self._hold(event)
            if event.seq == seq:
                return event
        raise LookupError(f"session {self.session.id} has no event {seq}")

    def _hold(self, event: Event) -> None:
        self._held[event.seq] = event
        self._held_bytes += EVENT_BYTES + text_bytes(event.body)
        while self._held_bytes > HELD_BYTES and len(self._held) > 1:
            _, oldest = self._held.popitem(last=False)
            self._held_bytes -= EVENT_BYTES + text_bytes(oldest.body)

    def _after(self, after: int) -> Iterator[Event]:
        page = PAGE
        while page == PAGE and after < self.last:
            page = 0
            for event in self._stored(after=after, limit=PAGE):
                page, after = page + 1, event.seq
                yield self.seen(event)

    def _stored(self, *, after: int, limit: int) -> Iterator[Event]:
        if self._reads_damaged:
            return islice(readable_events(self._store, self.session, after=after, upto=self.last), limit)
        return self._store.read(self.session, after=after, upto=self.last, limit=limit)

    def seen(self, event: Event) -> Event:
        """The event as the reader of this history may see it."""
        return event


def _taken_from(events: dict[int, Event]) -> Iterator[Event]:
    """The events in order; each leaves the dictionary, so that its memory can be used again."""
    for seq in list(events):
        yield events.pop(seq)


def text_bytes(body: AnyBody) -> int:
    """About how long the texts of a body are, which an outline leaves out."""
    match body:
        case MessageAdded():
            return len(body.text) + sum(len(part.text) for part in body.parts if isinstance(part, TextPart))
        case CallMade():
            return len(body.input)
        case CallReturned():
            return len(body.output) + sum(len(part.text) for part in body.parts if isinstance(part, TextPart))
        case Opaque():
            return len(body.raw)
        case _:
            return 0
