"""The registry of operations. An operation's signature is its schema, its docstring its help, its declaration the rest.

Every surface reads what it does with an operation from the declaration, and none asks for its name. A parameter
annotated `Session` takes an id or a unique beginning of one and arrives resolved (call.py).

The modules of `service/` are found by walking the package. Importing all of them takes longer than most operations, so
the text of a module is searched for its declarations before it is imported.
"""

import importlib
import inspect
import os
import re
import typing
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from clew.model.access import Right
from clew.model.errors import InvalidInput
from clew.model.session import Session

if TYPE_CHECKING:
    from clew.store.log.plan import Request

SERVICE = os.path.dirname(os.path.dirname(__file__))


Secret = typing.Annotated[str, msgspec.Meta(max_length=10_000, description="A secret.")]
"""The type of a parameter whose value no record and no page shows."""


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """One argument as surfaces need to know it."""

    name: str
    type: Any
    required: bool
    default: Any
    is_session: bool
    by_name: bool
    """Whether it is only ever given by name, as filters and settings are."""
    is_secret: bool = False
    """Whether its value is a secret, which no record and no page shows."""


class Group(msgspec.Struct, frozen=True):
    """Operations that a command line offers as one command with subcommands, named after the group."""

    name: str
    help: str


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    help: str
    right: Right
    parameters: tuple[Parameter, ...]
    arguments: type[msgspec.Struct]
    result: Any
    """The type of its result."""
    run: Callable[..., Any]
    prepare: Callable[..., "Request"] | None
    """Does all that `run` does before the commit, so that a server can commit the requests of several callers at once.
    The result of the commit is the result of the operation."""
    in_pieces: Callable[..., Iterator[bytes]] | None
    """Gives the JSON text of the result in pieces, for a server that sends it while it is made. Secrets are masked in
    the pieces when answers leave the machine."""
    route: str
    """The HTTP method and the path; empty for what is only done on the machine itself."""
    audited: bool
    """Whether each call is recorded in the audit log."""
    filters_by_reach: bool
    """Whether its statements leave out what the caller may not reach; no single session is ruled on first."""
    shows_secret: bool
    """Whether its result holds a secret that is shown once, and so is never stored for a second answer."""
    proves: bool
    """Whether its result is hashes and signatures, which look like secrets and are worthless once they are masked."""
    reads_views: bool
    repeatable: bool
    """Whether a second call with the same arguments changes nothing, so that it needs no Idempotency-Key."""
    version: Callable[[Any], int] | None
    """The version of what the result shows; HTTP sends it as an ETag and answers If-None-Match."""
    if_match: str
    """The parameter that the header If-Match stands for."""
    drafts: str
    """The parameter that takes drafts, each as its JSON text; HTTP takes them as lines too."""
    on_server: Any
    """The result when the log is a server's, and the server does this by itself."""
    group: Group | None
    counted_by: str
    """The operation that counts what a list with the same filters has in all."""
    hidden: bool
    """Whether it is for programs, and the command line has no command for it."""
    warning: str
    """The warning that a command shows before it asks a person to confirm; empty for what can be undone."""
    finds_damage: Callable[[Any], bool] | None
    """Whether a result reports damage; a command then ends with the exit code for that."""
    rows: Callable[[Any], list[list[Any]]] | None
    """The result as a table, its first row the heading; the command line offers it as CSV."""

    @property
    def command(self) -> str:
        """The name of its command, inside its group if it has one."""
        return self.name if self.group is None else self.name.removeprefix(f"{self.group.name}_")


OPERATIONS: dict[str, Operation] = {}

F = typing.TypeVar("F", bound=Callable[..., Any])


