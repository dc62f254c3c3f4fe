"""Signed notes, checkpoints and keys: the forms of C2SP, read in one way only, and keys that only their owner reads."""

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.history import KEY, PUBLIC
from clew.model.checkpoint import (
    Checkpoint,
    CheckpointLeaf,
    HeadLeaf,
    checkpoint_from,
    leaf_from,
    note_from,
    public_key,
    statement,
)
from clew.model.errors import Conflict, Damaged, InvalidInput, Unavailable
from clew.service.audit.signing import (
    SigningKey,
    check,
    key_from,
    known_keys,
    new_key,
    read_key,
    replace_key,
    write_key,
)

# The example of Go's package golang.org/x/mod/sumdb/note, which others who read notes are tested with, too.
PRIVATE = "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
VKEY = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
NOTE = (
    "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n\n"
    "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)
CHECKPOINT = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
SIGNED = KEY.sign(CHECKPOINT)


def test_notes_and_keys_are_those_of_go() -> None:
    key = key_from(PRIVATE)
    assert (key.key, key.written()) == (VKEY, PRIVATE)
    assert str(public_key(VKEY)) == VKEY
    assert str(check(NOTE, [public_key(VKEY)])) == NOTE
    assert key.sign(note_from(NOTE).text) == NOTE


def test_a_checkpoint_is_read_as_it_is_written() -> None:
    found = checkpoint_from(CHECKPOINT)
    assert (found.origin, found.size, len(found.root)) == ("example.com/behind-the-sofa", 20852163, 32)
    assert str(found) == CHECKPOINT
    assert checkpoint_from(CHECKPOINT + "a line that another program added\n") == found


@given(st.text("abc/.", min_size=1), st.integers(0, 10**17), st.binary(min_size=32, max_size=32))
def test_every_checkpoint_comes_back(origin: str, size: int, root: bytes) -> None:
    one = Checkpoint(origin, size, root)
    assert checkpoint_from(check(KEY.sign(str(one)), [PUBLIC]).text) == one


@pytest.mark.parametrize(
    "text",
    [
        "", "\n", "a\n1\n", CHECKPOINT[:-1], CHECKPOINT + "\n", CHECKPOINT.replace("20852163", "020852163"),
        CHECKPOINT.replace("20852163", "-1"), CHECKPOINT.replace("20852163", "²"), CHECKPOINT.replace("2I=", "2J="),
        CHECKPOINT.replace("20852163", "9" * 40), CHECKPOINT.replace("CsUY", ""), CHECKPOINT.replace("CsUY", "Cs Y"),
        CHECKPOINT.replace("\n", "\n\n", 1),
    ],
)  # fmt: skip
def test_what_is_not_a_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        checkpoint_from(text)


@pytest.mark.parametrize(
    "written",
    [
        "", CHECKPOINT, SIGNED[:-1], SIGNED + "\n", SIGNED.replace("\n\n", "\n"), SIGNED.replace("— ", "- "),
        SIGNED.replace("— clew/test ", "— "), SIGNED.replace("clew/test", "clew+test"), SIGNED + "\tx\n",
        SIGNED.replace("— clew/test ", "— clew/test  "), SIGNED + "— x AAAA\n", SIGNED + "x" * 70_000,
    ],
)  # fmt: skip
def test_what_is_not_a_note_is_refused(written: str) -> None:
    with pytest.raises(InvalidInput):
        note_from(written)


@given(st.integers(0, len(SIGNED) - 1), st.characters(blacklist_categories=["Cs"]))
def test_no_character_of_a_checkpoint_can_be_changed(at: int, char: str) -> None:
    changed = SIGNED[:at] + char + SIGNED[at + 1 :]
    if changed != SIGNED:
        with pytest.raises(InvalidInput):
            check(changed, [PUBLIC])


def test_a_key_that_was_not_given_signs_nothing() -> None:
    other = SigningKey(PUBLIC.name, b"\1" * 32)
    with pytest.raises(InvalidInput, match="not one of the given keys"):
        check(SIGNED, [other.public])
    with pytest.raises(InvalidInput, match="not one of the given keys"):
        check(SIGNED, [])
    # Witnesses may sign too: what an unknown key says is passed over, what a known one says has to hold.
    both = SIGNED + other.sign(CHECKPOINT).rpartition("\n\n")[2]
    assert check(both, [PUBLIC]).text == CHECKPOINT
    wrong = SIGNED + other.sign("other\n").rpartition("\n\n")[2]
    with pytest.raises(InvalidInput, match="wrong"):
        check(wrong, [PUBLIC, other.public])


@pytest.mark.parametrize("text", ["", "a", "a+b+c", VKEY[:-4], VKEY.replace("c74f20a3", "c74f20a4"), PRIVATE])
def test_what_is_no_public_key_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        public_key(text)
    assert "AYEKFALV" not in str(refusal.value)


def test_leaves_come_back_and_others_are_refused() -> None:
    head = HeadLeaf(session="s", project="p\n", opened_at=1, control=True, seq=2, digest="00")
    for leaf in (head, CheckpointLeaf(number=1, position=2, at=3)):
        assert leaf_from(statement(leaf)) == leaf
    assert statement(head) == '["head","s","p\\n",1,true,2,"00"]'
    for text in ("", "{}", "[]", '["head"]', '["checkpoint",1,2]', '["checkpoint",1,2,3,4]', '["other",1,2,3]'):
        with pytest.raises(InvalidInput):
            leaf_from(text)


# Files ----------------------------------------------------------------------------------------------------------------


def test_a_key_is_written_for_its_owner_alone_and_never_over_another(tmp_path: Path) -> None:
    path = tmp_path / "home" / "audit.key"
    assert read_key(path) is None
    key = new_key("clew/one")
    write_key(path, key)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]
    with pytest.raises(Conflict):
        write_key(path, new_key("clew/two"))
    found = read_key(path)
    assert found is not None
    assert found.key == key.key
    assert key.written() not in repr(key)


def test_a_replaced_key_is_still_known(tmp_path: Path) -> None:
    path = tmp_path / "audit.key"
    keys = [new_key("clew/one") for _ in range(3)]
    for key in keys:
        replace_key(path, key)
    assert known_keys(path)[0] == keys[-1].public
    assert set(map(str, known_keys(path))) == {key.key for key in keys}


def test_a_key_that_others_can_read_or_that_is_damaged_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "audit.key"
    write_key(path, key_from(PRIVATE))
    path.chmod(0o644)
    with pytest.raises(Unavailable, match="chmod 600"):
        read_key(path)
    path.chmod(0o600)
    path.write_text(PRIVATE.replace("c74f20a3", "c74f20a4"))
    with pytest.raises(Damaged) as refusal:
        read_key(path)
    assert "AYEKFALV" not in str(refusal.value)


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\n", "a\u2003b"])
def test_a_key_needs_a_name_that_a_note_can_hold(name: str) -> None:
    with pytest.raises(InvalidInput):
        new_key(name)
