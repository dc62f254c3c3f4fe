"""Packs: the bytes of objects one after the other, in frames that are checked one by one.

    pack   = object*
    object = frame* end                  at a start and a length that the object's row names
    frame  = header, up to a megabyte of the object's bytes, compressed if that helps
    end    = header, the object's digest and size: the rows can be made again from the packs alone
    header = b"clew", kind, stored length, length, check (BLAKE3 of the header before it and of what follows it)

A pack is written once and never changed. It is a row of parts of equal size (pack_store.py), so a pack store takes
a pack of any length, and only one part is ever in memory. A reader gets no byte before the check of its frame, and not
the last one before the digest of the whole was compared.
"""

import os
import struct
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import zstandard
from blake3 import blake3

from clew.model.errors import Damaged, NotFound
from clew.store.database.contract import Transaction
from clew.store.objects.pack_store import PART_BYTES, PackStore, pack_prefix, part_key

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

LEVEL = 3
FRAME_BYTES = 1024 * 1024
MARK = b"clew"
RAW, ZSTD, END = 0, 1, 2
CHECK_BYTES = 16
_HEADER = struct.Struct(">4sBII")
_END = struct.Struct(">32sQ")
HEADER_BYTES = _HEADER.size + CHECK_BYTES
# A frame of fewer bytes is compressed without asking whether that helps.
SAMPLE_BYTES = 64 * 1024


class Span(NamedTuple):
    """Where the frames of an object are."""

    store_name: str
    pack: str
    start: int
    length: int


class Entry(NamedTuple):
    """An object that was found in a pack."""

    digest: bytes
    size: int
    start: int
    length: int


def address(data: bytes) -> bytes:
    """The name of these bytes."""
    return blake3(data).digest()


def compress(data: bytes) -> bytes:
    return zstandard.compress(data, LEVEL)


def decompress(digest: bytes, compressed: bytes) -> bytes:
    """The bytes of an object that was compressed as a whole, checked against its name."""
    try:
        data = zstandard.decompress(compressed)
    except zstandard.ZstdError as error:
        raise Damaged(f"object {digest.hex()} cannot be decompressed ({error}); restore it from a backup") from error
    if address(data) != digest:
        raise Damaged(f"object {digest.hex()} holds other bytes than its name says; restore it from a backup")
    return data


class Encoded(NamedTuple):
    """An object as its frames, which any thread can make and a writer adds to a pack."""

    digest: bytes
    size: int
    frames: bytes


