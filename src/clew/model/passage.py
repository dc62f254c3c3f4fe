"""The plain text of an event, which search indexes, and the role of that text."""

import enum
from collections.abc import Iterator

import msgspec

from clew.model import events as e

# The index takes a longer text in stretches: PostgreSQL holds at most 1 MB of words in a row, and so many characters
# never have more.
STRETCH = 49_152
# Two stretches share so many characters, so no phrase that can be typed is cut (query.py: LONGEST_QUERY).
OVERLAP = 1_024


class Role(enum.StrEnum):
    """Asked by a person, answered by an llm, run by it, returned to it, or noted about the session."""

    ASKED = "asked"
    ANSWERED = "answered"
    RUN = "run"
    RETURNED = "returned"
    NOTED = "noted"


_SPOKEN_AS = {"user": Role.ASKED, "assistant": Role.ANSWERED}
# The fields with the text of the other kinds.
_NOTES: dict[type[e.Body], tuple[str, ...]] = {
    e.SessionOpened: ("title",),
    e.SessionForked: ("title",),
    e.SessionTitled: ("title",),
    e.TitleGiven: ("title",),
    e.SessionTagged: ("tags",),
    e.NoteAdded: ("text",),
    e.SessionPaused: ("reason",),
    e.SessionResumed: ("reason",),
    e.SessionClosed: ("outcome", "summary"),
    e.SessionArchived: ("reason",),
    e.FactLearned: ("text",),
    e.FactRetired: ("reason",),
    e.DecisionMade: ("choice", "why", "rejected"),
    e.DecisionReversed: ("reason",),
    e.ProgressNoted: ("done", "next", "open"),
    e.Compacted: ("summary",),
    e.ScratchSet: ("name", "value"),
    e.ArtifactSaved: ("name",),
    e.WorkspaceSnapshotted: ("label",),
    e.HandoffOffered: ("to", "brief"),
    e.HandoffDeclined: ("reason",),
    e.HandoffReturned: ("brief",),
    e.ApprovalAsked: ("question",),
    e.ApprovalGiven: ("note",),
}


class Passage(msgspec.Struct, frozen=True):
    """The texts of one event."""

    role: Role
    texts: tuple[str, ...]


def passage_of(body: e.AnyBody) -> Passage | None:
    """The text of an event; None when it has none. `Opaque` records are stored but not searched."""
    match body:
        case e.MessageAdded(role=role):
            return _passage(_SPOKEN_AS.get(role, Role.NOTED), [body.text, *_of_parts(body.parts)])
        case e.CallMade(tool=tool, input=value):
            return _passage(Role.RUN, [tool, *_strings(value)])
        case e.CallReturned(output=value, parts=parts):
            return _passage(Role.RETURNED, [*_strings(value), *_of_parts(parts)])
    fields = _NOTES.get(type(body)) if isinstance(body, e.Body) else None
    return _passage(Role.NOTED, [text for name in fields for text in _texts(getattr(body, name))]) if fields else None


def _passage(role: Role, texts: list[str]) -> Passage | None:
    searched = tuple(filter(None, texts))
    return Passage(role, searched) if searched else None


def stretches(texts: tuple[str, ...]) -> Iterator[str]:
    """The texts, one below the other, in stretches that the index can hold."""
    text = texts[0] if len(texts) == 1 else "\n".join(texts)
    first = 0
    while len(text) - first > STRETCH:
        # A stretch ends between two words if there is such a place.
        end = max(text.rfind(space, first + STRETCH - OVERLAP, first + STRETCH) for space in " \n")
        end = end if end > 0 else first + STRETCH
        yield text[first:end]
        first = end - OVERLAP
    yield text[first:]


def _of_parts(parts: tuple[e.Part, ...]) -> Iterator[str]:
    for part in parts:
        yield part.text if isinstance(part, e.TextPart | e.ThinkingPart) else part.name


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, msgspec.Raw):
        yield from _strings(value)
    elif isinstance(value, tuple):
        yield from value
    else:
        yield str(value)


def _strings(value: msgspec.Raw) -> Iterator[str]:
    """The texts and numbers inside a JSON value, in order; field names are left out."""
    try:
        waiting = [msgspec.json.decode(value)]
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        # Not JSON, or nested too deeply: use the text as it is written.
        yield bytes(value).decode("utf-8", "replace")
        return
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            waiting += reversed(item.values())
        elif isinstance(item, list):
            waiting += reversed(item)
        elif isinstance(item, int | float) and not isinstance(item, bool):
            yield str(item)
