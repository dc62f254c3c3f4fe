"""Hints: the command that helps after an error, by the error's code. Errors themselves name no commands."""

from collections.abc import Callable
from typing import Any

from clew.model.errors import ClewError

Details = dict[str, Any]


def hint_for(error: ClewError) -> str:
    """What to run next; empty when no command helps."""
    make = HINTS.get(error.code)
    return make(error.details) if make is not None else ""


def _wrong_state(details: Details) -> str:
    session, state = details.get("session"), details.get("state")
    if not session:
        return ""
    if details.get("over_budget"):
        return _budget(details)
    if state in ("paused", "closed"):
        return f"clew resume {session}"
    if state == "archived":
        return f"clew fork {session}"
    return f"clew close {session}" if details.get("kind") == "session_archived" else ""


def _budget(details: Details) -> str:
    session = details.get("session", "ID")
    return f"clew budget {session} --tokens N (or --usd X), then clew resume {session}"


def _damaged(details: Details) -> str:
    if details.get("audit_tree"):
        return "clew audit verify"
    if "pack" in details or "object" in details:
        return "clew verify --objects"
    return f"clew verify {details['session']}" if details.get("session") else "clew verify"


# The command that lists what exists, by what was not found.
LISTS = {
    "agent": "clew agents",
    "checkpoint": "clew audit checkpoints",
    "remote": "clew remote add URL",
    "key": "clew key list",
    "grant": "clew access list",
    "principal": "clew principal list",
    "member": "clew team list",
    "tag": "clew tags",
    "view": "clew view list",
}


def _not_found(details: Details) -> str:
    if details.get("missing") == "note of session":
        return f"clew note {details['session']}"
    if "missing" in details:
        return LISTS.get(details["missing"], "")
    return "clew sessions" if details.get("session") else ""


def _invalid(details: Details) -> str:
    if "program" in details:
        return f"clew resume {details['session']} --no-run"
    return f"clew resume {details['session']} --cwd DIR" if "cwd" in details else ""


HINTS: dict[str, Callable[[Details], str]] = {
    "invalid_input": _invalid,
    "wrong_state": _wrong_state,
    "budget_exceeded": _budget,
    "damaged": _damaged,
    "schema_outdated": lambda _: "clew migrate",
    "store": lambda details: "clew doctor" if details.get("lacks_rights") else "",
    "schema_newer": lambda _: "pip install -U clew",
    "on_hold": lambda _: "clew retention list",
    "has_forks": lambda details: f"clew erase {details.get('session', 'ID')} --with-forks",
    "ambiguous_id": lambda _: "clew sessions",
    "not_found": _not_found,
}
