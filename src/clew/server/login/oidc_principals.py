"""Who a provider's word lets in: somebody an owner added, or somebody of a domain that is allowed.

Only the issuer and the subject say who somebody is. Names and addresses can change hands at a provider, so they make a
new principal's name, and never find one that is there: whoever is called like somebody else gets a name of their own.
"""

import itertools
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from clew.model.errors import InvalidInput
from clew.model.events import Draft, OperationCalled
from clew.server.login.oidc_tokens import Claims
from clew.server.options import Oidc
from clew.service.access.authenticator import OWNER
from clew.service.access.principals import login_of, team_named
from clew.service.kernel.audit_record import WHOLE
from clew.store import Store
from clew.store.access.principals import find_principal_by_login
from clew.store.database.contract import Transaction

CLEW = "clew"
LONGEST_NAME = 60
LONGEST_TITLE = 200


class UnknownLogin(Exception):
    """The provider vouches for somebody whom nobody has added."""

    def __init__(self, issuer: str, subject: str) -> None:
        super().__init__("nobody has added this login")
        self.issuer = issuer
        self.subject = subject


class DisabledLogin(Exception):
    """Somebody whom an owner has shut out."""


def principal_of_claims(store: Store, oidc: Oidc, claims: Claims) -> str:
    """The principal of a login, made if they may come in without being added; their teams are set by the way."""
    login = login_of(oidc.issuer, claims["sub"])
    there = find_principal_by_login(store, login)
    if there is not None and there.disabled:
        _record(store, there.name, allowed=False, because="an owner has shut them out")
        raise DisabledLogin
    if there is None and not _is_welcome(oidc, claims):
        _record(store, CLEW, allowed=False, because=f"nobody has added the login {login}")
        raise UnknownLogin(oidc.issuer, claims["sub"])
    name = there.name if there is not None else _make(store, claims, login)
    facts: dict[str, Any] = {} if there is not None else {"made": True}
    if oidc.team_claim:
        facts["teams"] = _set_teams(store, name, claims.get(oidc.team_claim))
    _record(store, name, allowed=True, because=f"{oidc.issuer} vouches for them", **facts)
    return name


def _is_welcome(oidc: Oidc, claims: Claims) -> bool:
    """Whether the address is one of an allowed domain, and the provider has seen that it is theirs."""
    address = claims.get("email")
    is_theirs = claims.get("email_verified") in (True, "true")
    return isinstance(address, str) and is_theirs and address.rpartition("@")[2].lower() in oidc.domains


def _make(store: Store, claims: Claims, login: str) -> str:
    log = store.control_session(WHOLE, CLEW)
    title = claims.get("name")
    with store.database.write() as tx:
        # One newcomer at a time, in whichever process, so that no two take one name.
        tx.run("head_lock", project=log.project_key, session=log.key)
        known = tx.run("principal_of_login", login=login)
        if known:
            return str(known[0][0])
        name = next(name for name in _names(claims) if not _is_taken(tx, name))
        shown = title[:LONGEST_TITLE].replace("\0", "") if isinstance(title, str) else ""
        tx.run("principal_set", name=name, title=shown, login=login)
    return name


def _names(claims: Claims) -> Iterator[str]:
    """What somebody may be called, best first. Letters that look like others are left out."""
    called = next(
        (it for it in (claims.get("preferred_username"), claims.get("email")) if isinstance(it, str) and it), ""
    )
    plain = re.sub(r"[^a-z0-9._-]+", "-", called.partition("@")[0].lower()).strip("-._")[:LONGEST_NAME] or "somebody"
    yield f"person:{plain}"
    for number in itertools.count(2):
        yield f"person:{plain}-{number}"


def _is_taken(tx: Transaction, name: str) -> bool:
    """Whether a name stands for anybody already: it may have been given rights, or have opened sessions elsewhere."""
    return bool(
        name == OWNER
        or tx.run("principal_named", name=name)
        or tx.run("grants", who=name)
        or tx.run("keys_of", principal=name)
        or tx.run("teams_of", principal=name)
        or tx.run("projects_of_accessible_sessions", me=name)
    )


def _set_teams(store: Store, name: str, claimed: object) -> list[str]:
    """Make somebody a member of the teams that the provider names, and of no other."""
    wanted = _teams(claimed)
    with store.database.write() as tx:
        there = {str(row[0]) for row in tx.run("teams_of", principal=name)}
        for one in sorted(wanted - there):
            tx.run("member_add", team=one, principal=name)
        for one in sorted(there - wanted):
            tx.run("member_remove", team=one, principal=name)
    return sorted(wanted)


def _teams(claimed: object) -> set[str]:
    found = set()
    for group in claimed if isinstance(claimed, list) else [claimed]:
        try:
            # The name as it is: were two groups to become one team, one would get what the other was given.
            found.add(team_named(f"team:{group}") if isinstance(group, str) else "")
        except InvalidInput:
            continue
    return found - {""}


def _record(store: Store, actor: str, *, allowed: bool, because: str, **facts: Any) -> None:
    """Put a login into the log of who did what."""
    log = store.control_session(WHOLE, actor)
    entry = OperationCalled(
        operation="login", allowed=allowed, because=because, arguments=msgspec.Raw(msgspec.json.encode(facts))
    )
    store.append(log, [Draft(body=entry)], actor=actor)
