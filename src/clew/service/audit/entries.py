"""The entries of the control logs: who asked for what, on what, the ruling and why; and the forms others read."""

import csv
import heapq
import io
from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from clew.model.dates import Period
from clew.model.events import OperationCalled
from clew.model.plain import plain
from clew.store import Store
from clew.store.audit_records import control_events, control_logs
from clew.store.log.rows import EVERYTHING

# How many are looked at for one page, however few of them are wanted.
MOST_READ = 20_000
COLUMNS = (
    "at",
    "principal",
    "operation",
    "target",
    "project",
    "allowed",
    "because",
    "arguments",
    "log",
    "seq",
    "position",
)
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


# Forms ----------------------------------------------------------------------------------------------------------------


def as_jsonl(entries: Iterable[Entry]) -> str:
    return "".join(msgspec.json.encode(entry).decode() + "\n" for entry in entries)


def as_csv(entries: Iterable[Entry], *, titles: bool) -> str:
    """Comma-separated values; times are ISO 8601 in UTC."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if titles:
        writer.writerow(COLUMNS)
    for entry in entries:
        values = {
            **msgspec.structs.asdict(entry),
            "at": _iso(entry.at),
            "allowed": "true" if entry.allowed else "false",
            "arguments": bytes(entry.arguments).decode(),
        }
        writer.writerow([_harmless(str(values[name])) for name in COLUMNS])
    return out.getvalue()


def as_otel(entries: Iterable[Entry]) -> str:
    """OTLP's JSON of logs, all in one line: what a collector's file receiver reads."""
    records = [_record(entry) for entry in entries]
    if not records:
        return ""
    scope = {"scope": {"name": "clew.audit"}, "logRecords": records}
    resource = {"attributes": _attributes({"service.name": "clew"})}
    return msgspec.json.encode({"resourceLogs": [{"resource": resource, "scopeLogs": [scope]}]}).decode() + "\n"


def _record(entry: Entry) -> dict[str, object]:
    verdict = "allowed" if entry.allowed else "refused"
    values = {
        "enduser.id": entry.principal, "clew.operation": entry.operation, "clew.target": entry.target,
        "clew.project": entry.project, "clew.allowed": entry.allowed, "clew.because": entry.because,
        "clew.arguments": bytes(entry.arguments).decode(), "clew.log": entry.log, "clew.seq": entry.seq,
        "clew.position": entry.position,
    }  # fmt: skip
    return {
        "timeUnixNano": str(entry.at * 1000),
        "severityNumber": 9 if entry.allowed else 13,
        "severityText": "INFO" if entry.allowed else "WARN",
        "eventName": "clew.operation_called",
        "body": {"stringValue": f"{entry.principal} {verdict} {entry.operation} {entry.target or entry.project}"},
        "attributes": _attributes(values),
    }


def _attributes(values: dict[str, object]) -> list[dict[str, object]]:
    return [{"key": name, "value": _value(value)} for name, value in values.items()]


def _value(value: object) -> dict[str, object]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case _:
            return {"stringValue": str(value)}


def _iso(at: int) -> str:
    return datetime.fromtimestamp(at / 1_000_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _harmless(text: str) -> str:
    """A cell that no spreadsheet takes for a formula."""
    text = plain(text)
    return f"'{text}" if text.lstrip()[:1] in ("=", "+", "-", "@") else text
