"""From bytes to records to drafts: half-written lines, damaged lines and documents, once for every adapter.

A file of lines is read from where the last reading ended. A last line without its end is a record if it is whole, and
is left for next time if it is not. A damaged line is searched for whole records at its end (a torn write followed by a
good one) and for whole records side by side (a lost line break); the rest is quarantined: an event says where in the
original those bytes are and what they look like.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from blake3 import blake3
from msgspec import Raw

from clew.model import codec
from clew.model.conversation import REVISION
from clew.model.errors import InvalidInput
from clew.model.events import Draft, Opaque
from clew.runtimes.contract import Format, Reading, Record

QUARANTINED = "clew.quarantined"
# How much of a damaged piece is shown in its event; all of it is in the original.
SHOWN_BYTES = 16 * 1024
# How many places in a damaged line are tried; a hostile line must not cost more than its length deserves.
TRIES = 100
DAMAGE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
SHAPE_ERRORS = (InvalidInput, msgspec.ValidationError, ValueError, TypeError, LookupError, AttributeError)


class Translated(msgspec.Struct, kw_only=True):
    """What a stretch of bytes became. `end` is where the next reading begins; `torn` bytes lie behind it."""

    drafts: list[Draft] = []
    told: int = 0
    opaque: int = 0
    quarantined: int = 0
    end: int = 0
    torn: int = 0

    @property
    def records(self) -> int:
        return self.told + self.opaque + self.quarantined


def read_lines(
    format: Format,
    reading: Reading[Any],
    data: bytes,
    start: int = 0,
    *,
    generation: int = 0,
    there: frozenset[bytes] = frozenset(),
) -> Translated:
    """Read the lines of `data`, which lies at `start` in its file.

    A file that was rewritten is another `generation`; the lines that are `there` already are read, because a reader
    remembers, and counted, but give no drafts.
    """
    done = Translated(end=start)
    mark = f"{generation}@" if generation else "@"
    at = 0
    while at < len(data):
        stop = data.find(b"\n", at)
        whole = stop >= 0
        line = data[at:stop] if whole else data[at:]
        drafts = len(done.drafts)
        if line.strip() and not _take(format, reading, line, start + at, done, mark, whole=whole):
            done.torn = len(line)
            break
        if there and line in there:
            del done.drafts[drafts:]
        at = stop + 1 if whole else len(data)
        done.end = start + at
    return done


def read_records(format: Format, reading: Reading[Any], records: Iterable[Record]) -> Translated:
    """Read the records of a document or a database; they are whole by nature."""
    done = Translated()
    for key, record in records:
        try:
            drafts = _drafts(format, reading, _without_halves(record), key)
        except DAMAGE as error:
            done.drafts.append(quarantine(record, 0, str(error), f"{key}@"))
            done.quarantined += 1
        else:
            _count(done, drafts)
    return done


def _take(
    format: Format, reading: Reading[Any], line: bytes, at: int, done: Translated, mark: str, *, whole: bool
) -> bool:
    """Read one line; False if it is not whole yet."""
    try:
        drafts = _drafts(format, reading, line, f"{mark}{at}")
    except DAMAGE as error:
        if not whole:
            return False
        for offset, piece, good in _pieces(line):
            drafts = _salvaged(format, reading, piece, f"{mark}{at + offset}") if good else []
            if drafts:
                _count(done, drafts)
            elif piece.strip(b"\0 \t\r"):
                done.drafts.append(quarantine(piece, at + offset, str(error), mark))
                done.quarantined += 1
        return True
    _count(done, drafts)
    return True


def _salvaged(format: Format, reading: Reading[Any], piece: bytes, key: str) -> list[Draft]:
    """The drafts of a piece of a damaged line; none if it cannot be read after all."""
    try:
        return _drafts(format, reading, _without_halves(piece), key)
    except DAMAGE:
        return []


def _without_halves(piece: bytes) -> bytes:
    """JSON with every half of a surrogate pair replaced: programs leave them where they cut a text inside an emoji."""
    high = False
    parts, at = [], 0
    for match in _ESCAPE.finditer(piece):
        code = int(match[1], 16) if match[1] else 0
        low_follows = _LOW.match(piece, match.end()) is not None
        if (0xD800 <= code < 0xDC00 and not low_follows) or (0xDC00 <= code < 0xE000 and not high):
            parts += [piece[at : match.start()], b"\\ufffd"]
            at = match.end()
        high = 0xD800 <= code < 0xDC00 and low_follows
    return b"".join([*parts, piece[at:]]) if parts else piece


_ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
_LOW = re.compile(rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}")


def _drafts(format: Format, reading: Reading[Any], record: bytes, key: str) -> list[Draft]:
    """The drafts of one record; DecodeError, UnicodeDecodeError or RecursionError if it is not JSON at all."""
    try:
        drafts = format.read(record, key, reading)
    except SHAPE_ERRORS as error:
        # The whole is JSON, or this raises: then it is damaged and not merely unexpected.
        msgspec.json.decode(record, type=Raw)
        text = record.decode()
        _refuse_depth(text)
        drafts = [Draft(body=Opaque(kind=f"{reading.runtime}.unreadable", raw=text), source=key)]
        if isinstance(error, msgspec.DecodeError) and not isinstance(error, msgspec.ValidationError):
            raise
    return [_revision(draft) for draft in drafts] if format.mutable or format.split or format.rows else drafts


def _refuse_depth(text: str) -> None:
    """What nests so deeply that nobody can read it back is damage."""
    msgspec.json.decode(text)


def _count(done: Translated, drafts: list[Draft]) -> None:
    done.drafts += drafts
    if all(isinstance(draft.body, Opaque) for draft in drafts):
        done.opaque += 1
    else:
        done.told += 1


def _revision(draft: Draft) -> Draft:
    """A draft of a record that may be written again: its source names the content, too."""
    mark = _content(draft)
    return msgspec.structs.replace(draft, source=f"{draft.source}{REVISION}{mark}")


def _content(draft: Draft) -> str:
    """A short name for a draft's content."""
    return blake3(codec.encode(draft.body)).hexdigest()[:12]


