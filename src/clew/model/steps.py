"""Long work in steps: loops over much text call `end_step`, so that who runs them can end them, or let others pass."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_at_step: ContextVar[Callable[[], None] | None] = ContextVar("at_step", default=None)


@contextmanager
def in_steps(at_step: Callable[[], None]) -> Iterator[None]:
    """Work of this thread that calls `at_step` after each of its steps; an exception of it ends the work."""
    token = _at_step.set(at_step)
    try:
        yield
    finally:
        _at_step.reset(token)


def end_step() -> None:
    """The end of a step of a few milliseconds."""
    at_step = _at_step.get()
    if at_step is not None:
        at_step()
