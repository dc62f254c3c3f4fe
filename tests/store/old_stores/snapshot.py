"""A snapshot of all that a store answers: its sessions with events and exports, the access lists, the views, the audit.

`make.py` takes one under old code, the tests take another under today's code and compare the two. So it calls
operations only, and leaves out those that the running code does not have yet.
"""

import hashlib
import json
from typing import Any

import msgspec

from clew.client import Plane
from clew.model.errors import ClewError

LISTS = {
    "principals": "principal_list", "teams": "team_list", "grants": "access_list", "keys": "key_list",
    "agents": "agents", "settings": "setting_list", "policies": "retention_list", "checkpoints": "audit_checkpoints",
    "signer": "audit_key", "knowledge": "recall",
}  # fmt: skip
SEARCHES = ("lock", "checksum", "naïve café", "Dateien", "files")
FILES = ("src/db.py", "a.txt", "README.md")
LONG = 4000
# The older code left no entries with which grants and credentials could be compared.
NOT_RECONCILED = "no grant and no credential was made since the audit log states them, so none was compared with it"
# Fields that depend on the clock, on list prices or on the folder of the store.
CHANGING = frozenset({"holder", "lease_until", "cost_micros", "cost", "prices", "file", "status"})


def take_snapshot(plane: Plane) -> dict[str, Any]:
    """Everything that the store answers, as JSON values."""
    verified = plain(plane.verify())
    return {
        "verified": verified,
        "sessions": {checked["session"]: session_snapshot(plane, checked["session"]) for checked in verified},
        "order": [[event.position, event.session, event.seq] for event in plane.tail()],
        "lists": {name: ask(plane, operation) for name, operation in LISTS.items()},
        "views": views_snapshot(plane),
        "audit": audit_snapshot(plane),
    }


def session_snapshot(plane: Plane, session: str) -> dict[str, Any]:
    """The state, the events and the exports of a session; nothing for a control log, which no operation shows."""
    detail = ask(plane, "show", session=session)
    if detail == {"error": "not_found"}:
        return {}
    events = plane.client.call("events", session=session)
    return {
        "detail": detail,
        "events": [{**shortened(plain(event)), "kind": event.kind} for event in events],
        "native": export(plane, session, "native"),
        "jsonl": export(plane, session, "jsonl"),
    }


def views_snapshot(plane: Plane) -> dict[str, Any]:
    """What the views answer: lists, searches, sums; nothing before clew had views."""
    if ask(plane, "search", query="lock") is None:
        return {}
    return {
        "listed": ask(plane, "sessions", limit=500),
        "found": {query: hits(ask(plane, "search", query=query, flat=True, limit=200)) for query in SEARCHES},
        "touched": {path: ask(plane, "files", path=path) for path in FILES},
        "usage": ask(plane, "usage", by=["runtime", "model"]),
    }


def audit_snapshot(plane: Plane) -> dict[str, Any]:
    """The result of the audit and the entries of the audit log; nothing while there is no checkpoint."""
    signer = ask(plane, "audit_key")
    if signer is None or "error" in signer:
        return {}
    notes = [checkpoint["note"] for checkpoint in ask(plane, "audit_checkpoints")["checkpoints"]]
    return {
        "examined": ask(plane, "audit_verify", checkpoints=notes, keys=[signer["key"]]),
        "entries": ask(plane, "audit_log", limit=1000),
    }


def hits(answer: dict[str, Any]) -> list[list[Any]]:
    """Session and seq of each hit of a search, sorted."""
    return sorted([hit["session"], hit["seq"]] for hit in answer["hits"])


def export(plane: Plane, session: str, form: str) -> Any:
    """The exported files by name, size and hash, or the code of the error."""
    try:
        files = plane.client.call("export", session=session, form=form, **exact(plane))
    except ClewError as error:
        return code_of(error)
    return [
        {"name": file.name, "bytes": len(file.data), "sha256": hashlib.sha256(file.data).hexdigest()} for file in files
    ]


