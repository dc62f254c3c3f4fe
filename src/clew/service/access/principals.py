"""Principals and teams: add, disable and list them."""

import re
from typing import Annotated

import msgspec

from clew.model.access import Caller, Right, Target
from clew.model.errors import Denied, InvalidInput, NotFound
from clew.model.ids import check_name
from clew.service.kernel.context import Context
from clew.service.kernel.registry import Group, operation
from clew.store.access.grants import list_grants_for
from clew.store.access.principals import (
    Principal,
    add_member,
    disable_principal,
    enable_principal,
    find_principal,
    find_principal_by_login,
    list_members,
    list_principals,
    list_teams_of,
    remove_member,
    set_principal,
)

Who = Annotated[str, msgspec.Meta(description="Who: person:ada, agent:reviewer, service:ci; ada is person:ada.")]
TeamName = Annotated[str, msgspec.Meta(description="The team: team:core, or core.")]

_NAME = re.compile(r"(person|agent|service):[^\s:][^\s]{0,99}")
_TEAM = re.compile(r"team:[^\s:][^\s]{0,99}")


class Team(msgspec.Struct, frozen=True, kw_only=True):
    """A team and who belongs to it."""

    name: str
    members: list[str]


def may_everything(context: Context) -> bool:
    """Whether the caller has every right on everything; deciding who logs in as whom requires that."""
    return all(context.caller.rule(right, Target()).allowed for right in Right)


def is_owner(context: Context, principal: str) -> bool:
    """Whether a principal has every right on everything."""
    teams, now = list_teams_of(context.store, principal), context.store.now()
    caller = Caller(principal, list_grants_for(context.store, principal), teams=teams, now=now)
    return all(caller.rule(right, Target()).allowed for right in Right)


def permit_everything(context: Context) -> None:
    """Refuse whoever is not an owner."""
    if not may_everything(context):
        raise Denied("this decides who can log in as whom, so it needs every right on everything", right="administer")


def principal_named(name: str) -> str:
    """A principal in full; a bare name is a person's."""
    full = name if ":" in name else f"person:{name}"
    if not _NAME.fullmatch(check_name(full, "a principal")):
        raise InvalidInput(f"{name[:100]!r} is not a valid principal; write person:NAME, agent:NAME or service:NAME")
    return full


def team_named(name: str) -> str:
    full = name if ":" in name else f"team:{name}"
    if not _TEAM.fullmatch(check_name(full, "a team")):
        raise InvalidInput(f"{name[:100]!r} is not a valid team; write team:NAME, or only its name")
    return full


def anyone_named(name: str) -> str:
    """A principal or a team."""
    return team_named(name) if name.startswith("team:") else principal_named(name)


PRINCIPALS = Group("principal", "People, agents and services.")
TEAMS = Group("team", "Who belongs together.")


@operation(right=Right.ADMINISTER, route="PUT /principals", audited=True, group=PRINCIPALS)
def principal_add(
    context: Context,
    principal: Who,
    *,
    title: Annotated[str, msgspec.Meta(max_length=200, description="The name to show.")] = "",
    issuer: Annotated[str, msgspec.Meta(max_length=500, description="The OpenID provider they log in with.")] = "",
    subject: Annotated[str, msgspec.Meta(max_length=500, description="What that provider calls them (sub).")] = "",
) -> Principal:
    """Add a person, an agent or a service, or change its title or its login; what is left out stays."""
    if bool(issuer) != bool(subject):
        raise InvalidInput("a login is an issuer and a subject together; only one was given")
    if issuer:
        permit_everything(context)
    login = login_of(issuer, subject) if issuer else ""
    changed = Principal(name=principal_named(principal), title=title, login=login)
    holder = find_principal_by_login(context.store, login) if login else None
    if holder is not None and holder.name != changed.name:
        raise InvalidInput(f"that login belongs to {holder.name} already; a login belongs to one principal")
    set_principal(context.store, changed)
    return find_principal(context.store, changed.name) or changed


def login_of(issuer: str, subject: str) -> str:
    """The identity of a login: unlike a name or an address, it never changes hands."""
    return f"{issuer.rstrip('/')} {subject}"


@operation(right=Right.ADMINISTER, route="DELETE /principals", audited=True, group=PRINCIPALS,
           warning="This shuts {principal} out: its keys and logins are refused until it is enabled again")  # fmt: skip
def principal_disable(context: Context, principal: Who) -> None:
    """Shut a principal out: its keys and logins are no longer good."""
    name = principal_named(principal)
    if is_owner(context, name):
        permit_everything(context)
    if not disable_principal(context.store, name):
        raise NotFound(f"no principal {name}", missing="principal")


@operation(right=Right.ADMINISTER, route="POST /principals/enable", audited=True, group=PRINCIPALS)
def principal_enable(context: Context, principal: Who) -> None:
    """Let a principal in again that was shut out."""
    permit_everything(context)
    name = principal_named(principal)
    if not enable_principal(context.store, name):
        raise NotFound(f"no principal {name}", missing="principal")


@operation(right=Right.ADMINISTER, route="GET /principals", group=PRINCIPALS)
def principal_list(context: Context) -> list[Principal]:
    """List people, agents and services."""
    return list_principals(context.store)


@operation(right=Right.ADMINISTER, route="PUT /teams/members", audited=True, group=TEAMS)
def team_add(context: Context, name: TeamName, principal: Who) -> Team:
    """Add a principal to a team."""
    permit_everything(context)
    full = team_named(name)
    add_member(context.store, full, principal_named(principal))
    return Team(name=full, members=list_members(context.store).get(full, []))


@operation(right=Right.ADMINISTER, route="DELETE /teams/members", audited=True, group=TEAMS)
def team_remove(context: Context, name: TeamName, principal: Who) -> Team:
    """Take a principal out of a team."""
    full, who = team_named(name), principal_named(principal)
    if is_owner(context, who):
        permit_everything(context)
    if not remove_member(context.store, full, who):
        raise NotFound(f"{who} is not in {full}", missing="member")
    return Team(name=full, members=list_members(context.store).get(full, []))


@operation(right=Right.ADMINISTER, route="GET /teams", group=TEAMS)
def team_list(context: Context) -> list[Team]:
    """List the teams and who belongs to them."""
    return [Team(name=name, members=members) for name, members in list_members(context.store).items()]
