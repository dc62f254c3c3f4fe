"""The audit log in the formats of other programs: JSON lines, CSV, OpenTelemetry."""

import csv
import io
from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from clew.model.plain import plain
from clew.service.audit.entries import Entry

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
    "credential",
    "made",
    "ended",
    "count",
)


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
            "made": ", ".join(entry.made),
            "ended": ", ".join(entry.ended),
        }
        writer.writerow([_harmless(str(values[name])) for name in COLUMNS])
    return out.getvalue()


def as_otel(entries: Iterable[Entry]) -> str:
    """OTLP logs as one line of JSON, the format of a collector's file receiver."""
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
        "clew.position": entry.position, "clew.credential": entry.credential, "clew.made": ", ".join(entry.made),
        "clew.ended": ", ".join(entry.ended), "clew.count": entry.count,
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
    """A cell that no spreadsheet interprets as a formula."""
    text = plain(text)
    return f"'{text}" if text.lstrip()[:1] in ("=", "+", "-", "@") else text
