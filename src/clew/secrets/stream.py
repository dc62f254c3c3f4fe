"""Mask text that arrives in pieces: the result equals masking the whole text at once.

Each portion is scanned together with the text before and after it, as far as the scanner looks from a secret. The text
after it is the beginning of the next portion; a secret across the border belongs to the next portion as a whole.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from clew.secrets.masking import Masker
    from clew.secrets.scanner import Finding

# The size of a portion, and of the text before and after it that is scanned with it.
PORTION, OVERLAP = 1024 * 1024, 40 * 1024


def mask_text(mask: "Masker", pieces: Iterable[bytes], counts: Counter[str]) -> Iterator[bytes]:
    """The text without its secrets; `counts` gets the number of secrets per rule. JSON lines stay JSON lines."""
    before, held, fresh, size = b"", b"", list[bytes](), 0
    for piece in pieces:
        fresh.append(piece)
        size += len(piece)
        if size < PORTION:
            continue
        text = b"".join((before, held, *fresh))
        fresh, size = [], 0
        secrets = mask.scanner.find(text)
        border = max(0, len(text) - OVERLAP)
        # A line stays in one portion, because a line can be JSON.
        while secret := _reaching_over(border := text.rfind(b"\n", 0, border) + 1, secrets):
            border = secret.start
        if border <= len(before):
            held = text[len(before) :]
            continue
        masked = _mask_between(mask, text, secrets, len(before), border, counts)
        border += len(masked) - len(text)
        yield masked[len(before) : border]
        before, held = masked[max(0, border - OVERLAP) : border], masked[border:]
    text = b"".join((before, held, *fresh))
    yield _mask_between(mask, text, mask.scanner.find(text), len(before), len(text), counts)[len(before) :]


def mask_elements(mask: "Masker", elements: Iterable[bytes], counts: Counter[str]) -> Iterator[bytes]:
    """The elements of a JSON array, each of them JSON, without their secrets."""
    before, held, size = list[bytes](), list[bytes](), 0
    for element in elements:
        held.append(element)
        size += len(element)
        if size < PORTION:
            continue
        size = 0
        masked = _masked_elements(mask, before, held, counts, is_last=False)
        yield from masked
        held = held[len(masked) :]
        before = _last(OVERLAP, [*before, *masked])
    yield from _masked_elements(mask, before, held, counts, is_last=True)


def _masked_elements(
    mask: "Masker", before: list[bytes], held: list[bytes], counts: Counter[str], *, is_last: bool
) -> list[bytes]:
    """The first held elements, masked: all of them, or those that no later element can affect."""
    joined = [*before, *held]
    text = b"[%s]" % b",".join(joined)
    # The end of each element with its comma; the array begins before the first element.
    ends = [0, *accumulate((len(element) + 1 for element in joined), initial=1)]
    secrets = mask.scanner.find(text)
    border = len(text) if is_last else len(text) - OVERLAP
    while secret := _reaching_over(border := ends[bisect_right(ends, max(0, border)) - 1], secrets):
        border = secret.start
    number = ends.index(border) - 1 - len(before)
    if number <= 0:
        return []
    masked = _mask_between(mask, text, secrets, ends[len(before) + 1], border, counts)
    if masked is text:
        return held[:number]
    all_elements = msgspec.json.decode(masked, type=list[msgspec.Raw])
    return [bytes(element) for element in all_elements[len(before) : len(before) + number]]


def _last(size: int, elements: list[bytes]) -> list[bytes]:
    """The last elements with at least this total size."""
    first = len(elements)
    while first and size > 0:
        first -= 1
        size -= len(elements[first])
    return elements[first:]


def _reaching_over(border: int, secrets: "list[Finding]") -> "Finding | None":
    """The first secret that begins before a border and ends after it."""
    return next((secret for secret in secrets if secret.start < border < secret.end), None)


def _mask_between(
    mask: "Masker", text: bytes, secrets: "list[Finding]", first: int, last: int, counts: Counter[str]
) -> bytes:
    """The text with the secrets masked that end in a span of it; the text before the span is unchanged."""
    from clew.secrets.masking import replaced

    while changes := [
        change
        for change in mask.changes(text, [secret for secret in secrets if first < secret.end <= last])
        if change.start >= first
    ]:
        masked = replaced(text, changes)
        last += len(masked) - len(text)
        text = masked
        counts.update(change.mark.rule for change in changes)
        secrets = mask.scanner.find(text)
    return text
