"""What a view is: a name, a version, and a fold over the events of all sessions in the order they became visible."""

from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import msgspec

from clew.model.errors import Damaged
from clew.model.events import AnyBody, Event, SessionForked, SessionOpened
from clew.model.session import Session
from clew.store.derived import Transaction

if TYPE_CHECKING:
    from clew.model.course import Places


class Rebuilding(Damaged):
    """The damaged views were deleted; the next read rebuilds them from the log."""


# A text in the log can be longer; a PostgreSQL index entry holds no more than this.
LONGEST = 500
# The start of 9999, the last year that a date can hold; a runtime's clock may report a later time.
LATEST = 253_370_764_800_000_000


class Sessions(Protocol):
    """Session lookups available to a fold, by session key."""

    def __call__(self, key: int) -> Session:
        """The session with this key."""
        ...

    def corrects(self, key: int, event: Event) -> bool:
        """Whether the next event of a session revises an earlier one. Call it exactly once per event."""
        ...

    def places(self, key: int, event: Event) -> "Places":
        """The places of the records of a session before its next event. Call it once per event."""
        ...

    def inherited_call(self, key: int, id: str) -> int:
        """The newest call with this id that was open when the session was forked; 0 if there is none. It is closed."""
        ...


Bodies = tuple[type[AnyBody], ...] | None
"""The bodies whose events a view folds; None stands for every event."""


class View(Protocol):
    """One fold in progress: it takes events and writes the changed rows in one transaction.

    The rows depend only on the events. A new `version` triggers a rebuild of the view from the log; `catalog.py` reads
    it from the text of the module.
    """

    name: ClassVar[str]
    version: ClassVar[int]
    bodies: ClassVar[Bodies]

    def __init__(self, tx: Transaction, session: Sessions, dialect: str) -> None: ...

    def add(self, key: int, event: Event) -> None:
        """Fold the next event of the session with this key."""
        ...

    def forget(self, key: int) -> None:
        """Delete everything that was ever folded of a session."""
        ...

    def finish(self) -> None:
        """Write the rows that changed."""
        ...

    @staticmethod
    def clear(tx: Transaction, dialect: str) -> None:
        """Empty the view's tables."""
        ...


def storable(text: str) -> str:
    """The text in a form that every database can store and index."""
    return text[:LONGEST].replace("\0", "\ufffd").encode("utf-8", "replace").decode()


class Origin(msgspec.Struct, frozen=True):
    """The origin of a session as its metadata states it; values that are not texts are ignored."""

    runtime: str = ""
    machine: str = ""
    native: str = ""
    parent: str = ""
    """The native id of the session that it is a subagent of."""


def origin_of(metadata: str | msgspec.Raw) -> Origin:
    """The origin in a session's metadata. Users write metadata freely, so any content must be accepted."""
    try:
        values = msgspec.json.decode(metadata or "{}", type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return Origin()
    return Origin(**{name: values[name] for name in Origin.__struct_fields__ if isinstance(values.get(name), str)})


_FIRST = (SessionOpened, SessionForked)


def is_first(event: Event) -> bool:
    """Whether the event opens its session, so that no row of that session exists yet."""
    return isinstance(event.body, _FIRST)


def when(event: Event, before: int = 0) -> int:
    """The time of an event: the runtime's; without one, that of the record before it; else the time of the append."""
    if event.said_at is not None:
        return max(event.said_at, 0)
    return before if before and event.source is not None else event.at
