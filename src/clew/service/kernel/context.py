"""The context of a call: on whose behalf it runs, with which rights, on which log."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from clew.model.access import Caller, Grant, Right
from clew.model.credential import UsedCredential
from clew.model.session import Session
from clew.store import Store
from clew.store.reach import EVERYWHERE, ReachParameters, reach_parameters

if TYPE_CHECKING:
    from clew.service.replication.server import OpenServer
    from clew.views.upkeep import Views


class Touched(msgspec.Struct, frozen=True):
    """What one call made and ended of credentials and grants, each as its kind and id, for the audit record."""

    made: list[str] = []
    ended: list[str] = []


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
    key_project: str = ""
    """The only project that the caller's key is good for."""
    credential: UsedCredential = UsedCredential()
    """What the caller authenticated with."""
    touched: Touched = msgspec.field(default_factory=Touched)
    """What this call made and ended; every call has a context of its own."""
    machine: str = ""
    home: str = ""
    """Where a person keeps settings of their own."""
    answers_leave_machine: bool = False
    """Whether the caller is a server's: secrets are masked in what it reads, and it may not block other writers."""
    may_use_machine: bool = False
    """Whether a caller whose answers leave may use the files of this machine: it is their own, as with `clew up`."""
    is_for_llm: bool = False
    """Whether an llm reads the answers: secrets are masked, as in what leaves the machine."""
    open_server: "OpenServer | None" = None
    """Opens the server of another store; None where nothing is pulled or pushed."""
    on_progress: Callable[[int, int], None] | None = None
    """Long operations report their progress to it: how much is done, and of how much."""
    known_sessions: dict[str, Session] | None = None
    """Sessions that were looked up before, by id. Appends use them, because an append needs only what never changes.
    They are ruled on as they were then, so they are only for a caller whose rights cannot change: a server keeps a
    context, and so these, for half a second; the owner of an embedded store keeps them."""
    _views: list["Views"] = msgspec.field(default_factory=list)
    _cache: dict[Any, Any] = msgspec.field(default_factory=dict)

    @property
    def views(self) -> "Views":
        """The views of the log; loaded on first use, because most operations need none."""
        if not self._views:
            from clew.views.upkeep import Views

            self._views.append(Views(self.unrestricted))
        return self._views[0].restricted_to(self.store.projects)

    @property
    def masks_answers(self) -> bool:
        """Whether the caller sees no secret: events are masked before anything is searched in them or cut from them."""
        return self.answers_leave_machine or self.is_for_llm

    @property
    def caller(self) -> Caller:
        if "caller" not in self._cache:
            self._cache["caller"] = Caller(
                self.principal, self.grants, teams=self.teams, scopes=self.scopes, bound=self.key_project,
                now=self.store.now(),
            )  # fmt: skip
        caller: Caller = self._cache["caller"]
        return caller

    @property
    def budget(self) -> str:
        """Whose budget the requests of the caller count for, on a server."""
        return self.credential.budget or self.principal

    @property
    def rights(self) -> str:
        """Everything that decides what the caller may do, as text to be compared."""
        if "rights" not in self._cache:
            scopes = "*" if self.scopes is None else sorted(map(str, self.scopes))
            self._cache["rights"] = f"{scopes} {self.key_project} {sorted(map(repr, self.grants))}"
        rights: str = self._cache["rights"]
        return rights

    def reach(self, right: Right | None) -> ReachParameters:
        """Where the caller has this right, or any at all, as parameters of a statement; none for everywhere."""
        if right not in self._cache:
            reach = self.caller.reach(right)
            self._cache[right] = EVERYWHERE if reach is None else reach_parameters(self.store, reach)
        parameters: ReachParameters = self._cache[right]
        return parameters

    def has_setting(self, name: str, value: str) -> bool:
        """Whether any project has this value set."""
        self.setting("", name)
        settings: dict[tuple[str, str], str] = self._cache["settings"]
        return any(known == name and is_set == value for (_, known), is_set in settings.items())

    def setting(self, project: str, name: str) -> str:
        """What is set for a project, or else for all; empty when nothing is."""
        if "settings" not in self._cache:
            from clew.store.access.settings import list_settings

            self._cache["settings"] = list_settings(self.store)
        settings: dict[tuple[str, str], str] = self._cache["settings"]
        return settings.get((project, name)) or settings.get(("", name), "")

    def settings_of(self, name: str) -> dict[str, str]:
        """The values of a setting by project; that of the empty project is for all."""
        self.setting("", name)
        settings: dict[tuple[str, str], str] = self._cache["settings"]
        return {project: value for (project, known), value in settings.items() if known == name}

    def close(self) -> None:
        for views in self._views:
            views.close()
        self.store.close()
