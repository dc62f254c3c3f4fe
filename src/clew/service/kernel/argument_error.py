"""Errors about arguments: each names the argument, its value, and the values that are valid."""

import enum
import re
import typing
from collections.abc import Mapping
from typing import Any

import msgspec

from clew.model.errors import InvalidInput
from clew.model.plain import plain

LONGEST_SHOWN = 40

_LOCATED = re.compile(r"(?s)(.*) - at `\$\.?(\w*)(.*)`\Z")
_EXPECTED = re.compile(r"(?s)Expected `([\w |]+)`")
_FIELD = re.compile(r"Object (missing required|contains unknown) field `(.*)`")
_KINDS = {
    "int": "a whole number", "float": "a number", "str": "text", "bool": "true or false", "array": "a list",
    "object": "an object", "null": "nothing",
}  # fmt: skip


def argument_error(
    name: str, arguments: Mapping[str, Any], known: type[msgspec.Struct], error: msgspec.ValidationError
) -> InvalidInput:
    """The error for the arguments of an operation or a tool, made from the message of the type check."""
    match = _LOCATED.match(str(error))
    message, argument, below = match.groups() if match else (str(error), "", "")
    field = _FIELD.match(message)
    if field is not None and not argument:
        missing = field[1].startswith("missing")
        words = f"{field[2]} is missing" if missing else _unknown_argument(field[2], known.__struct_fields__)
        return InvalidInput(f"{name}: {words}", **({"argument": field[2]} if missing else {}))
    if not argument:
        return InvalidInput(f"{name}: {message}")
    kind = typing.get_type_hints(known, include_extras=True).get(argument)
    if below or field is not None:
        return InvalidInput(f"{name}: {argument} is not valid: {message}{f' (at {below})' if below else ''}",
                            argument=argument)  # fmt: skip
    shown = _shown(arguments.get(argument))
    expected = _expected(message, kind)
    return InvalidInput(f"{name}: {argument} is {shown}; it must be {expected}", argument=argument)


def _unknown_argument(field: str, known: tuple[str, ...]) -> str:
    return f"there is no argument {field[:LONGEST_SHOWN]!r}; there are {', '.join(known) or 'none'}"


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    text = plain(repr(value) if isinstance(value, str | enum.Enum) else str(value))
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 1]}…"


def _expected(message: str, kind: Any) -> str:
    choices = _choices(kind)
    if choices:
        return f"one of {', '.join(choices)}"
    match = _EXPECTED.match(message)
    if match is None:
        return message
    types = " or ".join(_KINDS.get(word, word) for word in match[1].split(" | "))
    if "got `" in message:
        return types + _range(kind, " ")
    length = re.search(r"of length ([<>]=?) (\d+)", message)
    if length is not None:
        return f"{types} of {'at most' if '<' in length[1] else 'at least'} {int(length[2]):,} items or characters"
    return types + _range(kind, " ")


def _range(kind: Any, before: str) -> str:
    """The numbers that the annotation allows."""
    metas = [meta for meta in _metas(kind) if isinstance(meta, msgspec.Meta)]
    least = next((meta.ge for meta in metas if meta.ge is not None), None)
    most = next((meta.le for meta in metas if meta.le is not None), None)
    above = next((meta.gt for meta in metas if meta.gt is not None), None)
    if least is not None and most is not None:
        return f"{before}from {least:,} to {most:,}"
    if least is not None:
        return f"{before}of {least:,} or more"
    if above is not None:
        return f"{before}above {above:,}" + (f" and of at most {most:,}" if most is not None else "")
    return f"{before}of at most {most:,}" if most is not None else ""


def _metas(kind: Any) -> tuple[Any, ...]:
    """The annotations of a type, also of the one beside `None`."""
    own: tuple[Any, ...] = getattr(kind, "__metadata__", ())
    return own + tuple(meta for inner in typing.get_args(kind) for meta in _metas(inner))


def _choices(kind: Any) -> list[str]:
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return [str(member) for member in kind]
    return [choice for inner in typing.get_args(kind) for choice in _choices(inner)]
