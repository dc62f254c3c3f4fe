"""The list of sessions, a page at a time, with its filters."""

from clew.model.errors import InvalidInput, NotFound
from clew.server.http.problems import STATUS
from clew.server.web.page_request import Page, PageRequest
from clew.server.web.pages.filters import check_no_words, filters_of
from clew.server.web.rendering import link

LIST = 50
NOT_FILTERS = frozenset({"limit", "before"})


def sessions(request: PageRequest) -> Page:
    text = request.query.get("filter", "")
    filters = filters_of("sessions", request.query, text, but=NOT_FILTERS)
    before = request.query.get("before", "")
    values = {
        "chips": filters.chips("/sessions"), "text": filters.words, "given": filters.given, "problem": "", "lines": [],
        "more": "", "is_first": not before,
    }  # fmt: skip
    try:
        check_no_words(filters, NOT_FILTERS)
        beyond = {"before": before} if before else {}
        lines = request.call("sessions", limit=LIST, **filters.arguments(), **beyond)
    except (InvalidInput, NotFound) as error:
        return Page("sessions/page.html", {**values, "problem": request.told(error)}, STATUS[error.code])
    more = link("/sessions", **filters.given, before=lines[-1].id) if len(lines) == LIST else ""
    return Page("sessions/page.html", {**values, "lines": lines, "more": more})
