"""A session's events up to one of them, read from the log as often as they are asked for and never held all at once."""

from collections import OrderedDict
from collections.abc import Iterator

from clew.model.events import AnyBody, CallMade, CallReturned, Event, MessageAdded, Opaque, Removed, TextPart
from clew.model.outline import Outline
from clew.model.session import Session
from clew.store import Store

PAGE = 64
# An event that lies this close behind the last one read is read with those between them.
AHEAD = 32
# Events that were read are held up to this size, because parallel calls are read with their returns, out of order.
HELD_BYTES = 2 * 1024 * 1024


class History:
    """The events of a session, oldest first, and any of them by its seq."""

    def __init__(self, store: Store, session: Session, *, upto: int | None = None) -> None:
        self.session = session
        self._store = store
        head = store.head(session).head
        self.last = head if upto is None else min(upto, head)
        self._held: OrderedDict[int, Event] = OrderedDict()
        self._held_bytes = 0
        self._ahead: Iterator[Event] = iter(())
        self._next = self.last + 1

    def __iter__(self) -> Iterator[Event]:
        return self._after(0)

    def outline(self) -> Outline:
        """Read the session once; its texts are read again when they are needed."""
        return Outline(self, self.read)

    def read(self, seq: int) -> Event:
        """One event. To read most of them in order takes hardly longer than to read them all."""
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
        self._held_bytes += _size(event.body)
        while self._held_bytes > HELD_BYTES and len(self._held) > 1:
            _, oldest = self._held.popitem(last=False)
            self._held_bytes -= _size(oldest.body)

    def _after(self, after: int) -> Iterator[Event]:
        page = PAGE
        while page == PAGE and after < self.last:
            page = 0
            for event in self._store.read(self.session, after=after, upto=self.last, limit=PAGE):
                page, after = page + 1, event.seq
                yield self.seen(event)

    def seen(self, event: Event) -> Event:
        """The event as whoever reads this history may see it."""
        return event


def _size(body: AnyBody) -> int:
    """About how many bytes a body takes in memory."""
    match body:
        case MessageAdded():
            return 1000 + sum(len(part.text) for part in body.content if isinstance(part, TextPart))
        case CallMade():
            return 1000 + len(body.input)
        case CallReturned():
            return 1000 + len(body.output) + sum(len(part.text) for part in body.parts if isinstance(part, TextPart))
        case Opaque():
            return 1000 + len(body.raw)
        case Removed():
            return 1000
        case _:
            return 2000
