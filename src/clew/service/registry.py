"""One door: parse -> rule -> run -> audit. An operation's signature is its schema, its docstring its help.

A parameter annotated `Session` takes an id or a unique beginning of one and arrives resolved; a session that the caller
has no right on at all is not found. The right an operation needs is ruled on for what it is about: that session, or the
project it names. An operation `within` is about all the caller may reach, and narrows its statements by that. What an
operation writes into a session carries the actor already; what leaves no event of its own is recorded in the project's
control log, and so is every refusal.
"""

import importlib
import inspect
import typing
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from clew.model.access import Caller, Grant, Reach, Right, Ruling, Target
from clew.model.errors import Denied, InvalidInput
from clew.model.events import Draft, OperationCalled
from clew.model.ids import check_name
from clew.model.session import Session
from clew.store import Store
from clew.store.contract import Parameters
from clew.views.contract import Rebuilding

if TYPE_CHECKING:
    from clew.views.upkeep import Views

MODULES = (
    "sessions",
    "turns",
    "forks",
    "leases",
    "knowledge",
    "care",
    "retention",
    "capture",
    "materialise",
    "exports",
    "redaction",
    "connecting",
    "briefs",
    "search",
    "usage",
    "files",
    "views",
    "audit",
    "principals",
    "keys",
    "access",
    "agents",
    "settings",
    "sync",
)


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """On whose behalf, with which rights, on which log."""

    store: Store
    principal: str
    grants: tuple[Grant, ...]
    teams: frozenset[str] = frozenset()
    scopes: frozenset[Right] | None = None
    """The rights that the caller's key is good for; None is all."""
    bound: str = ""
    """The only project that the caller's key is good for."""
    machine: str = ""
    home: str = ""
    """Where a person keeps settings of their own."""
    outward: bool = False
    """Whether what is answered leaves this machine."""
    _views: list["Views"] = msgspec.field(default_factory=list)
    _found: dict[Any, Any] = msgspec.field(default_factory=dict)

    @property
    def views(self) -> "Views":
        """The views of the log; loaded on first use, because most operations need none."""
        if not self._views:
            from clew.views.upkeep import Views

            self._views.append(Views(self.store))
        return self._views[0]

    @property
    def caller(self) -> Caller:
        if "caller" not in self._found:
            self._found["caller"] = Caller(
                self.principal, self.grants, teams=self.teams, scopes=self.scopes, bound=self.bound,
                now=self.store.database.now(),
            )  # fmt: skip
        found: Caller = self._found["caller"]
        return found

    def reach(self, right: Right | None) -> Parameters:
        """Where the caller has this right, or any at all, as parameters of a statement; none for everywhere."""
        if right not in self._found:
            reach = self.caller.reach(right)
            self._found[right] = {} if reach is None else self._parameters(reach)
        found: Parameters = self._found[right]
        return found

    def _parameters(self, reach: Reach) -> Parameters:
        projects = {name: key for key, name in self.store.projects().items()}
        return reach.parameters(projects, self.store.keys_of(reach.sessions) if reach.sessions else {})

    def setting(self, project: str, name: str) -> str:
        """What is set for a project, or else for all; empty when nothing is."""
        if "settings" not in self._found:
            from clew.store.team import settings

            self._found["settings"] = settings(self.store)
        known: dict[tuple[str, str], str] = self._found["settings"]
        return known.get((project, name)) or known.get(("", name), "")

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
        parameter.name: context.store.session(text, context.reach(None))
        for parameter in found.parameters
        if parameter.is_session and (text := getattr(parsed, parameter.name)) is not None
    }
    project = check_project(getattr(parsed, "project", ""))
    targets = [target_of(session) for session in sessions.values()]
    if not targets and not found.within:
        targets = [Target(project=project)]
    for target in targets:
        _rule(context, found, target)
    if found.within and context.scopes is not None and found.right not in context.scopes:
        raise Denied(
            f"{found.name} was refused: this key is not good for the right to {found.right}; use one that is",
            right=str(found.right),
        )
    values = {parameter.name: getattr(parsed, parameter.name) for parameter in found.parameters}
    try:
        result = found.run(context, **{**values, **sessions})
    except Rebuilding:
        # Only who reads the views meets this, and has done nothing else.
        result = found.run(context, **{**values, **sessions})
    except Denied as error:
        _record(context, found, targets[0] if targets else Target(), Ruling(False, str(error)))
        raise
    about = targets[0] if targets else Target(project=project)
    if found.audited:
        _record(context, found, about, Ruling(True, "done"), parsed)
    elif found.right in CONTENT and context.setting(about.project, "audit_reads") == "on":
        _record(context, found, about, Ruling(True, "read"))
    return result


# Operations with these rights show what was said; whether they are recorded is a project's setting.
CONTENT = (Right.READ, Right.EXPORT)


def _parse(found: Operation, arguments: Mapping[str, Any]) -> msgspec.Struct:
    try:
        return msgspec.convert(dict(arguments), found.arguments)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{found.name}: {error}") from error


def check_project(name: str) -> str:
    """A project's name, as short as one is; what concerns no project has a mark in its place."""
    if name == WHOLE:
        raise InvalidInput(f"no project is called {WHOLE!r}; leave it out for all of them")
    return check_name(name, "the project", longest=200)


def target_of(session: Session) -> Target:
    return Target(
        project=session.project, agent=session.agent, session=session.id, owner=session.owner, private=session.private
    )


def permit(context: Context, right: Right, about: Session | str | Target) -> None:
    """Rule on what an operation finds only while it runs: a session, or a project by name."""
    target = Target(project=about) if isinstance(about, str) else about
    target = target_of(target) if isinstance(target, Session) else target
    ruling = context.caller.rule(right, target)
    if not ruling.allowed:
        where = f"in project {target.project}" if target.project else "on the store as a whole"
        raise Denied(f"refused {where}: {ruling.because}; ask an owner for a grant", right=str(right))


def _rule(context: Context, found: Operation, target: Target) -> None:
    ruling = context.caller.rule(found.right, target)
    if not ruling.allowed:
        _record(context, found, target, ruling)
        raise Denied(f"{found.name} was refused: {ruling.because}; ask an owner for a grant", right=str(found.right))


def _record(
    context: Context, found: Operation, target: Target, ruling: Ruling, parsed: msgspec.Struct | None = None
) -> None:
    # Whoever asks need not be able to see the log that their asking is recorded in.
    store = context.store.whole
    project = target.project or WHOLE
    if not ruling.allowed and project not in store.projects().values():
        # Whoever is refused makes no project by it.
        project = WHOLE
    log = store.control_session(project, context.principal)
    entry = OperationCalled(
        operation=found.name, target=(target.session or target.project)[:LONGEST_ARGUMENT], allowed=ruling.allowed,
        because=ruling.because[:LONGEST_REASON], arguments=_arguments(parsed),
    )  # fmt: skip
    store.append(log, [Draft(body=entry)], actor=context.principal)


# The control log of what concerns no project in particular.
WHOLE = "*"
LONGEST_ARGUMENT = 200
LONGEST_REASON = 500


def _arguments(parsed: msgspec.Struct | None) -> msgspec.Raw:
    """The arguments that differ from their defaults, as long as they are short."""
    if parsed is None:
        return msgspec.Raw(b"{}")
    given = {
        name: value
        for name, value in msgspec.to_builtins(parsed).items()
        if value not in (None, "", [], False) and len(str(value)) <= LONGEST_ARGUMENT
    }
    return msgspec.Raw(msgspec.json.encode(given))
