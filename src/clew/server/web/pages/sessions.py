"""The list of sessions, a page at a time, with its filters, its order and what can be done with many of them."""

from typing import Any

from clew.model.errors import InvalidInput, NotFound
from clew.server.http.problems import STATUS
from clew.server.web.action import is_here
from clew.server.web.actions.sessions import SESSIONS
from clew.server.web.page_request import Page, PageRequest
from clew.server.web.pages.filters import Filters, check_no_words, filters_of
from clew.server.web.rendering import link
from clew.service.find.filter_words import filter_text
from clew.service.find.saved_views import NOT_SAVED
from clew.service.sessions.list import Sort

LIST = 50
NOT_FILTERS = frozenset({"limit", "before", "sort"})
# What is asked for most, with one click.
QUICK: tuple[tuple[str, dict[str, str]], ...] = (
    ("All", {}), ("Waiting", {"state": "waiting"}), ("Active", {"state": "active"}), ("Paused", {"state": "paused"}),
    ("With errors", {"failed": "true"}), ("Starred", {"starred": "true"}), ("Today", {"when": "today"}),
)  # fmt: skip
# The columns: the name, whether it has numbers, and what sorts by it.
COLUMNS = (
    ("Session", False, None), ("Runtime", False, None), ("Project", False, None), ("Person", False, None),
    ("State", False, None), ("Turns", True, Sort.TURNS), ("Errors", True, Sort.ERRORS), ("Tokens", True, Sort.TOKENS),
    ("Cost", True, Sort.COST), ("Took", True, Sort.DURATION), ("Last", True, Sort.LAST),
)  # fmt: skip


def sessions(request: PageRequest) -> Page:
    text = request.query.get("filter", "")
    filters = filters_of("sessions", request.query, text, but=NOT_FILTERS)
    before = request.query.get("before", "")
    sort = request.query.get("sort", "")
    sort = sort if sort in list(map(str, Sort)) and sort != Sort.LAST else ""
    values: dict[str, Any] = {
        "chips": filters.chips("/sessions", sort=sort), "text": filters.words, "given": filters.given, "problem": "",
        "lines": [], "more": "", "is_first": not before, "sort": sort, "columns": _columns(filters, sort),
        "quick": _quick(filters, sort), "count": None,
        "all": link("/sessions", sort=sort, **(filters.given | {"empty": "true"})),
        "bulk": [action for action in SESSIONS if is_here(action, request)], **_views(request, filters, sort),
    }  # fmt: skip
    try:
        check_no_words(filters, NOT_FILTERS)
        beyond = {"before": before} if before else {}
        order = {"sort": sort} if sort else {}
        lines = request.call("sessions", limit=LIST, **filters.arguments(), **order, **beyond)
        if not before:
            values["count"] = _count(request, filters)
    except (InvalidInput, NotFound) as error:
        return Page("sessions/page.html", {**values, "problem": request.told(error)}, STATUS[error.code])
    more = link("/sessions", **filters.given, sort=sort, before=lines[-1].id) if len(lines) == LIST else ""
    return Page("sessions/page.html", {**values, "lines": lines, "more": more})


def _views(request: PageRequest, filters: Filters, sort: str) -> dict[str, Any]:
    """The saved views, each with its address and whether it is this one; and what saving this one would save."""
    here = filters.given | ({"sort": sort} if sort else {})
    views = []
    for view in request.call("view_list"):
        given = filters_of("sessions", {}, view.filters, but=NOT_SAVED).given
        views.append((view.name, link("/sessions", **given), given == here or filters.given.get("view") == view.name))
    is_new = bool(here) and "view" not in here and not any(is_on for _, _, is_on in views)
    return {"views": views, "savable": filter_text(here) if is_new else ""}


def _count(request: PageRequest, filters: Filters) -> Any:
    """How many sessions there are with these filters, and how many of them are empty."""
    arguments = filters.arguments()
    arguments.pop("empty", None)
    return request.call("sessions_count", **arguments)


def _columns(filters: Filters, sort: str) -> list[tuple[str, bool, str, bool]]:
    """Each column: its name, whether it has numbers, the address that sorts by it, and whether it does so now."""
    return [
        (
            name, is_number,
            "" if by is None else link("/sessions", **filters.given, sort="" if by is Sort.LAST else str(by)),
            by is not None and str(by) == (sort or Sort.LAST),
        )
        for name, is_number, by in COLUMNS
    ]  # fmt: skip


def _quick(filters: Filters, sort: str) -> list[tuple[str, str, bool]]:
    return [(name, link("/sessions", sort=sort, **given), given == filters.given) for name, given in QUICK]
