"""Which parts of a span of JSON text can be replaced so that the text stays JSON: inside strings, or whole scalars."""

import json
import re
from bisect import bisect_right
from collections.abc import Iterator

import msgspec

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_SCALAR = re.compile(rb"[-+.\w]+")
_COLON = re.compile(rb"[ \t\r\n]*:")
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_valid = msgspec.json.Decoder(msgspec.Raw).decode

LEAST_WITH_SCALAR = 2

Replaceable = tuple[int, int, bool]
"""Start, end, and whether the replacement needs its own quotes."""


def is_json(text: bytes) -> bool:
    try:
        _valid(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _HALF.search(text) is not None and _is_json_to_python(text)
    return True


def _is_json_to_python(text: bytes) -> bool:
    """Whether it is JSON except for lone surrogates, which some programs write."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


class Layout:
    """Which parts of a text are JSON: all of it, or some of its lines. Each is parsed once."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._is_json = is_json(text)
        self._strings: dict[int, list[tuple[int, int]] | None] = {}

    def replaceable_in(self, start: int, end: int) -> list[Replaceable]:
        """The parts of a span that can be replaced: all of it, unless the span is in JSON."""
        parts: list[Replaceable] = []
        for first, last in self._documents(start, end):
            low, high = max(start, first), min(end, last)
            strings = self._strings_in(first, last)
            parts += [(low, high, False)] if strings is None else self._in_json(strings, first, low, high)
        return [part for part in parts if part[1] > part[0]]

    def _documents(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The documents that a span is in: the text if it is JSON, else each of its lines."""
        if self._is_json:
            yield 0, len(self._text)
            return
        at = self._text.rfind(b"\n", 0, start) + 1
        while at < end:
            stop = self._text.find(b"\n", at) + 1 or len(self._text)
            yield at, stop
            at = stop

    def _strings_in(self, first: int, last: int) -> list[tuple[int, int]] | None:
        """The strings of a document, by their end and beginning; None if it is not JSON."""
        if first not in self._strings:
            holds = self._is_json or is_json(self._text[first:last])
            matches = _STRING.finditer(self._text, first, last) if holds else None
            self._strings[first] = None if matches is None else [(match.end(), match.start()) for match in matches]
        return self._strings[first]

    def _in_json(self, strings: list[tuple[int, int]], first: int, start: int, end: int) -> Iterator[Replaceable]:
        nearest = bisect_right(strings, (start, end))
        outside = strings[nearest - 1][0] if nearest else first
        for closed, opened in strings[nearest:]:
            # Between two strings a scalar has a separator on each side.
            if opened - outside > LEAST_WITH_SCALAR:
                yield from self._scalars(max(outside, start), min(opened, end))
            if opened >= end:
                return
            is_whole = start >= opened and end <= closed
            # A member's name is replaced if the secret is inside it, not if the secret only spans it.
            if is_whole or not _COLON.match(self._text, closed):
                yield max(start, opened + 1), min(end, closed - 1), False
            outside = closed
            if closed >= end:
                return
        yield from self._scalars(max(outside, start), end)

    def _scalars(self, start: int, end: int) -> Iterator[Replaceable]:
        """Numbers and words outside strings that the span touches, each as a whole."""
        if start >= end:
            return
        while start and _SCALAR.match(self._text, start - 1, start):
            start -= 1
        for match in _SCALAR.finditer(self._text, start):
            if match.start() >= end:
                return
            yield match.start(), match.end(), True
