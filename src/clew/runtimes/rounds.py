"""A conversation in the shape every model API has: prompts, answers with their calls, and the calls' results."""

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from clew.model.events import (
    CallMade,
    CallReturned,
    Compacted,
    Event,
    FilePart,
    ImagePart,
    MessageAdded,
    Part,
    TextPart,
)
from clew.model.outline import Read, whole_call, whole_part, whole_return


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """What a user said. `key` is unique in the session; `at` is when, in microseconds."""

    key: str
    at: int
    parts: tuple[Part, ...]
    role: str = "user"


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of a model: its texts and calls in order."""

    key: str
    at: int
    parts: tuple[Part | CallMade, ...]
    model: str = ""

    @property
    def calls(self) -> list[CallMade]:
        return [part for part in self.parts if isinstance(part, CallMade)]


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """What the calls of the answer just before gave back: each call exactly once."""

    key: str
    at: int
    returns: tuple[CallReturned, ...]


Round = Prompt | Answer | Results


def rounds(events: Iterable[Event]) -> list[Round]:
    """Group a conversation. Consecutive pieces of one answer become one; so do consecutive returns."""
    found: list[Round] = []
    message, answer = "", -1
    for event in events:
        body, at, key = event.body, event.said_at or event.at, str(event.seq)
        last = found[-1] if found else None
        if isinstance(body, MessageAdded | CallMade) and (isinstance(body, CallMade) or body.role == "assistant"):
            parts = (body,) if isinstance(body, CallMade) else body.content
            # The first of parallel calls may have come back before the last was made: the answer is still the same.
            if (body.message and body.message == message) or (isinstance(last, Answer) and not body.message):
                before = found[answer]
                if not isinstance(before, Answer):
                    raise AssertionError("the index of an answer")
                found[answer] = msgspec.structs.replace(before, parts=(*before.parts, *parts))
            else:
                found.append(Answer(key=key, at=at, parts=parts, model=body.model))
                message, answer = body.message, len(found) - 1
        elif isinstance(body, MessageAdded):
            found.append(Prompt(key=key, at=at, parts=body.content, role=body.role))
        elif isinstance(body, CallReturned):
            if isinstance(last, Results):
                found[-1] = msgspec.structs.replace(last, returns=(*last.returns, body))
            else:
                found.append(Results(key=key, at=at, returns=(body,)))
        elif isinstance(body, Compacted):
            found.append(Prompt(key=key, at=at, parts=(TextPart(text=body.summary),)))
    return found


R = TypeVar("R", bound=Round)


def whole(one: R, read: Read) -> R:
    """A round of an outline with all its texts, inputs and outputs."""
    if isinstance(one, Results):
        return msgspec.structs.replace(one, returns=tuple(whole_return(back, read) for back in one.returns))
    parts = (whole_call(part, read) if isinstance(part, CallMade) else whole_part(part, read) for part in one.parts)
    return msgspec.structs.replace(one, parts=tuple(parts))


def text_of(parts: Iterable[Part | CallMade]) -> str:
    """The texts among parts, each on its own line."""
    return "\n".join(part.text for part in parts if isinstance(part, TextPart))


def images_of(parts: Iterable[Part | CallMade]) -> list[ImagePart | FilePart]:
    return [part for part in parts if isinstance(part, ImagePart | FilePart)]


def output_text(returned: CallReturned) -> str:
    """What a call gave back, as the text a model reads: strings as they are, lists of text blocks joined, else JSON."""
    value = msgspec.json.decode(returned.output)
    if value is None:
        return text_of(returned.parts)
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(one, dict) and "text" in one for one in value):
        return "\n".join(str(one["text"]) for one in value)
    return msgspec.json.encode(value).decode()
