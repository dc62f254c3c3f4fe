"""From the claims of a provider to a principal: one that an owner added, or a new one of an allowed domain.

Only the issuer and the subject identify a person. Names and addresses can change hands at a provider, so they name a
new principal and never find an existing one: a person with the name of somebody else gets a name of their own.
"""

import itertools
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from clew.model.errors import InvalidInput
from clew.server.login.oidc_tokens import Claims
from clew.server.options import Oidc
from clew.service.access.authenticator import OWNER
from clew.service.access.principals import login_of, team_named
from clew.service.kernel.audit_record import record_login
from clew.store import Store
from clew.store.access.principals import add_principal_of_login, find_principal_by_login, set_teams_of
from clew.store.projects import ALL_PROJECTS, control_log

CLEW = "clew"
LONGEST_NAME = 60
LONGEST_TITLE = 200


class UnknownLogin(Exception):
    """The provider authenticated a person whom nobody has added."""

    def __init__(self, issuer: str, subject: str) -> None:
        super().__init__("nobody has added this login")
        self.issuer = issuer
        self.subject = subject


class DisabledLogin(Exception):
    """The principal of the login was disabled by an owner."""


class Login(NamedTuple):
    """A person whom the provider vouches for, and what the audit log records of the login."""

    principal: str
    because: str
    facts: dict[str, Any]


def login_of_claims(store: Store, oidc: Oidc, claims: Claims) -> Login:
    """The principal of a login, added first if its domain is allowed. This sets the principal's teams, too."""
    login = login_of(oidc.issuer, claims["sub"])
    known = find_principal_by_login(store, login)
    if known is not None and known.disabled:
        record_login(store, known.name, allowed=False, because="an owner has shut them out")
        raise DisabledLogin
    if known is None and not _is_of_allowed_domain(oidc, claims):
        record_login(store, CLEW, allowed=False, because=f"nobody has added the login {login}")
        raise UnknownLogin(oidc.issuer, claims["sub"])
    name = known.name if known is not None else _add_principal(store, claims, login)
    facts: dict[str, Any] = {} if known is not None else {"added": True}
    if oidc.team_claim:
        facts["teams"] = _set_teams(store, name, claims.get(oidc.team_claim))
    return Login(name, f"{oidc.issuer} vouches for them", facts)


def _is_of_allowed_domain(oidc: Oidc, claims: Claims) -> bool:
    """Whether the provider has verified an e-mail address of an allowed domain."""
    address = claims.get("email")
    is_verified = claims.get("email_verified") in (True, "true")
    if not isinstance(address, str) or not is_verified or address.count("@") != 1:
        return False
    name, _, domain = address.partition("@")
    return bool(name.strip()) and domain.lower() in oidc.domains


def _add_principal(store: Store, claims: Claims, login: str) -> str:
    log = control_log(store, ALL_PROJECTS, CLEW)
    title = claims.get("name")
    shown = title[:LONGEST_TITLE].replace("\0", "") if isinstance(title, str) else ""
    names = (name for name in _names(claims) if name != OWNER)
    return add_principal_of_login(store, log, login, names=names, title=shown)


def _names(claims: Claims) -> Iterator[str]:
    """Names for a new principal, best first. Other than ASCII letters are left out, because some look alike."""
    claimed = next(
        (name for name in (claims.get("preferred_username"), claims.get("email")) if isinstance(name, str) and name), ""
    )
    plain = re.sub(r"[^a-z0-9._-]+", "-", claimed.partition("@")[0].lower()).strip("-._")[:LONGEST_NAME] or "somebody"
    yield f"person:{plain}"
    for number in itertools.count(2):
        yield f"person:{plain}-{number}"


def _set_teams(store: Store, name: str, claimed: object) -> list[str]:
    """Make a principal a member of the teams that the provider names, and of no other team."""
    wanted = _teams(claimed)
    set_teams_of(store, name, wanted)
    return sorted(wanted)


def _teams(claimed: object) -> set[str]:
    teams = set()
    for group in claimed if isinstance(claimed, list) else [claimed]:
        try:
            # The name unchanged: if two groups became one team, each would get the rights of the other.
            teams.add(team_named(f"team:{group}") if isinstance(group, str) else "")
        except InvalidInput:
            continue
    return teams - {""}
