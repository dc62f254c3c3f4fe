"""Reading the control logs: who called which operation, on what, with which ruling and why."""

import heapq

import msgspec

from clew.model.dates import Period
from clew.model.events import OperationCalled
from clew.store import Store
from clew.store.audit_records import control_events, control_logs
from clew.store.log.rows import EVERYTHING

# How many entries one page reads at most, even when few of them match.
MOST_READ = 20_000
_NOTHING = msgspec.Raw(b"{}")


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One call of an operation. `log` and `seq` identify the event that records it."""

    at: int
    principal: str
    operation: str
    target: str
    project: str
    allowed: bool
    because: str
    arguments: msgspec.Raw
    log: str
    seq: int
    position: int
    credential: str = ""
    made: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    count: int = 1


class EntryFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The entries to return; an empty field matches every entry."""

    project: str = ""
    principal: str = ""
    operation: str = ""
    allowed: bool | None = None
    period: Period = Period(None, None)

    def matches(self, entry: Entry) -> bool:
        return (not self.operation or entry.operation == self.operation) and self.allowed in (None, entry.allowed)


class Entries(msgspec.Struct, frozen=True, kw_only=True):
    """A page of entries, newest first. `next` is the cursor of the next page; an empty page can have one, too."""

    entries: list[Entry]
    next: str


def page(store: Store, filter: EntryFilter, *, before: int, limit: int) -> Entries:
    """The newest entries before a position."""
    matching: list[Entry] = []
    looked_at = 0
    while looked_at < MOST_READ:
        newest = _read(store, filter, before=before, limit=max(limit, 200))
        for entry in newest:
            looked_at, before = looked_at + 1, entry.position
            if filter.matches(entry):
                matching.append(entry)
                if len(matching) == limit:
                    return Entries(entries=matching, next=str(before))
        if not newest:
            return Entries(entries=matching, next="")
    return Entries(entries=matching, next=str(before))


def _read(store: Store, filter: EntryFilter, *, before: int, limit: int) -> list[Entry]:
    """The newest entries before a position, merged from all control logs."""
    period = filter.period
    pages = []
    for log in control_logs(store, filter.project):
        events = control_events(
            store, log, before=before, limit=limit, since=period.start, until=period.end, principal=filter.principal
        )
        pages.append(
            [
                    Entry(
                        at=event.at, principal=event.actor, operation=body.operation, target=body.target,
                        project=log.project, allowed=body.allowed, because=body.because,
                        arguments=getattr(body, "arguments", _NOTHING), log=log.id, seq=event.seq,
                        position=event.position, credential=body.credential, made=body.made, ended=body.ended,
                        count=body.count,
                    )
                    for event in events
                    if isinstance(body := event.body, OperationCalled)
                ]
            )  # fmt: skip
    merged = heapq.merge(*pages, key=lambda entry: entry.position, reverse=True)
    return [entry for entry, _ in zip(merged, range(limit), strict=False)]


def start(after: str) -> int:
    """The position in a page's cursor."""
    from clew.model.errors import InvalidInput

    if not after:
        return EVERYTHING
    if not (after.isascii() and after.isdigit() and len(after) < 19):
        raise InvalidInput(f"{after[:40]!r} is not a valid cursor; use the `next` of the page before")
    return int(after)
