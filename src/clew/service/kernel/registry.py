"""The registry of operations. An operation's signature is its schema, its docstring its help.

A parameter annotated `Session` takes an id or a unique beginning of one and arrives resolved (call.py).
"""

import importlib
import inspect
import typing
from collections.abc import Callable
from typing import Any

import msgspec

from clew.model.access import Right
from clew.model.errors import InvalidInput
from clew.model.session import Session

MODULES = (
    "sessions.lifecycle",
    "sessions.events",
    "sessions.forks",
    "sessions.leases",
    "knowledge.remember",
    "audit.care",
    "audit.audit",
    "privacy.retention",
    "privacy.masking",
    "capture.capture",
    "capture.connect",
    "handover.resume_elsewhere",
    "handover.export",
    "handover.brief",
    "find.search",
    "find.usage",
    "find.files",
    "find.views",
    "access.principals",
    "access.api_keys",
    "access.grants",
    "access.agents",
    "access.settings",
    "replication.exchange",
)


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """One argument as surfaces need to know it."""

    name: str
    type: Any
    required: bool
    default: Any
    is_session: bool
    by_name: bool
    """Whether it is only ever given by name, as filters and settings are."""


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    help: str
    right: Right
    audited: bool
    route: str
    """The HTTP method and the path; empty for what is only done on the machine itself."""
    within: bool
    parameters: tuple[Parameter, ...]
    arguments: type[msgspec.Struct]
    run: Callable[..., Any]


OPERATIONS: dict[str, Operation] = {}

F = typing.TypeVar("F", bound=Callable[..., Any])


def operation(
    *, right: Right, route: str = "", audited: bool = False, within: bool = False, name: str = ""
) -> Callable[[F], F]:
    """Register a function `(context, ...)` as an operation.

    Without a `route` it is about this machine's own files and programs, and nobody can ask for it from elsewhere.
    """

    def register(function: F) -> F:
        parameters = _parameters(function)
        fields = [(p.name, p.type) if p.required else (p.name, p.type, p.default) for p in parameters]
        known_as = name or function.__name__
        if not function.__doc__:
            raise AssertionError(f"operation {known_as} has no docstring, so it would have no help")
        OPERATIONS[known_as] = Operation(
            name=known_as,
            help=inspect.cleandoc(function.__doc__),
            right=right,
            audited=audited,
            route=route,
            within=within,
            parameters=parameters,
            arguments=msgspec.defstruct(known_as, fields, kw_only=True, forbid_unknown_fields=True),
            run=function,
        )
        return function

    return register


def _parameters(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    hints = typing.get_type_hints(function, include_extras=True)
    found = []
    for name, parameter in list(inspect.signature(function).parameters.items())[1:]:
        is_session = hints[name] in (Session, Session | None)
        required = parameter.default is parameter.empty
        kind = (str if required else str | None) if is_session else hints[name]
        found.append(
            Parameter(
                name=name,
                type=kind,
                required=required,
                default=parameter.default,
                is_session=is_session,
                by_name=parameter.kind is parameter.KEYWORD_ONLY,
            )
        )
    return tuple(found)


def operation_named(name: str) -> Operation:
    """An operation by name; a module that is called like it is looked into before all are loaded."""
    room = next((module for module in MODULES if module.rpartition(".")[2] == name.partition("_")[0]), None)
    if room is not None:
        importlib.import_module(f"clew.service.{room}")
    found = OPERATIONS.get(name) or load().get(name)
    if found is None:
        raise InvalidInput(f"no operation {name!r}; there are {', '.join(sorted(OPERATIONS))}")
    return found


def load() -> dict[str, Operation]:
    """Every operation, each module imported once."""
    for module in MODULES:
        importlib.import_module(f"clew.service.{module}")
    return OPERATIONS
