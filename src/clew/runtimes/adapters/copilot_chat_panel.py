"""What the panel of Copilot Chat shows of an answer: texts in order, and calls without arguments."""

from typing import Any

import msgspec
from msgspec import Raw

from clew.runtimes.adapters.message_bodies import Bodies
from clew.runtimes.contract import raw


class Shown(msgspec.Struct):
    """A piece of what the panel shows."""

    kind: str = ""
    value: Any = None
    toolCallId: str = ""
    toolId: str = ""
    pastTenseMessage: Any = None
    isComplete: bool = False
    toolSpecificData: Any = None
    inlineReference: Any = None


def add_shown(bodies: Bodies, pieces: list[Raw], key: str) -> None:
    """The texts that the panel shows in order, and its calls, as far as they are over."""
    texts: list[str] = []
    for number, piece in enumerate(pieces):
        shown = msgspec.json.decode(piece, type=Shown)
        if shown.kind == "toolInvocationSerialized" and shown.toolId:
            bodies.text("".join(texts))
            texts.clear()
            call = shown.toolCallId or f"{key}/call/{number}"
            bodies.call(call, shown.toolId, raw(shown.toolSpecificData or {}))
            if shown.isComplete:
                bodies.returned(call, raw(_shown_text(shown.pastTenseMessage)))
        elif shown.kind == "thinking":
            bodies.text("".join(texts))
            texts.clear()
            bodies.thinking(_shown_text(shown.value))
        elif shown.kind in ("", "markdownContent"):
            texts.append(_shown_text(shown.value))
        elif shown.kind == "inlineReference" and isinstance(shown.inlineReference, dict):
            name = shown.inlineReference.get("path") or shown.inlineReference.get("name")
            texts.append(name if isinstance(name, str) else "")
    bodies.text("".join(texts))


def _shown_text(value: Any) -> str:
    """A text, which can be wrapped as Markdown."""
    inner = value.get("value") if isinstance(value, dict) else value
    return inner if isinstance(inner, str) else ""
