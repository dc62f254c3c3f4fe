"""From bytes to records to drafts: half-written lines, damaged lines and documents, once for every adapter.

Reading a file of lines continues where the last reading ended. A last line without a line break is a record if it is
complete, and is left for the next reading if it is not. In a damaged line the reader looks for complete records at the
end (a torn write followed by a good one) and for complete records side by side (a lost line break). The rest is
quarantined: an event records the offset of those bytes in the original, and their text.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from blake3 import blake3
from msgspec import Raw

from clew.model import codec
from clew.model.depth import refuse_depth
from clew.model.errors import InvalidInput
from clew.model.events import Draft, Opaque
from clew.model.source import REVISION
from clew.runtimes.contract import Format, Reading, Record

QUARANTINED = "clew.quarantined"
# How much of a damaged piece its event holds; the original has all of it.
SHOWN_BYTES = 16 * 1024
# How many offsets in a damaged line are tried, and over how many bytes: this bounds the cost of a hostile line.
TRIES = 100
TRIED_BYTES = 256 * 1024 * 1024
# A record that nests too deeply is damage: it might decode here, but not where the call stack is deeper.
DAMAGE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
SHAPE_ERRORS = (
    InvalidInput, msgspec.ValidationError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError,
)  # fmt: skip
UNREADABLE = (*SHAPE_ERRORS, *DAMAGE)


class Translated(msgspec.Struct, kw_only=True):
    """The result of reading a range of bytes. The next reading begins at `end`; `torn` bytes follow it."""

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
    stored_lines: frozenset[bytes] = frozenset(),
) -> Translated:
    """Read the lines of `data`, which begins at offset `start` of its file.

    A rewritten file is another `generation`. Lines whose `line_name` is in `stored_lines` are already in the log: they
    are read, because the reader's state depends on them, and counted, but give no drafts.
    """
    translated = Translated(end=start)
    mark = f"{generation}@" if generation else "@"
    at, size = 0, len(data)
    while at < size:
        stop = data.find(b"\n", at)
        whole = stop >= 0
        line = data[at:stop] if whole else data[at:]
        drafts = len(translated.drafts)
        if (
            line
            and not line.isspace()
            and not _read_line(format, reading, line, start + at, translated, mark, whole=whole)
        ):
            translated.torn = len(line)
            break
        if stored_lines and line_name(line) in stored_lines:
            del translated.drafts[drafts:]
        at = stop + 1 if whole else size
        translated.end = start + at
    return translated


def line_name(line: bytes) -> bytes:
    """A digest of a line that identifies it in a rewritten file."""
    return blake3(line).digest(16)


def read_records(format: Format, reading: Reading[Any], records: Iterable[Record]) -> Translated:
    """Read the records of a document or a database; they are always complete."""
    translated = Translated()
    for key, record in records:
        try:
            drafts = _drafts(format, reading, without_halves(record), key)
        except DAMAGE as error:
            translated.drafts.append(quarantine(record, 0, str(error), f"{key}@"))
            translated.quarantined += 1
        else:
            _count(translated, drafts)
    return translated


def _read_line(
    format: Format, reading: Reading[Any], line: bytes, at: int, translated: Translated, mark: str, *, whole: bool
) -> bool:
    """Read one line; False if it is not complete yet."""
    if not whole and line.rstrip()[-1:].isdigit():
        return False  # A number that may still get digits.
    try:
        drafts = _drafts(format, reading, line, f"{mark}{at}")
    except DAMAGE as error:
        if not whole:
            return False
        for offset, piece, good in _pieces(line):
            drafts = _drafts_of_piece(format, reading, piece, f"{mark}{at + offset}") if good else []
            if drafts:
                _count(translated, drafts)
            elif piece.strip(b"\0 \t\r"):
                translated.drafts.append(quarantine(piece, at + offset, str(error), mark))
                translated.quarantined += 1
        return True
    _count(translated, drafts)
    return True


def _drafts_of_piece(format: Format, reading: Reading[Any], piece: bytes, key: str) -> list[Draft]:
    """The drafts of a piece of a damaged line; none if the piece cannot be read."""
    try:
        return _drafts(format, reading, without_halves(piece), key)
    except DAMAGE:
        return []


def without_halves(piece: bytes) -> bytes:
    """JSON with every lone surrogate replaced: programs leave them where they cut a text inside an emoji."""
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
    """The drafts of one record. Raises DecodeError, UnicodeDecodeError or RecursionError if it is not JSON."""
    if not record.isascii():
        record.decode()  # The decoder does not check verbatim JSON, and text that is not UTF-8 cannot be stored.
    refuse_depth(record)
    try:
        drafts = format.read(record, key, reading)
    except (*SHAPE_ERRORS, *DAMAGE):
        # This raises if the record is not JSON: then it is damaged, not only of an unexpected shape.
        msgspec.json.decode(record, type=Raw)
        drafts = []
    if not drafts:
        drafts = [Draft(body=Opaque(kind=f"{reading.runtime}.unreadable", raw=record.decode()), source=key)]
    return [_revision(draft) for draft in drafts] if format.mutable or format.split or format.rows else drafts


def _count(translated: Translated, drafts: list[Draft]) -> None:
    translated.drafts += drafts
    if type(drafts[-1].body) is Opaque and (len(drafts) == 1 or all(type(draft.body) is Opaque for draft in drafts)):
        translated.opaque += 1
    else:
        translated.translated += 1


def _revision(draft: Draft) -> Draft:
    """A draft of a record that the program may write again: its source includes a digest of the content."""
    mark = _content(draft)
    return msgspec.structs.replace(draft, source=f"{draft.source}{REVISION}{mark}")


def _content(draft: Draft) -> str:
    """A short digest of a draft's content."""
    return blake3(codec.encode(draft.body)).hexdigest()[:12]


def quarantine(piece: bytes, at: int, why: str, mark: str = "@") -> Draft:
    """The event for bytes that cannot be read."""
    shown = piece[:SHOWN_BYTES].decode("utf-8", "replace")
    raw = msgspec.json.encode({"offset": at, "length": len(piece), "why": why, "text": shown}).decode()
    return Draft(body=Opaque(kind=QUARANTINED, raw=raw), source=f"{mark}{at}")


def _pieces(line: bytes) -> Iterator[tuple[int, bytes, bool]]:
    """The pieces of a damaged line: the offset of each, its bytes, and whether it is a complete JSON object.

    Only objects at the beginning and at the end of the line count as complete: an object in the middle may be a part
    of the damaged one.
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
    """The offsets where a complete record could begin."""
    at = line.find(b"{", at)
    for _ in range(TRIES):
        if at < 0:
            return
        yield at
        at = line.find(b'{"', at + 1)


def _objects(line: memoryview, at: int) -> tuple[list[tuple[int, int]], int]:
    """The spans of the complete objects from `at` on, and the offset of the first thing that is not one."""
    objects: list[tuple[int, int]] = []
    while True:
        while at < len(line) and line[at] in b"\0 \t\r":
            at += 1
        if at == len(line) or line[at] != ord("{"):
            return objects, at
        stop = len(line)
        try:
            msgspec.json.decode(line[at:], type=Raw)
        except msgspec.DecodeError as error:
            behind = _TRAILING.search(str(error))
            if behind is None:
                return objects, at
            stop = at + int(behind[1]) - 1
        except RecursionError:
            return objects, at
        objects.append((at, stop))
        at = stop


_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
