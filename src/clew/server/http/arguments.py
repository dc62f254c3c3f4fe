"""From a request to an operation's arguments: the path, then the query or a JSON body. Unknown names are refused.

Values in a query are text, so they are converted to the type of the parameter. Values in a body have a type already and
are not converted. Drafts stay the bytes that came, so that nothing is encoded twice.
"""

import types
import typing
from collections.abc import Container
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from clew.model.errors import InvalidInput
from clew.server.http.problems import Refused
from clew.service.kernel.argument_error import argument_error
from clew.service.kernel.registry import Operation, Parameter

JSON, LINES = "application/json", "application/x-ndjson"
LARGEST = 2**63 - 1


_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


def from_path(operation: Operation, values: dict[str, str]) -> dict[str, Any]:
    """The arguments in the path."""
    return {
        parameter.name: _from_text(operation, parameter, values[parameter.name])
        for parameter in operation.parameters
        if parameter.name in values
    }


def from_query(operation: Operation, query: bytes, *, beside: tuple[str, ...] = ()) -> dict[str, Any]:
    """The arguments in a query; `beside` are the names that the path or the body gives."""
    if not query:
        return {}
    parameters = _parameters(operation, but=beside)
    arguments: dict[str, Any] = {}
    for name, text in pairs(query):
        if name not in parameters:
            raise _unknown(operation, {name}, parameters)
        parameter = parameters[name]
        if kind_of(parameter) is list:
            arguments.setdefault(name, []).append(_checked(operation, parameter, text))
        elif name in arguments:
            raise InvalidInput(f"{operation.name}: {name} is given twice; it takes one value")
        else:
            arguments[name] = _from_text(operation, parameter, text)
    return arguments


def pairs(query: bytes) -> list[tuple[str, str]]:
    """The names and values of a query."""
    if not query:
        return []
    try:
        return parse_qsl(query.decode("ascii"), keep_blank_values=True, strict_parsing=True, errors="strict")
    except ValueError:
        raise InvalidInput("the query cannot be taken apart; expected name=value pairs, percent-encoded") from None


def from_body(operation: Operation, body: bytes, media_type: str, *, beside: tuple[str, ...] = ()) -> dict[str, Any]:
    """The arguments in a body; `beside` are the names that the path gives."""
    if not body:
        return {}
    if media_type == LINES and operation.drafts:
        return {operation.drafts: [line for line in body.split(b"\n") if line.strip()]}
    if media_type != JSON:
        raise Refused(415, "invalid_input", f"a body has to be {JSON}, not {media_type[:100] or 'of no type'}")
    _check_utf8(body)
    return _with_drafts(operation, body, beside) if operation.drafts else _from_object(operation, body, beside)


def _check_utf8(body: bytes) -> None:
    if body.isascii():
        return
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the body is not UTF-8: {error.reason} at byte {error.start}") from None


