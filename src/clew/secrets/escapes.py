r"""Text without its escapes: what `"token: \"abc\"\n"` says, however often it was put into JSON.

A rule is written for what people see. In a transcript the same text lies in a JSON string, often in a JSON string in
another, so that a newline is `\n`, `\\n` or `\\\\n`. A run of backslashes and the letter after it are one escape here,
whatever its depth; where a letter is no escape, one backslash is left.
"""

import re
from bisect import bisect_right

_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"f": b"\f", b'"': b'"', b"'": b"'", b"/": b"/"}
# A character beyond the first plane is two codes, and one escape: half of it is not Unicode.
_PAIR = r"u[dD][89abAB][0-9a-fA-F]{2}\\+u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE = re.compile(rf"""\\+(?:{_PAIR}|u[0-9a-fA-F]{{4}}|[ntrbf"'/]|)""".encode())
_CODE = re.compile(rf"\\(?:{_PAIR}|u[0-9a-fA-F]{{4}})".encode())


def unescaped(text: bytes) -> bytes:
    """The text, each escape replaced by what it stands for."""
    if b"\\" not in text:
        return text
    while b"\\\\" in text:
        text = text.replace(b"\\\\", b"\\")
    # An escaped character code could be a backslash, which would make an escape of what follows: it comes last.
    for letter, plain in _LETTERS.items():
        text = text.replace(b"\\" + letter, plain)
    return _CODE.sub(_character, text) if b"\\u" in text else text


def _character(code: re.Match[bytes]) -> bytes:
    units = b"".join(int(unit[:4], 16).to_bytes(2) for unit in code[0].split(b"u")[1:])
    return units.decode("utf-16-be", "surrogatepass").encode("utf-8", "surrogatepass")


class Origins:
    """Where in a text the bytes of its unescaped form come from."""

    def __init__(self, text: bytes) -> None:
        # At each escape, how far the two texts are apart before it, from there on.
        self._at = [0]
        self._from = [0]
        size = end = 0
        for found in _ESCAPE.finditer(text):
            size += found.start() - end
            end = found.end()
            # A place within what an escape stands for is the escape's beginning; one after it, its end.
            length = len(unescaped(found[0]))
            self._at += range(size, size + length)
            self._from += [found.start()] * length
            size += length
            self._at.append(size)
            self._from.append(end)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The span in the text of a span in its unescaped form, escapes whole."""
        return self._place(start), self._place(end)

    def _place(self, at: int) -> int:
        i = bisect_right(self._at, at) - 1
        ahead = at - self._at[i]
        return self._from[i] + ahead
