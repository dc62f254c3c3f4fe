"""Read a file of lines in chunks, cut where a line ends, and translate them: memory holds one chunk at a time."""

from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec

from clew.model.events import Draft
from clew.runtimes.contract import Format, Reading
from clew.runtimes.records import Translated, quarantine, read_lines
from clew.store.log.prepare import LARGEST_BYTES
from clew.store.native_files.native_file import END_BYTES, NativeFile, ends_digest_of

CHUNK_BYTES = 8 * 1024 * 1024


class Chunk(msgspec.Struct, frozen=True):
    """Some whole lines of a file, which begin at `start`; the last chunk may end inside a line."""

    start: int
    data: bytes
    is_last: bool


def read_chunk(file: BinaryIO, start: int, size: int) -> Chunk:
    """Read the next chunk. It is longer than CHUNK_BYTES only if its first line is."""
    wanted = CHUNK_BYTES
    while True:
        file.seek(start)
        data = file.read(min(wanted, size - start))
        if start + len(data) >= size or len(data) < min(wanted, size - start):
            return Chunk(start, data, True)
        if (line_end := data.rfind(b"\n")) >= 0:
            return Chunk(start, data[: line_end + 1], False)
        if wanted > LARGEST_BYTES:
            return Chunk(start, data, False)
        wanted *= 2


def resume_reading(runtime: str, format: Format, stored: NativeFile) -> Reading[Any]:
    """Continue with the reader's state at the end of the stored bytes."""
    return Reading(runtime, stored.native_id, msgspec.json.decode(stored.state, type=format.state))


def translate_chunk(
    format: Format,
    reading: Reading[Any],
    chunk: Chunk,
    *,
    generation: int = 0,
    stored_lines: frozenset[bytes] = frozenset(),
) -> Translated:
    """Translate the records of a chunk into drafts, without those of lines that are stored already."""
    translated = read_lines(format, reading, chunk.data, chunk.start, generation=generation, stored_lines=stored_lines)
    if not chunk.is_last and translated.end == chunk.start:
        # A single line is longer than the log accepts. The stored file keeps it, and an event says where it is.
        why = f"a line of more than {LARGEST_BYTES:,} bytes"
        translated.drafts.append(quarantine(chunk.data, chunk.start, why))
        translated.quarantined, translated.end = translated.quarantined + 1, chunk.start + len(chunk.data)
    return translated


def translate_rewritten(format: Format, native: str, data: bytes, generation: int) -> list[Draft]:
    """Every draft of a rewritten file, also those that are in the log already."""
    return read_lines(format, Reading("", native, format.state()), data, generation=generation).drafts


def translate_all(format: Format, runtime: str, native: str, file: BinaryIO, size: int) -> Iterator[Draft]:
    """Every draft of a file, read chunk by chunk."""
    reading, start, is_last = Reading(runtime, native, format.state()), 0, False
    while not is_last:
        chunk = read_chunk(file, start, size)
        translated = translate_chunk(format, reading, chunk)
        start, is_last = translated.end, chunk.is_last
        yield from translated.drafts


def hash_ends(file: BinaryIO, length: int, tail: bytes = b"") -> bytes:
    """The hash of both ends of the first `length` bytes. `tail` is the last of them that memory still holds."""
    if len(tail) >= length:
        return ends_digest_of(tail[:END_BYTES], tail[-END_BYTES:])
    file.seek(0)
    head = file.read(min(END_BYTES, length))
    if len(tail) >= END_BYTES:
        return ends_digest_of(head, tail[-END_BYTES:])
    file.seek(max(0, length - END_BYTES))
    return ends_digest_of(head, file.read(min(END_BYTES, length)))
