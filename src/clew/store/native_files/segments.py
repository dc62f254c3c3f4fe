"""Segments: the bytes of a native file in pieces, as it grew.

What a file says is in the events that were read from it, too. So a segment is packed with their bodies as its
dictionary, and takes about a third of the room that it would take alone. It lies in its row and needs those bodies to
be read: whatever removes them removes it in the same transaction. Where the events hold little of it (a document that
was written anew, of which only the end is news), it is a blob like any other, and shared like any other.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import zstandard

from clew.model.errors import Damaged
from clew.model.events import Opaque
from clew.store.database.contract import BODY, Row, Transaction
from clew.store.log.prepare import Prepared
from clew.store.objects import blobs as blob
from clew.store.objects import objects

if TYPE_CHECKING:
    from clew.store.native_files.native_files import Original
    from clew.store.store import Store

# A segment's bytes before packing: small enough to unpack without a thought.
SEGMENT_BYTES = 4 * 1024 * 1024
# Events that hold less than this part of the bytes are no help in packing them.
HELPFUL = 0.1

_BYTES = Opaque(kind="clew.segment", raw="{}")


class Segment(msgspec.Struct, frozen=True):
    """Some new bytes of a file: a blob made ready, or bytes that wait for the events to be packed with."""

    digest: bytes
    size: int
    blob: Prepared | None = None
    data: bytes = b""


def cut(data: bytes, drafts: Sequence[Prepared], store: "Store") -> list[Segment]:
    """New bytes of a file, from which these drafts were read, in pieces."""
    pieces = [data[at : at + SEGMENT_BYTES] for at in range(0, len(data), SEGMENT_BYTES)]
    held = sum(len(draft.text) for draft in drafts if draft.text is not None)
    if held >= HELPFUL * len(data):
        return [Segment(blob.address(piece), len(piece), data=piece) for piece in pieces]
    return [as_blob(piece, store) for piece in pieces]


def as_blob(data: bytes, store: "Store") -> Segment:
    """Bytes as a blob; a large one is durable before any row names it."""
    digest, packed = blob.address(data), blob.pack(data)
    store.blobs.make_durable(digest, packed)
    made = Prepared(_BYTES, None, b"", None, None, blob=digest, packed=packed, size=len(data))
    return Segment(digest, len(data), blob=made)


def rows_of(segments: Sequence[Segment], *, start: int, seq: int, events: Sequence[Row]) -> list[dict[str, object]]:
    """The values of each segment's row, the first of which begins at `start`. `events` are new, after `seq`."""
    rows: list[dict[str, object]] = []
    packer = None
    for one in segments:
        row: dict[str, object] = {"start": start, "length": one.size, "blob": one.digest}
        if one.blob is None:
            packer = packer or _packer([event[BODY] for event in events])
            row |= {"first": seq + 1, "last": seq + len(events), "data": packer.compress(one.data)}
        else:
            row |= {"first": None, "last": None, "data": None}
        rows.append(row)
        start += one.size
    return rows


def read(tx: Transaction, store: "Store", one: "Original", start: int) -> bytes:
    """The bytes of the segment that begins there, checked; none when it was removed meanwhile."""
    for row in tx.run("segment_read", original=one.key, generation=one.generation, start=start):
        length, digest, first, last, data = row
        if data is None:
            return objects.load_in(tx, store.blobs, bytes(digest))
        bodies = tx.run("bodies", project=one.project_key, session=one.session_key, first=first, last=last)
        unpacked = _unpacked(bytes(data), length, [body for (body,) in bodies])
        if unpacked is not None and blob.address(unpacked) == bytes(digest):
            return unpacked
        if not tx.run("segment_read", original=one.key, generation=one.generation, start=start):
            break  # The bodies went after the row was read, and the row with them.
        raise Damaged(
            f"bytes {start:,} to {start + length:,} of {one.path}, or the events {first} to {last} of session "
            f"{one.session} that were read from them, are damaged; run `clew verify {one.session}`",
            session=one.session,
        )
    return b""


def drop(tx: Transaction, original: int, *, before: int) -> list[bytes]:
    """Drop the segments of earlier generations; returns the blobs that they named, to be given back."""
    rows = tx.run("segments_drop", original=original, before=before)
    return sorted(bytes(digest) for digest, last in rows if last is None)


def _dictionary(texts: Sequence[str | None]) -> zstandard.ZstdCompressionDict | None:
    joined = "\n".join(text for text in texts if text is not None).encode()
    return zstandard.ZstdCompressionDict(joined, dict_type=zstandard.DICT_TYPE_RAWCONTENT) if joined else None


def _packer(texts: Sequence[str | None]) -> zstandard.ZstdCompressor:
    return zstandard.ZstdCompressor(level=blob.LEVEL, dict_data=_dictionary(texts))


def _unpacked(data: bytes, length: int, texts: Sequence[str | None]) -> bytes | None:
    """The bytes, if this is how they were packed."""
    try:
        # What a damaged size asks for is not made room for.
        if zstandard.frame_content_size(data) != length:
            return None
        return zstandard.ZstdDecompressor(dict_data=_dictionary(texts)).decompress(data)
    except zstandard.ZstdError:
        return None
