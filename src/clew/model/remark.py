"""An event that is not part of the conversation, in one line for people."""

from typing import Any

from clew.model import events as e

# Fields that are of no use to a person.
_UNREAD = {
    "fact",
    "decision",
    "handoff",
    "approval",
    "call",
    "blob",
    "evidence",
    "scope",
    "native",
    "epoch",
    "git",
    "machine",
}


def remark_of(body: e.Body) -> str:
    """An event that is not part of the conversation, in one line: its kind in words and its fields."""
    words = [_field(name, getattr(body, name)) for name in body.__struct_fields__ if name not in _UNREAD]
    fields = ", ".join(word for word in words if word)
    kind = body.kind.replace("_", " ")
    return f"{kind}: {fields}" if fields else kind


def _field(name: str, value: Any) -> str:
    match value:
        case bool():
            return name if value else f"not {name}"
        case str():
            return value
        case int():
            return f"{name} {value:,}"
        case e.Budget():
            return " ".join(filter(None, (_field(part, getattr(value, part)) for part in value.__struct_fields__)))
        case tuple():
            return f"{name} {', '.join(map(str, value))}" if value else ""
        case _:
            return ""
