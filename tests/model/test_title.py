"""Titles are cut between tokens, so that half of a secret is never shown as one."""

from hypothesis import given
from hypothesis import strategies as st

from clew.model.title import SHOWN_OF_A_TOKEN, first_line, shortened, uncut

SECRET = "Zq8" + "kP2x" * 9


@given(st.integers(0, 120), st.sampled_from([" ", "=", "", "é"]))
def test_no_title_shows_a_part_of_a_token(before: int, joint: str) -> None:
    title = first_line(f"{'word ' * before}{joint}{SECRET} and more\nnext")
    assert SECRET in title or SECRET[: SHOWN_OF_A_TOKEN + 1] not in title
    assert len(title) <= 80


@given(st.integers(0, 90))
def test_a_title_that_was_cut_by_an_earlier_version_loses_its_last_token(before: int) -> None:
    was = f"{'w' * before} {SECRET} and more words that make it long enough in any case, and again some more"[:80]
    assert SECRET in uncut(was) or SECRET[:8] not in uncut(was)


def test_what_is_short_or_has_no_spaces_stays() -> None:
    assert shortened("Fix the bug") == uncut("Fix the bug") == "Fix the bug"
    assert shortened("修" * 100) == "修" * 79 + "…"
    assert uncut(shortened("long " * 40)) == shortened("long " * 40) == "long " * 15 + "long…"
