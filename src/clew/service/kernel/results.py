"""Results as every surface writes them: one JSON text for one result, and the result from its text."""

import typing
from functools import cache
from typing import Any

import msgspec

from clew.model import codec
from clew.model.events import TITLED, Event
from clew.model.title import uncut


def flat(value: Any) -> Any:
    """Events flat, wherever they are; everything else as it is."""
    if isinstance(value, Event):
        return {**codec.event_fields(whole(value)), "position": value.position}
    if isinstance(value, msgspec.Struct):
        return _titled({name: flat(getattr(value, name)) for name in value.__struct_fields__})
    if isinstance(value, list | tuple):
        return [flat(item) for item in value]
    return value


def whole(event: Event) -> Event:
    """The event with a title that does not end inside a token."""
    body = event.body
    if not isinstance(body, TITLED) or body.title == uncut(body.title):
        return event
    return msgspec.structs.replace(event, body=msgspec.structs.replace(body, title=uncut(body.title)))


def _titled(fields: dict[str, Any]) -> dict[str, Any]:
    if isinstance(title := fields.get("title"), str):
        fields["title"] = uncut(title)
    return fields


def to_json(value: Any) -> bytes:
    """A result as JSON."""
    return _encode(flat(value))


_encode = msgspec.json.Encoder().encode


# A result from its text -----------------------------------------------------------------------------------------------


def result_from(kind: Any, text: bytes | msgspec.Raw) -> Any:
    """A result of this type from JSON; events, wherever they are, from their flat form."""
    if not _holds_events(kind):
        return None if kind is type(None) else msgspec.json.decode(text, type=kind)
    if kind is Event:
        return codec.event_from(text)
    if (inner := _optional(kind)) is not None:
        return None if bytes(text) == b"null" else result_from(inner, text)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        fields = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        return kind(**{name: result_from(hint, fields[name]) for name, hint in _hints(kind).items() if name in fields})
    return [result_from(typing.get_args(kind)[0], item) for item in msgspec.json.decode(text, type=list[msgspec.Raw])]


def _optional(kind: Any) -> Any:
    """The type of a value that can be missing; None for any other type."""
    inner = [member for member in typing.get_args(kind) if member is not type(None)]
    return inner[0] if type(None) in typing.get_args(kind) else None


@cache
def _holds_events(kind: Any) -> bool:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind is Event or any(map(_holds_events, _hints(kind).values()))
    return any(map(_holds_events, typing.get_args(kind)))


@cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(kind, include_extras=True)
    return {name: hints[name] for name in kind.__struct_fields__}
