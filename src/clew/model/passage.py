"""What an event says, in plain text: what search finds, and what it is said as."""

import enum
from collections.abc import Iterator

import msgspec

from clew.model import events as e

# Of a longer text only the two ends are searched: outputs say what they are at the top, and what went wrong at the end.
HEAD_CHARACTERS = 24_576
TAIL_CHARACTERS = 8_192


class Role(enum.StrEnum):
    """What was asked by a person, answered by a model, run by it, returned to it, or noted about the session."""

    ASKED = "asked"
    ANSWERED = "answered"
    RUN = "run"
    RETURNED = "returned"
    NOTED = "noted"


# What the other kinds say, by the names of their fields.
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
    """The texts of one event. `cut` says that there was more than is searched."""

    role: Role
    texts: tuple[str, ...]
    cut: bool = False


def passage_of(body: e.AnyBody) -> Passage | None:
    """What an event says; None when it says nothing. Records that clew has no word for are kept, and not searched."""
    match body:
        case e.MessageAdded(role=role):
            spoken_as = {"user": Role.ASKED, "assistant": Role.ANSWERED}.get(role, Role.NOTED)
            return _passage(spoken_as, [body.text, *_of_parts(body.parts)])
        case e.CallMade(tool=tool, input=value):
            return _passage(Role.RUN, [tool, *_strings(value)])
        case e.CallReturned(output=value, parts=parts):
            return _passage(Role.RETURNED, [*_strings(value), *_of_parts(parts)])
    fields = _NOTES.get(type(body)) if isinstance(body, e.Body) else None
    return _passage(Role.NOTED, [text for name in fields for text in _said(getattr(body, name))]) if fields else None


def _passage(role: Role, texts: list[str]) -> Passage | None:
    found, cut, left = [], False, HEAD_CHARACTERS + TAIL_CHARACTERS
    for text in texts:
        if len(text) > left:
            cut = True
            if left <= TAIL_CHARACTERS:
                found.append(text[:left])
                break
            found += [text[: left - TAIL_CHARACTERS], text[-TAIL_CHARACTERS:]]
            break
        if text:
            found.append(text)
            left -= len(text)
    return Passage(role, tuple(found), cut) if found else None


def _of_parts(parts: tuple[e.Part, ...]) -> Iterator[str]:
    for part in parts:
        yield part.text if isinstance(part, e.TextPart | e.ThinkingPart) else part.name


def _said(value: object) -> Iterator[str]:
    if isinstance(value, msgspec.Raw):
        yield from _strings(value)
    elif isinstance(value, tuple):
        yield from value
    else:
        yield str(value)


def _strings(value: msgspec.Raw) -> Iterator[str]:
    """The texts and numbers inside a JSON value, in order. Names of fields are not what was said."""
    try:
        waiting = [msgspec.json.decode(value)]
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        # Not JSON, or nested beyond reason: taken as it is written.
        yield bytes(value).decode("utf-8", "replace")
        return
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            waiting += reversed(one.values())
        elif isinstance(one, list):
            waiting += reversed(one)
        elif isinstance(one, int | float) and not isinstance(one, bool):
            yield str(one)