def quarantine(piece: bytes, at: int, why: str, mark: str = "@") -> Draft:
    """The event that stands for bytes nobody can read."""
    shown = piece[:SHOWN_BYTES].decode("utf-8", "replace")
    raw = msgspec.json.encode({"offset": at, "length": len(piece), "why": why, "text": shown}).decode()
    return Draft(body=Opaque(kind=QUARANTINED, raw=raw), source=f"{mark}{at}")


def _pieces(line: bytes) -> Iterator[tuple[int, bytes, bool]]:
    """A damaged line as pieces: where each is, its bytes, and whether it is a whole JSON object."""
    for start in _candidates(line):
        good = _objects(line, start)
        if good is not None:
            if start:
                yield 0, line[:start], False
            yield from ((first, line[first:last], True) for first, last in good)
            return
    yield 0, line, False


def _candidates(line: bytes) -> Iterator[int]:
    """Where a whole record could begin."""
    at = line.find(b"{")
    for _ in range(TRIES):
        if at < 0:
            return
        yield at
        at = line.find(b'{"', at + 1)


def _objects(line: bytes, start: int) -> list[tuple[int, int]] | None:
    """Where the objects from `start` to the end of the line begin and end; None if there is anything else."""
    try:
        text = line[start:].decode()
        decoder = json.JSONDecoder()
        found, at = [], 0
        while at < len(text):
            value, stop = decoder.raw_decode(text, at)
            if not isinstance(value, dict):
                return None
            found.append((at, stop))
            at = stop + len(text[stop:]) - len(text[stop:].lstrip("\0 \t\r"))
    except (ValueError, RecursionError):
        return None
    if len(text) == len(line) - start:
        return [(start + first, start + last) for first, last in found]
    # Characters are not bytes: count again.
    return [(start + len(text[:first].encode()), start + len(text[:last].encode())) for first, last in found]
