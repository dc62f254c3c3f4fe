"""Drafts against what is in the log already: what is new in them, what is shared, and where the conversation now is."""

from collections.abc import Container, Iterable

import msgspec

from clew.model.conversation import REVISION, SPOKEN, conversation
from clew.model.conversation import identity as identity_of
from clew.model.events import Draft, Event, Rewound
from clew.model.session import Session
from clew.store import Store
from clew.store.log.opening import Forking
from clew.store.native_files import native_files


def reconcile(
    store: Store, session: Session, drafts: list[Draft], generation: int, now: list[Draft] | None = None
) -> list[Draft]:
    """Drafts after which the conversation in the log is the one in the file, which was read `now` as a whole.

    A record that says again what an earlier revision said is another revision. Where the file has lost its last
    records, or has got them back, the conversation is taken to its end.
    """
    now = drafts if now is None else now
    if len(native_files.originals(store, session)) > 1:
        return drafts
    events = store.read(session)
    own = [event for event in events if event.session == session.id and event.source]
    newest = {identity_of(event.source): event.source or "" for event in own}
    sources = {event.source for event in own}
    drafts = [_returning(draft, newest, sources, generation) for draft in drafts]
    spoken = conversation(events)
    if not spoken or not spoken[-1].source or any("@" in (one.source or "") for one in now if is_spoken(one)):
        return drafts
    at, upto = _first_said(drafts, newest), _first_said(now, newest)
    # What is in the log already adds nothing to it.
    log = [*events, *_events(drafts[:at], session.id, without=sources)]
    back = _taken_to(now[:upto], log, session, f"{generation}@/rewound")
    log += _events([*back, *drafts[at:]], session.id, without=sources)
    return [*drafts[:at], *back, *drafts[at:], *_taken_to(now, log, session, f"{generation}@/end")]


def root_of(drafts: list[Draft]) -> str:
    """The identity of the first record that has one."""
    return next((identity_of(one.source) for one in drafts if one.source and "@" not in one.source), "")


def is_spoken(draft: Draft) -> bool:
    return isinstance(draft.body, SPOKEN)


def _events(drafts: list[Draft], session: str = "", *, without: Container[str | None] = ()) -> list[Event]:
    """Drafts as the events they would be in a session that has these sources already."""
    new = [one for one in drafts if one.source not in without]
    return [Event(session, i, i, 0, one.said_at, "", one.source, b"", one.body) for i, one in enumerate(new)]


def _first_said(drafts: list[Draft], known: dict[str, str]) -> int:
    """Where something is said for the first time."""
    new = (i for i, one in enumerate(drafts) if is_spoken(one) and identity_of(one.source) not in known)
    return next(new, len(drafts))


def _taken_to(drafts: list[Draft], log: list[Event], session: Session, source: str) -> list[Draft]:
    """What takes the conversation of a log to where these drafts end, if it is elsewhere."""
    end, is_now = _end(_events(drafts)), _end(log)
    if end == is_now or (not end and session.parent):
        return []
    return [Draft(body=Rewound(to=end), source=source)]


def _end(events: list[Event]) -> str:
    """The identity of what was said last."""
    spoken = conversation(events)
    return identity_of(spoken[-1].source) if spoken else ""


def _returning(draft: Draft, newest: dict[str, str], sources: set[str | None], generation: int) -> Draft:
    """A draft whose content is in the log but was corrected since: one more revision of it."""
    last = newest.get(identity_of(draft.source))
    if draft.source not in sources or last == draft.source or last is None:
        return draft
    if last.rpartition(".")[0] == draft.source:
        return msgspec.structs.replace(draft, source=last)
    mark = "." if REVISION in (draft.source or "") else f"{REVISION}."
    return msgspec.structs.replace(draft, source=f"{draft.source}{mark}{generation}")


def unwritten(drafts: list[Draft], written: str) -> list[Draft]:
    """The drafts that did not come from what clew itself wrote into the file."""
    if not written:
        return drafts
    ours = set(msgspec.json.decode(written, type=list[str]))
    return [draft for draft in drafts if identity_of(draft.source) not in ours]


def unsaid(store: Store, session: Session, drafts: list[Draft]) -> list[Draft]:
    """The drafts that a session does not say already, as itself or by what it inherits."""
    newest = {identity_of(event.source): event.body for event in store.read(session) if event.source}
    return [one for one in drafts if not one.source or newest.get(identity_of(one.source)) != one.body]


class Shared(msgspec.Struct, frozen=True):
    """Up to which event of a parent a file only repeats it, and the sources of what it repeats."""

    at: int
    sources: set[str]


def sources_of(events: list[Event]) -> set[str]:
    """The sources of events, but for those that are only places in a file."""
    return {event.source for event in events if event.source and "@" not in event.source}


def shared_with(events: list[Event], drafts: Iterable[Draft]) -> Shared | None:
    """What a file shares with a parent before it says something of its own."""
    seqs = {event.source: event.seq for event in events if event.source and "@" not in event.source}
    last = 0
    sources: set[str] = set()
    # What lies between two shared records and says nothing, or only where it is, was copied with them.
    between: set[str] = set()
    for draft in drafts:
        source = draft.source or ""
        if source in seqs:
            last = max(last, seqs[source])
            sources |= {source} | between
            between = set()
        elif isinstance(draft.body, Rewound) or (is_spoken(draft) and "@" in source):
            between.add(source)
        elif is_spoken(draft):
            break
    return Shared(last, sources) if last else None


def forking(store: Store, session: Session, at: int, metadata: str) -> Forking:
    """A fork of whichever ancestor wrote the event."""
    owner = next(part for part in store.lineage(session) if part.first <= at <= part.last)
    parent = session if owner.id == session.id else store.session(owner.id)
    return Forking(parent=parent, at=at, metadata=metadata)
