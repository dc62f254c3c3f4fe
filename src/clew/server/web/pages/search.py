"""Search: hits with their words marked, under their sessions, a page at a time; while somebody types, too."""

import re
from typing import Any, NamedTuple

from clew.model.errors import InvalidInput, NotFound
from clew.model.query import Snippet
from clew.server.http.problems import STATUS
from clew.server.web.page_request import Page, PageRequest
from clew.server.web.pages.filters import Filters, filters_of
from clew.server.web.rendering import link, person
from clew.server.web.text.ansi import without_colours

HITS = 20
HITS_OF_ONE = 100
PARTS = ("results", "hits", "facets")
NOT_FILTERS = frozenset({"query", "limit", "after", "order", "flat"})
# What a search can be narrowed to with one click.
FACETS = {"runtime": "Program", "project": "Project", "person": "Person", "role": "Said as", "outcome": "Outcome"}
MOST_CHOICES = 8
PERIODS = ("today", "7 days", "30 days", "this year")
# A word at the end that may be unfinished. Shorter ones begin too many words.
UNFINISHED = re.compile(r"(?<![\w\"*:-])[^\W_]{3,}$")


class Piece(NamedTuple):
    """A piece of a snippet; a marked one is a word of the query."""

    text: str
    is_marked: bool


class Choice(NamedTuple):
    """A value of a facet: its words, its address, whether it is on, and how many hits have it."""

    words: str
    href: str
    is_on: bool
    hits: str = ""


def search(request: PageRequest) -> Page:
    """The page; with `part`, its results while somebody types, the hits of one session, or its facets."""
    text = request.query.get("q", "").strip()
    filters = filters_of("search", request.query, text, but=NOT_FILTERS)
    part = request.query.get("part", "")
    part = part if part in PARTS else ""
    template = "search/part.html" if part else "search/page.html"
    values: dict[str, Any] = {
        "q": filters.words, "chips": filters.chips("/search", q=filters.words), "given": filters.given, "problem": "",
        "answer": None, "more": "", "pieces": pieces, "begins": "", "facets": [],
        "inside": f"search/{part}.html",
        "counted": link("/search", part="facets", q=filters.words, **filters.given),
    }  # fmt: skip
    if not filters.words and not filters.given:
        return Page(template, values)
    try:
        if part == "facets":
            return Page(template, {**values, "facets": _facets(request, filters)})
        answer, begins = _answer(request, filters, is_typing=part == "results")
    except (InvalidInput, NotFound) as error:
        return Page(template, {**values, "problem": request.told(error)}, STATUS[error.code])
    more = link("/search", q=begins or filters.words, after=answer.next, **filters.given) if answer.next else ""
    return Page(template, {**values, "answer": answer, "more": more, "begins": begins})


def _answer(request: PageRequest, filters: Filters, *, is_typing: bool) -> tuple[Any, str]:
    """The hits. A word that is being typed stands for those that begin with it; so does one that nothing has."""
    # In one session every hit is shown; in many, the newest of each.
    how: dict[str, Any] = {"flat": True, "limit": HITS_OF_ONE} if "session" in filters.given else {"limit": HITS}
    how |= filters.arguments()
    begins = f"{filters.words}*" if UNFINISHED.search(filters.words) else ""
    if begins and is_typing:
        return request.call("search", query=begins, **how), begins
    answer = request.call("search", query=filters.words, after=request.query.get("after", ""), **how)
    if begins and (answer.partial or not (answer.sessions or answer.hits or answer.next)):
        completed = request.call("search", query=begins, **how)
        if not completed.partial and (completed.sessions or completed.hits):
            return completed, begins
    return answer, ""


def _facets(request: PageRequest, filters: Filters) -> list[tuple[str, list[Choice]]]:
    """What can be chosen with one click, with the number of hits of each."""
    words = filters.words
    counts = request.call("search_facets", query=words, **filters.arguments())
    if not counts and UNFINISHED.search(words):
        counts = request.call("search_facets", query=f"{words}*", **filters.arguments())
    found: dict[str, list[Choice]] = {}
    for one in counts:
        about = f"{one.count:,}" if one.is_exact else f"{one.count:,}+"
        found.setdefault(one.facet, []).append(_choice(filters, one.facet, one.value, about))
    facets = [(FACETS[name], found[name][:MOST_CHOICES]) for name in FACETS if name in found]
    return [*facets, ("When", [_choice(filters, "when", period) for period in PERIODS])]


def _choice(filters: Filters, name: str, value: str, hits: str = "") -> Choice:
    is_on = filters.given.get(name) in (value, person(value))
    others = {other: held for other, held in filters.given.items() if other != name}
    words = person(value) if name == "person" else value
    return Choice(words, link("/search", q=filters.words, **others, **({} if is_on else {name: value})), is_on, hits)


def pieces(snippet: Snippet) -> list[Piece]:
    """A snippet, taken apart at its marks, without the colours of a terminal."""
    made, at = [], 0
    for start, end in snippet.marks:
        if start >= at:
            made += [Piece(snippet.text[at:start], False), Piece(snippet.text[start:end], True)]
            at = end
    made.append(Piece(snippet.text[at:], False))
    return [Piece(text, piece.is_marked) for piece in made if (text := without_colours(piece.text))]
