"""Which objects a body names. A field that names one is declared as `ObjectName` where it is defined, and nowhere else.

Appending, erasing, verifying, exporting and replication all ask here, so a new kind of body, or a new part, needs no
other change. Empty, an `ObjectNameOrNone` names nothing.
"""

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_type_hints

import msgspec

_MARK = "the digest of an object"
_OR_NONE = "or empty"
ObjectName = Annotated[str, _MARK]
ObjectNameOrNone = Annotated[str, _MARK, _OR_NONE]
T = TypeVar("T")


class _Field(NamedTuple):
    """A field that names an object itself, or whose items do."""

    name: str
    is_name: bool
    may_be_empty: bool = False


def objects_of(body: Any) -> list[str]:
    """The digests of the objects that a body names, in its order."""
    fields = _declared(body.__class__)
    if not fields:
        return []
    digests: list[str] = []
    for field in fields:
        value = getattr(body, field.name)
        if not field.is_name:
            for item in value:
                digests += objects_of(item)
        elif value or not field.may_be_empty:
            digests.append(value)
    return digests


def with_objects(body: T, names: Mapping[str, str]) -> T:
    """The body with these objects named otherwise."""
    changes: dict[str, Any] = {}
    for field in _declared(type(body)):  # type: ignore[arg-type]  # Every class can be hashed.
        value = getattr(body, field.name)
        new = names.get(value, value) if field.is_name else tuple(with_objects(item, names) for item in value)
        if new != value:
            changes[field.name] = new
    return msgspec.structs.replace(body, **changes) if changes else body  # type: ignore[type-var]


def names_objects(struct: type) -> bool:
    """Whether a body of this type can name an object."""
    return bool(_declared(struct))


@cache
def kinds_naming_objects() -> tuple[str, ...]:
    """The kinds of events whose bodies can name an object."""
    from clew.model.events import KINDS  # That module imports this one.

    return tuple(kind for kind, body in KINDS.items() if names_objects(body))


@cache
def _declared(struct: Any) -> tuple[_Field, ...]:
    """The fields of a struct that name objects; of any other type none."""
    if not (isinstance(struct, type) and issubclass(struct, msgspec.Struct)):
        return ()
    hints = get_type_hints(struct, include_extras=True)
    fields: list[_Field] = []
    for field in msgspec.structs.fields(struct):
        hint = hints[field.name]
        if _MARK in getattr(hint, "__metadata__", ()):
            fields.append(_Field(field.name, is_name=True, may_be_empty=_OR_NONE in hint.__metadata__))
        elif any(_declared(part) for part in _types_in(hint)):
            fields.append(_Field(field.name, is_name=False))
    return tuple(fields)


def _types_in(hint: Any) -> list[Any]:
    """The classes in a type such as `tuple[A | B, ...]`."""
    parts = get_args(hint)
    return [kind for part in parts for kind in _types_in(part)] if parts else [hint]
