"""The tabs about a session, beside its transcript. Each asks for what it shows and nothing else.

With `at` they show the session as it was at that event, as far as that is known: state, knowledge, turns and tools.
"""

from collections.abc import Callable
from typing import Any

from clew.model.errors import ClewError
from clew.server.web.actions.session import access_to
from clew.server.web.page_request import PageRequest
from clew.service.sessions.show import SessionDetail

KNOWN = 60
TURNS = 60


def tab_of(request: PageRequest, id: str, detail: SessionDetail | None = None) -> dict[str, Any]:
    """The tab that is asked for, with its values; the first one if there is no such tab."""
    name = request.query.get("tab", "")
    name = name if name in TABS else next(iter(TABS))
    detail = detail or request.call("show", session=id)
    text = request.query.get("at", "")
    at = min(int(text), detail.session.head) if text.isascii() and text.isdigit() and len(text) < 19 else 0
    upto = {"upto": at} if at else {}
    made = {
        "tab": name,
        "tabs": list(TABS),
        "id": detail.session.id,
        "detail": detail,
        "line": detail.session,
        "at": at,
    }
    then = request.call("overview", session=id, **upto) if at or name in ("usage", "tools") else None
    return {**made, "then": then, **TABS[name](request, detail, upto)}


Upto = dict[str, int]


def _overview(request: PageRequest, detail: SessionDetail, upto: Upto) -> dict[str, Any]:
    return {}


def _knowledge(request: PageRequest, detail: SessionDetail, upto: Upto) -> dict[str, Any]:
    """What the session knows, each with where it is from, by kind and the newest first."""
    recalled = request.call("recall", session=detail.session.id, limit=KNOWN, **upto)
    kinds = ("decision", "fact", "progress")
    return {
        "known": [(kind, [one for one in recalled.found if one.kind == kind]) for kind in kinds],
        "more_known": bool(recalled.next),
    }


def _usage(request: PageRequest, detail: SessionDetail, upto: Upto) -> dict[str, Any]:
    return {"most_turns": TURNS}


def _lineage(request: PageRequest, detail: SessionDetail, upto: Upto) -> dict[str, Any]:
    return {}


def _access(request: PageRequest, detail: SessionDetail, upto: Upto) -> dict[str, Any]:
    """What the reader may do and why, and who else may do something, as far as the reader may ask."""
    id = detail.session.id
    own: dict[str, list[tuple[str, bool]]] = {}
    for ruling in access_to(request, id):
        # A refusal names its right; without the name, refusals for one reason are one line.
        reason = ruling.because if ruling.allowed else ruling.because.replace(f" to {ruling.right} ", " to do this ")
        own.setdefault(reason, []).append((ruling.right.replace("_", " "), ruling.allowed))
    values: dict[str, Any] = {"own": list(own.items()), "others": [], "refused": ""}
    try:
        values["others"] = request.call("access_who", session=id)
    except ClewError as error:
        values["refused"] = request.told(error)
    return values


def _audit(request: PageRequest, detail: SessionDetail, upto: Upto) -> dict[str, Any]:
    """The chain of the session is recomputed, and compared with the newest checkpoint that holds it."""
    try:
        return {"audited": request.call("audit_session", session=detail.session.id), "refused": ""}
    except ClewError as error:
        return {"audited": None, "refused": request.told(error)}


TABS: dict[str, Callable[[PageRequest, SessionDetail, Upto], dict[str, Any]]] = {
    "overview": _overview, "knowledge": _knowledge, "files": _overview, "usage": _usage, "tools": _usage,
    "lineage": _lineage, "access": _access, "audit": _audit,
}  # fmt: skip
