"""A conversation in the format of llm APIs: prompts, answers with their calls, and the calls' results."""

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
    """A message of the user. `key` is unique in the session; `at` is the time in microseconds."""

    key: str
    at: int
    parts: tuple[Part, ...]
    role: str = "user"


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of an llm: its texts and calls in order."""

    key: str
    at: int
    parts: tuple[Part | CallMade, ...]
    model: str = ""

    @property
    def calls(self) -> list[CallMade]:
        return [part for part in self.parts if isinstance(part, CallMade)]


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """The results of the calls of the answer just before: each call exactly once."""

    key: str
    at: int
    returns: tuple[CallReturned, ...]


Round = Prompt | Answer | Results


def rounds(events: Iterable[Event]) -> list[Round]:
    """Group a conversation. Consecutive pieces of one answer become one round; so do consecutive returns."""
    grouping = _Grouping()
    for event in events:
        grouping.add(event)
    return grouping.rounds


class _Grouping:
    """The rounds so far, with the index and the message id of the last answer."""

    def __init__(self) -> None:
        self.rounds: list[Round] = []
        self._answer = -1
        self._message = ""

    def add(self, event: Event) -> None:
        body, at, key = event.body, event.said_at or event.at, str(event.seq)
        match body:
            case CallMade():
                self._add_to_answer(body, (body,), key, at)
            case MessageAdded(role="assistant"):
                self._add_to_answer(body, body.content, key, at)
            case MessageAdded():
                self.rounds.append(Prompt(key=key, at=at, parts=body.content, role=body.role))
            case CallReturned():
                self._add_return(body, key, at)
            case Compacted():
                self.rounds.append(Prompt(key=key, at=at, parts=(TextPart(text=body.summary),)))

    def _add_to_answer(
        self, body: MessageAdded | CallMade, parts: tuple[Part | CallMade, ...], key: str, at: int
    ) -> None:
        last = self.rounds[-1] if self.rounds else None
        # The first of parallel calls may return before the last call is made: the answer is still the same.
        if (body.message and body.message == self._message) or (isinstance(last, Answer) and not body.message):
            answer = self.rounds[self._answer]
            if not isinstance(answer, Answer):
                raise AssertionError("the index of an answer")
            self.rounds[self._answer] = msgspec.structs.replace(answer, parts=(*answer.parts, *parts))
            return
        self.rounds.append(Answer(key=key, at=at, parts=parts, model=body.model))
        self._answer, self._message = len(self.rounds) - 1, body.message

    def _add_return(self, returned: CallReturned, key: str, at: int) -> None:
        last = self.rounds[-1] if self.rounds else None
        if isinstance(last, Results):
            self.rounds[-1] = msgspec.structs.replace(last, returns=(*last.returns, returned))
        else:
            self.rounds.append(Results(key=key, at=at, returns=(returned,)))


R = TypeVar("R", bound=Round)


def whole(round: R, read: Read) -> R:
    """A round of an outline with its full texts, inputs and outputs."""
    if isinstance(round, Results):
        return msgspec.structs.replace(round, returns=tuple(whole_return(back, read) for back in round.returns))
    parts = (whole_call(part, read) if isinstance(part, CallMade) else whole_part(part, read) for part in round.parts)
    return msgspec.structs.replace(round, parts=tuple(parts))


def text_of(parts: Iterable[Part | CallMade]) -> str:
    """The texts among parts, each on its own line."""
    return "\n".join(part.text for part in parts if isinstance(part, TextPart))


def images_of(parts: Iterable[Part | CallMade]) -> list[ImagePart | FilePart]:
    return [part for part in parts if isinstance(part, ImagePart | FilePart)]


def output_text(returned: CallReturned) -> str:
    """The result of a call as the text that an llm reads: strings verbatim, lists of text blocks joined, else JSON."""
    value = msgspec.json.decode(returned.output)
    if value is None:
        return text_of(returned.parts)
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(block, dict) and "text" in block for block in value):
        return "\n".join(str(block["text"]) for block in value)
    return msgspec.json.encode(value).decode()
