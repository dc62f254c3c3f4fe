"""The operations as routes: method, path, and whether secrets are masked in the answer."""

import re
import typing
from typing import Any

import msgspec

from clew.service.kernel.registry import Operation, load

PREFIX = "/v1"


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """An operation as a route."""

    operation: Operation
    method: str
    template: str
    names: tuple[str, ...]
    """The parameters in its path, in order."""
    result: Any
    is_masked: bool
    """Whether the result can hold a secret that is not meant to be shown."""


def endpoints() -> list[Endpoint]:
    """Every operation that can be asked for from elsewhere."""
    return [_endpoint(operation) for operation in load().values() if operation.route]


def _endpoint(operation: Operation) -> Endpoint:
    method, _, path = operation.route.partition(" ")
    return Endpoint(
        operation=operation, method=method, template=PREFIX + path, names=tuple(re.findall(r"\{(\w+)\}", path)),
        result=operation.result,
        is_masked=_holds_text(operation.result) and not (operation.shows_secret or operation.proves),
    )  # fmt: skip


def _holds_text(kind: Any) -> bool:
    """Whether values of a type can hold anything but numbers."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return any(map(_holds_text, typing.get_type_hints(kind).values()))
    inner = typing.get_args(kind)
    return any(map(_holds_text, inner)) if inner else kind not in (int, bool, float, type(None))
