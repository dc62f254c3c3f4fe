"""The operation `access_who`: everybody who may do something with a session, and why."""

import msgspec

from clew.model.access import Caller, Grant, Right
from clew.model.session import Session
from clew.service.access.grants import ACCESS
from clew.service.kernel.call import target_of
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.store.access.grants import list_grants
from clew.store.access.principals import list_members, list_principals


class MayUse(msgspec.Struct, frozen=True, kw_only=True):
    """A principal or a team, its rights on a session, and because of which grant it may read or see it.

    `is_you` marks the caller. `disabled` principals keep their grants and cannot log in.
    """

    who: str
    rights: list[str]
    because: str
    until: int = 0
    is_you: bool = False
    disabled: bool = False


@operation(right=Right.ADMINISTER, route="GET /sessions/{session}/access", group=ACCESS)
def access_who(context: Context, session: Session) -> list[MayUse]:
    """List everybody who may do something with a session, and because of which grant."""
    store, target, now = context.store, target_of(session), context.store.now()
    grants = [record.grant for record in list_grants(store.unrestricted)]
    members = list_members(store)
    disabled = {principal.name for principal in list_principals(store) if principal.disabled}
    names = {session.owner, context.principal, *(grant.principal for grant in grants), *disabled}
    names |= {name for team in members.values() for name in team} - {""}
    found = []
    for name in sorted(filter(None, names)):
        caller = context.caller if name == context.principal else _caller(name, grants, members, now)
        rulings = {right: caller.rule(right, target) for right in Right}
        allowed = [right for right, ruling in rulings.items() if ruling.allowed]
        if allowed:
            reason = rulings[Right.READ if Right.READ in allowed else allowed[0]]
            found.append(
                MayUse(
                    who=name, rights=list(map(str, allowed)), because=reason.because, until=reason.until,
                    is_you=name == context.principal, disabled=name in disabled,
                )
            )  # fmt: skip
    return found


def _caller(name: str, grants: list[Grant], members: dict[str, list[str]], now: int) -> Caller:
    teams = [team for team, inside in members.items() if name in inside]
    return Caller(name, grants, teams=teams, now=now)
