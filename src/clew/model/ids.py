"""Ids. Random from the first character on, so that a few characters name one session of many."""

import os
import re
from typing import NewType

from clew.model.errors import InvalidInput

SessionId = NewType("SessionId", str)

# Lower-case Crockford base 32: no i, l, o, u, so an id can be read aloud and never spells a word.
ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
LENGTH = 20

# Maps a byte to one of the 32 characters, each with the same probability.
_CHARACTERS = ALPHABET.encode() * 8


def new_id() -> str:
    """A fresh id of 100 random bits."""
    return os.urandom(LENGTH).translate(_CHARACTERS).decode()


LONGEST_KIND = 100
_KIND = re.compile(r"[a-z0-9_.-]{1,100}")
# Agent programs name some of their records with capitals.
_ODD = re.compile(r"[^a-zA-Z0-9_.-]+")


def check_name(text: str, what: str, *, longest: int = 1000) -> str:
    """Return the text if every database can store it as a name, else raise InvalidInput."""
    if "\0" in text:
        raise InvalidInput(f"{what} contains a NUL character, which cannot be stored; remove it")
    if len(text) > longest:
        raise InvalidInput(f"{what} of {len(text):,} characters is too long; the limit is {longest:,}")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{what} contains a lone surrogate, which is not Unicode; replace it") from error
    return text


def check_kind(kind: str) -> str:
    """Return the kind of an event if it is one, else raise InvalidInput: it is shown, logged and made into paths."""
    if not _KIND.fullmatch(kind):
        raise InvalidInput(
            f"{kind[:40]!r} is not a valid kind; use up to {LONGEST_KIND} of the characters a-z, 0-9, '_', '.' and '-'"
        )
    return kind


def plain_kind(kind: str) -> str:
    """The kind of a captured or received event with only the characters that a kind may have."""
    return _ODD.sub("_", kind)[:LONGEST_KIND]


def check_prefix(text: str) -> str:
    """Return the text if it is a valid id prefix, else raise InvalidInput, before any query uses it."""
    text = text.strip().lower()
    if not text or len(text) > LENGTH or any(char not in ALPHABET for char in text):
        raise InvalidInput(
            f"{text[:40]!r} is not a session id; an id, or a unique beginning of one, is up to {LENGTH} "
            "letters and digits"
        )
    return text
