"""What a view is: a name, a version, and a fold over the events of all sessions in the order they became visible."""

from typing import Any, ClassVar, Protocol

import msgspec

from clew.model.errors import Damaged
from clew.model.events import Event, SessionForked, SessionOpened
from clew.model.session import Session
from clew.store.derived import Transaction


class Rebuilding(Damaged):
    """The views were damaged and have been thrown away: whoever asks again finds them built from the log."""


# What anybody wrote into the log is kept there; PostgreSQL has no room for more than this in an index.
LONGEST = 500
# The last year that a date can be in, whatever a runtime's clock says.
LATEST = 253_370_764_800_000_000


class Sessions(Protocol):
    """What a fold can ask about sessions, by their keys."""

    def __call__(self, key: int) -> Session:
        """Who a session is."""
        ...

    def corrects(self, key: int, event: Event) -> bool:
        """Whether the next event of a session says anew what an earlier one said. To be asked once for each."""
        ...


class View(Protocol):
    """A view under way: takes some events, and writes what they change in one transaction.

    What it writes depends on nothing but the events. A new `version` makes the view be built again from the log.
    """

    name: ClassVar[str]
    version: ClassVar[int]

    def __init__(self, tx: Transaction, session: Sessions, dialect: str) -> None: ...

    def add(self, key: int, event: Event) -> None:
        """Take in the next event of the session with this key."""
        ...

    def forget(self, key: int) -> None:
        """Drop all that was ever taken in of a session."""
        ...

    def finish(self) -> None:
        """Write what has been taken in."""
        ...

    @staticmethod
    def clear(tx: Transaction, dialect: str) -> None:
        """Empty the view's tables."""
        ...


def storable(text: str) -> str:
    """A text as every database can keep and index it."""
    return text[:LONGEST].replace("\0", "\ufffd").encode("utf-8", "replace").decode()


class Origin(msgspec.Struct, frozen=True):
    """What a session's own metadata says of where it comes from: texts, whatever else is there."""

    runtime: str = ""
    machine: str = ""
    native: str = ""
    parent: str = ""
    """The native id of the session that it is a subagent of."""


def origin_of(metadata: str | msgspec.Raw) -> Origin:
    """Where a session comes from; anybody may write anything there."""
    try:
        told = msgspec.json.decode(metadata or "{}", type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return Origin()
    return Origin(**{name: told[name] for name in Origin.__struct_fields__ if isinstance(told.get(name), str)})


_FIRST = (SessionOpened, SessionForked)


def is_first(event: Event) -> bool:
    """Whether nothing can be known yet of the session it belongs to."""
    return isinstance(event.body, _FIRST)


def when(event: Event, before: int = 0) -> int:
    """When it happened: as the runtime says; else as the one before it, if it is a record of the runtime; else now."""
    if event.said_at is not None:
        return max(event.said_at, 0)
    return before if before and event.source is not None else event.at
