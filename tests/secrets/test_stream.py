"""Masking in pieces finds what masking at once finds, wherever the pieces begin and end."""

import json
import random
from collections import Counter
from string import ascii_letters, digits

import pytest

from clew.secrets import stream
from clew.secrets.masking import Masker
from clew.secrets.rules import bundled
from clew.secrets.scanner import Scanner
from clew.secrets.stream import mask_elements, mask_text
from support.fake_secrets import KINDS

MASKER = Masker(Scanner(bundled()), b"k" * 32)
SECRETS = [make(random.Random(number)) for number, make in enumerate(KINDS.values())]


@pytest.fixture(autouse=True)
def small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Borders everywhere: a portion of 4 KB, of which half is looked at again."""
    monkeypatch.setattr(stream, "PORTION", 4096)
    monkeypatch.setattr(stream, "OVERLAP", 2048)


def private_key(chance: random.Random) -> str:
    """A secret of several lines."""
    lines = ("".join(chance.choices(ascii_letters + digits, k=64)) for _ in range(12))
    return "\n".join(("-----BEGIN RSA PRIVATE KEY-----", *lines, "-----END RSA PRIVATE KEY-----"))


def text(chance: random.Random) -> str:
    lines = (
        chance.choice([*SECRETS, *[private_key(chance)] * 9])
        if chance.random() < 0.2
        else "plain words " * chance.randint(0, 20)
        for _ in range(400)
    )
    return "\n".join(lines)


@pytest.mark.parametrize("number", range(5))
def test_a_text_in_pieces_is_masked_as_it_is_in_one(number: int) -> None:
    chance = random.Random(number)
    whole = text(chance).encode()
    expected, found = MASKER.mask(whole)
    borders = sorted(chance.sample(range(len(whole)), 50))
    pieces = [whole[a:b] for a, b in zip([0, *borders], [*borders, len(whole)], strict=True)]
    counts = Counter[str]()
    assert b"".join(mask_text(MASKER, pieces, counts)) == expected
    assert counts == found


def test_json_lines_in_pieces_are_masked_as_in_one_and_stay_json_lines() -> None:
    chance = random.Random(1)
    lines = [json.dumps({"n": n, "text": text(chance)}).encode() + b"\n" for n in range(5)]
    masked = b"".join(mask_text(MASKER, lines, Counter()))
    assert masked == MASKER.mask(b"".join(lines))[0] != b"".join(lines)
    assert [json.loads(line)["n"] for line in masked.splitlines()] == list(range(5))


def test_the_elements_of_an_array_are_masked_as_the_array_is() -> None:
    chance = random.Random(2)
    elements = [json.dumps({"n": n, "text": text(chance)[:3000]}).encode() for n in range(30)]
    expected, found = MASKER.mask(b"[%s]" % b",".join(elements))
    counts = Counter[str]()
    assert b"[%s]" % b",".join(mask_elements(MASKER, elements, counts)) == expected
    assert counts == found != Counter()


def test_what_holds_no_secret_is_not_touched() -> None:
    elements = [b'{"a": 1}', b"[2,  3]"] * 2000
    assert list(mask_elements(MASKER, elements, Counter())) == elements
    assert b"".join(mask_text(MASKER, elements, Counter())) == b"".join(elements)
