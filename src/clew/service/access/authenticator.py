"""Authentication of callers: from an API key, or another proof, to the context of a principal with its grants.

Contexts are cached for `FRESH_SECONDS`, so that a busy caller does not cost a look-up per request. So a right that is
taken away, in this process or another, is gone after that time.
"""

import threading
import time
from typing import TYPE_CHECKING

from clew.model.access import Grant, Right, owner_of_everything
from clew.model.errors import Unauthenticated
from clew.model.retention import DAY_US
from clew.service.access.key_text import new_token, parse_token
from clew.service.kernel.context import Context
from clew.store import Store
from clew.store.access.api_keys import (
    ApiKey,
    add_api_key,
    find_api_key,
    list_api_keys,
    record_key_use,
    redeem_login_key,
    scopes_of,
)
from clew.store.access.grants import add_grant, list_grants_for, project_keys_of_accessible_sessions
from clew.store.access.principals import Principal, find_principal, list_principals, list_teams_of, set_principal
from clew.store.projects import list_projects

if TYPE_CHECKING:
    from clew.views.upkeep import Views

FRESH_SECONDS = 0.5
MOST_CONTEXTS = 10_000
# The last use of a key is recorded this precisely, to save a write per request.
USE_PRECISION_US = 60_000_000
LINK_DAYS = 1
BROWSER_DAYS = 14
# The scope of a key that is valid for one login and nothing else.
LOGIN = "login"
OWNER = "person:owner"
CLEW = "service:clew"


