"""What is in a bundle besides bytes: the first member, a session, its events, a native file, a proof.

clew-bundle.json                           BundleHeader, the first member
objects/DIGEST.names                       before a manifest: the digests that it names, one in a line
objects/DIGEST                             the bytes of an object
sessions/ID/session.json                   BundledSession; its new objects come before it, what it was forked from too
sessions/ID/proof.json                     BundledProof, when a checkpoint holds the session
sessions/ID/events-000001.jsonl            BundledEvent in each line
sessions/ID/native/1.json                  BundledFile
sessions/ID/native/1.data                  its bytes
SHA256SUMS                                 the last member: the SHA-256 of each member before it, in order
"""

import re
from typing import Annotated

import msgspec

FORMAT = 1
HEADER, SUMS = "clew-bundle.json", "SHA256SUMS"
SUFFIX = ".clew.tar.zst"
# What is read whole: a member of JSON, a member of events, and the list of what a manifest names.
JSON_BYTES = 4 * 1024 * 1024
EVENTS_BYTES = 256 * 1024 * 1024
NAMES_BYTES = 65 * 4_000_000

OBJECT = re.compile(r"objects/([0-9a-f]{64})(\.names)?")
OF_SESSION = re.compile(
    r"sessions/([0-9a-z]{20})/(session\.json|proof\.json|events-[0-9]{6}\.jsonl|native/[0-9]{1,6}\.(?:json|data))"
)

Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Time = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]
Name = Annotated[str, msgspec.Meta(max_length=1000)]


class BundleHeader(msgspec.Struct, frozen=True, kw_only=True):
    """Which clew wrote the bundle, of which store, when."""

    clew_bundle: Count
    version: Name
    store: Name
    made_at: Time
    sessions: Count


class BundledSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session. `first` to `last` are the events that are in the bundle; `head` is where the session stood."""

    id: Name
    project: Name
    agent: Name
    title: str
    metadata: str
    owner: Name
    private: bool
    parent: Name
    """The session that wrote the event it was forked at."""
    upto: Count
    """The last event that it shares with its parent."""
    last: Count
    head: Count
    forked_at: list[Count]
    """The events at which other sessions of the bundle were forked."""


class BundledEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event as it is in the log: `body` is its JSON text; `seal` is what a removed body leaves behind."""

    seq: Count
    kind: Name
    version: Annotated[int, msgspec.Meta(ge=1, le=2**31)]
    at: Time
    said_at: Time | None = None
    actor: Name
    source: Name | None = None
    digest: Annotated[str, msgspec.Meta(max_length=64)]
    body: str | None = None
    seal: Annotated[str, msgspec.Meta(max_length=128)] = ""


class BundledFile(msgspec.Struct, frozen=True, kw_only=True):
    """A native file: which program has it where, and the BLAKE3 digest of its bytes."""

    runtime: Name
    format: Name
    path: Annotated[str, msgspec.Meta(max_length=4000)]
    native: Name
    machine: Name
    translated: Count
    opaque: Count
    quarantined: Count
    generation: Count
    bytes: Count
    digest: Annotated[str, msgspec.Meta(max_length=64)]


class BundledProof(msgspec.Struct, frozen=True, kw_only=True):
    """A signed checkpoint, and the hashes from where the session stood to the root that was signed."""

    checkpoint: str
    signer: str
    size: Count
    index: Count
    statement: str
    hashes: Annotated[list[str], msgspec.Meta(max_length=64)]
