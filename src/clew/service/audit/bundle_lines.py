"""The lines of a bundle, as values."""

import msgspec

FORMAT = 1


class HeaderLine(msgspec.Struct, frozen=True):
    format: int


class CheckpointLine(msgspec.Struct, frozen=True):
    number: int
    size: int
    note: str
    signer: str


class LeafLine(msgspec.Struct, frozen=True):
    number: int
    session: str
    statement: str


class SessionLine(msgspec.Struct, frozen=True):
    id: str
    project: str | None
    opened_at: int
    control: bool
    parent: str | None
    upto: int
    head: int | None


class EventLine(msgspec.Struct, frozen=True):
    session: str
    seq: int
    position: int
    kind: str
    version: int
    at: int
    said_at: int | None
    actor: str
    source: str | None
    digest: str
    body: str | None = None
    hash: str | None = None
    seal: str | None = None
    lost: str = ""


class EndLine(msgspec.Struct, frozen=True):
    lines: int


class BundleLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of a bundle: exactly one of these fields is set."""

    bundle: HeaderLine | None = None
    checkpoint: CheckpointLine | None = None
    leaf: LeafLine | None = None
    session: SessionLine | None = None
    event: EventLine | None = None
    end: EndLine | None = None
