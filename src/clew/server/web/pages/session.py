"""One session: a page of its transcript, what is known about it, and the list of sessions beside it."""

from typing import Any

from clew.model.events import Compacted
from clew.server.web.action import offers
from clew.server.web.actions.session import ON_PAGE, access_to
from clew.server.web.page_request import Page, PageRequest
from clew.server.web.transcript_rows import TurnRows, rows_of

EVENTS = 120
BESIDE = 40


def session(request: PageRequest) -> Page:
    """A session, or with `part` a piece of its transcript alone, for a page that shows the rest already."""
    if request.query.get("part") == "turns":
        return Page("session/part.html", _transcript(request, request.path["session"], 2**62))
    detail = request.call("show", session=request.path["session"])
    line = detail.session
    transcript = _transcript(request, line.id, line.head)
    access = access_to(request, line.id)
    rights = frozenset(ruling.right for ruling in access if ruling.allowed)
    return Page(
        "session/page.html",
        {
            **transcript, "detail": detail, "line": line, "access": access, "title": line.title,
            "beside": request.call("sessions", limit=BESIDE), "resume": f"clew resume {line.id[:10]}",
            "compacted": Compacted.kind, "offers": offers(ON_PAGE, request, line, rights, session=line.id),
        },
    )  # fmt: skip


def _transcript(request: PageRequest, id: str, head: int) -> dict[str, Any]:
    page_of = _page_of(request.query, head)
    transcript = request.call("transcript", session=id, limit=EVENTS, **page_of)
    turns = rows_of(transcript.turns, cwd=transcript.cwd, you=request.principal)
    return {
        "id": transcript.session, "head": transcript.head, "turns": turns, "next": transcript.next,
        "previous": transcript.previous, "first": transcript.first, "last": transcript.last,
        "asked": page_of.get("at", 0), "bars": _bars(turns),
    }  # fmt: skip


def _page_of(query: dict[str, str], head: int) -> dict[str, int]:
    """Which page is asked for: the one after a seq, before one, or around one; else the first."""
    for name, argument in (("after", "after"), ("backward", "backward"), ("event", "at"), ("at", "at")):
        text = query.get(name, "")
        if text.isascii() and text.isdigit() and len(text) < 19 and (name == "after" or int(text)):
            return {argument: min(int(text), head if argument == "at" else head + 1)}
    return {}


def _bars(turns: list[TurnRows]) -> list[tuple[str, int, str]]:
    """The turns of the page by their tokens: the name, the value, and the address of each."""
    return [(f"turn at {turn.seq}", turn.tokens, f"#e{turn.seq}") for turn in turns if turn.tokens]
