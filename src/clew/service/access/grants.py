"""Access: grant rights and revoke them, share a session, and explain who may do what because of which grant."""

from typing import Annotated

import msgspec

from clew.model.access import ROLES, Caller, Grant, Right, Target
from clew.model.credential import Kind, earliest
from clew.model.errors import Denied, InvalidInput, NotFound
from clew.model.events import Draft, PrivacySet
from clew.model.ids import check_name
from clew.model.retention import DAY_US
from clew.model.session import Session
from clew.service.access.credentials import KeyInfo, make, permit_making
from clew.service.access.key_text import new_token
from clew.service.access.principals import Who, anyone_named, is_owner, permit_everything
from clew.service.find.filters import projects
from clew.service.kernel.call import permit, target_of
from clew.service.kernel.context import Context
from clew.service.kernel.effects import Effect, permit_effect
from clew.service.kernel.registry import Group, operation
from clew.service.sessions.line import SessionLine, session_line
from clew.store.access.grants import GrantRecord, add_grant, find_grant, list_grants, list_grants_for, remove_grant
from clew.store.access.principals import list_teams_of
from clew.store.log.opening import LONGEST_AGENT

Rights = Annotated[list[Right], msgspec.Meta(description="The rights themselves.")]
Role = Annotated[str, msgspec.Meta(description="Rights by name: viewer, writer, auditor, admin.")]
Days = Annotated[int, msgspec.Meta(ge=1, le=3650, description="Days until it ends. [default: never]")]


class GrantInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A grant: who may do what where, until when, and who gave it."""

    id: int
    who: str
    rights: list[str]
    project: str = ""
    agent: str = ""
    session: str = ""
    until: int = 0
    given_by: str = ""
    at: int = 0


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a principal has a right, and because of which grant."""

    who: str
    what: str
    right: str
    allowed: bool
    because: str


class Me(msgspec.Struct, frozen=True, kw_only=True):
    """The caller, and the grants that count for them."""

    principal: str
    teams: list[str]
    scopes: list[str] | None
    project: str
    grants: list[GrantInfo]


def describe_grant(record: GrantRecord) -> GrantInfo:
    return _info(record.grant, record.given_by, record.at)


def _info(grant: Grant, given_by: str = "", at: int = 0) -> GrantInfo:
    return GrantInfo(
        id=grant.id, who=grant.principal, rights=sorted(map(str, grant.rights)), project=grant.project,
        agent=grant.agent, session=grant.session, until=grant.until, given_by=given_by, at=at,
    )  # fmt: skip


ACCESS = Group("access", "Who may do what, and why.")


@operation(right=Right.SEE, route="GET /me", filters_by_reach=True)
def whoami(context: Context) -> Me:
    """Say who you are here, and which grants count for you."""
    return Me(
        principal=context.principal, teams=sorted(context.teams),
        scopes=None if context.scopes is None else sorted(map(str, context.scopes)), project=context.key_project,
        grants=[_info(grant) for grant in context.caller.grants],
    )  # fmt: skip


@operation(right=Right.ADMINISTER, route="PUT /grants", audited=True, group=ACCESS)
def access_grant(
    context: Context,
    who: Who,
    *,
    role: Role = "",
    rights: Rights | None = None,
    project: Annotated[str, msgspec.Meta(description="On this project.")] = "",
    agent: Annotated[str, msgspec.Meta(description="On the sessions of this agent.")] = "",
    session: Session | None = None,
    days: Days | None = None,
) -> GrantInfo:
    """Give rights on a project, an agent or a session; without any of them, on everything."""
    if session is not None and (project or agent):
        raise InvalidInput("a session belongs to one project and one agent; name only the session")
    check_name(project, "the project", longest=200)
    check_name(agent, "the agent", longest=LONGEST_AGENT)
    target = target_of(session) if session else Target(project=project, agent=agent)
    return _grant(context, who, _rights(role, rights), target, days, session)


@operation(right=Right.ADMINISTER, route="PUT /sessions/{session}/grants", audited=True)
def share(
    context: Context,
    session: Session,
    who: Who,
    *,
    role: Role = "viewer",
    rights: Rights | None = None,
    days: Days | None = None,
) -> GrantInfo:
    """Share a session with a person, an agent or a team."""
    return _grant(context, who, _rights("" if rights else role, rights), target_of(session), days, session)


@operation(right=Right.ADMINISTER, route="POST /sessions/{session}/links", audited=True, shows_secret=True)
def link(
    context: Context,
    session: Session,
    *,
    days: Annotated[int, msgspec.Meta(ge=1, le=365, description="Days until it ends.")] = 7,
) -> KeyInfo:
    """Make a link with which anybody can read a session until the link ends; its text is shown this once."""
    permit_making(context, "make links")
    until = _until(context, days, _permit_granting(context, ROLES["viewer"], target_of(session), session))
    token = new_token("link")
    principal = f"link:{token.id}"
    made = make(
        context, token, Kind.LINK, principal=principal, label=f"link to {session.id}", until=until, scopes="read see"
    )
    _add_grant(context, Grant(principal=principal, rights=ROLES["viewer"], session=session.id, until=made.until))
    return made