def operation(
    *,
    right: Right,
    route: str = "",
    name: str = "",
    prepare: Callable[..., "Request"] | None = None,
    in_pieces: Callable[..., Iterator[bytes]] | None = None,
    audited: bool = False,
    filters_by_reach: bool = False,
    shows_secret: bool = False,
    proves: bool = False,
    reads_views: bool = False,
    repeatable: bool = False,
    version: Callable[[Any], int] | None = None,
    if_match: str = "",
    drafts: str = "",
    on_server: Any = None,
    group: Group | None = None,
    counted_by: str = "",
    hidden: bool = False,
    warning: str = "",
    finds_damage: Callable[[Any], bool] | None = None,
    rows: Callable[[Any], list[list[Any]]] | None = None,
) -> Callable[[F], F]:
    """Register a function `(context, ...)` as an operation; `Operation` says what each argument means.

    Without a `route` it is about this machine's own files and programs, and no other machine can call it.
    """

    def register(function: F) -> F:
        hints = typing.get_type_hints(function, include_extras=True)
        parameters = _parameters(function, hints)
        fields = [(p.name, p.type) if p.required else (p.name, p.type, p.default) for p in parameters]
        known_as = name or function.__name__
        arguments = msgspec.defstruct(known_as, fields, kw_only=True, forbid_unknown_fields=True)
        msgspec.json.Decoder(arguments)  # Two threads could otherwise analyse the type at once: decoders.py.
        if not function.__doc__:
            raise AssertionError(f"operation {known_as} has no docstring, so it would have no help")
        if group is not None and not known_as.startswith(f"{group.name}_"):
            raise AssertionError(f"operation {known_as} is in the group {group.name}, so its name begins with that")
        OPERATIONS[known_as] = Operation(
            name=known_as,
            help=inspect.cleandoc(function.__doc__),
            right=right,
            parameters=parameters,
            arguments=arguments,
            result=hints["return"],
            run=function,
            prepare=prepare,
            in_pieces=in_pieces,
            route=route,
            audited=audited,
            filters_by_reach=filters_by_reach,
            shows_secret=shows_secret,
            proves=proves,
            reads_views=reads_views,
            repeatable=repeatable or route.startswith("GET "),
            version=version,
            if_match=if_match,
            drafts=drafts,
            on_server=on_server,
            group=group,
            counted_by=counted_by,
            hidden=hidden,
            warning=warning,
            finds_damage=finds_damage,
            rows=rows,
        )
        return function

    return register


def _parameters(function: Callable[..., Any], hints: dict[str, Any]) -> tuple[Parameter, ...]:
    parameters = []
    for name, parameter in list(inspect.signature(function).parameters.items())[1:]:
        is_session = hints[name] in (Session, Session | None)
        required = parameter.default is parameter.empty
        kind = (str if required else str | None) if is_session else hints[name]
        parameters.append(
            Parameter(
                name=name,
                type=kind,
                required=required,
                default=parameter.default,
                is_session=is_session,
                by_name=parameter.kind is parameter.KEYWORD_ONLY,
                is_secret=hints[name] is Secret,
            )
        )
    return tuple(parameters)


def find(name: str) -> Operation | None:
    """The operation of this name, if there is one; of the modules only the one that declares it is imported."""
    known = OPERATIONS.get(name)
    if known is None and (module := _module_of(name)):
        importlib.import_module(module)
        known = OPERATIONS[name]
    return known


def operation_named(name: str) -> Operation:
    """The operation of this name."""
    known = find(name)
    if known is None:
        raise InvalidInput(f"no operation {name!r}; there are {', '.join(sorted(load()))}")
    return known


def load() -> dict[str, Operation]:
    """Every operation; each module that declares one is imported once."""
    for module in _modules():
        if _declared(module):
            importlib.import_module(module.import_name)
    return OPERATIONS


# The rooms with most of the commands. They are searched first, because a command waits for the search.
MOST_USED = ("sessions", "handover", "knowledge")
_DECLARED = re.compile(r"^@operation\((.*?)^def (\w+)\(", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r'\bname="(\w+)"')


def _module_of(name: str) -> str:
    """The module that declares an operation; modules and rooms that are called like it are searched first."""
    first_word = name.partition("_")[0]

    def order(module: Module) -> tuple[bool, bool, int]:
        return (
            module.name != first_word,
            module.room != first_word,
            MOST_USED.index(module.room) if module.room in MOST_USED else len(MOST_USED),
        )

    return next((module.import_name for module in sorted(_modules(), key=order) if name in _declared(module)), "")


class Module(NamedTuple):
    """A module of a room of `service/`."""

    room: str
    name: str

    @property
    def import_name(self) -> str:
        return f"clew.service.{self.room}.{self.name}"


@cache
def _modules() -> list[Module]:
    # pathlib takes several times as long, and every command waits for this.
    rooms = [room.name for room in os.scandir(SERVICE) if room.is_dir()]
    files = ((room, file) for room in rooms for file in os.listdir(os.path.join(SERVICE, room)))
    return sorted(Module(room, file.removesuffix(".py")) for room, file in files if file.endswith(".py"))


@cache
def _declared(module: Module) -> frozenset[str]:
    """The names of the operations that the text of a module declares."""
    with open(os.path.join(SERVICE, module.room, f"{module.name}.py"), "rb") as file:
        text = file.read()
    if b"\n@operation(" not in text:
        return frozenset()
    declarations = _DECLARED.findall(text.decode())
    return frozenset(named[1] if (named := _NAMED.search(words)) else function for words, function in declarations)
