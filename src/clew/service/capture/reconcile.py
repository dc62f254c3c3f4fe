"""Reconcile the drafts of a file with the log: drop what it has, revise what changed, rewind where the file did."""

from collections.abc import Container, Iterable, Sequence

import msgspec

from clew.model.conversation import SPOKEN, conversation
from clew.model.events import Draft, Event, Rewound
from clew.model.outline import outlined
from clew.model.session import Session
from clew.model.source import REVISION
from clew.model.source import identity as identity_of
from clew.store import Store
from clew.store.log.opening import Forking
from clew.store.native_files.lookup import files_of
from clew.store.native_files.native_file import short_source


def reconcile(
    store: Store, session: Session, drafts: list[Draft], generation: int, all_drafts: list[Draft] | None = None
) -> list[Draft]:
    """Return drafts after which the conversation in the log is the one in the file.

    `all_drafts` are those of the whole file, `drafts` the ones to append. A record that has the content of an earlier
    revision again becomes another revision. Where the file has lost its last records, or has them again, the
    conversation is rewound to the file's end.
    """
    all_drafts = drafts if all_drafts is None else all_drafts
    if len(files_of(store, session)) > 1:
        return drafts
    # What decides is who said what in which order; the texts of a long session would not fit into memory.
    events = [outlined(event) for event in store.read(session)]
    own = [event for event in events if event.session == session.id and event.source]
    newest_sources = {identity_of(event.source): event.source or "" for event in own}
    sources = {event.source for event in own}
    drafts = [_as_new_revision(draft, newest_sources, sources, generation) for draft in drafts]
    if not _can_be_rewound(conversation(events), all_drafts):
        return drafts
    first_new = _index_of_first_new_message(drafts, newest_sources)
    upto_first_new = all_drafts[: _index_of_first_new_message(all_drafts, newest_sources)]
    # A draft whose source the log has adds nothing to it.
    log = [*events, *_as_events(drafts[:first_new], session.id, without=sources, after=events)]
    rewind = _rewind_to_end_of(upto_first_new, log, session, f"{generation}@/rewound")
    log += _as_events([*rewind, *drafts[first_new:]], session.id, without=sources, after=log)
    rewind_at_end = _rewind_to_end_of(all_drafts, log, session, f"{generation}@/end")
    return [*drafts[:first_new], *rewind, *drafts[first_new:], *rewind_at_end]


def root_of(drafts: list[Draft]) -> str:
    """The identity of the first record that has one."""
    return next((identity_of(draft.source) for draft in drafts if draft.source and "@" not in draft.source), "")


def is_spoken(draft: Draft) -> bool:
    """Whether a draft is part of the conversation."""
    return isinstance(draft.body, SPOKEN)


def _as_events(
    drafts: list[Draft], session: str = "", *, without: Container[str | None] = (), after: Sequence[Event] = ()
) -> list[Event]:
    """Drafts as the events they would become after these events, in a session that has these sources already."""
    new = [draft for draft in drafts if draft.source not in without]
    first = after[-1].seq + 1 if after else 1
    return [
        Event(session, seq, seq, 0, draft.said_at, "", draft.source, b"", draft.body)
        for seq, draft in enumerate(new, first)
    ]


def _can_be_rewound(messages: list[Event], all_drafts: list[Draft]) -> bool:
    """Whether a rewind can name its target: a message that is known only by its place in the file has no name."""
    if not messages or not messages[-1].source:
        return False
    return not any("@" in (draft.source or "") for draft in all_drafts if is_spoken(draft))


def _index_of_first_new_message(drafts: list[Draft], newest_sources: dict[str, str]) -> int:
    new = (i for i, draft in enumerate(drafts) if is_spoken(draft) and identity_of(draft.source) not in newest_sources)
    return next(new, len(drafts))


def _rewind_to_end_of(drafts: list[Draft], log: list[Event], session: Session, source: str) -> list[Draft]:
    """The draft that rewinds the log's conversation to where these drafts end; none if it is there already."""
    wanted, current = _last_message(_as_events(drafts)), _last_message(log)
    if wanted == current or (not wanted and session.parent):
        return []
    return [Draft(body=Rewound(to=wanted), source=source)]


def _last_message(events: list[Event]) -> str:
    """The identity of the last message of the conversation."""
    messages = conversation(events)
    return identity_of(messages[-1].source) if messages else ""


def _as_new_revision(draft: Draft, newest_sources: dict[str, str], sources: set[str | None], generation: int) -> Draft:
    """The draft; as one more revision if the log has its content, and has a newer revision since."""
    newest = newest_sources.get(identity_of(draft.source))
    if draft.source not in sources or newest == draft.source or newest is None:
        return draft
    if newest.rpartition(".")[0] == draft.source:
        return msgspec.structs.replace(draft, source=newest)
    mark = "." if REVISION in (draft.source or "") else f"{REVISION}."
    return msgspec.structs.replace(draft, source=f"{draft.source}{mark}{generation}")


def without_written_by_clew(drafts: list[Draft], written: str) -> list[Draft]:
    """The drafts, without those of records that clew itself wrote into the file (`written` lists their sources)."""
    if not written:
        return drafts
    sources = set(msgspec.json.decode(written, type=list[str]))
    return [draft for draft in drafts if identity_of(draft.source) not in sources]


def without_known_content(store: Store, session: Session, drafts: list[Draft]) -> list[Draft]:
    """The drafts, without those whose content the session or its ancestors have already."""
    by_identity: dict[str, list[int]] = {}
    for index, draft in enumerate(drafts):
        if draft.source:
            by_identity.setdefault(identity_of(draft.source), []).append(index)
    # The drafts that have the content of the newest event of their identity, by that.
    known: dict[str, list[int]] = {}
    for event in store.read(session):
        identity = identity_of(event.source)
        if identity in by_identity:
            known[identity] = [index for index in by_identity[identity] if drafts[index].body == event.body]
    indexes = {index for same in known.values() for index in same}
    return [draft for index, draft in enumerate(drafts) if index not in indexes]


def has_all(events: Iterable[Event], drafts: Iterable[Draft]) -> bool:
    """Whether a session has each of these drafts already. One that is known only by its place has its content, too."""
    by_source = {event.source: event.body for event in events if event.source}
    sources = ((short_source(draft.source), draft.body) for draft in drafts)
    return all(
        source in by_source and ("@" not in (source or "") or by_source[source] == body) for source, body in sources
    )


class SharedBeginning(msgspec.Struct, frozen=True):
    """What the beginning of a file repeats of its parent: up to the event `at`, and the sources of what it repeats."""

    at: int
    sources: set[str]


def sources_of(events: Iterable[Event]) -> set[str]:
    """The sources of events, without those that are only places in a file."""
    return {event.source for event in events if event.source and "@" not in event.source}


def shared_beginning(events: Iterable[Event], drafts: Iterable[Draft]) -> SharedBeginning | None:
    """What a file repeats of a parent before its first message of its own."""
    seqs = {event.source: event.seq for event in events if event.source and "@" not in event.source}
    last = 0
    sources: set[str] = set()
    # A record between two shared ones was copied with them, if it says nothing new or is known only by its place.
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
    return SharedBeginning(last, sources) if last else None


def fork_at(store: Store, session: Session, at: int, metadata: str) -> Forking:
    """A fork at an event, of the session or of the ancestor that wrote the event."""
    owner = next(part for part in store.lineage(session) if part.first <= at <= part.last)
    parent = session if owner.id == session.id else store.session(owner.id)
    return Forking(parent=parent, at=at, metadata=metadata)
