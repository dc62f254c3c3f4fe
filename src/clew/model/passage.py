"""The plain text of an event, which search indexes, and the role of that text."""

import enum
from collections.abc import Iterator

import msgspec

from clew.model import events as e

# Only the two ends of a longer text are searched: outputs have their subject at the top and their errors at the end.
HEAD_CHARACTERS = 24_576
TAIL_CHARACTERS = 8_192


class Role(enum.StrEnum):
    """Asked by a person, answered by an llm, run by it, returned to it, or noted about the session."""

    ASKED = "asked"
    ANSWERED = "answered"
    RUN = "run"
    RETURNED = "returned"
    NOTED = "noted"


# The fields with the text of the other kinds.
_NOTES: dict[type[e.Body], tuple[str, ...]] = {
    e.SessionOpened: ("title",),
    e.SessionForked: ("title",),
    e.SessionTitled: ("title",),
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
    """The texts of one event. `cut` says that a part of them is not searched."""

    role: Role
    texts: tuple[str, ...]
    cut: bool = False


def passage_of(body: e.AnyBody) -> Passage | None:
    """The text of an event; None when it has none. `Opaque` records are stored but not searched."""
    match body:
        case e.MessageAdded(role=role):
            spoken_as = {"user": Role.ASKED, "assistant": Role.ANSWERED}.get(role, Role.NOTED)
            return _passage(spoken_as, [body.text, *_of_parts(body.parts)])
        case e.CallMade(tool=tool, input=value):
            return _passage(Role.RUN, [tool, *_strings(value)])
        case e.CallReturned(output=value, parts=parts):
            return _passage(Role.RETURNED, [*_strings(value), *_of_parts(parts)])
    fields = _NOTES.get(type(body)) if isinstance(body, e.Body) else None
    return _passage(Role.NOTED, [text for name in fields for text in _texts(getattr(body, name))]) if fields else None


def _passage(role: Role, texts: list[str]) -> Passage | None:
    searched, cut, left = [], False, HEAD_CHARACTERS + TAIL_CHARACTERS
    for text in texts:
        if len(text) > left:
            cut = True
            if left <= TAIL_CHARACTERS:
                searched.append(text[:left])
                break
            searched += [text[: left - TAIL_CHARACTERS], text[-TAIL_CHARACTERS:]]
            break
        if text:
            searched.append(text)
            left -= len(text)
    return Passage(role, tuple(searched), cut) if searched else None


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
