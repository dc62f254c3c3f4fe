"""A session in outline: its events without their long texts, which are read one at a time on demand.

An outline holds everything except the texts: which events are part of the conversation, which return belongs to which
call, whether a part is empty. So a session of any size can be folded in little memory. The outline of a session that
is small enough to be in memory keeps the texts, and nothing is read twice.
"""

from collections.abc import Callable, Iterable, Mapping
from sys import intern

import msgspec
from msgspec import Raw

from clew.model.errors import Conflict
from clew.model.events import (
    AnyBody,
    CallMade,
    CallReturned,
    Event,
    MessageAdded,
    Opaque,
    Part,
    Removed,
    ScratchSet,
    TextPart,
    ThinkingPart,
)

Read = Callable[[int], Event]
"""Reads the whole event with this seq."""

NULL, TEXT, OBJECT, OTHER = Raw(b"null"), Raw(b'""'), Raw(b"{}"), Raw(b"0")


class OutlinedText(TextPart, frozen=True, kw_only=True):
    """The part `index` of the event `seq`, with the first character of its text."""

    seq: int
    index: int


class OutlinedThinking(ThinkingPart, frozen=True, kw_only=True):
    """The part `index` of the event `seq`, with the first character of its text and of its signature."""

    seq: int
    index: int


class OutlinedCall(CallMade, frozen=True, kw_only=True):
    """The call of the event `seq`; an input that is an object is an empty object here."""

    seq: int


class OutlinedReturn(CallReturned, frozen=True, kw_only=True):
    """The return of the event `seq`; an output that is null is null here."""

    seq: int


class Outline:
    """The events of a session in outline, and the function that reads them whole."""

    def __init__(self, events: Iterable[Event], read: Read, *, has_texts: bool = False) -> None:
        self.events = list(events)
        self.read = read
        self.has_texts = has_texts
        """Whether only the calls are outlined."""

    @classmethod
    def in_memory(cls, events: Mapping[int, Event]) -> "Outline":
        """The outline of events that are in memory, by seq. Its calls are outlined, because their seq is asked for."""
        own = (outlined(event) if isinstance(event.body, CallMade) else event for event in events.values())
        return cls(own, events.__getitem__, has_texts=True)


def outlined(event: Event) -> Event:
    """An event without its long texts."""
    return Event(
        event.session, event.seq, event.position, event.at, event.said_at, intern(event.actor), event.source, b"",
        _outlined(event.body, event.seq),
    )  # fmt: skip


def _outlined(body: AnyBody, seq: int) -> AnyBody:
    match body:
        case MessageAdded():
            return msgspec.structs.replace(body, text="", parts=_parts(body.content, seq), model=intern(body.model))
        case CallMade():
            return OutlinedCall(
                call=body.call, tool=intern(body.tool), input=OBJECT if _is_object(body.input) else OTHER,
                message=body.message, model=intern(body.model), side=body.side, seq=seq,
            )  # fmt: skip
        case CallReturned():
            return OutlinedReturn(
                call=body.call, output=NULL if bytes(body.output) == b"null" else TEXT, failed=body.failed,
                parts=_parts(body.parts, seq), side=body.side, seq=seq,
            )  # fmt: skip
        case Opaque():
            return msgspec.structs.replace(body, kind=intern(body.kind), raw="")
        case ScratchSet():
            return msgspec.structs.replace(body, value=NULL)
        case _:
            return body


def _parts(parts: tuple[Part, ...], seq: int) -> tuple[Part, ...]:
    return tuple(_part(part, seq, index) for index, part in enumerate(parts))


def _part(part: Part, seq: int, index: int) -> Part:
    if isinstance(part, TextPart):
        return OutlinedText(text=part.text[:1], seq=seq, index=index)
    if isinstance(part, ThinkingPart):
        return OutlinedThinking(text=part.text[:1], signature=part.signature[:1], seq=seq, index=index)
    return part


def _is_object(text: Raw) -> bool:
    return bytes(text).lstrip().startswith(b"{")


def nothing_is_outlined(seq: int) -> Event:
    """The `Read` for events that are not outlined."""
    raise AssertionError(f"event {seq} is outlined, and there is nothing to read it with")


# Whole again ----------------------------------------------------------------------------------------------------------


def whole_part(part: Part, read: Read) -> Part:
    """A part of a message with its full text; a part that is not outlined is returned unchanged."""
    if not isinstance(part, OutlinedText | OutlinedThinking):
        return part
    body = read(part.seq).body
    parts = body.content if isinstance(body, MessageAdded) else body.parts if isinstance(body, CallReturned) else ()
    if part.index >= len(parts):
        raise _gone(part.seq, body)
    return parts[part.index]


def whole_call(call: CallMade, read: Read) -> CallMade:
    """A call with its input, with the id that it has in the outline."""
    if not isinstance(call, OutlinedCall):
        return call
    body = read(call.seq).body
    if not isinstance(body, CallMade):
        raise _gone(call.seq, body)
    return body if body.call == call.call else msgspec.structs.replace(body, call=call.call)


def whole_return(back: CallReturned, read: Read) -> CallReturned:
    """A return with its output, with the id that it has in the outline."""
    if not isinstance(back, OutlinedReturn):
        return back
    body = read(back.seq).body
    if not isinstance(body, CallReturned):
        raise _gone(back.seq, body)
    return body if body.call == back.call else msgspec.structs.replace(body, call=back.call)


def _gone(seq: int, body: AnyBody) -> Conflict:
    how = body.how if isinstance(body, Removed) else "changed"
    return Conflict(f"event {seq} was {how} while the session was read; read it again", seq=seq)