class Encoder:
    """Makes frames. Each thread needs an encoder of its own."""

    def __init__(self, level: int = LEVEL) -> None:
        self._compressor = zstandard.ZstdCompressor(level=level)
        self._sampler = zstandard.ZstdCompressor(level=1)

    def encode(self, data: bytes, digest: bytes) -> Encoded:
        """The frames of an object that is in memory as a whole and has this digest."""
        frames = bytearray()
        for at in range(0, len(data), FRAME_BYTES):
            kind, stored, length = self.frame(data[at : at + FRAME_BYTES])
            frames += _headed(kind, stored, length) + stored
        end = _END.pack(digest, len(data))
        frames += _headed(END, end, _END.size) + end
        return Encoded(digest, len(data), bytes(frames))

    def frame(self, piece: bytes) -> tuple[int, bytes, int]:
        """The kind, the stored bytes and the length of a frame."""
        if len(piece) >= SAMPLE_BYTES:
            sample = piece[: SAMPLE_BYTES // 4]
            if len(self._sampler.compress(sample)) > 0.95 * len(sample):
                return RAW, piece, len(piece)
        compressed = self._compressor.compress(piece)
        if len(compressed) < len(piece):
            return ZSTD, compressed, len(piece)
        return RAW, piece, len(piece)


class PackWriter:
    """Writes a pack into a pack store. Its parts are durable once `finish` has returned; nothing names them before.

    While a part is written, the next one is gathered: a disk that syncs and a processor that hashes work side by side.
    """

    def __init__(self, pack_store: PackStore, tx: Transaction | None = None) -> None:
        self.name = os.urandom(16).hex()
        self.length = 0
        self._pack_store = pack_store
        self._tx = tx
        self._buffer = bytearray()
        self._parts = 0
        self._writing: Future[None] | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._encoder = Encoder()

    def add(self, pieces: Iterable[bytes]) -> tuple[bytes, int, Span]:
        """Add an object; returns its digest, its size and where it is."""
        start, size, hash = self.length, 0, blake3()
        for piece in pieces:
            hash.update(piece)
            size += len(piece)
            for at in range(0, len(piece), FRAME_BYTES):
                self._add(*self._encoder.frame(piece[at : at + FRAME_BYTES]))
        digest = hash.digest()
        self._add(END, _END.pack(digest, size), _END.size)
        return digest, size, Span(self._pack_store.name, self.name, start, self.length - start)

    def add_encoded(self, encoded: Encoded) -> Span:
        """Add an object whose frames were made before."""
        start = self.length
        self._put(encoded.frames)
        return Span(self._pack_store.name, self.name, start, self.length - start)

    def copy(self, frames: Iterable[bytes]) -> Span:
        """Add the frames of an object of another pack as they are."""
        start = self.length
        for piece in frames:
            self._put(piece)
        return Span(self._pack_store.name, self.name, start, self.length - start)

    def finish(self) -> None:
        """Write what is left."""
        self._wait()
        if self._buffer:
            self._write_part(bytes(self._buffer))
            self._buffer.clear()
        self._end_thread()

    def discard(self) -> None:
        """Delete what was written: nothing names it and nothing will."""
        self._end_thread()
        self._pack_store.remove([part_key(self.name, number) for number in range(self._parts)])

    def _add(self, kind: int, stored: bytes, length: int) -> None:
        self._put(_headed(kind, stored, length))
        self._put(stored)

    def _put(self, data: bytes) -> None:
        self._buffer += data
        self.length += len(data)
        while len(self._buffer) >= PART_BYTES:
            part = bytes(memoryview(self._buffer)[:PART_BYTES])
            del self._buffer[:PART_BYTES]
            if self._tx is not None:
                self._write_part(part)  # A transaction belongs to its thread.
                continue
            self._wait()
            if self._thread is None:
                from concurrent.futures import ThreadPoolExecutor  # A small pack needs no thread.

                self._thread = ThreadPoolExecutor(1, thread_name_prefix="clew-pack")
            self._writing = self._thread.submit(self._write_part, part)

    def _write_part(self, data: bytes) -> None:
        self._parts += 1
        self._pack_store.write(part_key(self.name, self._parts - 1), data, self._tx)

    def _wait(self) -> None:
        """Wait for the part that is being written; raises what kept it from being so."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def _end_thread(self) -> None:
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None


def read(pack_store: PackStore, digest: bytes, span: Span) -> Iterator[bytes]:
    """The bytes of an object, piece by piece, each checked. `NotFound` if its pack is gone."""
    hash, size, held = blake3(), 0, b""
    for kind, stored, length in _frames(pack_store, span):
        # A reader who knows the size reads no further than the last piece, so it has to come after the check of all.
        if kind == END:
            if hash.digest() != digest or _END.unpack(stored) != (digest, size):
                raise _damaged(span, "holds another object")
            if held:
                yield held
            return
        if held:
            yield held
        held = _piece(span, kind, stored, length)
        hash.update(held)
        size += len(held)
    raise _damaged(span, "ends too early")


def decode(data: bytes, digest: bytes, span: Span) -> bytes:
    """The bytes of an object from its span, which is in memory; checked."""
    hash, size, at = blake3(), 0, 0
    pieces: list[bytes] = []
    while at < len(data):
        begin = at + HEADER_BYTES
        if begin > len(data):
            break
        mark, kind, stored_length, length = _HEADER.unpack_from(data, at)
        if mark != MARK or kind > END or max(stored_length, length) > FRAME_BYTES:
            raise _damaged(span, "has a damaged frame")
        stored = data[begin : begin + stored_length]
        if _check(data[at : at + _HEADER.size], stored) != data[at + _HEADER.size : begin]:
            raise _damaged(span, "has a damaged frame")
        at = begin + stored_length
        if kind == END:
            if at != len(data) or stored != _END.pack(digest, size) or hash.digest() != digest:
                raise _damaged(span, "holds another object")
            return b"".join(pieces)
        pieces.append(_piece(span, kind, stored, length))
        hash.update(pieces[-1])
        size += length
    raise _damaged(span, "ends too early")


def raw_frames(pack_store: PackStore, span: Span) -> Iterator[bytes]:
    """The frames of an object as they are, for another pack; they are checked when the object is read."""
    length = 0
    for data in _ranges(pack_store, span):
        length += len(data)
        yield data
    if length != span.length:
        raise _damaged(span, "ends too early")


def scan(pack_store: PackStore, pack: str) -> Iterator[Entry]:
    """Every object in a pack, checked: what the rows about it say can be made again from this."""
    start, at, hash, size = 0, 0, blake3(), 0
    whole = Span(pack_store.name, pack, 0, _pack_length(pack_store, pack))
    for kind, stored, length in _frames(pack_store, whole):
        at += HEADER_BYTES + len(stored)
        if kind != END:
            piece = _piece(whole, kind, stored, length)
            hash.update(piece)
            size += len(piece)
            continue
        digest, said = _END.unpack(stored)
        if (hash.digest(), size) != (digest, said):
            raise _damaged(whole, f"holds a damaged object at {start:,}")
        yield Entry(digest, size, start, at - start)
        start, hash, size = at, blake3(), 0


def _pack_length(pack_store: PackStore, pack: str) -> int:
    parts = len(list(pack_store.list(pack_prefix(pack))))
    if not parts:
        raise NotFound(f"no pack {pack} in {pack_store.describe()}")
    last = parts - 1
    return last * PART_BYTES + len(pack_store.read(part_key(pack, last), 0, PART_BYTES))


def _frames(pack_store: PackStore, span: Span) -> Iterator[tuple[int, bytes, int]]:
    """The kind, the stored bytes and the length of each frame of a span, once its check holds."""
    source = _Source(_ranges(pack_store, span), span)
    left = span.length
    while left > 0:
        header = source.take(HEADER_BYTES)
        mark, kind, stored_length, length = _HEADER.unpack_from(header)
        # A damaged length must not make the reader collect the rest of the pack.
        if mark != MARK or kind > END or max(stored_length, length) > FRAME_BYTES:
            raise _damaged(span, "has a damaged frame")
        stored = source.take(stored_length)
        if _check(header[: _HEADER.size], stored) != header[_HEADER.size :] or (
            kind == END and stored_length != _END.size
        ):
            raise _damaged(span, "has a damaged frame")
        left -= HEADER_BYTES + stored_length
        yield kind, stored, length


class _Source:
    """Ranges of bytes that are taken in other sizes; each byte is copied once, twice where a range ends."""

    def __init__(self, ranges: Iterator[bytes], span: Span) -> None:
        self._ranges = ranges
        self._span = span
        self._range = memoryview(b"")

    def take(self, length: int) -> bytes:
        """So many bytes; `Damaged` if there are fewer."""
        taken = bytes(self._range[:length])
        self._range = self._range[length:]
        while len(taken) < length:
            data = next(self._ranges, b"")
            if not data:
                raise _damaged(self._span, "ends too early")
            self._range = memoryview(data)[length - len(taken) :]
            taken += data[: length - len(taken)]
        return taken


def _ranges(pack_store: PackStore, span: Span) -> Iterator[bytes]:
    """The bytes of a span, at most a part of them at a time."""
    at, end = span.start, span.start + span.length
    while at < end:
        number, offset = divmod(at, PART_BYTES)
        data = pack_store.read(part_key(span.pack, number), offset, min(PART_BYTES - offset, end - at))
        if not data:
            return
        at += len(data)
        yield data


def _piece(span: Span, kind: int, stored: bytes, length: int) -> bytes:
    if kind == RAW:
        return stored
    try:
        # A damaged size must not make the decompressor allocate memory.
        if zstandard.frame_content_size(stored) == length:
            return _decompressor().decompress(stored)
    except zstandard.ZstdError:
        pass
    raise _damaged(span, "has a frame that cannot be decompressed")


_own = threading.local()


def _decompressor() -> zstandard.ZstdDecompressor:
    """The one of this thread: making one takes as long as a small frame."""
    decompressor: zstandard.ZstdDecompressor | None = getattr(_own, "decompressor", None)
    if decompressor is None:
        decompressor = _own.decompressor = zstandard.ZstdDecompressor()
    return decompressor


def _headed(kind: int, stored: bytes, length: int) -> bytes:
    """The header of a frame."""
    header = _HEADER.pack(MARK, kind, len(stored), length)
    return header + _check(header, stored)


def _check(header: bytes, stored: bytes) -> bytes:
    hash = blake3(header)
    hash.update(stored)
    return hash.digest(CHECK_BYTES)


def _damaged(span: Span, what: str) -> Damaged:
    return Damaged(
        f"pack {span.pack} {what} between {span.start:,} and {span.start + span.length:,}; restore it from a backup",
        pack=span.pack,
    )
