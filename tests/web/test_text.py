"""Stored text as markup: Markdown without tags of its own, code, the colours of a terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.server.web.text import patience
from clew.server.web.text.ansi import Piece, coloured, without_colours
from clew.server.web.text.code import highlighted
from clew.server.web.text.markdown import rendered
from clew.server.web.text.patience import begin_page


@pytest.mark.parametrize(
    ("text", "markup"),
    [
        ("**bold** `code`", "<p><strong>bold</strong> <code>code</code></p>\n"),
        ("<b>x</b>", "<p>&lt;b&gt;x&lt;/b&gt;</p>\n"),
        ("# Title", '<p class="heading h1">Title</p>\n'),
        ("[a](javascript:x)", "<p>[a](javascript:x)</p>\n"),
        ("[a](src/x.py)", "<p>[a](src/x.py)</p>\n"),
        ("![secret](https://evil.example/x.png)", "<p>[image: secret]</p>\n"),
        ("[a](https://example.org \"x\")",
         '<p><a href="https://example.org" rel="noopener noreferrer nofollow" target="_blank">a</a></p>\n'),
        ("a\u202eb", "<p>a\\u202eb</p>\n"),
    ],
)  # fmt: skip
def test_markdown_has_no_tags_images_or_links_of_its_own(text: str, markup: str) -> None:
    assert rendered(text) == markup


@given(st.text(st.sampled_from("<>&\"'`*_[]()!#|-\n \\:ajsdht"), max_size=200))
def test_whatever_markdown_is_made_of_no_tag_comes_from_the_text(text: str) -> None:
    markup = str(rendered(text))
    assert "<script" not in markup
    assert "<img" not in markup
    assert "javascript:" not in markup.lower().replace("(javascript:", "")


def test_code_is_escaped_in_every_language() -> None:
    for language in ("", "python", "html", "json", "nothing known", "bash"):
        assert "<script" not in highlighted("x = '<script>' # <script>", language), language
    assert 'class="h-k"' in highlighted("return 1", "python")


def test_texts_that_lexers_stumble_over_are_not_highlighted() -> None:
    for text in ("\n" * 5_000, " \n" * 2_000, "a" * 5_000, "x = 1\n" * 2_000):
        assert "<" not in highlighted(text, "java")


def test_a_page_of_expensive_texts_becomes_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    begin_page()
    assert "<strong>" in rendered("**bold**")
    monkeypatch.setattr(patience, "SECONDS", 0.0)
    assert rendered("**bold** <b>\nnext") == "<p>**bold** &lt;b&gt;<br>\nnext</p>\n"
    assert highlighted("return 1", "python") == "return 1"
    begin_page()
    assert "<strong>" in rendered("**bold**")


def test_the_colours_of_a_terminal_are_classes() -> None:
    assert coloured("\x1b[1;31mfailed\x1b[0m ok") == [Piece("failed", "a-1 a-red"), Piece(" ok")]
    assert coloured("\x1b[38;5;2mx\x1b[38;2;1;2;3my\x1b[48;5;1mz") == [
        Piece("x", "a-green"), Piece("y"), Piece("z", "a-on-red")
    ]  # fmt: skip
    assert coloured("10%\r50%\r100%\nnext\r\n") == [Piece("100%\nnext\n")]
    assert without_colours("\x1b]0;title\x07a\x1b[2Kb\x1b]8;;http://evil\x1b\\c") == "abc"


@given(st.text(st.sampled_from("\x1b[]m;0134589:\\\x07ab\r\n"), max_size=300))
def test_a_terminal_says_nothing_that_was_not_there(text: str) -> None:
    assert set(without_colours(text)) <= set(text)
