"""A file of lines in windows: as much at a time as memory allows, cut where a line ends."""

from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec

from clew.model.events import Draft
from clew.runtimes.contract import Format, Reading
from clew.runtimes.records import Translated, quarantine, read_lines
from clew.store.log.prepare import LARGEST_BYTES
from clew.store.native_files.native_files import EDGE_BYTES, Original, edges_of

WINDOW_BYTES = 8 * 1024 * 1024


def reading_of(runtime: str, format: Format, before: Original | None, *, fresh: bool) -> Reading[Any]:
    if before is None or fresh:
        return Reading(runtime, before.native if before else "", format.state())
    return Reading(runtime, before.native, msgspec.json.decode(before.state, type=format.state))


def read_window(
    format: Format, reading: Reading[Any], data: bytes, at: int, generation: int, there: frozenset[bytes], last: bool
) -> Translated:
    done = read_lines(format, reading, data, at, generation=generation, there=there)
    if not last and done.end == at:
        # One line longer than anything the log takes: it is in the original, and an event says where.
        done.drafts.append(quarantine(data, at, f"a line of more than {LARGEST_BYTES:,} bytes"))
        done.quarantined, done.end = done.quarantined + 1, at + len(data)
    return done


def read_again(format: Format, native: str, data: bytes, generation: int) -> list[Draft]:
    """Every draft of a file that was rewritten, those that are in the log already among them."""
    return read_lines(format, Reading("", native, format.state()), data, generation=generation).drafts


def all_drafts(format: Format, native: str, runtime: str, file: BinaryIO, size: int) -> Iterator[Draft]:
    """Every draft of a file, a window at a time."""
    reading, at, last = Reading(runtime, native, format.state()), 0, False
    while not last:
        data, last = window(file, at, size)
        done = read_window(format, reading, data, at, 0, frozenset(), last)
        at = done.end
        yield from done.drafts


def window(file: BinaryIO, at: int, size: int) -> tuple[bytes, bool]:
    """The next bytes up to a line's end, and whether they are the last; longer only when one line is."""
    wanted = WINDOW_BYTES
    while True:
        file.seek(at)
        data = file.read(min(wanted, size - at))
        if at + len(data) >= size or len(data) < min(wanted, size - at):
            return data, True
        if (end := data.rfind(b"\n")) >= 0:
            return data[: end + 1], False
        if wanted > LARGEST_BYTES:
            return data, False
        wanted *= 2


def edges_at(file: BinaryIO, kept: int, data: bytes = b"") -> bytes:
    """What the two ends of the first bytes of a file look like; the last of them are `data`, if that is long enough."""
    if len(data) >= kept:
        return edges_of(data[:EDGE_BYTES], data[-EDGE_BYTES:])
    file.seek(0)
    first = file.read(min(EDGE_BYTES, kept))
    if len(data) >= EDGE_BYTES:
        return edges_of(first, data[-EDGE_BYTES:])
    file.seek(max(0, kept - EDGE_BYTES))
    return edges_of(first, file.read(min(EDGE_BYTES, kept)))
