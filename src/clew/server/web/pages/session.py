"""One session: a piece of its transcript, the map of all of it, what is known about it, and other sessions beside it.

With `at` everything is as it was at that event.
"""

from typing import Any

from clew.model.errors import ClewError
from clew.model.query import Snippet
from clew.server.web.action import offers
from clew.server.web.actions.session import FORK, ON_PAGE, rights_on
from clew.server.web.page_request import Page, PageRequest
from clew.server.web.pages.search import Piece, pieces
from clew.server.web.pages.session_tabs import tab_of
from clew.server.web.session_map import SessionMap, session_map
from clew.server.web.text.ansi import without_colours
from clew.server.web.transcript_rows import gathered, rows_of

# So many events are a screen or more, and two such pieces stay a page that any browser shows at once.
EVENTS = 60
BESIDE = 30
HITS = 30


def session(request: PageRequest) -> Page:
    """A session, or with `part` a piece of its page alone, for a page that shows the rest already."""
    id = request.path["session"]
    match request.query.get("part"):
        case "turns":
            shown = _transcript(request, id, 2**62)
            may_fork = _may_fork(request, rights_on(request, shown["id"]))
            return Page("session/part.html", {**shown, "may_fork": may_fork, "what": "turns"})
        case "map":
            return Page("session/part.html", {**_map(request, id), "what": "map"})
        case "tab":
            return Page("session/part.html", {**tab_of(request, id), "what": "tab"})
        case "beside":
            # Asked again and again, so it is not the session that is read.
            others = request.call("sessions", limit=BESIDE)
            return Page("session/part.html", {"id": id, "beside": others, "what": "beside"})
        case "found":
            return Page("session/part.html", {**_found(request, id), "what": "found"})
    detail = request.call("show", session=id)
    line = detail.session
    transcript = _transcript(request, line.id, line.head)
    beside = request.call("sessions", limit=BESIDE)
    is_beside = any(other.id == line.id for other in beside)
    rights = rights_on(request, line.id)
    return Page(
        "session/page.html",
        {
            **transcript, **_map(request, line.id, transcript), **tab_of(request, line.id, detail),
            **_found(request, line.id), "detail": detail, "line": line, "title": line.title,
            "beside": beside if is_beside else [line, *beside], "is_beside": is_beside,
            "offers": offers(ON_PAGE, request, line, rights, session=line.id),
            "may_fork": _may_fork(request, rights),
        },
    )  # fmt: skip


def _may_fork(request: PageRequest, rights: frozenset[str]) -> bool:
    return request.right_of(FORK.operation) in rights


# The transcript -------------------------------------------------------------------------------------------------------


def _transcript(request: PageRequest, id: str, head: int) -> dict[str, Any]:
    at = _number(request.query.get("at", ""))
    end = min(at, head) if at else 0
    page_of = _page_of(request.query, end or head) or ({"backward": end + 1} if end else {})
    upto = {"upto": end} if end else {}
    transcript = request.call("transcript", session=id, limit=EVENTS, **page_of, **upto)
    turns = rows_of(transcript.turns, cwd=transcript.cwd, you=request.principal)
    return {
        "id": transcript.session, "head": transcript.head, "at": end, "next": transcript.next,
        "turns": [turn._replace(rows=gathered(turn.rows)) for turn in turns],
        "previous": transcript.previous, "first": transcript.first, "last": transcript.last,
        "asked": page_of.get("at", 0),
    }  # fmt: skip


def _page_of(query: dict[str, str], head: int) -> dict[str, int]:
    """Which page is asked for: the one after a seq, before one, or around one; else the first."""
    for name, argument in (("after", "after"), ("backward", "backward"), ("event", "at")):
        text = query.get(name, "")
        if _number(text) or (name == "after" and text == "0"):
            return {argument: min(int(text), head if argument == "at" else head + 1)}
    return {}


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0


# The map --------------------------------------------------------------------------------------------------------------


def _map(request: PageRequest, id: str, transcript: dict[str, Any] | None = None) -> dict[str, Any]:
    """The map, with the reader at the event that was asked for, or else at the beginning of the page."""
    found = request.call("landmarks", session=id)
    shown = transcript or {
        "first": _number(request.query.get("first", "")) or 1, "last": _number(request.query.get("last", "")) or 1,
        "asked": _number(request.query.get("event", "")), "at": _number(request.query.get("at", "")),
    }  # fmt: skip
    current = shown["asked"] or shown["first"] - 1
    made: SessionMap = session_map(
        found.landmarks, found.head, first=shown["first"], last=shown["last"], current=current
    )
    return {"id": found.session, "map": made, "head": found.head, "at": shown["at"], "left_out": found.more}


# Search inside --------------------------------------------------------------------------------------------------------


def _found(request: PageRequest, id: str) -> dict[str, Any]:
    """The places of the session that have the words that are looked for."""
    words = request.query.get("q", "").strip()
    values: dict[str, Any] = {
        "id": id,
        "words": words,
        "hits": [],
        "more_hits": False,
        "problem": "",
        "pieces": _pieces,
    }
    if not words:
        return values
    try:
        answer = request.call("search", query=words, session=id, flat=True, limit=HITS)
    except ClewError as error:
        return {**values, "problem": request.told(error)}
    return {**values, "hits": answer.hits, "more_hits": bool(answer.next)}


def _pieces(snippet: Snippet) -> list[Piece]:
    """The pieces of a snippet, without the colours that a terminal would show."""
    return [piece._replace(text=without_colours(piece.text)) for piece in pieces(snippet)]
