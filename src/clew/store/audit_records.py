"""What an audit reads of the whole log: every session, every event as it is stored, and the control logs.

Nothing that is stored is trusted: the values of these records may be of any type, and an auditor checks them.
"""

from collections.abc import Iterator
from typing import NamedTuple

from clew.model.events import Event
from clew.model.session import Session
from clew.store.log.decoding import decoder_of
from clew.store.log.rows import EVERYTHING, PAGE, EventRow, session_from
from clew.store.objects import objects
from clew.store.store import Store


class SessionRecord(NamedTuple):
    """A session with what the audit tree states of it; what is None is gone."""

    key: int
    id: str
    project: str | None
    project_key: int
    opened_at: int
    control: int
    upto: int
    parent: str | None
    head: int | None


class ControlLog(NamedTuple):
    """The session that records who asked for what in a project."""

    key: int
    project_key: int
    project: str
    id: str


class Stray(NamedTuple):
    """The first event of a session that is not there."""

    project_key: int
    session_key: int
    seq: int


def session_records(store: Store, *, after: int = -EVERYTHING, limit: int = PAGE) -> list[SessionRecord]:
    """The sessions after a key, oldest first; also those of which other rows are gone."""
    with store.database.read() as tx:
        return [SessionRecord(*row) for row in tx.run("standings", after=after, limit=limit)]


def all_session_records(store: Store) -> Iterator[SessionRecord]:
    """Every session, oldest first."""
    after = -EVERYTHING
    while True:
        records = session_records(store, after=after)
        yield from records
        if len(records) < PAGE:
            return
        after = records[-1].key


def find_session(store: Store, key: int) -> Session | None:
    """The session with this key, unless its row or that of its project is gone."""
    with store.database.read() as tx:
        rows = tx.run("session_by_key", key=key)
    return session_from(rows[0]) if rows else None


def first_position(store: Store, session: SessionRecord, *, after: int = -EVERYTHING) -> int | None:
    """The lowest position of the events that a session has after one of them."""
    with store.database.read() as tx:
        [(position,)] = tx.run("first_position", project=session.project_key, session=session.key, seq=after)
    return None if position is None else int(position)


def strays(store: Store, *, limit: int) -> list[Stray]:
    """Events of sessions that are not there."""
    with store.database.read() as tx:
        return [Stray(*row) for row in tx.run("strays", limit=limit)]


def event_rows(store: Store, session: SessionRecord, *, after: int, limit: int = PAGE) -> list[EventRow]:
    """The events that a session itself wrote after one of them, as they are stored."""
    with store.database.read() as tx:
        rows = tx.run(
            "events", project=session.project_key, session=session.key, first=after + 1, last=EVERYTHING, limit=limit
        )
    return [EventRow(*row) for row in rows]


def body_in_blob(store: Store, digest: bytes) -> str:
    """The text of a body that is stored as a blob, checked against its digest."""
    return objects.load(store, bytes(digest).hex()).decode()


def control_logs(store: Store, project: str = "") -> list[ControlLog]:
    """The control log of a project, or those of all."""
    only = {"project": project} if project else {}
    with store.database.read() as tx:
        return [ControlLog(*row) for row in tx.run("control_logs", **only)]


def control_events(
    store: Store,
    log: ControlLog,
    *,
    before: int,
    limit: int,
    since: int | None = None,
    until: int | None = None,
    principal: str = "",
) -> list[Event]:
    """The newest events of a control log before a position."""
    given = {"since": since, "until": until, "principal": principal or None}
    only = {name: value for name, value in given.items() if value is not None}
    with store.database.read() as tx:
        rows = tx.run(
            "entries_before", project=log.project_key, session=log.key, before=before, limit=limit, **only
        )  # fmt: skip
    return list(decoder_of(store, project=log.project_key, key=log.key, session=log.id).events(rows))
