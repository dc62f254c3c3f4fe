"""Blobs without their secrets: UTF-8, UTF-16 with and without its mark, and binary files."""

import random
from collections import Counter

import pytest

from clew.secrets.blobs import is_binary, masked_pieces, without_secrets
from clew.secrets.masking import Masker
from clew.secrets.rules import bundled
from clew.secrets.scanner import Scanner
from support.fake_secrets import KINDS

MASKER = Masker(Scanner(bundled()), b"k" * 32)
SECRET = KINDS["GITHUB_TOKEN"](random.Random(1))
TEXT = f"first line\nthe token is {SECRET} here\nlast line\n"
CODECS = ("utf-8", "utf-16", "utf-16-le", "utf-16-be")


@pytest.mark.parametrize("codec", CODECS)
def test_a_text_in_any_encoding_is_masked_and_keeps_it(codec: str) -> None:
    masked, counts = without_secrets(MASKER, TEXT.encode(codec))
    assert masked.decode(codec) == MASKER.mask(TEXT)[0]
    assert counts == {"github-pat": 1}


@pytest.mark.parametrize("codec", CODECS)
def test_a_secret_on_the_border_of_two_pieces_is_masked(codec: str) -> None:
    data = TEXT.encode(codec)
    for border in range(20, len(data), 7):
        counts = Counter[str]()
        masked = b"".join(masked_pieces(MASKER, [data[:border], data[border:]], counts))
        assert masked.decode(codec) == MASKER.mask(TEXT)[0]


@pytest.mark.parametrize("codec", ["utf-8", "utf-16-le"])
def test_a_binary_file_with_a_secret_stays_where_it_is(codec: str) -> None:
    data = b"SQLite format 3\0" + bytes(range(256)) * 4 + TEXT.encode(codec)
    assert is_binary(data)
    assert without_secrets(MASKER, data) == (
        b"[a file that stays where it is: it holds github-pat]\n", Counter({"github-pat": 1}),
    )  # fmt: skip


def test_what_holds_no_secret_stays_byte_for_byte() -> None:
    for data in (b"\xff\xfea\0b", b"\xff\xfe\x00\xd8x", b"a\0b\0c\0", bytes(range(256)), "añb".encode("utf-16")):
        assert without_secrets(MASKER, data) == (data, Counter())
