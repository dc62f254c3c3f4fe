"""RE2 for bytes: linear in the text whatever the pattern. The only module that knows re2."""

from collections.abc import Sequence
from re import Pattern, escape
from typing import Any, cast

import re2  # type: ignore[import-untyped]  # It comes without types.

# The memory limit for the automaton of all keywords; it uses far less.
_ROOM = 64 * 1024 * 1024


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


def any_of(regexes: Sequence[str]) -> Pattern[bytes] | None:
    """One pattern that matches where any of these does."""
    return compiled("|".join(f"(?:{regex})" for regex in regexes)) if regexes else None


def any_word(words: Sequence[str]) -> Pattern[bytes] | None:
    """One pattern that matches any of these words, case-insensitively."""
    return compiled("(?i)" + "|".join(map(escape, words))) if words else None


class Words:
    """Finds which of many words are in a text, case-insensitively, in one pass."""

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
        indexes: list[int] | None = self._set.Match(text)
        return indexes or []
