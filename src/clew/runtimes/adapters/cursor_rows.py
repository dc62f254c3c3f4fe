"""Functions that both databases of Cursor use."""

import base64
from collections.abc import Iterator

import msgspec

NAME = "cursor"


def named(ids: list[str]) -> Iterator[tuple[str, str]]:
    """Each id with a unique key."""
    times: dict[str, int] = {}
    for id in ids:
        times[id] = times.get(id, 0) + 1
        yield id if times[id] == 1 else f"{id}#{times[id]}", id


def readable(value: bytes | None) -> bytes:
    """A value as a JSON object: the value itself, or an object that holds it."""
    if value is None:
        return b'{"type":"missing"}'
    try:
        if isinstance(msgspec.json.decode(value), dict):
            return value
    except (ValueError, RecursionError):
        pass
    return msgspec.json.encode({"type": "binary", "base64": base64.b64encode(value).decode()})
