"""What the browser asked a page for, and the operations that answer it."""

from collections.abc import Callable
from typing import Any, NamedTuple


class PageRequest(NamedTuple):
    call: Callable[..., Any]
    """Calls an operation by name; the result is plain values, with secrets masked."""
    path: dict[str, str]
    query: dict[str, str]
    has_login: bool
