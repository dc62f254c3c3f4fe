"""People, agents and services that have to do with this store; with `who`, what one of them holds."""

from typing import NamedTuple

from clew.server.web.actions.team import EACH_PERSON, PEOPLE
from clew.server.web.offered import offered, rights_somewhere
from clew.server.web.page_request import Page, PageRequest
from clew.server.web.pages.permitted import permitted
from clew.service.access.grants import GrantInfo
from clew.service.access.principals import Team
from clew.service.find.activity import Activity
from clew.store.access.principals import Principal


class PersonRow(NamedTuple):
    """A principal: who it is, its teams, what it may do, and what it did."""

    name: str
    title: str
    has_login: bool
    is_disabled: bool
    teams: list[str]
    grants: list[GrantInfo]
    did: Activity | None


def people(request: PageRequest) -> Page:
    if request.query.get("who"):
        return _person(request, request.query["who"])
    did = {row.name: row for row in request.call("activity", by="person") if row.name}
    principals = permitted(request, "principal_list")
    teams = permitted(request, "team_list").value or []
    grants = permitted(request, "access_list").value or []
    known = {principal.name: principal for principal in principals.value or ()}
    names = sorted(known.keys() | did.keys() | {request.principal})
    rows = [_row(name, known.get(name), teams, grants, did.get(name)) for name in names]
    rights = rights_somewhere(request)
    return Page(
        "people/page.html",
        {
            "actions": offered(PEOPLE, request, rights) if not principals.refusal else [],
            "rows": sorted(rows, key=lambda row: -(row.did.last_at if row.did else 0)), "teams": teams,
            "refusal": principals.refusal, "is_own": request.is_own, "you": request.principal,
        },
    )  # fmt: skip


def _row(
    name: str, principal: Principal | None, teams: list[Team], grants: list[GrantInfo], did: Activity | None
) -> PersonRow:
    return PersonRow(
        name, principal.title if principal else "", principal is not None and bool(principal.login),
        principal is not None and principal.disabled, [team.name for team in teams if name in team.members],
        [grant for grant in grants if grant.who == name], did,
    )  # fmt: skip


def _person(request: PageRequest, who: str) -> Page:
    """What one principal holds: grants, keys and logins, teams."""
    name = who if ":" in who else f"person:{who}"
    held = permitted(request, "access_held", principal=name)
    known = {principal.name: principal for principal in permitted(request, "principal_list").value or ()}
    did = next((row for row in request.call("activity", by="person") if row.name == name), None)
    principal = known.get(name)
    actions = offered(EACH_PERSON, request, rights_somewhere(request), principal, {"principal": name})
    return Page(
        "people/person.html",
        {
            "name": name, "title": principal.title if principal else "",
            "is_disabled": principal is not None and principal.disabled,
            "held": held.value, "refusal": held.refusal, "did": did, "is_own": request.is_own, "you": request.principal,
            "actions": actions if principal and name != request.principal else [],
        },
    )  # fmt: skip
