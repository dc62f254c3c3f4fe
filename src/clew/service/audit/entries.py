"""The entries of the control logs: who called which operation, on what, the ruling and why."""

import heapq

import msgspec

from clew.model.dates import Period
from clew.model.events import OperationCalled
from clew.store import Store
from clew.store.audit_records import control_events, control_logs
from clew.store.log.rows import EVERYTHING

# How many are looked at for one page, however few of them are wanted.
MOST_READ = 20_000
_NOTHING = msgspec.Raw(b"{}")


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One call of an operation. `log` and `seq` are the event it is recorded as."""

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


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which entries; empty fields leave none out."""

    project: str = ""
    principal: str = ""
    operation: str = ""
    allowed: bool | None = None
    period: Period = Period(None, None)

    def fits(self, entry: Entry) -> bool:
        return (not self.operation or entry.operation == self.operation) and self.allowed in (None, entry.allowed)


class Entries(msgspec.Struct, frozen=True, kw_only=True):
    """A page of entries, newest first. `next` goes on with the next page; there may be one even when this is empty."""

    entries: list[Entry]
    next: str


def page(store: Store, wanted: Wanted, *, before: int, limit: int) -> Entries:
    """The newest entries before a position."""
    found: list[Entry] = []
    looked_at = 0
    while looked_at < MOST_READ:
        read = _read(store, wanted, before=before, limit=max(limit, 200))
        for entry in read:
            looked_at, before = looked_at + 1, entry.position
            if wanted.fits(entry):
                found.append(entry)
                if len(found) == limit:
                    return Entries(entries=found, next=str(before))
        if not read:
            return Entries(entries=found, next="")
    return Entries(entries=found, next=str(before))


def _read(store: Store, wanted: Wanted, *, before: int, limit: int) -> list[Entry]:
    """The next so many entries of all the logs together."""
    period = wanted.period
    pages = []
    for log in control_logs(store, wanted.project):
        events = control_events(
            store, log, before=before, limit=limit, since=period.start, until=period.end, principal=wanted.principal
        )
        pages.append(
            [
                    Entry(
                        at=event.at, principal=event.actor, operation=body.operation, target=body.target,
                        project=log.project, allowed=body.allowed, because=body.because,
                        arguments=getattr(body, "arguments", _NOTHING), log=log.id, seq=event.seq,
                        position=event.position,
                    )
                    for event in events
                    if isinstance(body := event.body, OperationCalled)
                ]
            )  # fmt: skip
    merged = heapq.merge(*pages, key=lambda entry: entry.position, reverse=True)
    return [entry for entry, _ in zip(merged, range(limit), strict=False)]


def start(after: str) -> int:
    """The position that a page goes on from."""
    from clew.model.errors import InvalidInput

    if not after:
        return EVERYTHING
    if not (after.isascii() and after.isdigit() and len(after) < 19):
        raise InvalidInput(f"{after[:40]!r} is no place to go on from; use the `next` of the page before")
    return int(after)
