"""Search: hits with their words marked, under their sessions, a page at a time."""

from typing import Any, NamedTuple

from clew.model.errors import InvalidInput, NotFound
from clew.model.query import Snippet
from clew.server.http.problems import STATUS
from clew.server.web.page_request import Page, PageRequest
from clew.server.web.pages.filters import Filters, filters_of
from clew.server.web.rendering import link

HITS = 20
HITS_OF_ONE = 100
NOT_FILTERS = frozenset({"query", "limit", "after", "order", "flat"})
# What a search can be narrowed to with one click.
ROLES = ("asked", "answered", "run", "returned", "noted")
PERIODS = ("today", "7 days", "30 days", "this year")


class Piece(NamedTuple):
    """A piece of a snippet; a marked one is a word of the query."""

    text: str
    is_marked: bool


def search(request: PageRequest) -> Page:
    text = request.query.get("q", "").strip()
    filters = filters_of("search", request.query, text, but=NOT_FILTERS)
    values: dict[str, Any] = {
        "q": filters.words, "chips": filters.chips("/search", q=filters.words), "given": filters.given, "problem": "",
        "answer": None, "more": "", "pieces": pieces, "facets": _facets(filters),
    }  # fmt: skip
    if not filters.words and not filters.given:
        return Page("search/page.html", values)
    after = request.query.get("after", "")
    try:
        # In one session every hit is shown; in many, the newest of each.
        how = {"flat": True, "limit": HITS_OF_ONE} if "session" in filters.given else {"limit": HITS}
        answer = request.call("search", query=filters.words, after=after, **how, **filters.arguments())
    except (InvalidInput, NotFound) as error:
        return Page("search/page.html", {**values, "problem": request.told(error)}, STATUS[error.code])
    more = link("/search", q=filters.words, after=answer.next, **filters.given) if answer.next else ""
    return Page("search/page.html", {**values, "answer": answer, "more": more})


def _facets(filters: Filters) -> list[tuple[str, list[tuple[str, str, bool]]]]:
    """What can be chosen with one click: the name, and of each choice its word, its address and whether it is on."""
    return [
        ("Said as", [_choice(filters, "role", role) for role in ROLES]),
        ("When", [_choice(filters, "when", period) for period in PERIODS]),
        ("Outcome", [_choice(filters, "outcome", outcome) for outcome in ("success", "error")]),
    ]


def _choice(filters: Filters, name: str, value: str) -> tuple[str, str, bool]:
    is_on = filters.given.get(name) == value
    others = {other: held for other, held in filters.given.items() if other != name}
    return value, link("/search", q=filters.words, **others, **({} if is_on else {name: value})), is_on


def pieces(snippet: Snippet) -> list[Piece]:
    """A snippet, taken apart at its marks."""
    made, at = [], 0
    for start, end in snippet.marks:
        if start >= at:
            made += [Piece(snippet.text[at:start], False), Piece(snippet.text[start:end], True)]
            at = end
    return [piece for piece in (*made, Piece(snippet.text[at:], False)) if piece.text]
