"""Finding secrets: only rules whose keywords occur run, over the unescaped text, one piece at a time."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from math import log2
from re import Match, Pattern

import msgspec

from clew.secrets.base64_runs import runs
from clew.secrets.escapes import Origins, unescaped
from clew.secrets.patterns import Words, any_of, any_word, compiled
from clew.secrets.rules import Allow, Rule, Rules

# One piece is searched at a time, so that a keyword far away costs nothing; the overlap covers a secret on a border.
PIECE, OVERLAP = 32 * 1024, 8 * 1024
# A token that is longer than its rule expects is masked to its end.
_REST = re.compile(rb"[\w-]*")


class Finding(msgspec.Struct, frozen=True):
    """The rule and the span of a secret, never the secret itself."""

    rule: str
    start: int
    end: int


class Scanner:
    """Finds what the rules describe. Safe to share between threads."""

    def __init__(self, rules: Rules) -> None:
        self.rules = {rule.id: rule for rule in rules.rules}
        by_keyword: dict[str, list[str]] = {}
        for rule in rules.rules:
            for keyword in rule.keywords:
                by_keyword.setdefault(keyword.lower(), []).append(rule.id)
        self._words = Words(list(by_keyword))
        self._by_word = list(by_keyword.values())
        self._always = [rule.id for rule in rules.rules if not rule.keywords]
        self._order = {id: i for i, id in enumerate(self.rules)}
        everywhere = [allow for allow in rules.allowlists if not allow.target_rules]
        self._everywhere = [_Allowing(allow) for allow in everywhere]
        self._targeted = [allow for allow in rules.allowlists if allow.target_rules]
        self._test = lru_cache(maxsize=None)(self._test_of)

    def find(self, text: str | bytes) -> list[Finding]:
        """The secrets in a text, in order and without overlaps."""
        if isinstance(text, bytes):
            return self._find(text)
        findings = self._find(text.encode("utf-8", "surrogatepass"))
        if not findings or text.isascii():
            return findings
        data = text.encode("utf-8", "surrogatepass")
        return [Finding(hit.rule, _characters(data, hit.start), _characters(data, hit.end)) for hit in findings]

    def _find(self, text: bytes) -> list[Finding]:
        shown = unescaped(text)
        findings = sorted(chain(self._findings_in(shown), self._encoded(shown)), key=lambda hit: (hit.start, -hit.end))
        if not findings:
            return []
        apart = self._merged(findings)
        if shown is text:
            return apart
        origins = Origins(text)
        return [Finding(hit.rule, *origins.span(hit.start, hit.end)) for hit in apart]

    def _findings_in(self, text: bytes) -> Iterator[Finding]:
        for start, piece in _pieces(text):
            for id in self._candidates(piece):
                for span in self._test(id).found_in(piece, self._everywhere):
                    yield Finding(id, start + span[0], start + span[1])

    def _candidates(self, piece: bytes) -> list[str]:
        ids = {id for word in self._words.found_in(piece) for id in self._by_word[word]}
        return sorted(ids.union(self._always), key=self._order.__getitem__)

    def _encoded(self, text: bytes) -> Iterator[Finding]:
        """Whole runs of base64 that contain a secret."""
        for run in runs(text):
            rule_ids = [finding.rule for finding in self._findings_in(run.decoded)]
            if rule_ids:
                yield Finding(min(rule_ids, key=lambda id: self.rules[id].is_broad), run.start, run.end)

    def _merged(self, findings: list[Finding]) -> list[Finding]:
        """The findings with overlapping ones merged; the more specific rule names the result."""
        apart = [findings[0]]
        for finding in findings[1:]:
            last = apart[-1]
            if finding.start >= last.end:
                apart.append(finding)
                continue
            rule = finding.rule if self._is_more_specific(finding, last) else last.rule
            apart[-1] = Finding(rule, last.start, max(last.end, finding.end))
        return apart

    def _is_more_specific(self, finding: Finding, other: Finding) -> bool:
        return self.rules[other.rule].is_broad and not self.rules[finding.rule].is_broad

    def _test_of(self, id: str) -> "_Test":
        return _Test(self.rules[id], [allow for allow in self._targeted if id in allow.target_rules])


class _Test:
    """A compiled rule."""

    def __init__(self, rule: Rule, more: list[Allow]) -> None:
        self._pattern: Pattern[bytes] = compiled(rule.regex)
        self._group = rule.secret_group
        self._entropy = rule.entropy
        self._allowing = [_Allowing(allow) for allow in (*rule.allowlists, *more)]

    def found_in(self, piece: bytes, everywhere: "list[_Allowing]") -> Iterator[tuple[int, int]]:
        for match in self._pattern.finditer(piece):
            start, end = self._secret(match)
            secret = piece[start:end]
            if not secret or (self._entropy and entropy(secret) <= self._entropy):
                continue
            if not any(allowing.allows(secret, match) for allowing in chain(everywhere, self._allowing)):
                rest = _REST.match(piece, end) if secret[-1:].isalnum() else None
                yield start, rest.end() if rest else end

    def _secret(self, match: Match[bytes]) -> tuple[int, int]:
        """The group that the rule names, else the first group that is not empty, else the whole match."""
        if self._group:
            return match.span(self._group)
        for group in range(1, (match.re.groups or 0) + 1):
            start, end = match.span(group)
            if end > start:
                return start, end
        return match.span()


class _Allowing:
    """A compiled allow-list."""

    def __init__(self, allow: Allow) -> None:
        self._target = allow.regex_target
        self._regexes = any_of(allow.regexes)
        self._stopwords = any_word(allow.stopwords)
        # Every condition must hold, and no path is known here.
        self._never = allow.condition.upper() == "AND" and bool(allow.paths or allow.commits)
        self._all = allow.condition.upper() == "AND"

    def allows(self, secret: bytes, match: Match[bytes]) -> bool:
        if self._never:
            return False
        fits = self._regexes is not None and self._regexes.search(self._looked_at(secret, match)) is not None
        stopped = self._stopwords is not None and self._stopwords.search(secret) is not None
        if self._all:
            return (fits or self._regexes is None) and (stopped or self._stopwords is None)
        return fits or stopped

    def _looked_at(self, secret: bytes, match: Match[bytes]) -> bytes:
        if self._target == "match":
            return match[0].strip(b"\n")
        if self._target == "line":
            text = match.string
            end = text.find(b"\n", match.end())
            return text[text.rfind(b"\n", 0, match.start()) + 1 : end if end >= 0 else len(text)]
        return secret


def entropy(secret: bytes) -> float:
    """Bits per character, after Shannon."""
    return -sum(count / len(secret) * log2(count / len(secret)) for count in Counter(secret).values())


def _pieces(text: bytes) -> Iterator[tuple[int, bytes]]:
    """The text in overlapping pieces, each from the beginning of a line to the end of a line, if there are lines."""
    if len(text) <= PIECE + OVERLAP:
        yield 0, text
        return
    start = 0
    while start < len(text):
        end = _border(text, start + PIECE + OVERLAP)
        yield start, text[start:end]
        if end >= len(text):
            return
        start = max(_border(text, start + PIECE), start + 1)


def _border(text: bytes, at: int) -> int:
    """The last end of a line, or of a word, before the offset, or the offset."""
    if at >= len(text):
        return len(text)
    for space in (b"\n", b" "):
        space_at = text.rfind(space, at - OVERLAP // 2, at)
        if space_at >= 0:
            return space_at + 1
    return at


def _characters(data: bytes, at: int) -> int:
    """The number of characters in the first bytes."""
    return len(data[:at].decode("utf-8", "surrogatepass"))
