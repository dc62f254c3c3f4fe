"""Which lines of a text are still in the next one: first the lines that are once in both, then what is between them.

That shows a moved or added function as a person sees it, and takes about as long as sorting, also for hostile texts.
"""

import difflib
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

from clew.model.steps import end_step

# What has no line that is once in both is compared line by line, if it is no larger than this.
MOST_CELLS = 40_000
# A text in which one line after the other has to be taken apart is hostile; the rest of it counts as changed.
DEEPEST = 12
STEP = 500
CHUNK = 128

Block = tuple[int, int, int]
"""Where equal lines begin in the old text and in the new one, and how many they are."""


def same_lines(old: Sequence[bytes], new: Sequence[bytes]) -> list[Block]:
    """The blocks of lines that are in both, in order."""
    blocks: list[Block] = []
    ranges = [(0, len(old), 0, len(new), 0)]
    rounds = 0
    while ranges:
        rounds += 1
        if rounds % STEP == 0:
            end_step()
        old_begin, old_end, new_begin, new_end, depth = ranges.pop()
        ahead = _equal_ahead(old, new, old_begin, new_begin, min(old_end - old_begin, new_end - new_begin))
        if ahead:
            blocks.append((old_begin, new_begin, ahead))
            old_begin, new_begin = old_begin + ahead, new_begin + ahead
        behind = _equal_behind(old, new, old_end, new_end, min(old_end - old_begin, new_end - new_begin))
        if behind:
            old_end, new_end = old_end - behind, new_end - behind
            blocks.append((old_end, new_end, behind))
        if old_begin == old_end or new_begin == new_end:
            continue
        anchors = _anchors(old, new, old_begin, old_end, new_begin, new_end) if depth < DEEPEST else []
        if anchors:
            for old_at, new_at in [*anchors, (old_end, new_end)]:
                ranges.append((old_begin, old_at, new_begin, new_at, depth + 1))
                if old_at < old_end:
                    blocks.append((old_at, new_at, 1))
                old_begin, new_begin = old_at + 1, new_at + 1
        elif (old_end - old_begin) * (new_end - new_begin) <= MOST_CELLS:
            matcher = difflib.SequenceMatcher(None, old[old_begin:old_end], new[new_begin:new_end], autojunk=False)
            end_step()
            for old_at, new_at, size in matcher.get_matching_blocks():
                if size:
                    blocks.append((old_begin + old_at, new_begin + new_at, size))
    return sorted(blocks)


def _equal_ahead(old: Sequence[bytes], new: Sequence[bytes], old_at: int, new_at: int, most: int) -> int:
    """How many lines are equal from two places on, many of them compared at once."""
    equal = 0
    for size in (CHUNK, 1):
        while equal + size <= most and (
            old[old_at + equal : old_at + equal + size] == new[new_at + equal : new_at + equal + size]
        ):
            equal += size
    return equal


def _equal_behind(old: Sequence[bytes], new: Sequence[bytes], old_end: int, new_end: int, most: int) -> int:
    """How many lines are equal before two places."""
    equal = 0
    for size in (CHUNK, 1):
        while equal + size <= most and (
            old[old_end - equal - size : old_end - equal] == new[new_end - equal - size : new_end - equal]
        ):
            equal += size
    return equal


def _anchors(
    old: Sequence[bytes], new: Sequence[bytes], old_begin: int, old_end: int, new_begin: int, new_end: int
) -> list[tuple[int, int]]:
    """Where the lines are that are once in both ranges, as many of them as are in the same order."""
    olds = Counter(old[old_begin:old_end])
    news = Counter(new[new_begin:new_end])
    places = {old[at]: at for at in range(old_begin, old_end) if olds[old[at]] == 1 and news.get(old[at]) == 1}
    pairs = [(places[new[at]], at) for at in range(new_begin, new_end) if new[at] in places]
    # The longest row of pairs whose old places ascend.
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for number, (old_at, _) in enumerate(pairs):
        length = bisect_left(ends, old_at)
        before.append(last[length - 1] if length else -1)
        if length == len(ends):
            ends.append(old_at)
            last.append(number)
        else:
            ends[length], last[length] = old_at, number
    row = []
    number = last[-1] if last else -1
    while number >= 0:
        row.append(pairs[number])
        number = before[number]
    return row[::-1]
