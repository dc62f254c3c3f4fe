"""What a page can do: each action is declared once, and says in words what it will do before it is done.

An action names an operation and the fields that a person fills in; the rights, the checks and the audit record are the
operation's. `acting.py` asks and acts, `navigation.py` lists the actions.
"""

import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple

from clew.server.web.page_request import PageRequest


class Kind(Enum):
    """How a field is filled in."""

    LINE = "line"
    SECRET = "secret"  # noqa: S105 - The name of a kind of field.
    """A key; no page shows it again, and no address has it."""
    TEXT = "text"
    NUMBER = "number"
    LIST = "list"
    """Words with blanks or commas between them, which are the items of a list."""
    CHOICE = "choice"
    YES = "yes"
    """A box to tick; without its tick the operation has its own default."""


class Servers(Enum):
    """Which servers have an action: that of one person on their own machine, that of a team, or both."""

    BOTH = "both"
    OWN = "own"
    TEAM = "team"


class Field(NamedTuple):
    """A parameter of the operation, as a person fills it in. An empty one is left out."""

    name: str
    label: str
    kind: Kind = Kind.LINE
    hint: str = ""
    needed: bool = False
    choices: tuple[tuple[str, str], ...] = ()
    """The value and the words of each choice; `About` may have others."""
    longest: int = 0


class Change(NamedTuple):
    """A file that an action would change: a sign, its path, and what about it."""

    sign: str
    path: str
    about: str = ""


class About(NamedTuple):
    """What an action is about, as it is just now: read again when it is done, so that both see the same."""

    name: str
    back: str
    """The address of its page."""
    values: Mapping[str, str] = {}
    """What the fields hold. A value that somebody changed meanwhile is not overwritten."""
    choices: Mapping[str, tuple[tuple[str, str], ...]] = {}
    notes: tuple[str, ...] = ()
    """What it will do in this case, in sentences."""
    changes: tuple[Change, ...] = ()
    """The files that it would change."""
    changes_of: frozenset[str] = frozenset()
    """The fields that these depend on: with another value in one of them the form is asked anew."""
    leaves_out: frozenset[str] = frozenset()
    """The fields that say nothing in this case."""
    typed: str = ""
    """The words that a person has to type, for what cannot be undone."""
    refusal: str = ""
    """Why it is not possible now; nothing is asked then."""


class Action(NamedTuple):
    """Something that a page can do. `path` has the operation's parameters that are in the address."""

    path: str
    operation: str
    name: str
    """The words of its button: "Rename"."""
    will: str
    """What it will do, in a sentence or two."""
    done: str
    """What the page says afterwards: "Renamed"."""
    about: Callable[[PageRequest], About]
    fields: tuple[Field, ...] = ()
    fixed: Mapping[str, Any] = {}
    """Arguments that are always the same."""
    is_dangerous: bool = False
    """Whether what it does cannot be undone."""
    asks: bool = True
    """Whether it asks first; without, a button in a page does it at once."""
    next: Callable[[PageRequest, Any], str] | None = None
    """The page that comes next, by the result. [default: that of `About.back`]"""
    shows: str = ""
    """The template that shows the result, where there is something to read that no other page has."""
    each: str = ""
    """The parameter of which many values are given: the operation is called for each of them."""
    is_possible: Callable[[Any], bool] = lambda subject: True
    """Whether a page about this subject offers it."""
    servers: Servers = Servers.BOTH
    icon: str = ""

    @property
    def key(self) -> str:
        """Its name for programs: the words of its path."""
        return "-".join(re.findall(r"[a-z_]+", re.sub(r"\{\w+\}", "", self.path)))

    def address(self, path: Mapping[str, str]) -> str:
        return self.path.format_map(path)


def is_here(action: Action, request: PageRequest) -> bool:
    """Whether the server that is asked has the action."""
    return action.servers is Servers.BOTH or (action.servers is Servers.OWN) == request.is_own


def items_of(action: Action, request: PageRequest) -> list[str]:
    """What an action on many is done to."""
    return list(dict.fromkeys(value for name, value in request.given if action.each and name == action.each))


class Offer(NamedTuple):
    """An action as a page offers it: its words, its address, and how its button is."""

    name: str
    address: str
    icon: str
    asks: bool
    is_dangerous: bool


def offers(
    actions: tuple[Action, ...], request: PageRequest, subject: Any, rights: frozenset[str], **path: str
) -> list[Offer]:
    """The actions that are possible for a subject and that the reader may take, by the rights that they have on it."""
    return [
        Offer(action.name, action.address(path), action.icon, action.asks, action.is_dangerous)
        for action in actions
        if action.is_possible(subject) and request.right_of(action.operation) in rights and is_here(action, request)
    ]
