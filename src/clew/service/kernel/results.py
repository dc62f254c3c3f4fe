"""Results as every surface writes them: one JSON text for one result, on every surface."""

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