class Authenticator:
    """Makes the contexts of callers; all of them share one store and its views."""

    def __init__(
        self,
        store: Store,
        *,
        principal: str = OWNER,
        home: str = "",
        machine: str = "",
        fresh_seconds: float = FRESH_SECONDS,
    ) -> None:
        """`principal` owns the store, if it is the embedded store of one person."""
        self.store = store
        self._fresh_seconds = fresh_seconds
        self._principal = principal
        self._home = home
        self._machine = machine
        self._views: list[Views] = []
        self._lock = threading.Lock()
        self._contexts: dict[tuple[str, ...], tuple[float, Context]] = {}

    def authenticate(self, secret: str) -> Context:
        """The context of whoever holds an API key."""
        token = parse_token(secret)
        cached = self._cached(("key", secret))
        if cached is not None:
            return cached
        key = find_api_key(self.store, token.id)
        # The same work and the same message whatever is wrong, so that neither says which keys exist.
        matches = token.matches(key.hash if key is not None else bytes(32))
        if key is None or not matches or self._has_ended(key):
            raise Unauthenticated("this API key is not valid: unknown, expired or revoked; ask for a new one")
        if key.scopes == LOGIN:
            raise Unauthenticated("this is a link for one login, not an API key; open it in a browser")
        self._record_use(key)
        context = self._context(key.principal, scopes=scopes_of(key), key_project=key.project)
        return self._cache(("key", secret), context)

    def principal_context(self, principal: str, scopes: frozenset[Right] | None = None) -> Context:
        """The context of a principal who was authenticated elsewhere; `scopes` narrow their rights."""
        cache_key = ("principal", principal, *(("*",) if scopes is None else sorted(map(str, scopes))))
        cached = self._cached(cache_key)
        if cached is not None:
            return cached
        known = find_principal(self.store, principal)
        if known is None or known.disabled:
            raise Unauthenticated("no principal of that name has access here; ask an owner to add you")
        return self._cache(cache_key, self._context(principal, scopes=scopes))

    def owner_context(self) -> Context:
        """The context of the person whose embedded store this is."""
        cached = self._cached(("owner",))
        if cached is not None:
            return cached
        return self._cache(("owner",), self._context(self._principal, grants=(owner_of_everything(self._principal),)))

    def server_context(self) -> Context:
        """The context of the server itself, for its own background work."""
        return self._context(CLEW, grants=(owner_of_everything(CLEW),))

    def owner_link(self, base_url: str) -> str | None:
        """A link that makes whoever opens it first the owner; None once somebody has logged in as the owner."""
        if any(principal.name == OWNER for principal in list_principals(self.store)) and not self._is_unclaimed():
            return None
        set_principal(self.store, Principal(name=OWNER, title="Owner"))
        add_grant(self.store, owner_of_everything(OWNER), given_by="clew")
        return f"{base_url.rstrip('/')}/login#{self.new_login_secret(OWNER, given_by='clew')}"

    def _is_unclaimed(self) -> bool:
        """Whether nobody has ever logged in as the owner."""
        return all(key.scopes == LOGIN and not key.used_at for key in list_api_keys(self.store, OWNER))

    def new_login_secret(self, principal: str, *, given_by: str) -> str:
        """The text of a new key that is valid for one login within a day."""
        return self._new_key(principal, "link", scopes=LOGIN, label="login", days=LINK_DAYS, given_by=given_by)

    def redeem(self, secret: str) -> str:
        """Exchange the secret of a login link for the key of a browser; only the first caller gets one."""
        token = parse_token(secret)
        key = find_api_key(self.store, token.id)
        matches = token.matches(key.hash if key is not None else bytes(32))
        if key is None or not matches or self._has_ended(key) or not redeem_login_key(self.store, key.id):
            raise Unauthenticated("this link is no longer valid: it was used, or its day is over; ask for a new one")
        return self.new_browser_key(key.principal)

    def new_browser_key(self, principal: str) -> str:
        """The text of a new key for the browser of a principal who was just authenticated."""
        return self._new_key(
            principal, "person", scopes="", label="browser", days=BROWSER_DAYS, given_by=principal
        )  # fmt: skip

    def close(self) -> None:
        for views in self._views:
            views.close()
        self.store.close()

    # Parts ------------------------------------------------------------------------------------------------------------

    def _new_key(self, principal: str, kind: str, *, scopes: str, label: str, days: int, given_by: str) -> str:
        token = new_token(kind)
        until = self.store.now() + days * DAY_US
        add_api_key(
            self.store,
            ApiKey(
                id=token.id, principal=principal, hash=token.hash, scopes=scopes, project="", label=label, at=0,
                until=until, used_at=0, given_by=given_by, disabled=False,
            ),
        )  # fmt: skip
        return token.text

    def _has_ended(self, key: ApiKey) -> bool:
        return key.disabled or 0 < key.until <= self.store.now()

    def _record_use(self, key: ApiKey) -> None:
        now = self.store.now()
        if key.used_at < now - USE_PRECISION_US:
            record_key_use(self.store, key.id, now)

    def _context(
        self,
        principal: str,
        *,
        grants: tuple[Grant, ...] | None = None,
        scopes: frozenset[Right] | None = None,
        key_project: str = "",
    ) -> Context:
        if grants is None:
            grants = tuple(list_grants_for(self.store, principal))
        return Context(
            store=self.store.restricted_to(self._accessible_projects(principal, grants)), unrestricted=self.store,
            principal=principal, grants=grants,
            teams=frozenset(list_teams_of(self.store, principal)), scopes=scopes, key_project=key_project,
            machine=self._machine, home=self._home, answers_leave_machine=True, known_sessions={},
            _views=self._shared_views(),
        )  # fmt: skip

    def _accessible_projects(self, principal: str, grants: tuple[Grant, ...]) -> str:
        """The keys of the projects that row-level security lets a principal see, by commas; `*` is all."""
        if any(not grant.project and not grant.session for grant in grants):
            return "*"
        keys = {name: key for key, name in list_projects(self.store).items()}
        named = {keys[grant.project] for grant in grants if grant.project in keys}
        return ",".join(map(str, sorted(named | set(project_keys_of_accessible_sessions(self.store, principal)))))

    def _shared_views(self) -> "list[Views]":
        with self._lock:
            if not self._views:
                from clew.views.upkeep import Views

                self._views.append(Views(self.store))
        return self._views

    def _cached(self, cache_key: tuple[str, ...]) -> Context | None:
        until, context = self._contexts.get(cache_key, (0.0, None))
        return context if until > time.monotonic() else None

    def _cache(self, cache_key: tuple[str, ...], context: Context) -> Context:
        with self._lock:
            if len(self._contexts) >= MOST_CONTEXTS:
                self._contexts.clear()
            self._contexts[cache_key] = (time.monotonic() + self._fresh_seconds, context)
        return context
