"""Rewrite the paths of a project that moved: in texts, in the arguments of calls and in their results.

Only whole names are rewritten: `/home/me/app` in `/home/me/app/src`, but not in `/home/me/application`.
"""

import re
from collections.abc import Callable

import msgspec
from msgspec import Raw

from clew.model.events import CallMade, CallReturned, Part, TextPart
from clew.runtimes.rounds import Answer, Prompt, Round


class Rehoming:
    """Rewrites one path to another, and counts the replacements."""

    def __init__(self, old: str, new: str) -> None:
        self.count = 0
        old, self._new = old.rstrip("/") or "/", new.rstrip("/") or "/"
        self._old = re.compile(rf"(?<![\w.-]){re.escape(old)}(?![\w.-])")
        self.needed = old != self._new and old != "/"

    def text(self, text: str) -> str:
        """The text with the new path."""
        rewritten, count = self._old.subn(self._new.replace("\\", "\\\\"), text)
        self.count += count
        return rewritten

    def round(self, round: Round) -> Round:
        """A round with the new path in all its texts."""
        if not self.needed:
            return round
        if isinstance(round, Prompt):
            return msgspec.structs.replace(round, parts=tuple(self._part(part) for part in round.parts))
        if isinstance(round, Answer):
            parts = tuple(self._call(part) if isinstance(part, CallMade) else self._part(part) for part in round.parts)
            return msgspec.structs.replace(round, parts=parts)
        return msgspec.structs.replace(round, returns=tuple(self._returned(back) for back in round.returns))

    def _part(self, part: Part) -> Part:
        return msgspec.structs.replace(part, text=self.text(part.text)) if isinstance(part, TextPart) else part

    def _call(self, call: CallMade) -> CallMade:
        return msgspec.structs.replace(call, input=_in_json(call.input, self.text))

    def _returned(self, back: CallReturned) -> CallReturned:
        parts = tuple(self._part(part) for part in back.parts)
        return msgspec.structs.replace(back, output=_in_json(back.output, self.text), parts=parts)


def _in_json(raw: Raw, change: Callable[[str], str]) -> Raw:
    """JSON with `change` applied to every string; the same bytes if no string changes."""

    def walk(value: object) -> object:
        if isinstance(value, str):
            return change(value)
        if isinstance(value, list):
            return [walk(inner) for inner in value]
        if isinstance(value, dict):
            return {change(name): walk(inner) for name, inner in value.items()}
        return value

    before = msgspec.json.decode(raw)
    after = walk(before)
    return raw if after == before else Raw(msgspec.json.encode(after))
