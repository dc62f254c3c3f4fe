"""From a request to an operation's arguments: the path, then the query or a JSON body, and nothing that is not known.

Values of a query are text and become what the parameter is; a body says what it means and is taken literally. Drafts
stay the bytes they came as, so that nothing is encoded twice.
"""

import types
import typing
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from clew.model.errors import InvalidInput
from clew.server.http.problems import Refused
from clew.service.kernel.registry import Operation, Parameter

JSON, LINES = "application/json", "application/x-ndjson"
LARGEST = 2**63 - 1


_object = msgspec.json.Decoder(dict[str, Any])


def from_query(operation: Operation, query: bytes, *, beside: tuple[str, ...] = ()) -> dict[str, Any]:
    """The arguments in a query; those in the path (`beside`) are not repeated."""
    if not query:
        return {}
    known = {one.name: one for one in operation.parameters if one.name not in beside}
    found: dict[str, Any] = {}
    for name, text in pairs(query):
        if name not in known:
            raise InvalidInput(_unknown(operation, {name}, set(known)))
        if kind_of(known[name]) is list:
            found.setdefault(name, []).append(_checked(operation, known[name], text))
        elif name in found:
            raise InvalidInput(f"{operation.name}: {name} is given twice; it takes one value")
        else:
            found[name] = _value(operation, known[name], text)
    return found


def from_path(operation: Operation, texts: dict[str, str]) -> dict[str, Any]:
    """The arguments in the path."""
    return {one.name: _value(operation, one, texts[one.name]) for one in operation.parameters if one.name in texts}


def pairs(query: bytes) -> list[tuple[str, str]]:
    """The names and values of a query."""
    if not query:
        return []
    try:
        return parse_qsl(query.decode("ascii"), keep_blank_values=True, strict_parsing=True, errors="strict")
    except ValueError:
        raise InvalidInput("the query cannot be taken apart; expected name=value pairs, percent-encoded") from None


def from_body(operation: Operation, body: bytes, media_type: str, *, beside: tuple[str, ...] = ()) -> dict[str, Any]:
    """The arguments in a body."""
    if not body:
        return {}
    if media_type == LINES and operation.drafts:
        return {operation.drafts: [line for line in body.split(b"\n") if line.strip()]}
    if media_type != JSON:
        raise Refused(415, "invalid_input", f"a body has to be {JSON}, not {media_type[:100] or 'of no type'}")
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError as error:
            raise InvalidInput(f"the body is not UTF-8: {error.reason} at byte {error.start}") from None
    if operation.drafts:
        return _with_drafts(operation, body, beside)
    try:
        found = _object.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidInput(f"{operation.name}: the body has to be one JSON object: {error}") from None
    unknown = found.keys() - {one.name for one in operation.parameters if one.name not in beside}
    if unknown:
        raise InvalidInput(_unknown(operation, unknown, {one.name for one in operation.parameters} - {*beside}))
    known = {one.name: one for one in operation.parameters}
    return {name: _checked(operation, known[name], value) for name, value in found.items()}


def _with_drafts(operation: Operation, body: bytes, beside: tuple[str, ...]) -> dict[str, Any]:
    """The arguments in a body whose drafts stay the bytes they came as."""
    try:
        fields = msgspec.structs.asdict(_decoder(operation, beside).decode(body))
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidInput(f"{operation.name}: {error}; expected an object with a list of drafts") from None
    parameters = {parameter.name: parameter for parameter in operation.parameters}
    drafts = [bytes(draft) for draft in fields.pop(operation.drafts)]
    given = {name: value for name, value in fields.items() if value is not None}
    return {operation.drafts: drafts, **{name: _checked(operation, parameters[name], given[name]) for name in given}}


_decoders: dict[str, msgspec.json.Decoder[Any]] = {}


def _decoder(operation: Operation, beside: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    """The decoder of a body with drafts; numbers are checked later, because 3.0 is an integer in JSON Schema."""
    if operation.name not in _decoders:
        fields: list[Any] = [(operation.drafts, list[msgspec.Raw])]
        for parameter in operation.parameters:
            if parameter.name not in (operation.drafts, *beside):
                kind = int | float | None if kind_of(parameter) is int else Any
                fields.append((parameter.name, kind, None))
        shape = msgspec.defstruct(operation.name, fields, kw_only=True, forbid_unknown_fields=True)
        _decoders[operation.name] = msgspec.json.Decoder(shape)
    return _decoders[operation.name]


def _unknown(operation: Operation, names: set[str], known: set[str]) -> str:
    said = ", ".join(sorted(repr(name[:40]) for name in names)[:5])
    return f"{operation.name} has no parameter {said}; it has {', '.join(sorted(known)) or 'none here'}"


def _value(operation: Operation, parameter: Parameter, text: str) -> Any:
    if parameter.is_session:
        return text
    kind = kind_of(parameter)
    if kind is dict:
        try:
            return _object.decode(text)
        except msgspec.DecodeError as error:
            raise InvalidInput(f"{operation.name}: {parameter.name} has to be a JSON object: {error}") from None
    value: Any = text
    if kind in (int, float, bool):
        try:
            value = msgspec.convert(text, kind, strict=False)
        except msgspec.ValidationError as error:
            raise InvalidInput(f"{operation.name}: {error} - at `$.{parameter.name}`") from None
    return _checked(operation, parameter, value)


def _checked(operation: Operation, parameter: Parameter, value: Any) -> Any:
    """A value that every database can hold; 3.0 is the integer 3, as JSON Schema has it."""
    if isinstance(value, list):
        return [_checked(operation, parameter, one) for one in value]
    if isinstance(value, dict) and _is_struct(item_of(parameter)):
        return {name: int(one) if _is_whole(one) else one for name, one in value.items()}
    if isinstance(value, float) and value.is_integer() and item_of(parameter) is int:
        value = int(value)
    if isinstance(value, int | float) and not -LARGEST <= value <= LARGEST:
        raise InvalidInput(f"{operation.name}: {parameter.name} has to fit 64 bits")
    if isinstance(value, str) and "\0" in value:
        raise InvalidInput(f"{operation.name}: {parameter.name} contains a NUL character; remove it")
    return value


def _is_struct(kind: Any) -> bool:
    return typing.get_origin(kind) is None and issubclass(kind, msgspec.Struct)


def _is_whole(value: Any) -> bool:
    return isinstance(value, float) and value.is_integer()


def kind_of(parameter: Parameter) -> type:
    """The plain type behind annotations and `| None`."""
    bare = _bare(parameter.type)
    found: type = typing.get_origin(bare) or bare
    return found


def item_of(parameter: Parameter) -> type:
    """The plain type of a value, or of each when there are several."""
    bare = _bare(parameter.type)
    found: type = _bare(typing.get_args(bare)[0]) if typing.get_origin(bare) is list else bare
    return found


def _bare(kind: Any) -> Any:
    origin = typing.get_origin(kind)
    if origin is typing.Annotated:
        return _bare(typing.get_args(kind)[0])
    if origin in (typing.Union, types.UnionType):
        return _bare(next(one for one in typing.get_args(kind) if one is not type(None)))
    return kind
