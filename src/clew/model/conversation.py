"""What a session's conversation is now: one pure fold over its events.

A log only grows, but a conversation can be taken back, corrected and shortened. Three rules, and no others:

* `Rewound` makes the conversation go on from an earlier event; what came after that one is no longer part of it. The
  pieces of one answer belong together, and what a call gave back belongs to the call: they stay as long as it does.
* A source may carry a revision after `~`. The newest revision replaces the first.
* `Compacted` stands for what came before it, in what a model sees.

`course.py` applies the first two.
"""

from collections.abc import Iterable, Iterator

from clew.model.course import Answers, course_of
from clew.model.events import CallMade, CallReturned, Compacted, Event, MessageAdded, Rewound
from clew.model.source import identity

SPOKEN = (MessageAdded, CallMade, CallReturned, Compacted)


def conversation(events: Iterable[Event], *, sides: bool = False) -> list[Event]:
    """The messages, calls, returns and compactions that are part of the conversation now, in order.

    Messages of subagents inside the session are left out unless `sides` is true.
    """
    events = list(events)
    course = course_of(events)
    by_seq = {event.seq: event for event in events}
    answers = Answers(course, by_seq.get)
    returns = {event.body.call: event for event in events if isinstance(event.body, CallReturned)}
    spoken = []
    for event in events:
        place = event.seq
        if place in course.revisions or isinstance(event.body, Rewound):
            continue
        newest = by_seq[course.newest.get(place, place)]
        if _is_spoken(newest, sides) and (course.is_live(place) or answers.keep(newest, place)):
            spoken.append(newest)
    return list(_with_returns(spoken, returns))


def _with_returns(spoken: list[Event], returns: dict[str, Event]) -> Iterator[Event]:
    """The conversation, each call that lost its return to a rewind followed by it."""
    returned = {event.body.call for event in spoken if isinstance(event.body, CallReturned)}
    for event in spoken:
        yield event
        if isinstance(event.body, CallMade) and event.body.call not in returned and event.body.call in returns:
            yield returns[event.body.call]


def model_view(events: list[Event]) -> list[Event]:
    """What an llm sees of a session: the last compaction, what it kept, and everything after it."""
    return after_compaction(conversation(events), events)


def after_compaction(spoken: list[Event], events: list[Event]) -> list[Event]:
    """What an llm sees of this conversation, which is that of these events."""
    at = max((i for i, event in enumerate(spoken) if isinstance(event.body, Compacted)), default=-1)
    if at < 0:
        return spoken
    body = spoken[at].body
    if not isinstance(body, Compacted):
        raise AssertionError("the caller selected it by its type")
    kept = [event for event in spoken[:at] if body.last and not body.first <= event.seq <= body.last]
    if body.keep:
        first = next((event.seq for event in events if _is_of(event, body.keep)), spoken[at].seq)
        kept = [event for event in spoken[:at] if event.seq >= first]
    return [spoken[at], *(event for event in kept if not isinstance(event.body, Compacted)), *spoken[at + 1 :]]


def _is_of(event: Event, source: str) -> bool:
    """Whether an event came from the record of this source."""
    name, record = identity(event.source), identity(source)
    return name == record or name.startswith(f"{record}/")


def _is_spoken(event: Event, sides: bool) -> bool:
    body = event.body
    return isinstance(body, SPOKEN) and (sides or not getattr(body, "side", ""))
