"""RE2 for bytes: linear in the text whatever the pattern. The only module that knows re2."""

from collections.abc import Sequence
from re import Pattern, escape
from typing import Any, cast

import re2  # type: ignore[import-untyped]  # It comes without types.

# What the keywords of all rules may take as an automaton; it stays far below.
_ROOM = 64 * 1024 * 1024


def _options() -> Any:
    options = re2.Options()
    # A pattern that is refused says so in its error.
    options.log_errors = False
    return options


def compiled(regex: str) -> Pattern[bytes]:
    """The pattern; ValueError says why RE2 does not take it."""
    try:
        return cast("Pattern[bytes]", re2.compile(regex.encode(), _options()))
    except re2.error as error:
        said = error.args[0]
        raise ValueError(said.decode() if isinstance(said, bytes) else str(said)) from None


def any_of(regexes: Sequence[str]) -> Pattern[bytes] | None:
    """One pattern that fits where any of these does."""
    return compiled("|".join(f"(?:{regex})" for regex in regexes)) if regexes else None


def any_word(words: Sequence[str]) -> Pattern[bytes] | None:
    """One pattern that fits where any of these words is, in capitals or not."""
    return compiled("(?i)" + "|".join(map(escape, words))) if words else None


class Words:
    """Which of many words are in a text, in capitals or not, in one pass."""

    def __init__(self, words: Sequence[str]) -> None:
        options = _options()
        options.max_mem = _ROOM
        options.case_sensitive = False
        options.literal = True
        self._set = re2.Set.SearchSet(options)
        for word in words:
            self._set.Add(word)
        self._set.Compile()

    def found_in(self, text: bytes) -> list[int]:
        found: list[int] | None = self._set.Match(text)
        return found or []
