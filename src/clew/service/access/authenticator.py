"""Authentication of callers: from an API key, or another proof, to the context of a principal with its grants.

Contexts are cached for `FRESH_SECONDS`, so that a busy caller does not cost a look-up per request. So a right that is
taken away, in this process or another, is gone after that time.
"""

import threading
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from clew.model.access import ROLES, Caller, Grant, Right, owner_of_everything
from clew.model.credential import BEARER, COOKIE, Credential, Kind, Limits, UsedCredential, earliest, limits_of
from clew.model.errors import NotFound, Unauthenticated
from clew.model.retention import DAY_US
from clew.service.access.key_text import Token, digest_of, new_token, parse_token, token_id
from clew.service.kernel.audit_record import record_login
from clew.service.kernel.call import target_of
from clew.service.kernel.context import Context
from clew.store import Store
from clew.store.access.credentials import (
    add_credential,
    credential_chain,
    end_credential,
    list_credentials,
    record_use,
    redeem_login,
)
from clew.store.access.grants import add_grant, list_grants_for, project_keys_of_accessible_sessions
from clew.store.access.principals import Principal, find_principal, list_principals, list_teams_of, set_principal
from clew.store.projects import keys_by_name

if TYPE_CHECKING:
    from clew.service.replication.server import OpenServer
    from clew.views.upkeep import Views

