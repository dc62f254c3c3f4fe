"""Lineage: segments, clips and partings agree with histories written out event by event."""

from hypothesis import given
from hypothesis import strategies as st

from clew.model.lineage import Segment, clip, parting, segments

# A family: each child names an older session by its place and the event it was forked at, both taken modulo.
FORKS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=6)
LENGTHS = st.lists(st.integers(1, 4), min_size=7, max_size=7)

Event = tuple[int, int]
Family = list[tuple[list[Event], list[tuple[int, str, int]]]]


def family(forks: list[tuple[int, int]], lengths: list[int]) -> Family:
    """For each session its history, as (writer, seq), and its line as the store has it, youngest first."""
    found: Family = []
    for key, length in enumerate(lengths[: len(forks) + 1]):
        history: list[Event] = []
        line = [(key, f"s{key}", 0)]
        if key:
            parent, at = forks[key - 1]
            asked, _ = found[parent % key]
            upto = at % len(asked) + 1
            owner, _ = asked[upto - 1]
            # A child hangs on whoever wrote the event.
            history = found[owner][0][:upto]
            line = [(key, f"s{key}", upto), *found[owner][1]]
        history = history + [(key, len(history) + place) for place in range(1, length + 1)]
        found.append((history, line))
    return found


def written_out(parts: list[Segment]) -> list[Event]:
    return [(part.key, seq) for part in parts for seq in range(part.first, part.last + 1)]


@given(forks=FORKS, lengths=LENGTHS)
def test_segments_are_the_history(forks: list[tuple[int, int]], lengths: list[int]) -> None:
    for history, line in family(forks, lengths):
        parts = segments(line, len(history))
        assert written_out(parts) == history
        assert all(part.id == f"s{part.key}" for part in parts)


@given(forks=FORKS, lengths=LENGTHS, head=st.integers(0, 40))
def test_segments_up_to_an_earlier_head_are_a_beginning(
    forks: list[tuple[int, int]], lengths: list[int], head: int
) -> None:
    for history, line in family(forks, lengths):
        head = min(head, len(history))
        assert written_out(segments(line, head)) == history[:head]


@given(forks=FORKS, lengths=LENGTHS, first=st.integers(-2, 40), last=st.integers(-2, 40))
def test_a_clip_is_a_slice(forks: list[tuple[int, int]], lengths: list[int], first: int, last: int) -> None:
    for history, line in family(forks, lengths):
        clipped = clip(segments(line, len(history)), first, last)
        assert written_out(clipped) == [event for event in history if first <= event[1] <= last]


@given(forks=FORKS, lengths=LENGTHS)
def test_two_histories_part_after_what_they_share(forks: list[tuple[int, int]], lengths: list[int]) -> None:
    everyone = family(forks, lengths)
    for left, left_line in everyone:
        for right, right_line in everyone:
            shared = 0
            while shared < min(len(left), len(right)) and left[shared] == right[shared]:
                shared += 1
            assert parting(segments(left_line, len(left)), segments(right_line, len(right))) == shared


def test_strangers_share_nothing() -> None:
    assert parting([Segment(1, "a", 1, 5)], [Segment(2, "b", 1, 5)]) == 0
    assert parting([], []) == 0
