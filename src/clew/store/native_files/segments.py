"""Segments: the bytes of a native file in pieces, as it grew.

The events that were read from a segment hold most of its text, too. So a segment is compressed with their bodies as its
dictionary, and takes about a third of the space that it takes alone. It is stored in its row and can only be read with
those bodies: a transaction that removes them removes the segment. Where the events hold little of its text (a document
that was rewritten, of which only the end is new), the segment is stored as a shared object instead.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import zstandard

from clew.model.errors import Damaged
from clew.model.events import Opaque
from clew.store.database.contract import BODY, Row, Transaction
from clew.store.log.prepare import Prepared
from clew.store.objects import objects
from clew.store.objects.pack import LEVEL, address

if TYPE_CHECKING:
    from clew.store.native_files.native_file import NativeFile
    from clew.store.store import Store

# The largest segment before compression: small enough to decompress in memory.
SEGMENT_BYTES = 4 * 1024 * 1024
# Events that hold a smaller part of the bytes than this do not help to compress them.
HELPFUL = 0.1

_BYTES = Opaque(kind="clew.segment", raw="{}")


class Segment(msgspec.Struct, frozen=True):
    """New bytes of a file: a prepared object, or bytes to be compressed with the bodies of their events."""

    digest: bytes
    size: int
    blob: Prepared | None = None
    data: bytes = b""


def cut(data: bytes, drafts: Sequence[Prepared], store: "Store") -> list[Segment]:
    """Cut new bytes of a file, from which these drafts were read, into segments."""
    pieces = [data[at : at + SEGMENT_BYTES] for at in range(0, len(data), SEGMENT_BYTES)]
    held = sum(len(draft.text) for draft in drafts if draft.text is not None)
    if held >= HELPFUL * len(data):
        return [Segment(address(piece), len(piece), data=piece) for piece in pieces]
    return [as_blob(piece, store) for piece in pieces]


def as_blob(data: bytes, store: "Store") -> Segment:
    """Prepare bytes as a shared object; a large one is durable before any row names it."""
    stored = objects.store_bytes(store.pack_stores, data)
    made = Prepared(_BYTES, None, b"", None, None, blob=stored.digest, stored=stored)
    return Segment(stored.digest, len(data), blob=made)


def rows_of(segments: Sequence[Segment], *, start: int, seq: int, events: Sequence[Row]) -> list[dict[str, object]]:
    """The values of each segment's row, the first of which begins at `start`. `events` are new, after `seq`."""
    rows: list[dict[str, object]] = []
    packer = None
    for segment in segments:
        row: dict[str, object] = {"start": start, "length": segment.size, "blob": segment.digest}
        if segment.blob is None:
            packer = packer or _packer([event[BODY] for event in events])
            row |= {"first": seq + 1, "last": seq + len(events), "data": packer.compress(segment.data)}
        else:
            row |= {"first": None, "last": None, "data": None}
        rows.append(row)
        start += segment.size
    return rows


def read(tx: Transaction, store: "Store", file: "NativeFile", start: int) -> bytes:
    """The bytes of the segment that begins at `start`, checked; none if another process removed it meanwhile."""
    for row in tx.run("segment_read", original=file.key, generation=file.generation, start=start):
        length, digest, first, last, data = row
        if data is None:
            return objects.load(store, bytes(digest).hex())
        bodies = tx.run("bodies", project=file.project_key, session=file.session_key, first=first, last=last)
        unpacked = _unpacked(bytes(data), length, [body for (body,) in bodies])
        if unpacked is not None and address(unpacked) == bytes(digest):
            return unpacked
        if not tx.run("segment_read", original=file.key, generation=file.generation, start=start):
            break  # The bodies were removed after the row was read, and the row with them.
        raise Damaged(
            f"bytes {start:,} to {start + length:,} of {file.path}, or the events {first} to {last} of session "
            f"{file.session} that were read from them, are damaged",
            session=file.session,
        )
    return b""


def digests_in(tx: Transaction, file: "NativeFile") -> list[tuple[int, int, bytes]]:
    """Where each segment of a file begins, its length, and its digest."""
    rows = tx.run("segments", original=file.key, generation=file.generation)
    return [(start, length, bytes(digest)) for start, length, digest in rows]


def drop(tx: Transaction, original: int, *, before: int) -> list[bytes]:
    """Drop the segments of earlier generations; returns the blobs whose references the caller has to drop."""
    rows = tx.run("segments_drop", original=original, before=before)
    return sorted(bytes(digest) for digest, last in rows if last is None)


def _dictionary(texts: Sequence[str | None]) -> zstandard.ZstdCompressionDict | None:
    joined = "\n".join(text for text in texts if text is not None).encode()
    return zstandard.ZstdCompressionDict(joined, dict_type=zstandard.DICT_TYPE_RAWCONTENT) if joined else None


def _packer(texts: Sequence[str | None]) -> zstandard.ZstdCompressor:
    return zstandard.ZstdCompressor(level=LEVEL, dict_data=_dictionary(texts))


def _unpacked(data: bytes, length: int, texts: Sequence[str | None]) -> bytes | None:
    """The decompressed bytes; None if they were not compressed with these texts."""
    try:
        # A damaged size must not make the decompressor allocate memory.
        if zstandard.frame_content_size(data) != length:
            return None
        return zstandard.ZstdDecompressor(dict_data=_dictionary(texts)).decompress(data)
    except zstandard.ZstdError:
        return None
