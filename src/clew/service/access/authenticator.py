"""The door of a server: whoever knocks with a key is let in as somebody, with the grants that count for them.

What a key opens is remembered for a moment, so that a busy caller does not cost a look-up per request; whatever is
taken away, in this process or another, is gone within `FRESH_SECONDS`.
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

if TYPE_CHECKING:
    from clew.views.upkeep import Views

FRESH_SECONDS = 0.5
MOST_CONTEXTS = 10_000
# How exactly it is known when a key was last used.
USE_PRECISION_US = 60_000_000
LINK_DAYS = 1
BROWSER_DAYS = 14
# The scope of a key that is good for one login and nothing else.
LOGIN = "login"
OWNER = "person:owner"
CLEW = "service:clew"


class Authenticator:
    """Makes contexts that share one store and its views."""

    def __init__(
        self,
        store: Store,
        *,
        principal: str = OWNER,
        home: str = "",
        machine: str = "",
        fresh_seconds: float = FRESH_SECONDS,
    ) -> None:
        """`principal` is whose embedded store it is."""
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
        # Before anything else: what is no key is no name of anything that is remembered either.
        token = parse_token(secret)
        known = self._cached(("key", secret))
        if known is not None:
            return known
        key = find_api_key(self.store, token.id)
        # The same work and the same words, whatever is wrong with it.
        fits = token.fits(key.hash if key is not None else bytes(32))
        if key is None or not fits or self._has_ended(key):
            raise Unauthenticated("this API key is not good: unknown, expired or revoked; ask for a new one")
        if key.scopes == LOGIN:
            raise Unauthenticated("this is a link for one login, not an API key; open it in a browser")
        self._note_use(key)
        return self._cache_for_a_moment(
            ("key", secret), self._context(key.principal, scopes=scopes_of(key), bound=key.project)
        )

    def principal_context(self, principal: str, scopes: frozenset[Right] | None = None) -> Context:
        """The context of somebody who proved otherwise who they are."""
        place = ("acting", principal, *(("*",) if scopes is None else sorted(map(str, scopes))))
        known = self._cached(place)
        if known is not None:
            return known
        there = find_principal(self.store, principal)
        if there is None or there.disabled:
            raise Unauthenticated("nobody of that name may come in here; ask an owner to add you")
        return self._cache_for_a_moment(place, self._context(principal, scopes=scopes))

    def owner_context(self) -> Context:
        """The context of the person whose embedded store this is."""
        known = self._cached(("owner",))
        if known is not None:
            return known
        return self._cache_for_a_moment(
            ("owner",), self._context(self._principal, grants=(owner_of_everything(self._principal),))
        )

    def server_context(self) -> Context:
        """The context of the server itself, for what it does unasked."""
        return self._context(CLEW, grants=(owner_of_everything(CLEW),))

    def owner_link(self, base_url: str) -> str | None:
        """On the first start of a team's server: a link that makes whoever opens it first the owner."""
        if any(one.name == OWNER for one in list_principals(self.store)) and not self._is_unclaimed():
            return None
        set_principal(self.store, Principal(name=OWNER, title="Owner"))
        add_grant(self.store, owner_of_everything(OWNER), given_by="clew")
        return f"{base_url.rstrip('/')}/login#{self.new_login_secret(OWNER, given_by='clew')}"

    def _is_unclaimed(self) -> bool:
        """Whether nobody has ever come in as the owner."""
        found = list_api_keys(self.store, OWNER)
        return all(key.scopes == LOGIN and not key.used_at for key in found)

    def new_login_secret(self, principal: str, *, given_by: str) -> str:
        """The text of a key that is good for one login within a day."""
        return self._new_key(principal, "link", scopes=LOGIN, label="login", days=LINK_DAYS, given_by=given_by)

    def redeem(self, secret: str) -> str:
        """Turn a key that is good for one login into one for a browser; only the first to come gets it."""
        token = parse_token(secret)
        key = find_api_key(self.store, token.id)
        fits = token.fits(key.hash if key is not None else bytes(32))
        if key is None or not fits or self._has_ended(key) or not redeem_login_key(self.store, key.id):
            raise Unauthenticated("this link is not good any more: it was used, or its day is over; ask for a new one")
        return self.new_browser_key(key.principal)

    def new_browser_key(self, principal: str) -> str:
        """The text of a new key for the browser of somebody who just proved who they are."""
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
        until = self.store.database.now() + days * DAY_US
        add_api_key(
            self.store,
            ApiKey(
                id=token.id, principal=principal, hash=token.hash, scopes=scopes, project="", label=label, at=0,
                until=until, used_at=0, given_by=given_by, disabled=False,
            ),
        )  # fmt: skip
        return token.text

    def _has_ended(self, key: ApiKey) -> bool:
        return key.disabled or 0 < key.until <= self.store.database.now()

    def _note_use(self, key: ApiKey) -> None:
        now = self.store.database.now()
        if key.used_at < now - USE_PRECISION_US:
            record_key_use(self.store, key.id, now)

    def _context(
        self,
        principal: str,
        *,
        grants: tuple[Grant, ...] | None = None,
        scopes: frozenset[Right] | None = None,
        bound: str = "",
    ) -> Context:
        if grants is None:
            grants = tuple(list_grants_for(self.store, principal))
        return Context(
            store=self.store.restricted_to(self._wall(principal, grants)), unrestricted=self.store,
            principal=principal, grants=grants,
            teams=frozenset(list_teams_of(self.store, principal)), scopes=scopes, bound=bound, machine=self._machine,
            home=self._home, outward=True, known_sessions={}, _views=self._shared(),
        )  # fmt: skip

    def _wall(self, principal: str, grants: tuple[Grant, ...]) -> str:
        """The projects that anything of what somebody may reach can be in."""
        if any(not grant.project and not grant.session for grant in grants):
            return "*"
        keys = {name: key for key, name in self.store.projects().items()}
        named = {keys[grant.project] for grant in grants if grant.project in keys}
        return ",".join(map(str, sorted(named | set(project_keys_of_accessible_sessions(self.store, principal)))))

    def _shared(self) -> "list[Views]":
        with self._lock:
            if not self._views:
                from clew.views.upkeep import Views

                self._views.append(Views(self.store))
        return self._views

    def _cached(self, place: tuple[str, ...]) -> Context | None:
        known = self._contexts.get(place)
        return known[1] if known is not None and known[0] > time.monotonic() else None

    def _cache_for_a_moment(self, place: tuple[str, ...], context: Context) -> Context:
        with self._lock:
            if len(self._contexts) >= MOST_CONTEXTS:
                self._contexts.clear()
            self._contexts[place] = (time.monotonic() + self._fresh_seconds, context)
        return context
