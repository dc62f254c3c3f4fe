"""One door: parse -> rule -> run -> audit. An operation's signature is its schema, its docstring its help.

A parameter annotated `Session` takes an id or a unique beginning of one and arrives resolved. The right an operation
needs is ruled on for what it is about: that session, or the project it names. What an operation writes into a session
carries the actor already; what leaves no event of its own is recorded in the project's control log, and so is every
refusal.
"""

import importlib
import inspect
import typing
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from clew.model.access import Grant, Right, Ruling, Target, rule
from clew.model.errors import Denied, InvalidInput
from clew.model.events import Draft, OperationCalled
from clew.model.session import Session
from clew.store import Store
from clew.views.contract import Rebuilding

if TYPE_CHECKING:
    from clew.views.upkeep import Views

MODULES = (
    "sessions",
    "turns",
    "forks",
    "leases",
    "care",
    "retention",
    "capture",
    "materialise",
    "exports",
    "connecting",
    "briefs",
    "search",
    "usage",
    "files",
    "views",
)


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """On whose behalf, with which rights, on which log."""

    store: Store
    principal: str
    grants: tuple[Grant, ...]
    machine: str = ""
    home: str = ""
    """Where a person keeps settings of their own."""
    _views: list["Views"] = msgspec.field(default_factory=list)

    @property
    def views(self) -> "Views":
        """The views of the log; loaded on first use, because most operations need none."""
        if not self._views:
            from clew.views.upkeep import Views

            self._views.append(Views(self.store))
        return self._views[0]

    def close(self) -> None:
        for views in self._views:
            views.close()
        self.store.close()


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
    parameters: tuple[Parameter, ...]
    arguments: type[msgspec.Struct]
    run: Callable[..., Any]


OPERATIONS: dict[str, Operation] = {}

F = typing.TypeVar("F", bound=Callable[..., Any])


def operation(*, right: Right, audited: bool = False, name: str = "") -> Callable[[F], F]:
    """Register a function `(context, ...)` as an operation."""

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


def one(name: str) -> Operation:
    """An operation by name; a module that is called like it is looked into before all are loaded."""
    module = name.partition("_")[0]
    if module in MODULES:
        importlib.import_module(f"clew.service.{module}")
    found = OPERATIONS.get(name) or load().get(name)
    if found is None:
        raise InvalidInput(f"no operation {name!r}; there are {', '.join(sorted(OPERATIONS))}")
    return found


def load() -> dict[str, Operation]:
    """Every operation, each module imported once."""
    for module in MODULES:
        importlib.import_module(f"clew.service.{module}")
    return OPERATIONS


def call(context: Context, name: str, arguments: Mapping[str, Any]) -> Any:
    """Carry out an operation, if the principal may."""
    found = OPERATIONS.get(name) or one(name)
    parsed = _parse(found, arguments)
    sessions = {
        parameter.name: context.store.session(text)
        for parameter in found.parameters
        if parameter.is_session and (text := getattr(parsed, parameter.name)) is not None
    }
    targets = [_target(session) for session in sessions.values()] or [Target(project=getattr(parsed, "project", ""))]
    for target in targets:
        _rule(context, found, target)
    values = {parameter.name: getattr(parsed, parameter.name) for parameter in found.parameters}
    try:
        result = found.run(context, **{**values, **sessions})
    except Rebuilding:
        # Only who reads the views meets this, and has done nothing else.
        result = found.run(context, **{**values, **sessions})
    if found.audited:
        _record(context, found, targets[0], Ruling(True, "done"))
    return result


def _parse(found: Operation, arguments: Mapping[str, Any]) -> msgspec.Struct:
    try:
        return msgspec.convert(dict(arguments), found.arguments)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{found.name}: {error}") from error


def _target(session: Session) -> Target:
    return Target(project=session.project, agent=session.agent, session=session.id)


def permit(context: Context, right: Right, about: Session | str) -> None:
    """Rule on what an operation finds only while it runs: a session, or a project by name."""
    target = Target(project=about) if isinstance(about, str) else _target(about)
    ruling = rule(context.principal, right, target, context.grants)
    if not ruling.allowed:
        raise Denied(
            f"refused in project {target.project}: {ruling.because}; ask an owner for a grant", right=str(right)
        )


def _rule(context: Context, found: Operation, target: Target) -> None:
    ruling = rule(context.principal, found.right, target, context.grants)
    if not ruling.allowed:
        _record(context, found, target, ruling)
        raise Denied(f"{found.name} was refused: {ruling.because}; ask an owner for a grant", right=str(found.right))


def _record(context: Context, found: Operation, target: Target, ruling: Ruling) -> None:
    log = context.store.control_session(target.project or "clew", context.principal)
    entry = OperationCalled(operation=found.name, target=target.session, allowed=ruling.allowed, because=ruling.because)
    context.store.append(log, [Draft(body=entry)], actor=context.principal)
