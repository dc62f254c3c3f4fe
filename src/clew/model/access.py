"""Who may do what. Deny by default, one function decides, and every verdict says why.

A grant gives rights on everything, a project, an agent or one session. A private session is out of reach of grants on
its project or agent: only its owner, grants on the session itself and grants on everything cover it. Scopes, and the
project that an API key is bound to, only ever narrow.
"""

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
    BUDGET = "budget"
    HOLD = "hold"


# Named sets of rights.
ROLES = {
    "viewer": frozenset({Right.SEE, Right.READ}),
    "writer": frozenset({Right.SEE, Right.READ, Right.APPEND, Right.FORK, Right.HAND_OFF, Right.EXPORT}),
    "auditor": frozenset({Right.SEE, Right.AUDIT}),
    "admin": frozenset(Right),
}
# The rights of the principal who opened a session, on that session.
OWN = ROLES["writer"] | {Right.ADMINISTER}
FOR_EVER = 2**62


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What a right is checked on. Empty fields mean the whole store."""

    project: str = ""
    agent: str = ""
    session: str = ""
    owner: str = ""
    private: bool = False


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """Rights given to a principal or a team on a project, an agent or one session; an empty field does not narrow.

    A session belongs to one project and one agent, so a grant on a session names nothing else.
    """

    principal: str
    rights: frozenset[Right]
    project: str = ""
    agent: str = ""
    session: str = ""
    until: int = 0
    """When it ends, in microseconds since 1970; 0 is never."""
    id: int = 0

    @property
    def is_on_everything(self) -> bool:
        return not (self.project or self.agent or self.session)

    def covers(self, target: Target) -> bool:
        if self.session:
            return self.session == target.session
        if target.private and not self.is_on_everything:
            return False
        return self.project in ("", target.project) and self.agent in ("", target.agent)

    def __str__(self) -> str:
        where = ", ".join(
            f"{name} {value}"
            for name, value in (("project", self.project), ("agent", self.agent), ("session", self.session))
            if value
        )
        return f"{self.principal} on {where or 'everything'}" + (f" (grant {self.id})" if self.id else "")


class Ruling(msgspec.Struct, frozen=True):
    """The verdict and its reason."""

    allowed: bool
    because: str
    until: int = 0
    """When the grant that allows it ends; 0 is never."""


class Caller:
    """The caller of an operation, and the grants that can apply.

    Grants are indexed by their scope, so a ruling reads only a few of them, however many there are.
    """

    __slots__ = ("_by_scope", "bound", "grants", "principal", "scopes")

    def __init__(
        self,
        principal: str,
        grants: Iterable[Grant],
        *,
        teams: Iterable[str] = (),
        scopes: frozenset[Right] | None = None,
        bound: str = "",
        now: int = 0,
    ) -> None:
        """`scopes` are the rights that an API key carries, `bound` the only project it is valid for."""
        names = {principal, *teams}
        self.principal = principal
        self.scopes = scopes
        self.bound = bound
        self.grants = tuple(
            grant for grant in grants if grant.principal in names and not 0 < grant.until <= now
        )  # fmt: skip
        self._by_scope: dict[tuple[str, str, str], list[Grant]] = {}
        for grant in self.grants:
            self._by_scope.setdefault(_scope(grant), []).append(grant)

    def rule(self, right: Right, target: Target) -> Ruling:
        """Whether the caller has a right on a target, and the grant or the reason that decides."""
        if refusal := self._refused_by_key(right, target):
            return Ruling(False, refusal)
        if self._owns(right) and target.owner and target.owner == self.principal:
            return Ruling(True, f"{self.principal} opened it")
        covering = [
            grant
            for scope in _covering_scopes(target)
            for grant in self._by_scope.get(scope, ())
            if right in grant.rights and grant.covers(target)
        ]
        if covering:
            lasting = max(covering, key=lambda grant: grant.until or FOR_EVER)
            return Ruling(True, f"granted to {lasting}", lasting.until)
        where = target.session or target.project or "the store"
        return Ruling(False, f"no grant gives {self.principal} the right to {right} on {where}")

    def _refused_by_key(self, right: Right, target: Target) -> str:
        """Why the caller's API key rules a right out, whatever the grants say; empty when it does not."""
        if self.scopes is not None and right not in self.scopes:
            return f"the key of {self.principal} does not carry the right to {right}"
        if self.bound and target.project != self.bound:
            return f"the key of {self.principal} is valid for one project only"
        return ""

    def reach(self, right: Right | None) -> "Reach | None":
        """The sessions on which the caller has this right (any right if it is None); None means every session."""
        if self.scopes is not None and not _includes(self.scopes, right):
            return Reach()
        grants = [grant for grant in self.grants if self._counts(grant, right)]
        is_everywhere = any(grant.is_on_everything for grant in grants)
        if is_everywhere and not self.bound:
            return None
        sessions, agents, projects = set(), set(), set()
        for grant in grants:
            if grant.session:
                sessions.add(grant.session)
            elif grant.agent:
                agents.add((grant.project, grant.agent))
            elif grant.project:
                projects.add(grant.project)
        return Reach(
            me=self.principal if self._owns(right) else "",
            bound=self.bound,
            everything=is_everywhere,
            projects=frozenset(projects),
            agents=frozenset(agents),
            sessions=frozenset(sessions),
        )

    def exports_all(self, project: str = "") -> bool:
        """Whether the caller may export whatever they may read, in a project or anywhere.

        The right to export a project is not enough: a private session of it can be shared for reading alone.
        """
        read, export = self.reach(Right.READ), self.reach(Right.EXPORT)
        return export is None or (read is not None and export.includes(read, project))

    def _owns(self, right: Right | None) -> bool:
        """Whether the caller has this right, or any, on the sessions that they opened."""
        return not self.bound and _includes(OWN if self.scopes is None else OWN & self.scopes, right)

    def _counts(self, grant: Grant, right: Right | None) -> bool:
        """Whether a grant gives this right, or any, to the holder of the caller's key."""
        if self.bound and grant.project not in ("", self.bound):
            return False
        return _includes(grant.rights if self.scopes is None else grant.rights & self.scopes, right)


