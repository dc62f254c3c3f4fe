"""Finding secrets: only rules whose keywords occur run, over the unescaped text, one piece at a time."""

from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from itertools import chain
from sys import maxsize

import msgspec

from clew.model.steps import end_step
from clew.secrets import base64_runs
from clew.secrets.allowing import Allowing
from clew.secrets.escapes import Origins, unescaped
from clew.secrets.patterns import Regexes, Words
from clew.secrets.rule_search import RuleSearch, searched, token_end
from clew.secrets.rules import Rules

# One piece is searched at a time, so that a keyword far away costs nothing; the overlap covers a secret on a border.
PIECE, OVERLAP = 32 * 1024, 8 * 1024
# How much text before and after a masked secret is searched again.
NEAR = 512
# More rules of one form than this are first searched all at once.
FEW = 8


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
        self._allowlists = rules.allowlists
        self._named = {rule.id for rule in rules.rules if searched(rule.regex) != rule.regex and not rule.is_broad}
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

    def find_near(self, text: bytes, spans: Iterable[tuple[int, int]]) -> list[Finding]:
        """The secrets near these spans, which are in order."""
        windows = list(_windows(text, spans))
        if sum(end - start for start, end in windows) > len(text) // 2:
            return self._find(text)
        return [
            Finding(hit.rule, start + hit.start, start + hit.end)
            for start, end in windows
            for hit in self._find(text[start:end])
        ]

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
        dense = ""
        for start, piece in _pieces(text):
            end_step()
            runs: list[tuple[int, int]] = []
            # The rule that found runs of secrets in the last piece comes first: it spares the others the same work.
            for id in sorted(self._matching(self._candidates(piece), piece), key=lambda id: id != dense):
                known = len(runs)
                for span in self._test(id).found_in(piece, runs):
                    yield Finding(id, start + span[0], start + span[1])
                if len(runs) > known:
                    dense = id
                    runs.sort()

    def _candidates(self, piece: bytes) -> list[str]:
        ids = {id for word in self._words.found_in(piece) for id in self._by_word[word]}
        return sorted(ids.union(self._always), key=self._order.__getitem__)

    def _matching(self, ids: list[str], piece: bytes) -> list[str]:
        """The rules without some that match nowhere in the piece."""
        if len(self._named.intersection(ids)) <= FEW:
            return ids
        names, regexes = self._named_at_once
        without = self._named.difference(names[i] for i in regexes.found_in(piece))
        return [id for id in ids if id not in without]

    @cached_property
    def _named_at_once(self) -> tuple[list[str], Regexes]:
        """The rules that differ in little but a name: one automaton for all of them is small."""
        names = sorted(self._named)
        return names, Regexes([searched(self.rules[id].regex) for id in names])

    def _encoded(self, text: bytes) -> Iterator[Finding]:
        """Whole runs of base64 that contain a secret."""
        for run in base64_runs.runs(text):
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

    def _test_of(self, id: str) -> RuleSearch:
        rule = self.rules[id]
        shared = (allow for allow in self._allowlists if not allow.target_rules or id in allow.target_rules)
        return RuleSearch(rule, Allowing((*rule.allowlists, *shared)))


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


def _windows(text: bytes, spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The text around spans, from the beginning of a token to the end of a token; windows that meet are one."""
    low = high = -1
    for start, end in chain(spans, ((maxsize, maxsize),)):
        if start - high > 3 * NEAR:
            if high >= 0:
                yield token_end(text, max(0, low - NEAR)), token_end(text, min(high + NEAR, len(text)))
            low = start
        high = end


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
