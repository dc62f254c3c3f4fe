"""Read the bytes of native files, each segment checked against its digest."""

from collections.abc import Iterator
from typing import NamedTuple

from clew.model.session import Session
from clew.store.native_files import segments
from clew.store.native_files.lookup import files_of
from clew.store.native_files.native_file import NativeFile
from clew.store.store import Store


def segment_digests(store: Store, file: NativeFile) -> list[tuple[int, int, bytes]]:
    """Where each segment of the stored bytes begins, its length, and its BLAKE3 digest."""
    with store.database.read() as tx:
        return segments.digests_in(tx, file)


def iterate_lines(store: Store, file: NativeFile) -> Iterator[bytes]:
    """The lines of a file as far as they were read, with one segment in memory at a time."""
    rest, left = b"", file.read_bytes
    for start, _, _ in segment_digests(store, file):
        with store.database.read() as tx:
            data = segments.read(tx, store, file, start)[: max(0, left - start)]
        *lines, rest = (rest + data).split(b"\n")
        yield from lines
    if rest:
        yield rest


def iterate_bytes(store: Store, file: NativeFile, *, first: int = 0) -> Iterator[bytes]:
    """The bytes of a file from `first` on, checked against their digests, with one segment in memory at a time."""
    for start, length, _ in segment_digests(store, file):
        if start + length > first:
            with store.database.read() as tx:
                data = segments.read(tx, store, file, start)
            yield data[max(0, first - start) :]


def load_bytes(store: Store, file: NativeFile, *, first: int = 0) -> bytes:
    """The bytes of a file from `first` on, checked against their digests."""
    return b"".join(iterate_bytes(store, file, first=first))


def is_complete(store: Store, file: NativeFile) -> bool:
    """Whether all bytes of a file are still stored; a retention policy removes them."""
    return sum(length for _, length, _ in segment_digests(store, file)) >= file.stored_bytes


class PartOfFile(NamedTuple):
    """A segment, and the bytes next to it."""

    before: bytes
    data: bytes
    after: bytes


def find_segment(store: Store, session: Session, digest: str, *, around: int = 0) -> PartOfFile | None:
    """The segment with this digest in one of a session's native files, with so many bytes of those next to it."""
    for file in files_of(store, session):
        digests = segment_digests(store, file)
        for number, (start, length, segment_digest) in enumerate(digests):
            if segment_digest.hex() == digest:
                with store.database.read() as tx:
                    data = segments.read(tx, store, file, start)
                    before = segments.read(tx, store, file, digests[number - 1][0]) if around and number else b""
                    has_next = around and number + 1 < len(digests)
                    after = segments.read(tx, store, file, start + length) if has_next else b""
                return PartOfFile(before[max(0, len(before) - around) :], data, after[:around])
    return None
