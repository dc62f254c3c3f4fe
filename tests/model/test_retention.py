"""Retention: seqs as ranges, and a policy in words."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.model.retention import Policy, ranges


@given(seqs=st.sets(st.integers(1, 60)).map(sorted))
def test_ranges_name_exactly_the_seqs(seqs: list[int]) -> None:
    found = ranges(seqs)
    assert [seq for first, last in found for seq in range(first, last + 1)] == seqs
    # As few as possible: between two ranges at least one seq is missing.
    assert all(right[0] - left[1] > 1 for left, right in itertools.pairwise(found))


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (Policy(project="demo"), "demo: conversations for ever"),
        (Policy(project="demo", agent="fred", keep_days=30), "demo/fred: conversations 30 days"),
        (Policy(project="demo", keep_days=0, hold=True), "demo: conversations 0 days, on hold"),
    ],
)
def test_a_policy_reads_as_what_it_does(policy: Policy, words: str) -> None:
    assert str(policy) == words
