"""How long one page may take to make its texts readable. A hostile text costs a parser far more than it shows.

What comes after the time is spent is shown as plain text, which costs nothing worth counting.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

SECONDS = 1.0
_spent: ContextVar[float] = ContextVar("spent", default=0.0)


def begin_page() -> None:
    """Count from 0 for the page that this thread begins."""
    _spent.set(0.0)


def is_spent() -> bool:
    return _spent.get() > SECONDS


@contextmanager
def counted() -> Iterator[None]:
    """Count the time of what is done inside, for the page of this thread."""
    began = time.perf_counter()
    try:
        yield
    finally:
        _spent.set(_spent.get() + time.perf_counter() - began)
