"""Values: a native file as it is stored, and an update of it. updates.py maps the fields to columns."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from blake3 import blake3

from clew.model.errors import InvalidInput
from clew.model.events import Draft
from clew.model.session import Session
from clew.model.source import REVISION
from clew.store.database.contract import Row
from clew.store.log.opening import Forking, Opening
from clew.store.log.prepare import check_source

# How many bytes of each end of a file are hashed, to see that it has only grown.
END_BYTES = 4096
# A longer source is replaced by its hash: PostgreSQL's index has a limit in bytes.
LONGEST_SOURCE = 250


class NativeFile(msgspec.Struct, frozen=True):
    """A native file as it was last captured. `stored_bytes` are in segments; `read_bytes` of them were read as records.

    `translated`, `opaque` and `quarantined` count its records by what became of them. `root` is the source of its first
    record. `written` names the records that clew itself wrote into it, as a JSON list of sources: they are the
    ancestor's history and never become events of this session. The order of the fields is that of the columns in
    statements/native_files.sql.
    """

    key: int
    file_id: bytes
    project_key: int
    session_key: int
    machine: str
    runtime: str
    format: str
    path: str
    native_id: str
    fingerprint: str
    generation: int
    stored_bytes: int
    read_bytes: int
    ends_digest: bytes
    state: str
    translated: int
    opaque: int
    quarantined: int
    root: str
    written: str
    session: str

    @property
    def erased(self) -> bool:
        return not self.path

    @property
    def records(self) -> int:
        return self.translated + self.opaque + self.quarantined


class KnownFile(msgspec.Struct, frozen=True):
    """The fingerprint that shows whether a file changed since its capture, and what the capture reported."""

    key: int
    fingerprint: str
    translated: int
    opaque: int
    quarantined: int
    session: str


class FileUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """New bytes of a native file, and the drafts that were read from them. The counts are those of the whole file."""

    file_id: bytes
    machine: str
    runtime: str
    format: str
    path: str
    native_id: str
    fingerprint: str
    before: NativeFile | None
    into: Session | Opening | Forking
    drafts: Sequence[Draft]
    data: bytes
    start: int
    generation: int
    read_bytes: int
    ends_digest: bytes
    state: str
    translated: int
    opaque: int
    quarantined: int
    root: str = ""
    written: str = ""
    only_latest: bool = False


def file_id_of(machine: str, runtime: str, path: str) -> bytes:
    """The permanent identity of a native file."""
    return blake3(f"{machine}\0{runtime}\0{path}".encode("utf-8", "surrogateescape")).digest()


def fork_copy_id(machine: str, runtime: str, key: int) -> bytes:
    """The file id of the copy that an archived session's fork has of the file with this key.

    It follows from the key, because the file itself may move.
    """
    return file_id_of(machine, runtime, f"#{key}")


def last_known_copy(known: dict[bytes, KnownFile], stored: KnownFile, machine: str, runtime: str) -> KnownFile:
    """The copy of a stored file that grows now, from what the store knows of all files."""
    while fork_copy := known.get(fork_copy_id(machine, runtime, stored.key)):
        stored = fork_copy
    return stored


def ends_digest_of(first: bytes, last: bytes) -> bytes:
    """The digest of the two ends of the stored bytes."""
    return blake3(first[:END_BYTES] + last[-END_BYTES:]).digest()


def file_from(row: Row) -> NativeFile:
    values: list[Any] = list(row)
    # A driver may return a buffer for file_id and ends_digest.
    values[1], values[13] = bytes(values[1]), bytes(values[13])
    return NativeFile(*values)


def short_source(source: str | None) -> str | None:
    """A source that both databases can store. The revision in it is preserved."""
    if not source:
        return None
    try:
        if len(source) <= LONGEST_SOURCE:
            check_source(source)
            return source
    except InvalidInput:
        pass
    name, mark, revision = source.partition(REVISION)
    if not name or not _OWN_REVISION.fullmatch(revision):
        name, mark, revision = source, "", ""
    return f"hash:{blake3(name.encode('utf-8', 'replace')).hexdigest()[:32]}{mark}{revision}"


_OWN_REVISION = re.compile(r"[0-9a-f.]{1,40}")
