"""Titles: the first words of a prompt. A title never ends inside a token: half of a secret is not recognised."""

import re

MOST_CHARACTERS = 80
LONGEST = 200
# A shorter part of a secret reveals nothing.
SHOWN_OF_A_TOKEN = 7

_TOKEN_AT_END = re.compile(r"[!-~]+\Z")


def first_line(text: str) -> str:
    """The title that a prompt gives: its first line, or the beginning of it."""
    return shortened(text.strip().partition("\n")[0].strip())


def shortened(text: str, most: int = MOST_CHARACTERS) -> str:
    """The first whole words of a text; a script without spaces is cut between any two characters."""
    return text if len(text) <= most else _closed(text[: most - 1], text[most - 1])


def uncut(title: str) -> str:
    """A title without the token in which earlier versions of clew may have cut it."""
    if len(title) not in (MOST_CHARACTERS, LONGEST) or title.endswith("…"):
        return title
    return _closed(title, "a")


def _closed(words: str, following: str) -> str:
    token = _TOKEN_AT_END.search(words) if "!" <= following <= "~" else None
    whole = words[: token.start()].rstrip() if token else words.rstrip()
    return f"{whole or words[:SHOWN_OF_A_TOKEN]}…"
