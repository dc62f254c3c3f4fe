"""Words: what a text is found by."""
# ruff: noqa: RUF001  # Letters that look like others are what this is about.

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.model.words import LONGEST, SEAM, spans, stream, words
from support.wording import all_words, parts, texts

PARTS = {
    "Lock ERROR": "lock error",
    "getUserName": "get user name",
    "HTTPServer": "http server",
    "parseXMLDoc2Go": "parse xml doc2 go",
    "x86_64": "x86 64",
    "snake_case.dotted-kebab": "snake case dotted kebab",
    "path/to/file.py:12": "path to file py 12",
    r"C:\Users\ada": "c users ada",
    "Café naïve Ångström": "cafe naive angstrom",
    "Straße": "strasse",
    "ﬁle ½ ²": "file 1 2 2",
    "ＡＢＣ１２": "abc12",
    "Ёлка Й": "ёлка й",
    "ΣΊΣΥΦΟΣ": "σισυφοσ",
    "東京都に行く": "東 京 都 に 行 く",
    "한국어": "한 국 어",
    "Python入門": "python 入 門",
    "ไทย": "ไ ท ย",
    "हिन्दी में": "हिन्दी में",
    "soft\u00adhyphen zero\u200bwidth": "softhyphen zero width",
    "⚠\ufe0fWarning ✅done 1\ufe0f\u20e3": "warning done 1",
    "\x00\x1b[31mred": "31mred",
    "\ue000r61": "r61",
    "🙂": "",
    "": "",
}


def in_order(text: str) -> list[str]:
    return stream(text).replace(SEAM, " ").split()


@pytest.mark.parametrize(("text", "found"), PARTS.items(), ids=map(ascii, PARTS))
def test_a_text_is_taken_apart_into_words(text: str, found: str) -> None:
    assert in_order(text) == found.split()


def test_a_stream_shows_where_capitals_part_a_word() -> None:
    assert stream("x.getUserName() HTTPServer") == f" x get{SEAM}user{SEAM}name http{SEAM}server "
    assert stream(f"a{SEAM}b") == " a b "
    assert stream("") == "  "


def test_camel_case_is_found_as_a_whole_too() -> None:
    assert set(words("x.getUserName()")) == {"x", "get", "user", "name", "getusername"}


def test_a_long_word_goes_by_its_beginning() -> None:
    assert in_order("a" * 200) == ["a" * LONGEST]
    assert in_order("ﬃ" * 30) == [("ffi" * 30)[:LONGEST]]
    # Marks that vanish do not hide that a word has grown.
    assert in_order("ﬃ" * 30 + "\u0301" * 90) == [("ffi" * 30)[:LONGEST]]


@settings(max_examples=500)
@given(texts)
def test_words_are_those_of_the_rules(text: str) -> None:
    assert in_order(text) == parts(text)
    assert set(words(text)) == all_words(text)


@settings(max_examples=500)
@given(texts)
def test_every_word_stands_where_it_is_said_to(text: str) -> None:
    found = list(spans(text))
    assert {word for word, _, _ in found} == all_words(text)
    for word, start, end in found:
        assert 0 <= start < end <= len(text)
        assert word in all_words(text[start:end])


# Only capitals of camelCase are told by how they are written.
@settings(max_examples=300)
@given(texts.map(str.lower) | st.text(st.characters(codec="utf-8", exclude_categories=["Lu"]), max_size=20))
def test_it_does_not_matter_how_an_accent_is_encoded(text: str) -> None:
    for form in ("NFC", "NFD"):
        assert in_order(unicodedata.normalize(form, text)) == in_order(text)


def test_whatever_a_word_is_made_of_it_is_found_by_itself() -> None:
    # Of ideographs and syllables, of which there are thousands alike, only some.
    points = (*range(0x3500), *range(0xA000, 0xAD00), *range(0xE000, 0x17100), *range(0x1AFF0, 0x20100), 0x10FFFF)
    for word in set(words(" ".join(map(chr, points)))):
        assert words(word) == [word]
        # Whoever makes letters small once more, as a database does, changes nothing.
        assert word.lower() == word
        # Neither can a word be taken for one of the marks that filters go by, nor end the quotes around it.
        assert not any("\ue000" <= letter <= "\uf8ff" or letter in "\"'\\\0" for letter in word)


def test_heaps_of_marks_are_no_trap() -> None:
    # Composing all of them at once takes minutes.
    text = "a" + "\u0316\u0301" * 60_000
    assert in_order(text) == ["a"]
    assert [word for word, _, _ in spans(text)] == ["a"]
