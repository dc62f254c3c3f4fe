"""One event in full, as it is in the log. A long one is shown in pieces."""

from clew.model import events as e
from clew.model.errors import NotFound
from clew.model.events import AnyBody
from clew.runtimes.calls import output_of
from clew.server.web.page_request import Page, PageRequest
from clew.server.web.transcript_rows import raw_of

# How much of a text one page shows: a browser lays out more than this too slowly.
PIECE = 200_000


def event(request: PageRequest) -> Page:
    session, seq = request.path["session"], _number(request.path["seq"])
    found = request.call("events", session=session, after=max(0, seq - 1), limit=2) if seq else []
    if not found or found[0].seq != seq:
        raise NotFound(f"session {session[:40]} has no event {request.path['seq'][:20]}")
    event = found[0]
    begin = _number(request.query.get("from", ""))
    text = _text(event.body)
    raw = raw_of(event).text if not text else ""
    whole = text or raw
    return Page(
        "event/page.html",
        {
            "id": session, "event": event, "has_next": len(found) > 1, "is_text": bool(text),
            "text": whole[begin : begin + PIECE],
            "begin": begin, "end": min(len(whole), begin + PIECE), "size": len(whole),
            "earlier": max(0, begin - PIECE) if begin else None,
            "later": begin + PIECE if begin + PIECE < len(whole) else None,
        },
    )  # fmt: skip


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0


def _text(body: AnyBody) -> str:
    """What an event says, when it is words; everything else is shown as its JSON."""
    match body:
        case e.MessageAdded():
            parts = [part.text for part in body.content if isinstance(part, e.TextPart | e.ThinkingPart)]
            return "\n\n".join(parts)
        case e.CallReturned():
            return output_of(body)
        case e.Compacted(summary=summary):
            return summary
        case _:
            return ""
