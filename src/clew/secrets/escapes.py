r"""Text without its escapes: the content of `"token: \"abc\"\n"`, however often it was encoded as JSON.

A rule is written for plain text. In a transcript the same text is in a JSON string, often in a JSON string inside
another, so that a newline is `\n`, `\\n` or `\\\\n`. A run of backslashes and the letter after it are one escape here,
at any depth; if the letter is not an escape, one backslash is left.
"""

import re
from bisect import bisect_right
from functools import lru_cache

# Longer escapes, of many backslashes, are not cached.
MOST_CACHED = 32
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"f": b"\f", b'"': b'"', b"'": b"'", b"/": b"/"}
# A character beyond the first plane is two codes and one escape: a lone surrogate is not Unicode.
_PAIR = r"u[dD][89abAB][0-9a-fA-F]{2}\\+u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE = re.compile(rf"""\\+(?:{_PAIR}|u[0-9a-fA-F]{{4}}|[ntrbf"'/]|)""".encode())
_CODE = re.compile(rf"\\(?:{_PAIR}|u[0-9a-fA-F]{{4}})".encode())


def unescaped(text: bytes) -> bytes:
    """The text with each escape replaced by its character."""
    if b"\\" not in text:
        return text
    while b"\\\\" in text:
        text = text.replace(b"\\\\", b"\\")
    # Character codes come last: one could be a backslash, which would escape the text that follows.
    for letter, plain in _LETTERS.items():
        text = text.replace(b"\\" + letter, plain)
    return _CODE.sub(_character, text) if b"\\u" in text else text


def _character(code: re.Match[bytes]) -> bytes:
    return _character_of(code[0])


@lru_cache(maxsize=65_536)
def _character_of(code: bytes) -> bytes:
    units = b"".join(int(unit[:4], 16).to_bytes(2) for unit in code.split(b"u")[1:])
    return units.decode("utf-16-be", "surrogatepass").encode("utf-8", "surrogatepass")


@lru_cache(maxsize=65_536)
def _length(escape: bytes) -> int:
    return len(unescaped(escape))


class Origins:
    """Maps offsets in the unescaped form of a text to offsets in the text."""

    def __init__(self, text: bytes) -> None:
        # Offsets in the unescaped form at each escape, and the offsets in the text that they come from.
        self._at = [0]
        self._from = [0]
        size = end = 0
        for match in _ESCAPE.finditer(text):
            size += match.start() - end
            end = match.end()
            # An offset inside an escape's characters maps to the escape's beginning; one after them, to its end.
            length = _length(match[0]) if match.end() - match.start() <= MOST_CACHED else len(unescaped(match[0]))
            self._at += range(size, size + length)
            self._from += [match.start()] * length
            size += length
            self._at.append(size)
            self._from.append(end)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The span in the text of a span in its unescaped form; escapes are never cut."""
        return self._origin(start), self._origin(end)

    def _origin(self, at: int) -> int:
        i = bisect_right(self._at, at) - 1
        ahead = at - self._at[i]
        return self._from[i] + ahead
