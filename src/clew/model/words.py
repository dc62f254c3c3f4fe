"""Split text into the words that search indexes, the same for every database.

A word is a run of letters and digits, in lower case and without accents, however they are encoded. An identifier is
found by its parts, wherever they are joined: snake_case, dotted.names, path/to/file.py:12, and camelCase, which is
found as a whole too. Scripts that write without spaces (Chinese, Japanese, Korean, Thai ...) give a word per character,
so that any part of them is found as a phrase. Only the first `LONGEST` characters of a word count.
"""

import re
import unicodedata
from collections.abc import Iterator

from clew.model.steps import end_step

LONGEST = 64
# No real letter has more marks than this.
MOST_MARKS = 32
# The time to compose grows with the square of the number of marks.
MOST_AT_ONCE = 500
# Between the parts of camelCase in a stream; in a text this character separates words like any other.
SEAM = "\x1f"

# Every character but ASCII ones that are neither letter nor digit. The negated form compiles ten times faster.
_RUN = re.compile(r"[^\x00-/:-@\[-`{-\x7f]+")
_GAP = re.compile(r"[\x00-/:-@\[-`{-\x7f]+")
_TOO_LONG = re.compile(rf"([^\x00-/:-@\[-`{{-\x7f]{{{LONGEST}}})[^\x00-/:-@\[-`{{-\x7f]+")

# The shape of a text: a small letter becomes `a`, a capital `A`, a digit `0`, and any other ASCII character a space.
# Encoding turns a character beyond ASCII into a question mark, which becomes `x`. Searching such bytes is many times
# faster than a regular expression over the text.
_ASCII_SHAPES = bytes(
    97 if 97 <= i < 123 else 65 if 65 <= i < 91 else 48 if 48 <= i < 58 else 32 for i in range(256)
)  # fmt: skip
_SHAPES = _ASCII_SHAPES[:63] + b"x" + _ASCII_SHAPES[64:]
_ANY = bytes(32 if shape == 32 else 97 for shape in range(256))
_LONG_RUN = b"a" * (LONGEST + 1)
# camelCase is split before the second byte of each of these.
_SEAMS = (b"aA", b"0A", b"AAa")

# Scripts without spaces between words.
_UNSPACED = (
    (0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3005, 0x3007), (0x3040, 0x30FF), (0x3100, 0x312F),
    (0x31A0, 0x31FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xA9E0, 0xA9FF), (0xAA60, 0xAA7F), (0xAC00, 0xD7A3),
    (0xF900, 0xFAFF), (0x1AFF0, 0x1B16F), (0x20000, 0x3FFFF),
)  # fmt: skip
# Marks that modify a letter of any script, or an emoji: accents, circles, variation selectors.
_DRESS = (
    (0x0300, 0x036F), (0x180B, 0x180F), (0x1AB0, 0x1AFF), (0x1DC0, 0x1DFF), (0x20D0, 0x20FF), (0xFE00, 0xFE0F),
    (0xFE20, 0xFE2F), (0xE0100, 0xE01EF),
)  # fmt: skip


class _Folding(dict[int, str]):
    """The folded form of each character beyond ASCII, computed on first use."""

    def __missing__(self, point: int) -> str:
        self[point] = folded = _folded(chr(point))
        return folded


def _folded(character: str) -> str:
    if character == "\u200b":
        return " "
    # Folding makes capitals of the small letters of Cherokee; one index makes them small again, the other does not.
    plain = unicodedata.normalize("NFKC", character).casefold().lower()
    if not "\u0400" <= character <= "\u04ff":
        # Accents are removed, except where the accented letter is another letter, as in Cyrillic.
        apart = unicodedata.normalize("NFD", plain)
        plain = unicodedata.normalize("NFC", "".join(character for character in apart if not _is_of(character, _DRESS)))
    return "".join(map(_kept, plain))


def _is_of(character: str, ranges: tuple[tuple[int, int], ...]) -> bool:
    return any(first <= ord(character) <= last for first, last in ranges)


def _kept(character: str) -> str:
    if _is_of(character, _UNSPACED):
        return f" {character} " if unicodedata.category(character)[0] in "LMN" else " "
    if character.isalnum() and (character.isascii() or unicodedata.category(character)[0] in "LN"):
        return character
    category = unicodedata.category(character)
    return "" if category == "Cf" else character if category[0] == "M" else " "


_FOLDING = _Folding()


def indexed(text: str) -> str:
    """The text for an index that splits words at every ASCII character that is neither a letter nor a digit.

    Whole camelCase words come last.
    """
    return _prepared(text, " ", wholes=True)


