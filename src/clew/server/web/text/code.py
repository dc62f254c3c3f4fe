"""Code with its parts marked by classes. Pygments escapes the text; the style sheet gives the classes colours."""

import re
from functools import cache

from markupsafe import Markup
from pygments import highlight
from pygments.formatters.html import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from clew.model.plain import plain
from clew.server.web.text.patience import counted, is_spent

# Some lexers take time in proportion to the square of the length, of a line or of a run of blank ones.
LONGEST, LONGEST_LINE, BLANK_LINES = 3_000, 300, 12
_UNLIKELY = re.compile(rf"[^\n]{{{LONGEST_LINE + 1}}}|\n(?:[ \t]{{0,{LONGEST_LINE}}}\n){{{BLANK_LINES}}}")
LANGUAGES = frozenset(
    "bash c c++ console cpp css diff docker dockerfile go graphql html ini java javascript js json jsx kotlin lua "
    "make makefile nix php powershell py python rb rs ruby rust scala sh shell sql swift terraform toml ts tsx "
    "typescript vue xml yaml yml zig".split()
)  # fmt: skip


def highlighted(text: str, language: str = "") -> Markup:
    """Code as markup; as it is when its language is not known, or when it is longer than code that people read."""
    text = plain(text)
    lexer = _lexer(language.strip().lower().partition(" ")[0])
    if lexer is None or len(text) > LONGEST or is_spent() or _UNLIKELY.search(text):
        return Markup.escape(text)
    with counted():
        # Pygments escapes every token.
        return Markup(highlight(text, lexer, _formatter()).rstrip("\n"))  # noqa: S704


def coloured_lines(lines: list[str], language: str) -> list[Markup]:
    """The lines of a file as markup, each whole in itself. Pieces are coloured alone, so a long text is, too."""
    made: list[Markup] = []
    piece: list[str] = []
    size = 0
    for line in lines:
        if piece and size + len(line) >= LONGEST:
            made += _coloured(piece, language)
            piece, size = [], 0
        piece.append(line)
        size += len(line) + 1
    return made + _coloured(piece, language)


def _coloured(lines: list[str], language: str) -> list[Markup]:
    text = highlighted("\n".join(lines), language)
    # The formatter closes and opens every mark at the end of a line.
    made = text.split("\n")
    made += [Markup()] * (len(lines) - len(made))
    return made if len(made) == len(lines) else [Markup.escape(plain(line)) for line in lines]


@cache
def _formatter() -> HtmlFormatter[str]:
    return HtmlFormatter(nowrap=True, classprefix="h-")


@cache
def _lexer_named(language: str) -> Lexer | None:
    try:
        return get_lexer_by_name(language, stripnl=False)
    except ClassNotFound:
        return None


def _lexer(language: str) -> Lexer | None:
    return _lexer_named(language) if language in LANGUAGES else None
