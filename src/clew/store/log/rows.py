"""The rows of the log as typed values. The only module of the log that knows the order of a statement's columns."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import msgspec

from clew.model.session import Head, Session
from clew.store.database.contract import Row

# After every seq, position and key.
EVERYTHING = 2**62
# How many rows are read at once.
PAGE = 1000
# The same for events with their bodies: a reader holds at most a few megabytes of them.
EVENTS_PAGE = 250


class EventRow(NamedTuple):
    """An event as it is stored: its body is text, a blob with this digest, or removed, which leaves a seal."""

    seq: int
    position: int
    at: int
    said_at: int | None
    actor: str
    source: str | None
    digest: bytes
    kind: str
    version: int
    body: str | None
    blob: bytes | None
    seal: bytes | None


class Stretch(NamedTuple):
    """Rows of a tail that one session wrote one after the other: the keys of project and session, the session's id, and
    the rows of the events.
    """

    project: int
    key: int
    session: str
    events: list[Row]


class Child(NamedTuple):
    """A session that was forked from another, at which of its events."""

    id: str
    at: int


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A session and where it stands."""

    session: Session
    head: Head


def session_from(row: Row) -> Session:
    id, key, project, project_key, agent, title, metadata, parent, upto, opened_at, owner, private, opened_in = row
    return Session(
        id=id, key=key, project=project, project_key=project_key, agent=agent, title=title, metadata=metadata,
        parent=parent, upto=upto, opened_at=opened_at, owner=owner, private=bool(private), opened_in=opened_in,
    )  # fmt: skip


def stretches(tail: Sequence[Row]) -> Iterator[Stretch]:
    """The rows of a tail by the session that wrote them, in their order."""
    for (project, key, session), rows in groupby(tail, key=itemgetter(12, 13, 14)):
        yield Stretch(project, key, session, [row[:12] for row in rows])


def position_of(row: Row) -> int:
    """The position of an event or of a row of a tail."""
    position: int = row[1]
    return position


def head_from(row: Row) -> Head:
    return Head(*row)


def listed_from(row: Row) -> Listed:
    return Listed(session=session_from(row[:13]), head=head_from(row[13:]))
