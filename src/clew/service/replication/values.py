"""What two stores tell each other of a session: where it is, its events, its blobs and its native files."""

from typing import Annotated

import msgspec

from clew.model.events import (
    BudgetSet,
    PrivacySet,
    SessionArchived,
    SessionClosed,
    SessionPaused,
    SessionResumed,
)
from clew.store.native_files import remote_copies

# Steps of a session's life that another store may report; what else has an operation of its own is only mentioned.
LIFE = (SessionPaused, SessionResumed, SessionClosed, SessionArchived, PrivacySet, BudgetSet)
# How much one answer holds, and one piece of a blob.
PAGE_BYTES = 4 * 1024 * 1024

Source = Annotated[str, msgspec.Meta(max_length=1000)]
Digest = Annotated[str, msgspec.Meta(max_length=64, description="64 hexadecimal digits.")]


class StoreStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The name of a store, how far its log goes, and the heads of the sessions that were asked for and are in reach."""

    store: str
    position: int
    sessions: dict[str, int]


class SessionCopy(msgspec.Struct, frozen=True, kw_only=True):
    """Where a session stands here."""

    id: str
    head: int
    parent: str | None = None


class Sent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event between two stores. `body` is its JSON text; in `parts` are the names of what is too large for that."""

    kind: str
    source: str
    body: str = ""
    parts: list[str] = []
    version: Annotated[int, msgspec.Meta(ge=1, le=2**31)] = 1
    said_at: int | None = None
    actor: str = ""
    seq: int = 0


class Parcel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session as it is sent: who it is, and events of it. `next` goes on from there."""

    id: str
    project: str
    agent: str
    title: str
    metadata: str
    owner: str
    private: bool
    head: int
    state: str
    parent: str = ""
    parent_source: str = ""
    events: list[Sent] = []
    next: int | None = None


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """The name of a part that was kept for what comes next."""

    part: str


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of a blob, packed with zstd and in hexadecimal, so that nothing in them is taken for a secret again."""

    packed: str
    size: int
    next: int | None = None
    masked: dict[str, int] = {}


class NativeFile(msgspec.Struct, frozen=True, kw_only=True):
    """A native file of a session, and its bytes as blobs."""

    runtime: str
    format: str
    path: str
    native: str
    machine: str
    told: int
    opaque: int
    quarantined: int
    generation: int
    segments: list[str]
    standing: remote_copies.CopyProgress


class SentStretch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A stretch of a native file: its bytes, or the names of its parts."""

    upto: remote_copies.Count
    data: bytes = b""
    parts: list[str] = []
    settled: bool = False
