"""A fork's history as segments of its ancestors. Seqs are shared: a child goes on counting where it was forked."""

from collections.abc import Sequence

import msgspec


class Segment(msgspec.Struct, frozen=True):
    """The events `first`..`last` of a history, written in session `key`."""

    key: int
    id: str
    first: int
    last: int


def segments(line: Sequence[tuple[int, str, int]], head: int) -> list[Segment]:
    """The segments, oldest first, from the line of (key, id, upto), youngest first: each reads its parent to `upto`."""
    parts: list[Segment] = []
    last = head
    for key, id, upto in line:
        if last > upto:
            parts.append(Segment(key, id, upto + 1, last))
        last = min(last, upto)
    return parts[::-1]


def clip(parts: Sequence[Segment], first: int, last: int) -> list[Segment]:
    """The parts of the segments that lie within first..last."""
    return [
        Segment(part.key, part.id, max(part.first, first), min(part.last, last))
        for part in parts
        if part.last >= first and part.first <= last
    ]


def parting(left: Sequence[Segment], right: Sequence[Segment]) -> int:
    """The last seq that two histories share; 0 when they share nothing."""
    shared = 0
    for ours, theirs in zip(left, right, strict=False):
        if ours.key != theirs.key:
            break
        shared = min(ours.last, theirs.last)
    return shared
