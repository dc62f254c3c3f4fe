"""Allow-lists: what looks like a secret and is none. The lists of a rule are compiled into one regex per target."""

from collections.abc import Iterable

from clew.secrets.patterns import Tester, any_of, any_of_words
from clew.secrets.rules import Allow


class Allowing:
    """The compiled allow-lists of a rule."""

    def __init__(self, lists: Iterable[Allow]) -> None:
        # With AND every condition must hold, and no path and no commit is known here.
        lists = [allow for allow in lists if not (_is_and(allow) and (allow.paths or allow.commits))]
        either = [allow for allow in lists if not _is_and(allow)]
        words = [word for allow in either for word in allow.stopwords]
        self._secret = _tester([*_regexes(either, ""), *_regexes(either, "secret")], words)
        self._match = _tester(_regexes(either, "match"))
        self._line = _tester(_regexes(either, "line"))
        self._both = [_Both(allow) for allow in lists if _is_and(allow)]

    def allows(self, secret: bytes, start: int, end: int, *, text: bytes, lines: dict[int, bool]) -> bool:
        """Whether the secret of a match is none. `lines` caches, by its beginning, what was decided about a line."""
        return (
            (self._secret is not None and self._secret.is_in(secret))
            or (self._match is not None and self._match.is_in(text[start:end].strip(b"\n")))
            or (self._line is not None and self._allows_line(text, start, end, lines))
            or any(both.allows(secret, start, end, text) for both in self._both)
        )

    def _allows_line(self, text: bytes, start: int, end: int, lines: dict[int, bool]) -> bool:
        first = text.rfind(b"\n", 0, start) + 1
        if (known := lines.get(first)) is not None and text.find(b"\n", start, end) < 0:
            return known
        if self._line is None:
            raise AssertionError("asked only with an expression for lines")
        lines[first] = self._line.is_in(_line(text, start, end))
        return lines[first]


class _Both:
    """An allow-list whose conditions must all hold."""

    def __init__(self, allow: Allow) -> None:
        self._target = allow.regex_target
        self._regexes = _tester(allow.regexes)
        self._stopwords = _tester((), allow.stopwords)

    def allows(self, secret: bytes, start: int, end: int, text: bytes) -> bool:
        if self._stopwords is not None and not self._stopwords.is_in(secret):
            return False
        return self._regexes is None or self._regexes.is_in(self._looked_at(secret, start, end, text))

    def _looked_at(self, secret: bytes, start: int, end: int, text: bytes) -> bytes:
        match self._target:
            case "match":
                return text[start:end].strip(b"\n")
            case "line":
                return _line(text, start, end)
        return secret


def _regexes(lists: list[Allow], target: str) -> list[str]:
    return [regex for allow in lists if allow.regex_target == target for regex in allow.regexes]


def _is_and(allow: Allow) -> bool:
    return allow.condition.upper() == "AND"


def _tester(regexes: Iterable[str], words: Iterable[str] = ()) -> Tester | None:
    parts = [*regexes]
    if words := [*words]:
        parts.append(any_of_words(words))
    return Tester(any_of(parts)) if parts else None


def _line(text: bytes, start: int, end: int) -> bytes:
    stop = text.find(b"\n", end)
    return text[text.rfind(b"\n", 0, start) + 1 : stop if stop >= 0 else len(text)]
