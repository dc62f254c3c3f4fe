"""Values of every shape the model has, made from its own types, so that a new kind or field is tested at once."""

import types
import typing
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import Raw

from clew.model.events import KINDS, Body

INTS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
# Any JSON value, as Python has it.
JSON = st.recursive(
    st.none() | st.booleans() | INTS | FLOATS | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def raws() -> st.SearchStrategy[Raw]:
    """JSON text as somebody else wrote it: any spacing, numbers of any length."""
    written = JSON.map(lambda value: msgspec.json.encode(value))
    spaced = written.map(lambda text: msgspec.json.format(text, indent=3))
    huge = st.integers(2**64, 2**200).map(lambda number: str(number).encode())
    return (written | spaced | huge).map(Raw)


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Every value of a type that a body's field may have."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is str:
        return st.text()
    if kind is bool:
        return st.booleans()
    if kind is int:
        return INTS
    if kind is Raw:
        return raws()
    if kind is type(None):
        return st.none()
    if origin in (typing.Union, types.UnionType):
        return st.one_of([values(argument) for argument in arguments])
    if origin is tuple and arguments[1:] == (...,):
        return st.lists(values(arguments[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*(values(argument) for argument in arguments))
    if issubclass(kind, msgspec.Struct):
        return structs(kind)
    raise NotImplementedError(f"no values for {kind}")


def structs(kind: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    """Values of a struct, each field with a default sometimes left out."""
    hints = typing.get_type_hints(kind)
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    required = {name: values(hints[name]) for name, field in fields.items() if field.required}
    optional = {name: values(hints[name]) for name, field in fields.items() if not field.required}
    return st.fixed_dictionaries(required, optional=optional).map(lambda given: kind(**given))


def bodies() -> st.SearchStrategy[Body]:
    """A body of any kind."""
    return st.sampled_from(sorted(KINDS)).flatmap(lambda kind: structs(KINDS[kind]))
