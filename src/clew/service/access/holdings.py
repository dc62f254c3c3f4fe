"""Everything a principal holds: credentials, grants and teams, listed and ended in one call."""

import msgspec

from clew.model.access import Right
from clew.model.errors import Denied, InvalidInput
from clew.service.access.credentials import KeyInfo, describe, permit_making
from clew.service.access.grants import ACCESS, GrantInfo, describe_grant
from clew.service.access.principals import Who, may_everything, principal_named
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.store.access.credentials import end_credentials_of, list_credentials
from clew.store.access.grants import list_grants, remove_grant
from clew.store.access.principals import list_teams_of, set_teams_of


class Holdings(msgspec.Struct, frozen=True, kw_only=True):
    """What a principal holds. Credentials that have ended are left out."""

    principal: str
    credentials: list[KeyInfo]
    grants: list[GrantInfo]
    teams: list[str]


@operation(right=Right.SEE, route="GET /access/held", filters_by_reach=True, group=ACCESS)
def access_held(context: Context, *, principal: Who = "") -> Holdings:
    """List the live credentials, the grants and the teams of a principal, yours by default."""
    name = principal_named(principal) if principal else context.principal
    permit_making(context, "list what a principal holds")
    if name != context.principal and not may_everything(context):
        raise Denied(f"{context.principal} may not see what others hold; ask an owner", right="administer")
    return _held(context, name)


@operation(right=Right.ADMINISTER, route="POST /access/end", filters_by_reach=True, audited=True, group=ACCESS)
def access_end(context: Context, principal: Who) -> Holdings:
    """End every credential, grant and team membership of a principal at once, and say which.

    A person who logs in with a provider can come back without rights: disable the principal to keep them out.
    """
    name = principal_named(principal)
    permit_making(context)
    if not may_everything(context):
        raise Denied(f"{context.principal} may not end what others hold; ask an owner", right="administer")
    if name == context.principal:
        raise InvalidInput("you would end your own access, and perhaps nobody else could give it back; ask an owner")
    held = _held(context, name)
    ended = end_credentials_of(context.store, name, context.store.now())
    context.touched.ended.extend(f"credential {id}" for id in ended)
    for grant in held.grants:
        remove_grant(context.store, grant.id)
        context.touched.ended.append(f"grant {grant.id}")
    set_teams_of(context.store, name, ())
    return held


def _held(context: Context, name: str) -> Holdings:
    now = context.store.now()
    return Holdings(
        principal=name,
        credentials=[describe(held) for held in list_credentials(context.store, name) if not 0 < held.until <= now],
        grants=[describe_grant(record) for record in list_grants(context.store, who=name)],
        teams=list_teams_of(context.store, name),
    )
