"""What a session's conversation is now: one pure fold over its events.

A log only grows, but a conversation can be taken back, corrected and shortened. Three rules, and no others:

* `Rewound` makes the conversation go on from an earlier event; what came after that one is no longer part of it. The
  pieces of one answer belong together, and what a call gave back belongs to the call: they stay as long as it does.
* A source may carry a revision after `~`. The newest revision replaces the first.
* `Compacted` stands for what came before it, in what a model sees.
"""

from collections.abc import Iterable, Iterator

from clew.model.events import CallMade, CallReturned, Compacted, Event, MessageAdded, Rewound

REVISION = "~"
SPOKEN = (MessageAdded, CallMade, CallReturned, Compacted)


def identity(source: str | None) -> str:
    """The part of a source that stays the same when a record is corrected."""
    return source.partition(REVISION)[0] if source else ""


def conversation(events: Iterable[Event], *, sides: bool = False) -> list[Event]:
    """The messages, calls, returns and compactions that are part of the conversation now, in order.

    Messages of subagents inside the session are left out unless `sides` is true.
    """
    # Each event has the event before it as its parent; a rewind only chooses another parent for the next event.
    before: list[int] = []
    kept: list[Event] = []
    # A source is unique within one session: @17 of an ancestor and @17 of its fork are different records.
    seen: dict[tuple[str, str], int] = {}
    where: dict[tuple[str, str], int] = {}
    anywhere: dict[str, int] = {}
    returns: dict[str, Event] = {}
    last = -1
    for event in events:
        body = event.body
        if isinstance(body, CallReturned):
            returns[body.call] = event
        if isinstance(body, Rewound):
            to = identity(body.to)
            last = where.get((event.session, to), anywhere.get(to, last)) if to else -1
            continue
        record = identity(event.source).partition("/")[0]
        name = identity(event.source)
        if name and (first := seen.get((event.session, name))) is not None:
            kept[first] = event
            continue
        kept.append(event)
        before.append(last)
        last = len(kept) - 1
        if name:
            seen[event.session, name] = last
            # A rewind names a record, and goes back to the last event of that record.
            for rewind_name in (name, record):
                where[event.session, rewind_name] = anywhere[rewind_name] = last
    path: set[int] = set()
    while last >= 0:
        path.add(last)
        last = before[last]
    path |= _whole_answers(kept, path)
    spoken = [kept[i] for i in sorted(path) if _is_spoken(kept[i], sides)]
    return list(_with_returns(spoken, returns))


def _whole_answers(kept: list[Event], path: set[int]) -> set[int]:
    """The remaining pieces of each answer that is only partly on the path: parallel calls are sibling records."""
    answers = {_answer(kept[i]) for i in path} - {""}
    return {i for i, event in enumerate(kept) if i not in path and _answer(event) in answers}


def _answer(event: Event) -> str:
    body = event.body
    return body.message if isinstance(body, MessageAdded | CallMade) else ""


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
