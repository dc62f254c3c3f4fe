"""Ids: random, short, and never confused with anything else."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.model.errors import InvalidInput
from clew.model.ids import ALPHABET, LENGTH, check_prefix, new_id


def test_an_id_can_be_read_aloud() -> None:
    assert len(ALPHABET) == len(set(ALPHABET)) == 32
    assert not set("ilou") & set(ALPHABET)
    assert "".join(sorted(ALPHABET)) == ALPHABET  # so that ids sort as their bytes do


def test_ids_are_random_from_the_first_character_on() -> None:
    ids = [new_id() for _ in range(2_000)]
    assert len(set(ids)) == len(ids)
    assert all(len(id) == LENGTH for id in ids)
    for place in range(LENGTH):
        assert {id[place] for id in ids} == set(ALPHABET)


@given(length=st.integers(1, LENGTH))
def test_every_beginning_of_an_id_is_a_prefix(length: int) -> None:
    id = new_id()
    assert check_prefix(id[:length]) == id[:length]
    assert check_prefix(f" {id[:length].upper()}\n") == id[:length]


@given(text=st.text() | st.text(alphabet=st.characters(categories=["Cs"])))
def test_a_prefix_is_letters_of_the_alphabet_or_refused(text: str) -> None:
    with suppress(InvalidInput):
        found = check_prefix(text)
        assert 1 <= len(found) <= LENGTH
        assert set(found) <= set(ALPHABET)


@given(text=st.text(alphabet=st.characters(categories=["Cs"]), min_size=1))
def test_a_refusal_can_be_printed(text: str) -> None:
    with pytest.raises(InvalidInput, match="session id") as refusal:
        check_prefix(text)
    assert str(refusal.value).encode()


@pytest.mark.parametrize("text", ["", " ", "i", "l", "o", "u", "%", "a b", "a" * (LENGTH + 1), "\uff41"])
def test_what_no_id_begins_with_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        check_prefix(text)