FRESH_SECONDS = 0.5
MOST_CONTEXTS = 10_000
# The last use of a key is recorded this precisely, to save a write per request.
USE_PRECISION_US = 60_000_000
LINK_DAYS = 1
BROWSER_DAYS = 14
OWNER = "person:owner"
CLEW = "service:clew"
# Who gave the first owner their link.
SERVER = "clew"
NO_FACTS: Mapping[str, Any] = MappingProxyType({})
OWN_MACHINE = UsedCredential()


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
        open_server: "OpenServer | None" = None,
    ) -> None:
        """`principal` owns the store, if it is the embedded store of one person."""
        self.store = store
        self._fresh_seconds = fresh_seconds
        self._principal = principal
        self._home = home
        self._machine = machine
        self._open_server = open_server
        self._views: list[Views] = []
        self._lock = threading.Lock()
        self._contexts: dict[tuple[str, ...], tuple[float, Context]] = {}

    def authenticate(self, secret: str, kinds: frozenset[Kind] = BEARER) -> Context:
        """The context of whoever holds a credential of these kinds: an API key or a link, or a browser's cookie."""
        token = parse_token(secret)
        cache_key = (*sorted(kinds), secret)
        cached = self._cached(cache_key)
        if cached is not None:
            return cached
        began = time.monotonic()
        credential, limits = self._verify(token)
        if credential.kind == Kind.LOGIN:
            raise Unauthenticated("this is a link for one login, not an API key; open it in a browser")
        if credential.kind not in kinds:
            raise Unauthenticated("a browser's cookie is no API key, and no API key is a cookie; use each in its place")
        return self._cache(cache_key, self._holder_context(credential, limits), began)

    def access_token_context(self, token: str, principal: str, *, scopes: frozenset[Right], until: int) -> Context:
        """The context of whoever holds an access token that was verified; it is recorded, so that it can be ended."""
        cached = self._cached(("token", token))
        if cached is not None:
            return cached
        began = time.monotonic()
        id = token_id(token)
        chain = credential_chain(self.store, id)
        if not chain:
            credential = Credential(
                id=id, kind=Kind.ACCESS_TOKEN, parent="", principal=principal, hash=digest_of(token),
                scopes=" ".join(sorted(scopes)), project="", label="access token", at=0, until=until, used_at=0,
                given_by=principal,
            )  # fmt: skip
            add_credential(self.store, credential)
            chain = credential_chain(self.store, id)
        limits = limits_of(chain, self.store.now())
        if limits is None or chain[0].principal != principal:
            raise Unauthenticated("this access token is not valid any more: it was ended here; get a new one")
        return self._cache(("token", token), self._holder_context(chain[0], limits), began)

    def principal_context(self, principal: str, scopes: frozenset[Right] | None = None) -> Context:
        """The context of a principal who was authenticated elsewhere; `scopes` narrow their rights."""
        cache_key = ("principal", principal, *(("*",) if scopes is None else sorted(map(str, scopes))))
        cached = self._cached(cache_key)
        if cached is not None:
            return cached
        began = time.monotonic()
        known = find_principal(self.store, principal)
        if known is None or known.disabled:
            raise Unauthenticated("no principal of that name has access here; ask an owner to add you")
        return self._cache(cache_key, self._context(principal, scopes=scopes), began)

    def owner_context(self) -> Context:
        """The context of the person whose embedded store this is."""
        cached = self._cached(("owner",))
        if cached is not None:
            return cached
        grants = (owner_of_everything(self._principal),)
        owner = msgspec.structs.replace(self._context(self._principal, grants=grants), may_use_machine=True)
        return self._cache(("owner",), owner, time.monotonic())

    def owner_link(self, base_url: str) -> str | None:
        """A link that makes whoever opens it first the owner; None once somebody has logged in as the owner."""
        if any(principal.name == OWNER for principal in list_principals(self.store)) and not self._is_unclaimed():
            return None
        set_principal(self.store, Principal(name=OWNER, title="Owner"))
        grant = add_grant(self.store, owner_of_everything(OWNER), given_by=SERVER)
        record_login(
            self.store, SERVER, operation="owner_link", because="the first owner of a server", made=f"grant {grant.id}"
        )
        return f"{base_url.rstrip('/')}/login#{self.new_login_secret(OWNER, given_by=SERVER)}"

    def _is_unclaimed(self) -> bool:
        """Whether nobody has ever logged in as the owner."""
        return all(held.kind == Kind.LOGIN and not held.used_at for held in list_credentials(self.store, OWNER))

    def new_login_secret(self, principal: str, *, given_by: str) -> str:
        """The text of a new credential that is valid for one login within a day."""
        token, made = self._add(principal, Kind.LOGIN, label="login", days=LINK_DAYS, given_by=given_by)
        record_login(
            self.store,
            given_by,
            operation="login_link",
            because=f"a link for one login of {principal}",
            made=f"credential {made.id}",
        )
        return token.text

    def log_in(self, secret: str) -> str:
        """The text of a new credential for a browser, for a login link, an API key or the link to a session.

        A login link is good for the first caller alone. What the browser gets for a key or a link ends with it.
        """
        token = parse_token(secret)
        credential, limits = self._verify(token)
        if credential.kind == Kind.LOGIN:
            return self.redeem(secret)
        if credential.kind not in BEARER:
            raise Unauthenticated("this is not a login link, an API key or a link to a session; ask for a new one")
        self._holder_context(credential, limits)
        return self._new_browser(credential.principal, f"with a {credential.kind}", used=credential)

    def redeem(self, secret: str) -> str:
        """Exchange the secret of a login link for the credential of a browser; only the first caller gets one."""
        credential, _ = self._verify(parse_token(secret))
        if not redeem_login(self.store, credential.id):
            raise _invalid()
        if credential.given_by == SERVER:
            self._end_owner_links()
        return self._new_browser(credential.principal, "with a login link", used=credential)

    def _end_owner_links(self) -> None:
        """End the links that earlier starts of a server showed, and that whoever reads its log could open."""
        now = self.store.now()
        for held in list_credentials(self.store, OWNER):
            if held.kind == Kind.LOGIN and held.given_by == SERVER and not 0 < held.until <= now:
                end_credential(self.store, held.id, now)

    def new_browser_key(self, principal: str, because: str = "", facts: Mapping[str, Any] = NO_FACTS) -> str:
        """The text of a new credential for the browser of a principal who was just authenticated."""
        return self._new_browser(principal, because or "authenticated", facts=facts)

    def log_out(self, secret: str) -> None:
        """End a browser's credential, and all that were made with it."""
        credential, _ = self._verify(parse_token(secret))
        if credential.kind in COOKIE:
            end_credential(self.store, credential.id, self.store.now())
            record_login(
                self.store, credential.principal, operation="logout", because="logged out", credential=credential.id
            )

    def close(self) -> None:
        for views in self._views:
            views.close()
        self.store.close()

    # Parts ------------------------------------------------------------------------------------------------------------

    def _new_browser(
        self, principal: str, because: str, used: Credential | None = None, facts: Mapping[str, Any] = NO_FACTS
    ) -> str:
        parent = "" if used is None or used.kind == Kind.LOGIN else used.id
        token, made = self._add(
            principal, Kind.BROWSER, label="browser", days=BROWSER_DAYS, given_by=principal, parent=parent
        )
        record_login(
            self.store, principal, because=because, credential=used.id if used else "",
            made=f"credential {made.id}", facts=facts,
        )  # fmt: skip
        return token.text

    def _add(
        self, principal: str, kind: Kind, *, label: str, days: int, given_by: str, parent: str = ""
    ) -> tuple[Token, Credential]:
        token = new_token(kind if kind == Kind.BROWSER else "link")
        until = self.store.now() + days * DAY_US
        ancestors = credential_chain(self.store, parent) if parent else []
        made = Credential(
            id=token.id, kind=kind, parent=parent, principal=principal, hash=token.hash, scopes="", project="",
            label=label, at=0, until=earliest(until, *(ancestor.until for ancestor in ancestors)), used_at=0,
            given_by=given_by,
        )  # fmt: skip
        add_credential(self.store, made)
        return token, made

    def _verify(self, token: Token) -> tuple[Credential, Limits]:
        """The credential with this secret, and what it is good for."""
        chain = credential_chain(self.store, token.id)
        # Every failure takes the same work and has the same message, so that neither reveals which credentials exist.
        matches = token.matches(chain[0].hash if chain else bytes(32))
        limits = limits_of(chain, self.store.now())
        if limits is None or not matches:
            raise _invalid()
        return chain[0], limits

    def _holder_context(self, credential: Credential, limits: Limits) -> Context:
        grants = tuple(list_grants_for(self.store, credential.principal))
        if credential.kind == Kind.LINK and credential.parent:
            grants = tuple(grant for grant in grants if self._may_still_share(credential.given_by, grant))
        self._record_use(credential)
        used = UsedCredential(
            id=credential.id, kind=credential.kind, until=limits.until, budget=limits.budget or credential.principal
        )
        return self._context(
            credential.principal, grants=grants, scopes=limits.scopes, key_project=limits.project, credential=used
        )

    def _may_still_share(self, giver: str, grant: Grant) -> bool:
        """Whether who made a link still has the rights that it gives."""
        teams, now = list_teams_of(self.store, giver), self.store.now()
        caller = Caller(giver, list_grants_for(self.store, giver), teams=teams, now=now)
        try:
            target = target_of(self.store.session(grant.session))
        except NotFound:
            return False
        return all(caller.rule(right, target).allowed for right in ROLES["viewer"])

    def _record_use(self, credential: Credential) -> None:
        now = self.store.now()
        if credential.used_at < now - USE_PRECISION_US:
            record_use(self.store, credential.id, now)

    def _context(
        self,
        principal: str,
        *,
        grants: tuple[Grant, ...] | None = None,
        scopes: frozenset[Right] | None = None,
        key_project: str = "",
        credential: UsedCredential = OWN_MACHINE,
    ) -> Context:
        if grants is None:
            grants = tuple(list_grants_for(self.store, principal))
        return Context(
            store=self.store.restricted_to(self._accessible_projects(principal, grants)), unrestricted=self.store,
            principal=principal, grants=grants,
            teams=frozenset(list_teams_of(self.store, principal)), scopes=scopes, key_project=key_project,
            credential=credential, machine=self._machine, home=self._home, answers_leave_machine=True,
            known_sessions={}, open_server=self._open_server, _views=self._shared_views(),
        )  # fmt: skip

    def _accessible_projects(self, principal: str, grants: tuple[Grant, ...]) -> str:
        """The keys of the projects that row-level security lets a principal see, by commas; `*` is all."""
        if any(not grant.project and not grant.session for grant in grants):
            return "*"
        keys = keys_by_name(self.store)
        named = {key for grant in grants for key in keys.get(grant.project, ())}
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

    def _cache(self, cache_key: tuple[str, ...], context: Context, began: float) -> Context:
        """Remember a context. It is as old as the moment when reading its rights began, however slow the store is."""
        with self._lock:
            if len(self._contexts) >= MOST_CONTEXTS:
                self._contexts.clear()
            self._contexts[cache_key] = (began + self._fresh_seconds, context)
        return context


def _invalid() -> Unauthenticated:
    return Unauthenticated("this is not valid: unknown, used, expired or revoked; ask for a new one")
