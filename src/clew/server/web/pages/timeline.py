"""The timeline: all agents on one axis of time, a lane each, and the same as a table."""

from datetime import datetime
from typing import Any

from clew.model.errors import InvalidInput, NotFound
from clew.server.http.problems import STATUS
from clew.server.web.lanes import lanes, ticks
from clew.server.web.page_request import Page, PageRequest
from clew.server.web.pages.filters import check_no_words, filters_of
from clew.server.web.rendering import link
from clew.service.find.filters import now

NOT_FILTERS = frozenset({"limit", "before", "when", "since", "until", "quiet_since", "empty"})
SECOND = 1_000_000
RANGES = {"hour": 3_600, "6 hours": 21_600, "day": 86_400, "week": 604_800, "month": 2_592_000, "year": 31_536_000}
RANGE = "day"
LANES = {"agent": "agent", "program": "runtime", "person": "person", "project": "project", "machine": "machine"}
SESSIONS = 500


def timeline(request: PageRequest) -> Page:
    """The timeline, or with `part` its lanes alone, for a page that shows the rest already."""
    width = request.query.get("range", "")
    width = width if width in RANGES else RANGE
    by = request.query.get("by", "")
    by = by if by in LANES else "agent"
    filters = filters_of("sessions", request.query, request.query.get("filter", ""), but=NOT_FILTERS)
    end = _moment(request.query.get("to", ""), request.now)
    is_live = end == request.now
    start = end - RANGES[width] * SECOND
    kept = {**filters.given, "by": "" if by == "agent" else by}
    to = "" if is_live else end // SECOND
    chips = filters.chips("/timeline", by=kept["by"], range=width, to=str(to))
    values: dict[str, Any] = {
        "given": filters.given, "chips": chips, "text": filters.words, "problem": "", "lanes": [], "ticks": [],
        "lines": [], "is_live": is_live, "is_all": True, "start": start, "end": end, "width": width, "by": by,
        "to": to, "ranges": [(name, link("/timeline", **kept, range=name, to=to), name == width) for name in RANGES],
        "choices": [(name, link("/timeline", **{**kept, "by": name}, range=width, to=to), name == by)
                    for name in LANES],
        "earlier": link("/timeline", **kept, range=width, to=(end - RANGES[width] * SECOND // 2) // SECOND),
        "later": _later(kept, width, end, request.now), "latest": link("/timeline", **kept, range=width),
        "fresh": link("/timeline", **kept, range=width, part="lanes"),
    }  # fmt: skip
    try:
        check_no_words(filters, NOT_FILTERS)
        period = {"since": _text(start), "until": _text(end)}
        lines = request.call("sessions", limit=SESSIONS, **period, **filters.arguments())
    except (InvalidInput, NotFound) as error:
        return Page("timeline/page.html", {**values, "problem": request.told(error)}, STATUS[error.code])
    lines = [line for line in lines if line.last_at >= start and line.began_at <= end]
    name = LANES[by]
    drawn = lanes(lines, lambda line: getattr(line, name), start=start, end=end, now=min(request.now, end))
    found = {
        **values, "lines": lines, "is_all": len(lines) < SESSIONS, "lanes": drawn, "ticks": ticks(start, end, now()),
    }  # fmt: skip
    return Page("timeline/part.html" if request.query.get("part") == "lanes" else "timeline/page.html", found)


def _moment(text: str, now: int) -> int:
    """The end of the axis: a time in seconds, or now."""
    seconds = int(text) if text.isascii() and text.isdigit() and len(text) < 12 else 0
    return seconds * SECOND if 0 < seconds * SECOND < now else now


def _later(kept: dict[str, str], width: str, end: int, now: int) -> str:
    later = end + RANGES[width] * SECOND // 2
    if end >= now:
        return ""
    return link("/timeline", **kept, range=width, to=later // SECOND if later < now else "")


def _text(at: int) -> str:
    """A time as the filters of a list take it."""
    return datetime.fromtimestamp(at / 1e6, now().tzinfo).strftime("%Y-%m-%d %H:%M")