def exact(plane: Plane) -> dict[str, Any]:
    """The argument for the exact bytes; before clew had settings, an export masked nothing."""
    return {"secrets": True} if ask(plane, "setting_list") is not None else {}


def ask(plane: Plane, operation: str, **arguments: Any) -> Any:
    """The answer as JSON values, or the code of the error; None when this clew has no such operation."""
    try:
        return plain(plane.client.call(operation, **arguments))
    except ClewError as error:
        return code_of(error)


def code_of(error: ClewError) -> Any:
    """The code of an error; None when it says that the operation does not exist."""
    return None if str(error).startswith("no operation") else {"error": error.code}


def plain(value: Any) -> Any:
    return json.loads(msgspec.json.encode(value))


def shortened(value: Any) -> Any:
    """The value with a hash in the place of every long text."""
    if isinstance(value, dict):
        return {name: shortened(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [shortened(inner) for inner in value]
    if isinstance(value, str) and len(value) > LONG:
        return f"{len(value)} characters, SHA-256 {hashlib.sha256(value.encode()).hexdigest()}"
    return value


# What was recorded as it reads today ----------------------------------------------------------------------------------


def as_today(recorded: Any) -> Any:
    """What older code answered, with what later versions changed on purpose."""
    if isinstance(recorded, list):
        return [as_today(value) for value in recorded]
    if not isinstance(recorded, dict):
        return recorded
    today = {name: as_today(value) for name, value in recorded.items()}
    if "administer" in (rights := today.get("rights") or ()):
        # They became rights of their own, which whoever might administer has.
        today["rights"] = sorted({*rights, "budget", "hold"})
    if "session" in today and "working_set" in today and "stored_at" not in today["session"]:
        # It was when the log took the last event; `last_at` is since when that happened.
        session = today["session"]
        session["stored_at"] = session.pop("last_at")
    for touched in today.get("working_set") or ():
        # A touch by another word than these two counts as a read since; so this number is not compared.
        touched["read"] = None
    return today


def without_later(current: dict[str, Any], recorded: dict[str, Any]) -> dict[str, Any]:
    """What today's code answers, without what it lists and notes beyond the older code."""
    lists, audit = dict(current["lists"]), dict(current["audit"])
    if lists["keys"] and recorded["lists"]["keys"] is not None:
        # Links and logins are listed beside the API keys.
        ids = {key["id"] for key in recorded["lists"]["keys"]}
        lists["keys"] = [key for key in lists["keys"] if key["id"] in ids]
    if audit:
        notes = [note for note in audit["examined"]["notes"] if note != NOT_RECONCILED]
        audit["examined"] = {**audit["examined"], "notes": notes}
    views = dict(current["views"])
    if views and not any("cached_tokens" in line for line in recorded["views"].get("listed") or ()):
        # What was read from a cache is counted beside the tokens since, no longer among them.
        views["listed"] = [
            {**line, "tokens": line["tokens"] + line.get("cached_tokens", 0)} if "tokens" in line else line
            for line in views["listed"]
        ]
    return {**current, "lists": lists, "views": views, "audit": audit}


# Comparing ------------------------------------------------------------------------------------------------------------


def differences(current: Any, recorded: Any, path: str = "") -> list[str]:
    """List the paths where a recorded value is missing or differs now; a new field is not a difference."""
    if recorded is None:
        return []
    if isinstance(recorded, dict) and isinstance(current, dict):
        return [
            difference
            for name, value in recorded.items()
            if name not in CHANGING or ".events[" in path
            for difference in differences(current.get(name, "(missing)"), value, f"{path}.{name}")
        ]
    if isinstance(recorded, list) and isinstance(current, list) and len(recorded) == len(current):
        return [
            difference
            for number, (now, before) in enumerate(zip(current, recorded, strict=True))
            for difference in differences(now, before, f"{path}[{number}]")
        ]
    return [] if current == recorded else [f"{path}: {str(current)[:200]} instead of {str(recorded)[:200]}"]
