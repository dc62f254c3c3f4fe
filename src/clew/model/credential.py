"""Credentials: what a caller authenticates with, and what a chain of them is good for.

A credential that was made with another is its child. A child never has more rights, reach or life than its
parent: what it is good for is computed from its whole chain whenever it is used, so that an end of the parent is an end
of the child.
"""

import enum
from collections.abc import Sequence

import msgspec

from clew.model.access import Right


class Kind(enum.StrEnum):
    BROWSER = "browser"
    API_KEY = "api_key"
    ACCESS_TOKEN = "access_token"  # noqa: S105 - the name of a kind
    LINK = "link"
    LOGIN = "login"


# What a program sends in the header `Authorization`, and what a browser sends as its cookie.
BEARER = frozenset({Kind.API_KEY, Kind.LINK})
COOKIE = frozenset({Kind.BROWSER})
# What can make other credentials; the empty kind is the person at the store's own machine.
MAKERS = frozenset({"", Kind.BROWSER, Kind.API_KEY})
# What a principal can hold at once.
MOST_LIVE = 200
MOST_LIVE_TOKENS = 1000
MOST_DEEP = 8
FOR_EVER = 2**62


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """A credential, without its secret. Empty `scopes` are all rights, an empty `project` is every project."""

    id: str
    kind: str
    parent: str
    """The credential it was made with; empty when it was made by a login or on the store's own machine."""
    principal: str
    hash: bytes
    scopes: str
    project: str
    label: str
    at: int
    until: int
    used_at: int
    given_by: str
    disabled: bool = False
    """Whether an owner disabled the principal it stands for."""


class UsedCredential(msgspec.Struct, frozen=True, kw_only=True):
    """The credential of a call; without an id, the caller is the person at the store's own machine."""

    id: str = ""
    kind: str = ""
    until: int = 0
    """When it ends, in microseconds since 1970; 0 is never."""
    budget: str = ""
    """Whose budget its requests count for; empty is that of its principal."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a chain of credentials is good for."""

    scopes: frozenset[Right] | None
    project: str
    until: int
    budget: str = ""
    """Who shares a budget with it; empty is its principal alone."""


def limits_of(chain: Sequence[Credential], now: int) -> Limits | None:
    """What a credential is good for, given itself and all its ancestors; None if it is not valid."""
    if not chain or chain[-1].parent or any(link.disabled or 0 < link.until <= now for link in chain):
        return None
    projects = {link.project for link in chain if link.project}
    if len(projects) > 1:
        return None
    scopes = [scopes_of(link) for link in chain if link.scopes]
    return Limits(
        scopes=frozenset.intersection(*scopes) if scopes else None,
        project=projects.pop() if projects else "",
        until=earliest(*(link.until for link in chain)),
        budget=_budget_of(chain),
    )


def _budget_of(chain: Sequence[Credential]) -> str:
    """Whose budget a chain of credentials uses: all links that one principal made share one."""
    # Every link is a principal of its own. Two hundred of them are not two hundred budgets for who made them.
    makers = [link.given_by for link in chain if link.kind == Kind.LINK]
    return f"links of {makers[-1]}" if makers else ""


def scopes_of(credential: Credential) -> frozenset[Right]:
    """The rights that a narrowed credential carries."""
    # A newer program may have stored a right that this one cannot rule on; it is ignored.
    return frozenset(right for right in Right if right in credential.scopes.split())


def earliest(*untils: int) -> int:
    """The first of several ends; 0 is never."""
    return min((until for until in untils if until), default=0)
