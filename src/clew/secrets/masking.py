"""Masking: each secret becomes `[REDACTED:rule:hmac8]`, and masking the result again changes nothing.

The same secret gets the same mark in one store, so that people can see where it was used; without the store's key a
mark reveals nothing about the secret. A mark has no character that JSON, HTML or a shell would escape.
"""

import hmac
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import NamedTuple, TypeVar

import msgspec

from clew.secrets import REACH
from clew.secrets.escapes import unescaped
from clew.secrets.json_text import Layout
from clew.secrets.mask_cache import SHORTEST, MaskCache, Masked, digest_of
from clew.secrets.scanner import Finding, Scanner

MARK = re.compile(rb"\[REDACTED:([a-z0-9][a-z0-9-]{0,63}):([0-9a-f]{8})\]")

# The tag of a mark that does not identify the secret it replaces.
UNTOLD = "00000000"
# Two secrets can share the context that a rule needs; more passes than this find nothing new.
MOST_PASSES = 5

Text = TypeVar("Text", str, bytes)


class Mark(msgspec.Struct, frozen=True):
    """The replacement of a secret."""

    rule: str
    tag: str

    def __str__(self) -> str:
        return f"[REDACTED:{self.rule}:{self.tag}]"


class Change(NamedTuple):
    """A span of a text that a mark replaces; `is_bare` if JSON requires quotes around the mark."""

    start: int
    end: int
    mark: Mark
    is_bare: bool


def replaced(text: bytes, changes: Iterable[Change]) -> bytes:
    """A text after these changes, which are in order and do not overlap."""
    pieces: list[bytes] = []
    at = 0
    for start, end, mark, is_bare in changes:
        pieces += [text[at:start], (f'"{mark}"' if is_bare else str(mark)).encode()]
        at = end
    return b"".join((*pieces, text[at:]))


def _spans_after(changes: Iterable[Change]) -> Iterator[tuple[int, int]]:
    """The spans of the replacements, in the text after the changes."""
    moved = 0
    for start, end, mark, is_bare in changes:
        size = len(str(mark)) + 2 * is_bare
        yield start + moved, start + moved + size
        moved += size - (end - start)


class Masker:
    """Masks what a scanner finds, with the key of a store."""

    def __init__(self, scanner: Scanner, key: bytes = b"") -> None:
        """Without a key no mark tells whether two secrets are the same one."""
        self.scanner = scanner
        self._key = key
        self._cache = MaskCache()

    def mask(self, text: Text) -> tuple[Text, Counter[str]]:
        """The text without its secrets, and the number of secrets per rule. JSON stays JSON of the same shape."""
        masked, marks = self.marked(text)
        return masked, Counter(mark.rule for mark in marks)

    def marked(self, text: Text) -> tuple[Text, list[Mark]]:
        """The text without its secrets, and the marks that replace them."""
        if isinstance(text, bytes):
            return self._marked(text)
        masked, marks = self._marked(text.encode("utf-8", "surrogatepass"))
        return (masked.decode("utf-8", "surrogatepass"), marks) if marks else (text, marks)

    def _marked(self, text: bytes) -> tuple[bytes, list[Mark]]:
        if len(text) < SHORTEST:
            return self._marked_afresh(text)
        digest = digest_of(text)
        known = self._cache.find(digest)
        if known is None:
            masked, marks = self._marked_afresh(text)
            known = Masked(masked if marks else None, tuple(marks))
            self._cache.keep(digest, known)
        return text if known.text is None else known.text, [*known.marks]

    def _marked_afresh(self, text: bytes) -> tuple[bytes, list[Mark]]:
        marks: list[Mark] = []
        secrets = self.scanner.find(text)
        while changes := list(self.changes(text, secrets)):
            text = replaced(text, changes)
            marks += [change.mark for change in changes]
            # A secret can be visible only after its neighbour is masked: an allow-list applied to both, for example.
            secrets = self.scanner.find_near(text, _spans_after(changes))
        return text, marks

    def blanked(self, data: bytes) -> bytes:
        """The bytes with each secret overwritten in place, for a file that is read by its offsets."""
        for _ in range(MOST_PASSES):
            changes = list(self.changes(data, self.scanner.find(data)))
            if not changes:
                break
            crossed = bytearray(data)
            for start, end, _, is_bare in changes:
                # A bare number stays a number.
                crossed[start:end] = (b"1" if is_bare else b"*") * (end - start)
            data = bytes(crossed)
        return data

    def blanked_at_ends(self, data: bytes, before: bytes, after: bytes) -> bytes:
        """The bytes of a part of a file: the secrets that reach into the part before or after it are overwritten."""
        before, after = before[-REACH:], after[:REACH]
        crossed = bytearray(data)
        windows = [(0, data[:REACH]), (max(0, len(data) - REACH), data[-REACH:])]
        for start, piece in windows if len(data) > REACH else windows[:1]:
            first, last = (before if not start else b""), (after if start + len(piece) == len(data) else b"")
            window = first + piece + last
            end = len(first) + len(piece)
            for low, high, _, is_bare in self.changes(window, self.scanner.find(window)):
                if low < len(first) < high or low < end < high:
                    low, high = max(low, len(first)), min(high, end)
                    at = start - len(first)
                    crossed[at + low : at + high] = (b"1" if is_bare else b"*") * (high - low)
        return bytes(crossed)

    def changes(self, text: bytes, secrets: list[Finding]) -> Iterator[Change]:
        """The changes that mask these secrets, in order and without overlaps."""
        if not secrets:
            return
        layout = Layout(text)
        present = [match.span() for match in MARK.finditer(text) if match[1].decode() in self.scanner.rules]
        done = 0
        for secret in secrets:
            mark = self._mark(text, secret)
            for start, end, is_bare in layout.replaceable_in(secret.start, secret.end):
                # A number is replaced as a whole, also if it contains the next secret.
                start = max(start, done)
                parts = _without(present, start, end) if present else ((start, end),)
                for low, high in parts:
                    if low < high:
                        yield Change(low, high, mark, is_bare)
                        done = high

    def _mark(self, text: bytes, finding: Finding) -> Mark:
        if not self._key:
            return Mark(finding.rule, UNTOLD)
        secret = unescaped(text[finding.start : finding.end])
        return Mark(finding.rule, hmac.digest(self._key, secret, "sha256").hex()[:8])


def _without(marks: list[tuple[int, int]], start: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts of a span outside the marks that it contains."""
    for i in range(bisect_right(marks, start, key=itemgetter(1)), len(marks)):
        low, high = marks[i]
        if low >= end:
            break
        if start < low:
            yield start, low
        start = high
    if start < end:
        yield start, end
