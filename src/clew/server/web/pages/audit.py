"""The audit trail: who called which operation, on what, whether they might and why; and what signs it."""

from typing import Any

import msgspec

from clew.model.errors import InvalidInput, NotFound
from clew.model.ids import ALPHABET, LENGTH
from clew.server.http.problems import STATUS
from clew.server.web.actions.keeping import AUDIT
from clew.server.web.offered import offered, rights_somewhere
from clew.server.web.page_request import Page, PageRequest
from clew.server.web.pages.filters import check_no_words, filters_of
from clew.server.web.pages.permitted import permitted
from clew.server.web.rendering import link
from clew.service.audit.entries import Entry

NOT_FILTERS = frozenset({"limit", "after"})
ENTRIES, CHECKPOINTS = 50, 3
RULINGS = ("allowed", "refused")
PERIODS = ("today", "7d", "30d")


def audit(request: PageRequest) -> Page:
    filters = filters_of("audit_log", request.query, request.query.get("filter", ""), but=NOT_FILTERS)
    after = request.query.get("after", "")
    values: dict[str, Any] = {
        "given": filters.given, "chips": filters.chips("/audit"), "text": filters.words, "problem": "", "entries": [],
        "more": "", "refusal": "", "checkpoints": [], "actions": [], "is_own": request.is_own,
        "you": request.principal, "is_first": not after,
        "rulings": [_choice(filters.given, "ruling", name) for name in RULINGS],
        "periods": [_choice(filters.given, "since", name) for name in PERIODS],
    }  # fmt: skip
    try:
        check_no_words(filters, NOT_FILTERS)
        page = permitted(request, "audit_log", limit=ENTRIES, after=after, **filters.arguments())
    except (InvalidInput, NotFound) as error:
        return Page("audit/page.html", {**values, "problem": request.told(error)}, STATUS[error.code])
    if page.refusal:
        return Page("audit/page.html", {**values, "refusal": page.refusal}, STATUS["denied"])
    checkpoints = permitted(request, "audit_checkpoints", limit=CHECKPOINTS)
    more = link("/audit", **filters.given, after=page.value.next) if page.value.next else ""
    return Page(
        "audit/page.html",
        {
            **values, "entries": [(entry, _asked(entry), _session(entry)) for entry in page.value.entries],
            "more": more, "actions": offered(AUDIT, request, rights_somewhere(request)),
            "checkpoints": checkpoints.value.checkpoints if checkpoints.value else [],
        },
    )  # fmt: skip


def _asked(entry: Entry) -> str:
    """What was asked for, in words; what it was about has a column of its own."""
    try:
        given = msgspec.json.decode(entry.arguments)
    except msgspec.DecodeError:
        return ""
    if not isinstance(given, dict):
        return ""
    return ", ".join(f"{name.replace('_', ' ')} {_words(value)}" for name, value in given.items()
                     if value not in (None, "", [], False) and value not in (entry.target, entry.project))  # fmt: skip


def _words(value: Any) -> str:
    if value is True:
        return "yes"
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _session(entry: Entry) -> str:
    """The session that an entry is about, if it is about one."""
    return entry.target if len(entry.target) == LENGTH and set(entry.target) <= set(ALPHABET) else ""


def _choice(given: dict[str, str], name: str, value: str) -> tuple[str, str, bool]:
    is_on = given.get(name) == value
    others = {other: held for other, held in given.items() if other != name}
    return value, link("/audit", **others, **({} if is_on else {name: value})), is_on
