"""Two sessions side by side, from where they part: what each said and did since, and what differs."""

from typing import Any, NamedTuple

from clew.model.errors import NotFound
from clew.server.web.page_request import Page, PageRequest
from clew.server.web.rendering import link
from clew.server.web.transcript_rows import TurnRows, rows_of
from clew.service.sessions.family import Family
from clew.service.sessions.forks import Difference, Side
from clew.service.sessions.line import SessionLine

EVENTS = 80
SIDES = ("left", "right")
MOST_FILES = 200


class Column(NamedTuple):
    """One of the two: what it is, what only it has, and a page of what happened in it since."""

    line: SessionLine
    side: Side
    turns: list[TurnRows]
    more: str
    """The address with its next page."""
    is_from_beginning: bool


def compare(request: PageRequest) -> Page:
    a, b = (request.query.get(name, "").strip() for name in ("a", "b"))
    values: dict[str, Any] = {"a": a, "b": b, "relatives": [], "columns": [], "most_files": MOST_FILES, "problem": ""}
    if not a or not b:
        if a or b:
            found: Family = request.call("family", session=a or b)
            values |= {"a": found.session, "b": "", "relatives": [
                member for member in found.members if member.session.id != found.session]}  # fmt: skip
        return Page("compare/page.html", values)
    try:
        difference: Difference = request.call("diff", left=a, right=b, limit=0)
    except NotFound as error:
        return Page("compare/page.html", {**values, "problem": request.told(error)}, 404)
    places = {name: _number(request, name, difference.shared) for name in SIDES}
    columns = [_column(request, difference, name, places) for name in SIDES]
    first, second = (column.line.id for column in columns)
    return Page(
        "compare/page.html",
        {
            **values, "a": first, "b": second, "columns": columns, "difference": difference,
            "swapped": link("/compare", a=second, b=first),
        },
    )  # fmt: skip


def _column(request: PageRequest, difference: Difference, name: str, places: dict[str, int]) -> Column:
    side: Side = getattr(difference, name)
    line: SessionLine = request.call("show", session=side.session).session
    transcript = request.call("transcript", session=side.session, after=places[name], limit=EVENTS)
    turns = rows_of(transcript.turns, cwd=transcript.cwd, you=request.principal)
    more = ""
    if transcript.next:
        shown = {**places, name: transcript.next}
        more = link("/compare", a=difference.left.session, b=difference.right.session, **shown) + f"#{name}"
    return Column(line, side, turns, more, places[name] == difference.shared)


def _number(request: PageRequest, name: str, least: int) -> int:
    text = request.query.get(name, "")
    return max(least, int(text)) if text.isascii() and text.isdigit() and len(text) < 16 else least
