"""The values that two stores exchange about a session: its head, events, blobs and native files."""

from typing import Annotated

import msgspec

from clew.model.events import (
    BudgetSet,
    PrivacySet,
    SessionArchived,
    SessionClosed,
    SessionPaused,
    SessionResumed,
    SessionStarred,
    SessionUnstarred,
)
from clew.store.native_files import remote_copies

# Reserved kinds that another store may send; the others are sent as placeholders.
LIFE = (
    SessionPaused, SessionResumed, SessionClosed, SessionArchived, PrivacySet, BudgetSet, SessionStarred,
    SessionUnstarred,
)  # fmt: skip
# The size of one answer, and of one piece of a blob.
PAGE_BYTES = 4 * 1024 * 1024

Source = Annotated[str, msgspec.Meta(max_length=1000)]
Digest = Annotated[str, msgspec.Meta(max_length=64, description="64 hexadecimal digits.")]


class StoreStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The id of a store, its last position, and the heads of the requested sessions that the caller may see."""

    store: str
    position: int
    sessions: dict[str, int]


class SessionCopy(msgspec.Struct, frozen=True, kw_only=True):
    """The receiving store's copy of a session: its head, and whether it is a fork there."""

    id: str
    head: int
    parent: str | None = None


class Sent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event in transit. `body` is its JSON text; a large body is sent before, in the parts named by `parts`."""

    kind: str
    source: str
    body: str = ""
    parts: list[str] = []
    version: Annotated[int, msgspec.Meta(ge=1, le=2**31)] = 1
    said_at: int | None = None
    actor: str = ""
    seq: int = 0


class Parcel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session in transit: its description and some of its events. `next` is the cursor of the next page."""

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
    """The name of a stored part, for the request that uses it."""

    part: str


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """How many objects of a snapshot were kept."""

    objects: int


class Wanted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An object of a snapshot; of a piece of a large file also the object that lists the pieces."""

    digest: Digest
    of: Digest = ""


class TreeObjects(msgspec.Struct, frozen=True, kw_only=True):
    """Objects of a snapshot, packed like a piece: the first of those that were asked for, at least one.

    A tree is `changed` when entries with secrets were left out; a file that holds a secret, or is lost, is `held`.
    """

    packed: str
    changed: list[str] = []
    held: list[str] = []


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of a blob, compressed with zstd and in hexadecimal, so that masking does not change them again."""

    packed: str
    size: int
    next: int | None = None
    masked: dict[str, int] = {}


class NativeFile(msgspec.Struct, frozen=True, kw_only=True):
    """A native file of a session, and the digests of its bytes."""

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
