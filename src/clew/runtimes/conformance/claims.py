"""A claim that does not hold raises an AssertionError that says which rule was broken, where, and by what."""

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
    """Nothing may raise here."""
    try:
        yield
    except AssertionError:
        raise
    except Exception as error:
        raise AssertionError(f"{where} raises {error!r}, and nobody is there to catch it") from error


def same(one: Any, other: Any) -> bool:
    """Equal, verbatim JSON compared by its bytes."""
    if isinstance(one, list):
        return len(one) == len(other) and all(same(*pair) for pair in zip(one, other, strict=True))
    return bool(
        (one.source, one.said_at) == (other.source, other.said_at)
        and one.body.kind == other.body.kind
        and codec.encode(one.body) == codec.encode(other.body)
    )


def shown_drafts(drafts: list[Draft], at: int) -> str:
    return shown([(draft.source, draft.body) for draft in drafts[at : at + 1]])


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:200]} ... {text[-90:]}"
