"""Access: who may do what where, as a matrix, and a tester that says for each right whether somebody has it and why."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from clew.model.errors import ClewError
from clew.server.http.problems import STATUS
from clew.server.web.actions.team import ACCESS, GRANTS
from clew.server.web.offered import offered, rights_somewhere
from clew.server.web.page_request import Page, PageRequest
from clew.server.web.pages.permitted import permitted
from clew.server.web.rights_in_words import rights_in_words
from clew.service.access.grants import GrantInfo

EVERYTHING = "everything"
# The columns of the matrix; what more there is, the list below it has.
MOST_COLUMNS = 12


class Cell(NamedTuple):
    """What somebody may do in a place: in words, and for each grant why."""

    words: str
    why: str


class Matrix(NamedTuple):
    columns: list[str]
    rows: list[tuple[str, list[Cell]]]
    more: int
    """Places without a column."""


def access(request: PageRequest) -> Page:
    me = request.call("whoami")
    grants = permitted(request, "access_list")
    teams = permitted(request, "team_list").value or []
    who, what = request.query.get("who", "").strip(), request.query.get("what", "").strip()
    rulings, problem, status = _explained(request, who or request.principal, what)
    projects = [line.project for line in request.call("project_list")]
    principals = [principal.name for principal in permitted(request, "principal_list").value or ()]
    rights = rights_somewhere(request)
    shown = matrix(grants.value or [], {team.name: team.members for team in teams})
    return Page(
        "access/page.html",
        {
            "actions": offered(ACCESS, request, rights),
            "revoke": {grant.id: offered(GRANTS, request, rights, grant=str(grant.id)) for grant in grants.value or ()},
            "me": me, "grants": grants.value or [], "refusal": grants.refusal, "who": who, "what": what,
            "rulings": rulings, "problem": problem, "is_own": request.is_own, "you": request.principal,
            "matrix": shown, "headings": [("Who", False), *((place, False) for place in shown.columns)],
            "projects": projects, "teams": teams,
            "names": [*principals, *(team.name for team in teams)] or [request.principal],
        },
        status,
    )  # fmt: skip


def _explained(request: PageRequest, who: str, what: str) -> tuple[list[Any], str, int]:
    if not what:
        return [], "", 200
    try:
        return request.call("access_explain", who=who, what=what), "", 200
    except ClewError as error:
        status = STATUS.get(error.code, 500)
        if status >= 500:
            raise
        return [], request.told(error), status


def matrix(grants: Iterable[GrantInfo], members: dict[str, list[str]]) -> Matrix:
    """Who may do what where: a row for each principal and team, a column for each place that grants are on."""
    held: dict[str, dict[str, list[tuple[GrantInfo, str]]]] = {}
    places: dict[str, int] = {}
    for grant in grants:
        place = _place(grant)
        places[place] = places.get(place, 0) + 1
        for name, by in [(grant.who, ""), *((member, grant.who) for member in members.get(grant.who, ()))]:
            held.setdefault(name, {}).setdefault(place, []).append((grant, by))
    order = sorted(places, key=lambda place: (place != EVERYTHING, place.startswith("session "), -places[place], place))
    columns = order[:MOST_COLUMNS]
    rows = [(name, [_cell(cells.get(place, [])) for place in columns]) for name, cells in sorted(held.items())]
    return Matrix(columns, rows, len(order) - len(columns))


def _place(grant: GrantInfo) -> str:
    if grant.session:
        return f"session {grant.session[:10]}"
    if grant.agent:
        return f"agent {grant.agent}" + (f" in {grant.project}" if grant.project else "")
    return grant.project or EVERYTHING


def _cell(grants: list[tuple[GrantInfo, str]]) -> Cell:
    words = rights_in_words(right for grant, _ in grants for right in grant.rights) if grants else ""
    why = ", ".join(f"grant {grant.id}" + (f" to {by}" if by else "") for grant, by in grants)
    return Cell(words, why)
