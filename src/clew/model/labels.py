"""Labels: how people keep order among sessions. A title, tags, stars and notes are events of the session itself.

A label says nothing of the work. Every session takes labels in every state until it is erased, also while another
caller holds its lease. They belong to the session they were put on: a fork begins with the title of its parent, and
without tags, stars and notes.
"""

import re
import unicodedata
from typing import NamedTuple

from clew.model.errors import InvalidInput
from clew.model.opaque import Body

LABEL = "label"
TAG, STAR, NOTE = "tag", "star", "note"
LONGEST_TAG = 40
LONGEST_TITLE = 200
LONGEST_NOTE = 10_000
# Letters and digits of any script, with marks between them; blanks and commas would separate two tags in a list.
_TAG = re.compile(r"\w[\w.:/+@#-]*")


class TitleGiven(Body, frozen=True, kw_only=True):
    """A person gave the session this title: no title that its program writes later replaces it."""

    kind = "title_given"
    step = LABEL
    durable = True
    title: str


class SessionTagged(Body, frozen=True, kw_only=True):
    kind = "session_tagged"
    step = LABEL
    durable = True
    tags: tuple[str, ...]


class SessionUntagged(Body, frozen=True, kw_only=True):
    kind = "session_untagged"
    step = LABEL
    durable = True
    tags: tuple[str, ...]


class SessionStarred(Body, frozen=True, kw_only=True):
    """The star is the actor's own: it marks the session for them and for nobody else."""

    kind = "session_starred"
    reserved = True
    step = LABEL
    durable = True


class SessionUnstarred(Body, frozen=True, kw_only=True):
    kind = "session_unstarred"
    reserved = True
    step = LABEL
    durable = True


class NoteAdded(Body, frozen=True, kw_only=True):
    kind = "note_added"
    step = LABEL
    durable = True
    note: str
    text: str


class NoteRemoved(Body, frozen=True, kw_only=True):
    kind = "note_removed"
    step = LABEL
    durable = True
    note: str


class Label(NamedTuple):
    """A tag, a star or a note. Of a star the name is the principal whose it is, of a note its id."""

    session: int
    kind: str
    name: str
    text: str
    actor: str
    seq: int
    at: int


def tag_from(text: str) -> str:
    """A tag as it is stored: in lower case, so that Work and work are one tag."""
    return unicodedata.normalize("NFC", text.strip().removeprefix("#").casefold())


def is_tag(tag: str) -> bool:
    return len(tag) <= LONGEST_TAG and tag == tag_from(tag) and _TAG.fullmatch(tag) is not None


def checked_tag(text: str) -> str:
    """A tag that somebody typed, as it is stored."""
    tag = tag_from(text)
    if not is_tag(tag):
        raise InvalidInput(
            f"{text[:60]!r} is not a valid tag; use 1 to {LONGEST_TAG} letters, digits and . : / + @ # - _ without "
            "blanks, such as work or client/acme"
        )
    return tag
