"""What the browser asked a page for, and the operations that answer it."""

from collections.abc import Callable
from typing import Any, NamedTuple

from clew.model.errors import ClewError


class PageRequest(NamedTuple):
    call: Callable[..., Any]
    """Calls an operation by name as the signed-in principal; the result has secrets masked."""
    path: dict[str, str]
    query: dict[str, str]
    principal: str = ""
    now: int = 0
    """The time of the request, in microseconds."""
    told: Callable[[ClewError], str] = str
    """The message of an error, with secrets masked."""


class Page(NamedTuple):
    """A template, the values that it shows, and the status of the answer."""

    template: str
    values: dict[str, Any] = {}  # noqa: RUF012 - A page without values shows none, and nothing adds one.
    status: int = 200


class Shell(NamedTuple):
    """What is around a page: whose browser it is, and how it wants to see things."""

    path: str = ""
    principal: str = ""
    has_login: bool = False
    theme: str = ""
    is_fragment: bool = False
    """Whether the browser puts the answer into a page that it shows already."""
