"""Work that nobody waits for any more ends early: long loops ask `check_cancelled` at each step."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Cancelled(Exception):
    """Whoever asked for this work has gone."""


_is_cancelled: ContextVar[Callable[[], bool] | None] = ContextVar("is_cancelled", default=None)


@contextmanager
def cancellable(is_cancelled: Callable[[], bool]) -> Iterator[None]:
    """Work of this thread that ends early once `is_cancelled` says so."""
    token = _is_cancelled.set(is_cancelled)
    try:
        yield
    finally:
        _is_cancelled.reset(token)


def check_cancelled() -> None:
    """Stop, if nobody waits for the result."""
    is_cancelled = _is_cancelled.get()
    if is_cancelled is not None and is_cancelled():
        raise Cancelled