@operation(right=Right.ADMINISTER, route="PUT /sessions/{session}/privacy", reads_views=True)
def privacy(
    context: Context,
    session: Session,
    *,
    private: Annotated[bool, msgspec.Meta(description="Only for you, and whom you share it with.")] = False,
) -> SessionLine:
    """Make a session private, or open it to all who may see its project."""
    permit_effect(context, Effect.CLOSE if private else Effect.OPEN, session)
    if private != session.private:
        context.store.append(session, [Draft(body=PrivacySet(private=private))], actor=context.principal)
        session = msgspec.structs.replace(session, private=private)
    return session_line(context, session)


@operation(right=Right.SEE, route="DELETE /grants/{grant}", filters_by_reach=True, audited=True, group=ACCESS)
def access_revoke(context: Context, grant: int) -> GrantInfo:
    """Take a grant back; it counts no more within a second."""
    record = find_grant(context.store, grant) if 0 < grant < 2**62 else None
    if record is None or not context.caller.rule(Right.ADMINISTER, _target_of_grant(context, record.grant)).allowed:
        raise NotFound(f"no grant {grant} that you may revoke", missing="grant")
    _permit_replacing(context, record.grant)
    remove_grant(context.store, grant)
    context.touched.ended.append(f"grant {grant}")
    return describe_grant(record)


@operation(right=Right.ADMINISTER, route="GET /grants", group=ACCESS)
def access_list(
    context: Context,
    *,
    who: Who = "",
    project: Annotated[str, msgspec.Meta(description="Only on this project.")] = "",
    session: Session | None = None,
) -> list[GrantInfo]:
    """List grants: on a project, on a session, or all there are."""
    records = list_grants(
        context.store, who=anyone_named(who) if who else "", project=project, session=session.id if session else ""
    )
    return [describe_grant(record) for record in records]


@operation(right=Right.SEE, route="GET /access", filters_by_reach=True, group=ACCESS)
def access_explain(context: Context, who: Who, what: str) -> list[Explained]:
    """Say for each right whether somebody has it on a session or a project, and because of which grant."""
    target = _target_named(context, what)
    name = anyone_named(who)
    if name != context.principal:
        permit(context, Right.ADMINISTER, target)
    caller = Caller(
        name, list_grants_for(context.store, name), teams=list_teams_of(context.store, name),
        now=context.store.now(),
    )  # fmt: skip
    if name == context.principal:
        caller = context.caller
    rulings = [(right, caller.rule(right, target)) for right in Right]
    return [
        Explained(who=name, what=what, right=str(right), allowed=ruling.allowed, because=ruling.because)
        for right, ruling in rulings
    ]


def _target_named(context: Context, what: str) -> Target:
    """A project by its name, or a session by the beginning of its id."""
    if what in projects(context, Right.SEE).values():
        return Target(project=what)
    return target_of(context.store.session(what, context.reach(None)))


def _target_of_grant(context: Context, grant: Grant) -> Target:
    if not grant.session:
        return Target(project=grant.project, agent=grant.agent)
    try:
        return target_of(context.store.session(grant.session, context.reach(None)))
    except NotFound:
        return Target(session=grant.session)


def _rights(role: str, rights: list[Right] | None) -> frozenset[Right]:
    if role and role not in ROLES:
        raise InvalidInput(f"no role {role[:40]!r}; there are {', '.join(ROLES)}")
    named = ROLES.get(role, frozenset()) | frozenset(rights or ())
    if not named:
        raise InvalidInput(f"no rights are named; name a role ({', '.join(ROLES)}) or the rights")
    return named


def _permit_granting(context: Context, rights: frozenset[Right], target: Target, session: Session | None = None) -> int:
    """Refuse to grant rights that the caller does not have; returns when the caller's own end, 0 for never."""
    if session is not None:
        permit_effect(context, Effect.SHARE, session)
    rulings = {right: context.caller.rule(right, target) for right in (Right.ADMINISTER, *rights)}
    missing = sorted(str(right) for right, ruling in rulings.items() if not ruling.allowed)
    if missing:
        raise Denied(f"you cannot give what you do not have here: {', '.join(missing)}", right=missing[0])
    return earliest(*(ruling.until for ruling in rulings.values()))


def _until(context: Context, days: int | None, own_until: int) -> int:
    """When a grant ends: after `days`, but not after the caller's own; 0 for never."""
    asked_until = context.store.now() + days * DAY_US if days else 0
    return earliest(asked_until, own_until)


def _grant(
    context: Context, who: str, rights: frozenset[Right], target: Target, days: int | None, session: Session | None
) -> GrantInfo:
    until = _until(context, days, _permit_granting(context, rights, target, session))
    on_session = bool(target.session)
    grant = Grant(
        principal=anyone_named(who), rights=rights, until=until, session=target.session,
        project="" if on_session else target.project, agent="" if on_session else target.agent,
    )  # fmt: skip
    _permit_replacing(context, grant)
    return _info(_add_grant(context, grant), context.principal, context.store.now())


def _permit_replacing(context: Context, grant: Grant) -> None:
    """Only an owner takes away what makes somebody an owner; a grant on the same target replaces the one before."""
    if grant.is_on_everything and is_owner(context, grant.principal):
        permit_everything(context)


def _add_grant(context: Context, grant: Grant) -> Grant:
    added = add_grant(context.store, grant, given_by=context.principal)
    context.touched.made.append(f"grant {added.id}")
    return added
