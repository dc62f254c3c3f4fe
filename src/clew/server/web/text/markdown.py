"""Markdown as markup: no HTML of its own, no images, and links to the web and to mail alone.

An image would tell another server who reads what, so its words are shown in its place. A link opens without telling
where it was followed.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markupsafe import Markup

from clew.model.plain import plain
from clew.server.web.text.code import highlighted
from clew.server.web.text.patience import counted, is_spent

# The time that Markdown takes has no bound that anybody promises.
LONGEST = 15_000
SCHEMES = frozenset({"http", "https", "mailto"})


def rendered(text: str) -> Markup:
    """Markdown as markup; its beginning, if it is longer than any page shows."""
    text = plain(text[:LONGEST])
    renderer = _plain_renderer() if is_spent() else _renderer()
    with counted():
        # The renderer escapes all text, and nothing else makes tags: HTML in the text is text.
        return Markup(renderer.render(text))  # noqa: S704


@cache
def _plain_renderer() -> MarkdownIt:
    """Paragraphs and lines alone."""
    return MarkdownIt("zero", {"breaks": True}).enable("newline")


@cache
def _renderer() -> MarkdownIt:
    options = {"html": False, "linkify": False, "typographer": False, "breaks": True, "highlight": _highlighted}
    renderer = (
        MarkdownIt("commonmark", options).enable(["table", "strikethrough"]).disable(["html_block", "html_inline"])
    )
    renderer.validateLink = _is_link  # type: ignore[method-assign]  # The library's own way to set it.
    renderer.core.ruler.push("harmless", _make_harmless)
    return renderer


def _highlighted(code: str, language: str, _: Any) -> str:
    return str(highlighted(code, language))


def _is_link(url: str) -> bool:
    try:
        return urlsplit(url.strip()).scheme.lower() in SCHEMES
    except ValueError:
        return False


def _make_harmless(state: StateCore) -> None:
    """Show images as their words and headings as bold lines, and mark links as leading elsewhere."""
    for token in state.tokens:
        if token.children:
            token.children = [_harmless(child) for child in token.children]
        if token.type in ("heading_open", "heading_close"):
            level, token.tag = token.tag, "p"
            if token.nesting == 1:
                token.attrSet("class", f"heading {level}")
        if token.type in ("th_open", "td_open") and token.attrs.pop("style", "") == "text-align:right":
            token.attrSet("class", "n")
        if token.type == "fence":
            token.info = token.info.strip().partition(" ")[0]


def _harmless(token: Token) -> Token:
    if token.type == "image":
        return Token("text", "", 0, content=f"[image: {_words(token.children or ()) or token.attrGet('src') or ''}]")
    if token.type == "link_open":
        token.attrSet("rel", "noopener noreferrer nofollow")
        token.attrSet("target", "_blank")
        token.attrs.pop("title", None)
    return token


def _words(tokens: Sequence[Token]) -> str:
    return "".join(token.content for token in tokens)
