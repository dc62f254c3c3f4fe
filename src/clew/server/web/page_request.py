"""What the browser asked a page for, and the operations that answer it."""

from collections.abc import Callable
from typing import Any, NamedTuple

from clew.model.errors import ClewError
from clew.service.kernel.registry import operation_named


def _nothing() -> list[Any]:
    return []


class PageRequest(NamedTuple):
    call: Callable[..., Any]
    """Calls a reading operation by name as the signed-in principal; the result has secrets masked."""
    path: dict[str, str]
    query: dict[str, str]
    given: tuple[tuple[str, str], ...] = ()
    """What the address gives, or the form that was sent: a name can be there more than once."""
    principal: str = ""
    now: int = 0
    """The time of the request, in microseconds."""
    told: Callable[[ClewError], str] = str
    """The message of an error, with secrets masked."""
    address: str = ""
    """The address of the server, as the browser knows it."""
    is_own: bool = False
    """Whether the server is that of one person on their own machine."""
    examine: Callable[[], list[Any]] = _nothing
    """What `clew doctor` finds at once, for owners."""

    @staticmethod
    def right_of(operation: str) -> str:
        """The right that an operation needs."""
        return str(operation_named(operation).right)


class Page(NamedTuple):
    """A template, the values that it shows, and the status of the answer."""

    template: str
    values: dict[str, Any] = {}  # noqa: RUF012 - A page without values shows none, and nothing adds one.
    status: int = 200


class Done(NamedTuple):
    """An action was done: the page that comes next, and what it says."""

    next: str
    words: str
    key: str


class Download(NamedTuple):
    """A file for the person to keep; what an operation gave has its secrets masked."""

    name: str
    """Letters, digits, dots, dashes and underscores."""
    data: bytes


Made = Page | Done | Download


class Shell(NamedTuple):
    """What is around a page: whose browser it is, and how it wants to see things."""

    path: str = ""
    principal: str = ""
    has_login: bool = False
    theme: str = ""
    is_fragment: bool = False
    """Whether the browser puts the answer into a page that it shows already."""
    done: str = ""
    """What the action that led here did, in words."""
