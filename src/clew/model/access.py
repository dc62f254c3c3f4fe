"""Who may do what. Deny by default, one function decides, and every verdict says why."""

import enum
from collections.abc import Iterable

import msgspec


class Right(enum.StrEnum):
    SEE = "see"
    READ = "read"
    APPEND = "append"
    FORK = "fork"
    HAND_OFF = "hand_off"
    EXPORT = "export"
    ADMINISTER = "administer"
    AUDIT = "audit"


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What an operation is about. Empty fields mean the whole store."""

    project: str = ""
    agent: str = ""
    session: str = ""


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """Rights given to a principal on a project, an agent or one session; an empty field does not narrow."""

    principal: str
    rights: frozenset[Right]
    project: str = ""
    agent: str = ""
    session: str = ""

    def covers(self, target: Target) -> bool:
        return all(
            not narrowed or narrowed == actual
            for narrowed, actual in (
                (self.project, target.project),
                (self.agent, target.agent),
                (self.session, target.session),
            )
        )

    def __str__(self) -> str:
        where = ", ".join(
            f"{name} {value}"
            for name, value in (("project", self.project), ("agent", self.agent), ("session", self.session))
            if value
        )
        return f"{self.principal} on {where or 'everything'}"


class Ruling(msgspec.Struct, frozen=True):
    """The verdict and its reason."""

    allowed: bool
    because: str


def owner_of_everything(principal: str) -> Grant:
    """The grant of the person who runs an embedded store: the files are theirs already."""
    return Grant(principal=principal, rights=frozenset(Right))


def rule(principal: str, right: Right, target: Target, grants: Iterable[Grant]) -> Ruling:
    """Whether the principal may, and because of which grant."""
    for grant in grants:
        if grant.principal == principal and right in grant.rights and grant.covers(target):
            return Ruling(True, f"granted to {grant}")
    where = target.session or target.project or "the store"
    return Ruling(False, f"no grant gives {principal} the right to {right} on {where}")
