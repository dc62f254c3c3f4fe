"""The context of a call: on whose behalf it runs, with which rights, on which log."""

from typing import TYPE_CHECKING, Any

import msgspec

from clew.model.access import Caller, Grant, Reach, Right
from clew.model.session import Session
from clew.store import Store
from clew.store.database.contract import Parameters

if TYPE_CHECKING:
    from clew.views.upkeep import Views


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """On whose behalf, with which rights, on which log."""

    store: Store
    """The caller's log: row-level security hides the projects that the caller has nothing to do with."""
    unrestricted: Store
    """The whole log, for what a caller need not be able to see: the audit record, ancestors, the store's own name."""
    principal: str
    grants: tuple[Grant, ...]
    teams: frozenset[str] = frozenset()
    scopes: frozenset[Right] | None = None
    """The rights that the caller's key is good for; None is all."""
    bound: str = ""
    """The only project that the caller's key is good for."""
    machine: str = ""
    home: str = ""
    """Where a person keeps settings of their own."""
    outward: bool = False
    """Whether what is answered leaves this machine."""
    known_sessions: dict[str, Session] | None = None
    """Sessions that were looked up before, by id: for appends, which need no more than what never changes of them. A
    server keeps a context, and so these, for half a second; elsewhere there are none."""
    _views: list["Views"] = msgspec.field(default_factory=list)
    _found: dict[Any, Any] = msgspec.field(default_factory=dict)

    @property
    def views(self) -> "Views":
        """The views of the log; loaded on first use, because most operations need none."""
        if not self._views:
            from clew.views.upkeep import Views

            self._views.append(Views(self.store))
        return self._views[0]

    @property
    def caller(self) -> Caller:
        if "caller" not in self._found:
            self._found["caller"] = Caller(
                self.principal, self.grants, teams=self.teams, scopes=self.scopes, bound=self.bound,
                now=self.store.database.now(),
            )  # fmt: skip
        found: Caller = self._found["caller"]
        return found

    def reach(self, right: Right | None) -> Parameters:
        """Where the caller has this right, or any at all, as parameters of a statement; none for everywhere."""
        if right not in self._found:
            reach = self.caller.reach(right)
            self._found[right] = {} if reach is None else self._parameters(reach)
        found: Parameters = self._found[right]
        return found

    def _parameters(self, reach: Reach) -> Parameters:
        projects = {name: key for key, name in self.store.projects().items()}
        return reach.parameters(projects, self.store.keys_of(reach.sessions) if reach.sessions else {})

    def setting(self, project: str, name: str) -> str:
        """What is set for a project, or else for all; empty when nothing is."""
        if "settings" not in self._found:
            from clew.store.access.settings import list_settings

            self._found["settings"] = list_settings(self.store)
        known: dict[tuple[str, str], str] = self._found["settings"]
        return known.get((project, name)) or known.get(("", name), "")

    def close(self) -> None:
        for views in self._views:
            views.close()
        self.store.close()
