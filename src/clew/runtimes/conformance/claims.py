"""Claims: a false claim raises an AssertionError that names the rule, the place and the value that broke it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from clew.model import codec
from clew.model.events import Draft


def claim(holds: object, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)


def escaped(where: str, error: Exception) -> NoReturn:
    raise AssertionError(
        f"{where} raises {error!r}; a reader may raise ValueError, TypeError, LookupError or Unreadable only"
    ) from error


@contextmanager
def guarded(where: str) -> Iterator[None]:
    """Turn any error inside into a failed check."""
    try:
        yield
    except AssertionError:
        raise
    except Exception as error:
        raise AssertionError(f"{where} raises {error!r}, which nothing catches") from error


def same(left: Any, right: Any) -> bool:
    """Whether two drafts or lists of drafts are equal; verbatim JSON is compared by its bytes."""
    if isinstance(left, list):
        return len(left) == len(right) and all(same(*pair) for pair in zip(left, right, strict=True))
    return bool(
        (left.source, left.said_at) == (right.source, right.said_at)
        and left.body.kind == right.body.kind
        and codec.encode(left.body) == codec.encode(right.body)
    )


def shown_drafts(drafts: list[Draft], at: int) -> str:
    return shown([(draft.source, draft.body) for draft in drafts[at : at + 1]])


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:200]} ... {text[-90:]}"
