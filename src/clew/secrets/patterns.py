"""RE2 for bytes: linear in the length of the text for every pattern. The only module that knows re2."""

from collections.abc import Callable, Sequence
from re import Pattern, escape
from typing import Any, cast

import re2  # type: ignore[import-untyped]  # It comes without types.

# The memory limit for an automaton of many words or regexes.
_ROOM = 64 * 1024 * 1024


Spans = list[tuple[int, int]]
"""The spans of a match and of its groups; a group that took no part is (-1, -1)."""

_ANYWHERE: Any = re2._Anchor.UNANCHORED
_NOWHERE = (-1, -1)


def _options() -> Any:
    options = re2.Options()
    # An invalid pattern raises an error, so RE2 need not log it.
    options.log_errors = False
    return options


def compiled(regex: str) -> Pattern[bytes]:
    """The compiled pattern; ValueError says why RE2 rejects the regex."""
    try:
        return cast("Pattern[bytes]", re2.compile(regex.encode(), _options()))
    except re2.error as error:
        message = error.args[0]
        raise ValueError(message.decode() if isinstance(message, bytes) else str(message)) from None


def any_of(regexes: Sequence[str]) -> str:
    """One regex that matches where any of these does."""
    return "|".join(f"(?:{regex})" for regex in regexes)


def any_of_words(words: Sequence[str]) -> str:
    """One regex that matches any of these words, case-insensitively."""
    return f"(?i:{'|'.join(map(escape, words))})"


class Finder:
    """Finds matches one after the other, as spans: a hostile text has one every few bytes."""

    def __init__(self, regex: str) -> None:
        self._find = compiled(regex)._regexp.Match  # type: ignore[attr-defined]  # Of re2, below its match objects.

    def next_in(self, text: bytes, start: int) -> Spans | None:
        """The first match that begins at the offset or after it."""
        spans: Spans = self._find(_ANYWHERE, text, start, len(text))
        return None if spans[0] == _NOWHERE else spans


class Tester:
    """Says whether a regex matches anywhere in a text; faster than finding where."""

    def __init__(self, regex: str) -> None:
        options = _options()
        options.never_capture = True
        self._find = re2.compile(regex.encode(), options)._regexp.Match

    def is_in(self, text: bytes) -> bool:
        return bool(self._find(_ANYWHERE, text, 0, len(text))[0] != _NOWHERE)


class Words:
    """Finds which of many words are in a text, case-insensitively, in one pass."""

    def __init__(self, words: Sequence[str]) -> None:
        options = _options()
        options.case_sensitive = False
        options.literal = True
        self._match = _set_of(words, options)

    def found_in(self, text: bytes) -> list[int]:
        return self._match(text) or []


class Regexes:
    """Finds which of many regexes match in a text, in one pass."""

    def __init__(self, regexes: Sequence[str]) -> None:
        options = _options()
        options.never_capture = True
        self._match = _set_of(regexes, options)

    def found_in(self, text: bytes) -> list[int]:
        return self._match(text) or []


def _set_of(patterns: Sequence[str], options: Any) -> Callable[[bytes], list[int] | None]:
    options.max_mem = _ROOM
    patterns_set = re2.Set.SearchSet(options)
    for pattern in patterns:
        patterns_set.Add(pattern.encode())
    patterns_set.Compile()
    return cast("Callable[[bytes], list[int] | None]", patterns_set.Match)
