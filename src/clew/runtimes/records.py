"""From bytes to records to drafts: half-written lines, damaged lines and documents, once for every adapter.

A file of lines is read from where the last reading ended. A last line without its end is a record if it is whole, and
is left for next time if it is not. A damaged line is searched for whole records at its end (a torn write followed by a
good one) and for whole records side by side (a lost line break); the rest is quarantined: an event says where in the
original those bytes are and what they look like.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from blake3 import blake3
from msgspec import Raw

from clew.model import codec
from clew.model.conversation import REVISION
from clew.model.depth import refuse_depth
from clew.model.errors import InvalidInput
from clew.model.events import Draft, Opaque
from clew.runtimes.contract import Format, Reading, Record

QUARANTINED = "clew.quarantined"
# How much of a damaged piece is shown in its event; all of it is in the original.
SHOWN_BYTES = 16 * 1024
# How many places in a damaged line are tried, and over how many bytes: a hostile line must not cost more than that.
TRIES = 100
TRIED_BYTES = 256 * 1024 * 1024
# What nests too deeply is damage: it could be read here and not where the program stands deeper in its own calls.
DAMAGE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
SHAPE_ERRORS = (
    InvalidInput, msgspec.ValidationError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError,
)  # fmt: skip
UNREADABLE = (*SHAPE_ERRORS, *DAMAGE)


class Translated(msgspec.Struct, kw_only=True):
    """What a stretch of bytes became. `end` is where the next reading begins; `torn` bytes lie behind it."""

    drafts: list[Draft] = []
    translated: int = 0
    opaque: int = 0
    quarantined: int = 0
    end: int = 0
    torn: int = 0

    @property
    def records(self) -> int:
        return self.translated + self.opaque + self.quarantined


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

    A file that was rewritten is another `generation`; the lines that are `there` already, by their `line_name`, are
    read, because a reader remembers, and counted, but give no drafts.
    """
    done = Translated(end=start)
    mark = f"{generation}@" if generation else "@"
    at, size = 0, len(data)
    while at < size:
        stop = data.find(b"\n", at)
        whole = stop >= 0
        line = data[at:stop] if whole else data[at:]
        drafts = len(done.drafts)
        if line and not line.isspace() and not _take(format, reading, line, start + at, done, mark, whole=whole):
            done.torn = len(line)
            break
        if there and line_name(line) in there:
            del done.drafts[drafts:]
        at = stop + 1 if whole else size
        done.end = start + at
    return done


def line_name(line: bytes) -> bytes:
    """A short name for a line, to find it again in a file that was rewritten."""
    return blake3(line).digest(16)


def read_records(format: Format, reading: Reading[Any], records: Iterable[Record]) -> Translated:
    """Read the records of a document or a database; they are whole by nature."""
    done = Translated()
    for key, record in records:
        try:
            drafts = _drafts(format, reading, without_halves(record), key)
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
    if not whole and line.rstrip()[-1:].isdigit():
        return False  # A number, which may go on.
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
        return _drafts(format, reading, without_halves(piece), key)
    except DAMAGE:
        return []


def without_halves(piece: bytes) -> bytes:
    """JSON with every half of a surrogate pair replaced: programs leave them where they cut a text inside an emoji."""
    if _HALF.search(piece) is None:
        return piece
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


_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
_LOW = re.compile(rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}")


def _drafts(format: Format, reading: Reading[Any], record: bytes, key: str) -> list[Draft]:
    """The drafts of one record; DecodeError, UnicodeDecodeError or RecursionError if it is not JSON at all."""
    if not record.isascii():
        record.decode()  # The decoder does not look into verbatim JSON, and what is not UTF-8 cannot be kept.
    refuse_depth(record)
    try:
        drafts = format.read(record, key, reading)
    except (*SHAPE_ERRORS, *DAMAGE):
        # The whole is JSON, or this raises: then it is damaged and not merely unexpected.
        msgspec.json.decode(record, type=Raw)
        drafts = []
    if not drafts:
        drafts = [Draft(body=Opaque(kind=f"{reading.runtime}.unreadable", raw=record.decode()), source=key)]
    return [_revision(draft) for draft in drafts] if format.mutable or format.split or format.rows else drafts


def _count(done: Translated, drafts: list[Draft]) -> None:
    done.drafts += drafts
    if type(drafts[-1].body) is Opaque and (len(drafts) == 1 or all(type(one.body) is Opaque for one in drafts)):
        done.opaque += 1
    else:
        done.translated += 1


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
    """A damaged line as pieces: where each is, its bytes, and whether it is a whole JSON object.

    Whole objects are looked for at the beginning of the line, and at its end: one in the middle may be a part of what
    is damaged.
    """
    clean = memoryview(without_halves(line))
    first, at = _objects(clean, 0)
    yield from ((start, line[start:stop], True) for start, stop in first)
    if at == len(line):
        return
    tried = 0
    for start in _candidates(line, at):
        last, end = _objects(clean, start)
        if end == len(line):
            if start > at:
                yield at, line[at:start], False
            yield from ((start, line[start:stop], True) for start, stop in last)
            return
        tried += len(line) - start
        if tried > TRIED_BYTES:
            break
    yield at, line[at:], False


def _candidates(line: bytes, at: int) -> Iterator[int]:
    """Where a whole record could begin."""
    at = line.find(b"{", at)
    for _ in range(TRIES):
        if at < 0:
            return
        yield at
        at = line.find(b'{"', at + 1)


def _objects(line: memoryview, at: int) -> tuple[list[tuple[int, int]], int]:
    """Where the whole objects from `at` on begin and end, and where the first thing is that is none."""
    found: list[tuple[int, int]] = []
    while True:
        while at < len(line) and line[at] in b"\0 \t\r":
            at += 1
        if at == len(line) or line[at] != ord("{"):
            return found, at
        stop = len(line)
        try:
            msgspec.json.decode(line[at:], type=Raw)
        except msgspec.DecodeError as error:
            behind = _TRAILING.search(str(error))
            if behind is None:
                return found, at
            stop = at + int(behind[1]) - 1
        except RecursionError:
            return found, at
        found.append((at, stop))
        at = stop


_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
