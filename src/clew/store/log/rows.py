"""The rows of the log as typed values. The only module of the log that knows the order of a statement's columns."""

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


class TailRow(NamedTuple):
    """The row of an event, and where the event was written: the keys of project and session, and the session's id."""

    event: Row
    project: int
    key: int
    session: str

    @property
    def position(self) -> int:
        position: int = self.event[1]
        return position


class Child(NamedTuple):
    """A session that was forked from another, at which of its events."""

    id: str
    at: int


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A session and where it stands."""

    session: Session
    head: Head


def session_from(row: Row) -> Session:
    id, key, project, project_key, agent, title, metadata, parent, upto, opened_at, owner, private = row
    return Session(
        id=id, key=key, project=project, project_key=project_key, agent=agent, title=title, metadata=metadata,
        parent=parent, upto=upto, opened_at=opened_at, owner=owner, private=bool(private),
    )  # fmt: skip


def tail_row_from(row: Row) -> TailRow:
    return TailRow(row[:12], *row[12:])


def head_from(row: Row) -> Head:
    return Head(*row)


def listed_from(row: Row) -> Listed:
    return Listed(session=session_from(row[:12]), head=head_from(row[12:]))
