"""Results as every surface writes them: one JSON text for one result, whoever asks."""

from typing import Any

import msgspec

from clew.model import codec
from clew.model.events import Event


def flat(value: Any) -> Any:
    """Events flat, wherever they are; everything else as it is."""
    if isinstance(value, Event):
        return {**codec.event_fields(value), "position": value.position}
    if isinstance(value, msgspec.Struct):
        return {name: flat(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, list | tuple):
        return [flat(item) for item in value]
    return value


def to_json(value: Any) -> bytes:
    """A result as JSON."""
    return _encode(flat(value))


_encode = msgspec.json.Encoder().encode
