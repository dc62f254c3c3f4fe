"""The feed of tables derived from the log: every event with its session, and a stand-in for each damaged event.

A derived table must not end at one damaged event, so that the others are found.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from clew.model.events import Event
from clew.model.lineage import Segment, clip
from clew.model.session import Session
from clew.store.database.contract import Row
from clew.store.log.decoding import Decoder
from clew.store.log.reading import pages
from clew.store.log.rows import EVENTS_PAGE, EVERYTHING, position_of, session_from, stretches
from clew.store.log.sessions import session_in
from clew.store.store import Store


class Entry(NamedTuple):
    """An event and the session that wrote it."""

    session: Session
    event: Event


class Changed(NamedTuple):
    """A session with new events."""

    id: str
    project: str


class Record(NamedTuple):
    """The kind, the source and the seq of an event."""

    kind: str
    source: str
    seq: int


def entries(store: Store, *, after: int, limit: int = EVERYTHING) -> Iterator[Entry]:
    """What a tail shows after a position."""
    while limit > 0:
        most = min(limit, EVENTS_PAGE)
        with store.database.read() as tx:
            rows = tx.run("tail", after=after, limit=most)
            written = list(stretches(rows))
            keys = msgspec.json.encode(sorted({stretch.key for stretch in written})).decode()
            sessions = {session.key: session for session in map(session_from, tx.run("sessions_by_key", keys=keys))}
        for project, key, session, events in written:
            decoder = Decoder(store.database, store.pack_stores, project=project, key=key, session=session)
            entry_session = sessions[key]
            for event in decoder.events_or_stand_ins(events):
                yield Entry(entry_session, event)
        if len(rows) < most:
            return
        limit -= len(rows)
        after = position_of(rows[-1])


def changed_sessions(store: Store, *, after: int, upto: int) -> list[Changed]:
    """The sessions that wrote events after one position, up to and including another."""
    with store.database.read() as tx:
        names: dict[str, str] = dict(tx.run("project_names"))
        return [Changed(id, names[project]) for id, project, *_ in tx.run("heads_between", after=after, upto=upto)]


def own_events(store: Store, session: Session, *, after: int = 0, upto: int) -> Iterator[Event]:
    """What a session itself wrote after one event, up to and including another."""
    decoder = _decoder(store, session)
    own = Segment(session.key, session.id, after + 1, upto)
    for rows in pages(store.database, session.project_key, own, EVERYTHING):
        yield from decoder.events_or_stand_ins(rows)


class EventReader(NamedTuple):
    """A row of an event that was read with others. Its body is decoded when it is asked for; bodies can be large."""

    session: Session
    decoder: Decoder
    row: Row

    def event(self) -> Event:
        """The event, or a stand-in for a damaged one."""
        return self.decoder.event_or_stand_in(self.row)


def own_events_at(
    store: Store, wanted: Iterable[tuple[int, int]], known: dict[int, Session]
) -> dict[tuple[int, int], EventReader]:
    """What sessions themselves wrote, by session key and seq, read together.

    `known` are the sessions that were read before; those that were not are added to it.
    """
    wanted = list(wanted)
    with store.database.read() as tx:
        if unknown := sorted({key for key, _ in wanted if key not in known}):
            sessions = tx.run("sessions_by_key", keys=msgspec.json.encode(unknown).decode())
            known.update((session.key, session) for session in map(session_from, sessions))
        keys = [(known[key].project_key, key, seq) for key, seq in wanted if key in known]
        rows = tx.run("events_by_key", keys=msgspec.json.encode(keys).decode())
    decoders = {key: _decoder(store, known[key]) for key in {row[0] for row in rows}}
    return {(row[0], row[1]): EventReader(known[row[0]], decoders[row[0]], row[1:]) for row in rows}


def _decoder(store: Store, session: Session) -> Decoder:
    return Decoder(store.database, store.pack_stores, project=session.project_key, key=session.key, session=session.id)


def inherited_events(store: Store, session: Session) -> Iterator[Event]:
    """What a fork has read of its ancestors since it was forked; nothing for another session."""
    return readable_events(store, session, upto=session.upto) if session.parent else iter(())


def readable_events(store: Store, session: Session, *, after: int = 0, upto: int) -> Iterator[Event]:
    """The events of a session through all its ancestors, with a stand-in for each damaged one."""
    for part in clip(store.lineage(session), after + 1, upto):
        decoder = Decoder(store.database, store.pack_stores, project=session.project_key, key=part.key, session=part.id)
        for rows in pages(store.database, session.project_key, part, EVERYTHING):
            yield from decoder.events_or_stand_ins(rows)


def readable_of_kind(store: Store, session: Session, kind: str, *, upto: int) -> Iterator[Event]:
    """The events of one kind through all ancestors, with a stand-in for each damaged one."""
    for part in clip(store.lineage(session), 1, upto):
        decoder = Decoder(store.database, store.pack_stores, project=session.project_key, key=part.key, session=part.id)
        bounds = {"project": session.project_key, "session": part.key, "last": part.last, "kind": kind}
        first, is_more = part.first, True
        while is_more:
            with store.database.read() as tx:
                rows = tx.run("events_of_kind", first=first, limit=EVENTS_PAGE, **bounds)
            yield from decoder.events_or_stand_ins(rows)
            is_more = len(rows) == EVENTS_PAGE
            first = rows[-1][0] + 1 if rows else first


def own_of_kind(store: Store, session: Session, kind: str) -> Iterator[Event]:
    """The events of one kind that a session itself wrote, with a stand-in for each damaged one."""
    decoder = _decoder(store, session)
    first, is_more = 1, True
    while is_more:
        with store.database.read() as tx:
            rows = tx.run(
                "events_of_kind", project=session.project_key, session=session.key, first=first, last=EVERYTHING,
                kind=kind, limit=EVENTS_PAGE,
            )  # fmt: skip
        yield from decoder.events_or_stand_ins(rows)
        is_more = len(rows) == EVENTS_PAGE
        first = rows[-1][0] + 1 if rows else first


def newest_of_kinds(store: Store, kinds: Iterable[str], *, limit: int) -> list[Event]:
    """The newest events of these kinds, of any session, with a stand-in for each damaged one."""
    names = msgspec.json.encode([*kinds]).decode()
    with store.database.read() as tx:
        rows = tx.run("newest_of_kinds", kinds=names, limit=limit)
    events: list[Event] = []
    for project, key, session, found in stretches(rows):
        decoder = Decoder(store.database, store.pack_stores, project=project, key=key, session=session)
        events += decoder.events_or_stand_ins(found)
    return events


def events_at(store: Store, session: Session, seqs: Iterable[int]) -> dict[int, Event]:
    """The events with these seqs, read in one round trip, with a stand-in for each damaged one."""
    wanted = sorted(set(seqs))
    parts = [part for part in store.lineage(session) if any(part.first <= seq <= part.last for seq in wanted)]
    events: dict[int, Event] = {}
    with store.database.read() as tx:
        answers = tx.batch(
            [
                (
                    "events_at",
                    {
                        "project": session.project_key,
                        "session": part.key,
                        "keys": msgspec.json.encode([seq for seq in wanted if part.first <= seq <= part.last]).decode(),
                    },
                )
                for part in parts
            ]
        )
    for part, rows in zip(parts, answers, strict=True):
        decoder = Decoder(store.database, store.pack_stores, project=session.project_key, key=part.key, session=part.id)
        for row in rows:
            event = decoder.event_or_stand_in(row)
            events[event.seq] = event
    return events


def own_records(store: Store, session: Session, *, before: int) -> list[Record]:
    """The kinds and sources of the events with a source that a session itself wrote before one."""
    with store.database.read() as tx:
        rows = tx.run("own_sources", project=session.project_key, session=session.key, before=before)
    return [Record(*row) for row in rows]


def session_by_key(store: Store, key: int) -> Session:
    """The session with this key, which exists."""
    with store.database.read() as tx:
        return session_in(tx, key)


def end_position(store: Store) -> int:
    """The last position given out: what a reader of the whole log has come to when it has seen all."""
    with store.database.read() as tx:
        [(position,)] = tx.run("end_position")
        return int(position)
