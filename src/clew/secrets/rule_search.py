"""Searching one rule in a piece of text: its matches, without those that are not secrets."""

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from math import log2
from string import ascii_letters, digits
from sys import maxsize

from clew.model.steps import end_step
from clew.secrets.allowing import Allowing
from clew.secrets.patterns import Finder, Spans
from clew.secrets.rules import Rule

# A token that is longer than its rule expects is masked to its end.
_REST = re.compile(rb"[\w-]*")
# Many rules of gitleaks begin with this: up to 50 characters of a name before the keyword. They decide where a match
# begins, never whether there is one, and a search without them is several times as fast.
_LEAD, _LEAD_CHARACTERS = r"(?i)[\w.-]{0,50}?", 50
_LEADING = f"{ascii_letters}{digits}_.-".encode()
# So many secrets in a row, so near to each other on average, are a run: a stretch of it is one secret. A hostile text
# is a run from beginning to end, and each secret of its own costs as much as 1 KB of a text without any.
DENSE, GAP, RUN = 24, 128, 1024
# Before the end of a run the search continues, because a secret can reach over it.
BACK = 512
_UNBROKEN, LONGEST_TOKEN = re.compile(rb"""[^\s"'<>`]*"""), 4096
# n log n of small numbers.
_WEIGHTED = (0.0, *(count * log2(count) for count in range(1, 64)))


def searched(regex: str) -> str:
    """The regex without its lead."""
    return f"(?i){regex.removeprefix(_LEAD)}" if regex.startswith(_LEAD) else regex


def token_end(text: bytes, at: int) -> int:
    """The end of the token that contains the character before an offset; the offset if there is none."""
    rest = _REST.match(text, at) if text[at - 1 : at].isalnum() else None
    return rest.end() if rest else at


class RuleSearch:
    """A compiled rule."""

    def __init__(self, rule: Rule, allowing: Allowing) -> None:
        regex = searched(rule.regex)
        self._lead = _LEAD_CHARACTERS if regex != rule.regex else 0
        self._next = Finder(regex).next_in
        self._group = rule.secret_group
        self._entropy = rule.entropy
        # A secret with fewer different characters cannot have the entropy.
        self._distinct = 2**rule.entropy if rule.entropy else 0
        self._allowing = allowing

    def found_in(self, piece: bytes, runs: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """The secrets in a piece. `runs` gets the runs of secrets, which no other rule needs to look into."""
        at = run_end = 0
        recent = deque[int](maxlen=DENSE)
        lines: dict[int, bool] = {}
        others = [*runs]
        while at <= len(piece) and (spans := self._next(piece, at)):
            end_step()
            start, end = self._secret(spans) if len(spans) > 1 else spans[0]
            if others and (after := _after(start, end, others)):
                at = max(end, at + 1, after - BACK)
                continue
            secret = piece[start:end]
            match_start, match_end = spans[0]
            if self._is_none(secret) or self._allowing.allows(
                secret, _led_from(piece, match_start, at, self._lead), match_end, text=piece, lines=lines
            ):
                at = max(match_end, at + 1)
                continue
            # The text after a secret can also be the context before the next one.
            at = end = token_end(piece, end)
            if _is_dense(start, recent, run_end):
                end = run_end = _border(piece, end + RUN)
                runs.append((start, end))
                at = max(at, end - BACK)
            recent.append(at)
            yield start, end

    def _is_none(self, secret: bytes) -> bool:
        if not self._entropy:
            return not secret
        return len(set(secret)) <= self._distinct or entropy(secret) <= self._entropy

    def _secret(self, spans: Spans) -> tuple[int, int]:
        """The group that the rule names, else the first group that is not empty, else the whole match."""
        if self._group:
            return spans[self._group]
        for start, end in spans[1:]:
            if end > start:
                return start, end
        return spans[0]


def _led_from(piece: bytes, start: int, at: int, most: int) -> int:
    """Where a match begins, with the characters of its lead, which do not reach before `at`."""
    before = piece[max(at, start - most) : start]
    return start - len(before) + len(before.rstrip(_LEADING))


def _after(start: int, end: int, runs: list[tuple[int, int]]) -> int:
    """The end of the run of secrets that contains a span; 0 if none does."""
    i = bisect_right(runs, (start, maxsize)) - 1
    return runs[i][1] if i >= 0 and end <= runs[i][1] else 0


def _is_dense(start: int, recent: deque[int], run_end: int) -> bool:
    """Whether a secret continues a run, or has so many others before it that it begins one."""
    if run_end and start - run_end <= BACK:
        return True
    return len(recent) == DENSE and start - recent[0] <= DENSE * GAP


def _border(piece: bytes, at: int) -> int:
    """The offset, or the end of what looks like one token there: a run ends where a secret ends."""
    rest = _UNBROKEN.match(piece, at, at + LONGEST_TOKEN)
    return rest.end() if rest else len(piece)


def entropy(secret: bytes) -> float:
    """Bits per character, after Shannon."""
    size = len(secret)
    counts = [secret.count(character) for character in set(secret)]
    if max(counts) >= len(_WEIGHTED):
        return log2(size) - sum(count * log2(count) for count in counts) / size
    return log2(size) - sum([_WEIGHTED[count] for count in counts]) / size
