"""The paths of a project, rewritten for where it lives now: in texts, in what calls were given and gave back.

Only whole names are touched: `/home/me/app` in `/home/me/app/src` is, in `/home/me/application` it is not.
"""

import re
from collections.abc import Callable

import msgspec
from msgspec import Raw

from clew.model.events import CallMade, CallReturned, Part, TextPart
from clew.runtimes.rounds import Answer, Prompt, Round


class Rehoming:
    """One rewriting, and how often it was needed."""

    def __init__(self, old: str, new: str) -> None:
        self.count = 0
        old, self._new = old.rstrip("/") or "/", new.rstrip("/") or "/"
        self._old = re.compile(rf"(?<![\w.-]){re.escape(old)}(?![\w.-])")
        self.needed = old != self._new and old != "/"

    def text(self, text: str) -> str:
        """The text with the new path."""
        found, count = self._old.subn(self._new.replace("\\", "\\\\"), text)
        self.count += count
        return found

    def rounds(self, rounds: list[Round]) -> list[Round]:
        return [self._round(one) for one in rounds] if self.needed else rounds

    def _round(self, one: Round) -> Round:
        if isinstance(one, Prompt):
            return msgspec.structs.replace(one, parts=tuple(self._part(part) for part in one.parts))
        if isinstance(one, Answer):
            parts = tuple(self._call(part) if isinstance(part, CallMade) else self._part(part) for part in one.parts)
            return msgspec.structs.replace(one, parts=parts)
        return msgspec.structs.replace(one, returns=tuple(self._returned(back) for back in one.returns))

    def _part(self, part: Part) -> Part:
        return msgspec.structs.replace(part, text=self.text(part.text)) if isinstance(part, TextPart) else part

    def _call(self, call: CallMade) -> CallMade:
        return msgspec.structs.replace(call, input=_in_json(call.input, self.text))

    def _returned(self, back: CallReturned) -> CallReturned:
        parts = tuple(self._part(part) for part in back.parts)
        return msgspec.structs.replace(back, output=_in_json(back.output, self.text), parts=parts)


def _in_json(raw: Raw, change: Callable[[str], str]) -> Raw:
    """JSON with every string changed; its own text if nothing was."""

    def walk(value: object) -> object:
        if isinstance(value, str):
            return change(value)
        if isinstance(value, list):
            return [walk(one) for one in value]
        if isinstance(value, dict):
            return {change(name): walk(one) for name, one in value.items()}
        return value

    before = msgspec.json.decode(raw)
    after = walk(before)
    return raw if after == before else Raw(msgspec.json.encode(after))