def _from_object(operation: Operation, body: bytes, beside: tuple[str, ...]) -> dict[str, Any]:
    try:
        values = _decode_object(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidInput(f"{operation.name}: the body has to be one JSON object: {error}") from None
    parameters = _parameters(operation, but=beside)
    if unknown := values.keys() - parameters.keys():
        raise _unknown(operation, unknown, parameters)
    return {name: _checked(operation, parameters[name], value) for name, value in values.items()}


def _with_drafts(operation: Operation, body: bytes, beside: tuple[str, ...]) -> dict[str, Any]:
    """The arguments in a body whose drafts stay the bytes that came."""
    try:
        fields = msgspec.structs.asdict(_draft_decoder(operation, beside).decode(body))
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidInput(f"{operation.name}: {error}; expected an object with a list of drafts") from None
    parameters = _parameters(operation, but=())
    drafts = [bytes(draft) for draft in fields.pop(operation.drafts)]
    checked = {name: _checked(operation, parameters[name], fields[name]) for name in fields if fields[name] is not None}
    return {operation.drafts: drafts, **checked}


_draft_decoders: dict[str, msgspec.json.Decoder[Any]] = {}


def _draft_decoder(operation: Operation, beside: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    """The decoder of a body with drafts; numbers are checked later, because 3.0 is an integer in JSON Schema."""
    if operation.name not in _draft_decoders:
        fields: list[Any] = [(operation.drafts, list[msgspec.Raw])]
        for name, parameter in _parameters(operation, but=(operation.drafts, *beside)).items():
            fields.append((name, int | float | None if kind_of(parameter) is int else Any, None))
        shape = msgspec.defstruct(operation.name, fields, kw_only=True, forbid_unknown_fields=True)
        _draft_decoders[operation.name] = msgspec.json.Decoder(shape)
    return _draft_decoders[operation.name]


def _parameters(operation: Operation, *, but: Container[str]) -> dict[str, Parameter]:
    return {parameter.name: parameter for parameter in operation.parameters if parameter.name not in but}


def _unknown(operation: Operation, names: set[str], parameters: dict[str, Parameter]) -> InvalidInput:
    unknown = ", ".join(sorted(repr(name[:40]) for name in names)[:5])
    known = ", ".join(sorted(parameters)) or "none here"
    return InvalidInput(f"{operation.name} has no parameter {unknown}; it has {known}")


def _from_text(operation: Operation, parameter: Parameter, text: str) -> Any:
    """The value of a parameter from the text in a path or a query."""
    if parameter.is_session:
        return text
    kind = kind_of(parameter)
    if kind is dict:
        try:
            return _decode_object(text)
        except msgspec.DecodeError as error:
            raise InvalidInput(f"{operation.name}: {parameter.name} has to be a JSON object: {error}") from None
    value: Any = text
    if kind in (int, float, bool):
        try:
            value = msgspec.convert(text, kind, strict=False)
        except msgspec.ValidationError as error:
            at = msgspec.ValidationError(f"{error} - at `$.{parameter.name}`")
            raise argument_error(operation.name, {parameter.name: text}, operation.arguments, at) from None
    return _checked(operation, parameter, value)


def _checked(operation: Operation, parameter: Parameter, value: Any) -> Any:
    """A value that every database can hold. The number 3.0 is the integer 3, as in JSON Schema."""
    if isinstance(value, list):
        return [_checked(operation, parameter, item) for item in value]
    if isinstance(value, dict) and _is_struct(item_of(parameter)):
        return {name: int(field) if _is_integral(field) else field for name, field in value.items()}
    if _is_integral(value) and item_of(parameter) is int:
        value = int(value)
    if isinstance(value, int | float) and not -LARGEST <= value <= LARGEST:
        raise InvalidInput(f"{operation.name}: {parameter.name} has to fit 64 bits")
    if isinstance(value, str) and "\0" in value:
        raise InvalidInput(f"{operation.name}: {parameter.name} contains a NUL character; remove it")
    return value


def _is_struct(kind: Any) -> bool:
    return typing.get_origin(kind) is None and issubclass(kind, msgspec.Struct)


def _is_integral(value: Any) -> bool:
    return isinstance(value, float) and value.is_integer()


def kind_of(parameter: Parameter) -> type:
    """The plain type behind annotations and `| None`."""
    bare = _bare(parameter.type)
    kind: type = typing.get_origin(bare) or bare
    return kind


def item_of(parameter: Parameter) -> type:
    """The plain type of a value; of each item, for a list."""
    bare = _bare(parameter.type)
    kind: type = _bare(typing.get_args(bare)[0]) if typing.get_origin(bare) is list else bare
    return kind


def _bare(kind: Any) -> Any:
    origin = typing.get_origin(kind)
    if origin is typing.Annotated:
        return _bare(typing.get_args(kind)[0])
    if origin in (typing.Union, types.UnionType):
        return _bare(next(option for option in typing.get_args(kind) if option is not type(None)))
    return kind