def _prepared(text: str, joint: str, *, wholes: bool) -> str:
    """The folded text with the parts of camelCase joined by `joint`."""
    shape = _shape(text)
    if b"A" in shape and any(seam in shape for seam in _SEAMS):
        text = _split_camel_case(text, shape, joint, wholes=wholes)
        shape = _shape(text)
    if not text.isascii():
        text = _folded_in(text, shape)
        shape = _shape(text)
    return _TOO_LONG.sub(r"\1", text) if _LONG_RUN in shape.translate(_ANY) else text


def words(text: str) -> list[str]:
    """Every word of a text."""
    return _RUN.findall(indexed(text).lower())


def stream(text: str) -> str:
    """The words of a text in order, each between two blanks; the parts of camelCase have a seam between them."""
    prepared = _prepared(text.replace(SEAM, " "), SEAM, wholes=False).lower()
    return f" {_GAP.sub(_gap, prepared).strip(' ')} "


def _gap(match: re.Match[str]) -> str:
    end_step()
    return SEAM if match[0] == SEAM else " "


def _shape(text: str) -> bytes:
    if text.isascii():
        return text.encode().translate(_ASCII_SHAPES)
    return text.replace("?", " ").encode("ascii", "replace").translate(_SHAPES)


def _folded_in(text: str, shape: bytes) -> str:
    """The text with every character beyond ASCII folded."""
    parts: list[str] = []
    last = 0
    at = shape.find(b"x")
    while at >= 0:
        end = at + 1
        while shape.startswith(b"x", end):
            end += 1
        parts += text[last:at], _composed(text[at:end]).translate(_FOLDING)
        last, at = end, shape.find(b"x", end)
    return "".join((*parts, text[last:]))


def _composed(run: str) -> str:
    """Normalise the text, so that a letter with its marks becomes one character where Unicode has one."""
    if len(run) <= MOST_AT_ONCE:
        return unicodedata.normalize("NFKC", run)
    return "".join(character for _, _, character in _characters(run))


def _cuts(shape: bytes) -> list[int]:
    cuts = []
    for seam in _SEAMS:
        at = shape.find(seam)
        while at >= 0:
            cuts.append(at + 1)
            at = shape.find(seam, at + 1)
    return sorted(cuts)


def _split_camel_case(text: str, shape: bytes, joint: str, *, wholes: bool) -> str:
    """The text with camelCase split into parts; the whole words follow at the end, or are left out."""
    parts: list[str] = []
    whole: list[str] = []
    last = end = 0
    for cut in _cuts(shape):
        end_step()
        parts += text[last:cut], joint
        last = cut
        if cut >= end:
            end = shape.find(b" ", cut)
            end = len(text) if end < 0 else end
            whole.append(text[shape.rfind(b" ", 0, cut) + 1 : end])
    return "".join((*parts, text[last:], *(f" {word}" for word in whole if wholes)))


def spans(text: str) -> Iterator[tuple[str, int, int]]:
    """Every word of a text and its position; a whole camelCase word comes after its parts."""
    for run in _RUN.finditer(text):
        letters = run[0]
        if letters.isascii() and (letters.islower() or letters.isdigit()):
            yield letters[:LONGEST], run.start(), run.end()
            continue
        cuts = _cuts(_shape(letters))
        yield from _words_in(letters, run.start(), frozenset(cuts))
        if cuts:
            yield from _words_in(letters, run.start(), frozenset())


def _words_in(run: str, start: int, cuts: frozenset[int]) -> Iterator[tuple[str, int, int]]:
    letters: list[str] = []
    first = last = 0
    for at, end, character in _characters(run):
        if at in cuts and letters:
            yield "".join(letters)[:LONGEST], start + first, start + last
            letters = []
        folded = character.translate(_FOLDING)
        for letter in folded:
            if letter != " ":
                first, last = first if letters else at, end
                letters.append(letter)
            elif letters:
                yield "".join(letters)[:LONGEST], start + first, start + last
                letters = []
        if not folded:
            last = end  # A mark belongs to its letter.
    if letters:
        yield "".join(letters)[:LONGEST], start + first, start + last


def _characters(run: str) -> Iterator[tuple[int, int, str]]:
    """Each character together with its marks, and its position."""
    if unicodedata.is_normalized("NFKC", run):
        yield from ((at, at + 1, character) for at, character in enumerate(run))
        return
    first = 0
    for at in range(1, len(run) + 1):
        if at == len(run) or not _joins(run[first:at], run[at]):
            yield first, at, unicodedata.normalize("NFKC", run[first:at])
            first = at


def _joins(before: str, character: str) -> bool:
    """Whether a character combines with the text before it into one character."""
    if len(before) > MOST_MARKS:
        return False
    alone, other, both = (unicodedata.normalize("NFKC", text) for text in (before, character, before + character))
    return unicodedata.combining(character) > 0 or both != alone + other