def _includes(rights: frozenset[Right], right: Right | None) -> bool:
    """Whether a right is among these; None stands for any right."""
    return bool(rights) if right is None else right in rights


def _scope(grant: Grant) -> tuple[str, str, str]:
    return ("", "", grant.session) if grant.session else (grant.project, grant.agent, "")


def _covering_scopes(target: Target) -> set[tuple[str, str, str]]:
    """Every scope whose grants can cover the target."""
    scopes = {(project, agent, "") for project in ("", target.project) for agent in ("", target.agent)}
    return scopes | {("", "", target.session)}


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """The sessions on which a caller has a right, as a filter for queries; it agrees with `Caller.rule` on each."""

    me: str = ""
    bound: str = ""
    everything: bool = False
    projects: frozenset[str] = frozenset()
    agents: frozenset[tuple[str, str]] = frozenset()
    sessions: frozenset[str] = frozenset()

    def includes(self, other: "Reach", project: str = "") -> bool:
        """Whether this reaches all that another one reaches, in a project or anywhere; false when in doubt."""
        if other.bound != self.bound or other.me not in ("", self.me):
            return False
        if self.everything or other.everything:
            return self.everything
        agents = (
            agent for agent in other.agents - self.agents
            if project in ("", agent[0]) or not agent[0]
        )  # fmt: skip
        return (
            other.sessions <= self.sessions
            and all(name in self.projects for name in other.projects if project in ("", name))
            and all(agent[0] in self.projects for agent in agents)
        )


def owner_of_everything(principal: str) -> Grant:
    """The grant of the person who runs an embedded store, because the files belong to that person."""
    return Grant(principal=principal, rights=frozenset(Right))
