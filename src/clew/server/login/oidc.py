"""The login of people with an OpenID provider: authorization code with PKCE.

A login that has begun is one secret in a cookie of the browser that began it; state, nonce and verifier are derived
from it. So any process can finish the login, no other browser can, and none of the three reveals another. The page
after the login is fixed: nothing in a request chooses it.
"""

import asyncio
import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from clew.server.http.json_log import JsonLog
from clew.server.login import oidc_pages
from clew.server.login.identity import Identity
from clew.server.login.oauth_resource import Resource
from clew.server.login.oidc_principals import DisabledLogin, UnknownLogin, login_of_claims
from clew.server.login.oidc_provider import Provider, Unreachable, known_error
from clew.server.login.oidc_tokens import Claims, Untrusted, check_id_token, claims_of_one_source
from clew.server.options import Oidc
from clew.server.web.page_request import Page
from clew.server.web.routes import open_page
from clew.service.access.authenticator import Authenticator
from clew.service.kernel.context import Context

CALLBACK = "/login/callback"
LOGIN_SECONDS = 600


class OpenId:
    """What a provider adds to a server: the login of people, and access tokens of programs."""

    def __init__(self, authenticator: Authenticator, oidc: Oidc, log: JsonLog, *, url: str) -> None:
        self._authenticator = authenticator
        self._oidc = oidc
        self._log = log
        self._redirect_uri = url + CALLBACK
        self._name = urlsplit(oidc.issuer).netloc
        self._provider = Provider(oidc)
        self._resource = Resource(authenticator, oidc, self._provider, url=url, report=self._write_log)

    def authenticate_bearer(self, token: str) -> Context:
        return self._resource.authenticate_bearer(token)

    def with_challenges(self, app: ASGIApp) -> ASGIApp:
        return self._resource.with_challenges(app)

    def routes(self, identity: Identity) -> list[BaseRoute]:
        login = _Login(self, identity)
        return [
            Route("/login", login.page, methods=["GET"]),
            Route("/login/start", login.start, methods=["GET"]),
            Route(CALLBACK, login.callback, methods=["GET"]),
            *self._resource.routes(),
        ]

    # In a thread ------------------------------------------------------------------------------------------------------

    def url(self, attempt: "LoginAttempt") -> str:
        """The address of the provider's login page."""
        return self._provider.login_url(
            redirect_uri=self._redirect_uri, state=attempt.state, nonce=attempt.nonce,
            code_challenge=attempt.challenge, code_challenge_method="S256",
        )  # fmt: skip

    def key(self, attempt: "LoginAttempt", answer: Mapping[str, str]) -> str:
        """The key for the browser of the person that the provider's answer authenticates."""
        metadata = self._provider.metadata()
        issuer = answer.get("iss", "")
        if issuer != metadata.issuer and (issuer or metadata.authorization_response_iss_parameter_supported):
            raise Untrusted("the answer is from another provider (iss)")
        if "error" in answer or not answer.get("code"):
            raise Untrusted(f"the provider answered with {known_error(answer.get('error'))}")
        tokens = self._provider.redeem(answer["code"], verifier=attempt.verifier, redirect_uri=self._redirect_uri)
        claims = self._provider.claims(tokens.id_token)
        check_id_token(claims, issuer=metadata.issuer, client_id=self._oidc.client_id, nonce=attempt.nonce)
        if self._needs_userinfo(claims):
            more = self._provider.userinfo(tokens.access_token)
            claims = claims_of_one_source(claims, more, self._oidc.team_claim) if more else claims
        login = login_of_claims(self._authenticator.store, self._oidc, claims)
        return self._authenticator.new_browser_key(login.principal, login.because, login.facts)

    def _needs_userinfo(self, claims: Claims) -> bool:
        """Whether an ID token lacks a claim that decides access; some providers put it only into userinfo."""
        needed = [self._oidc.team_claim] if self._oidc.team_claim else []
        return any(name not in claims for name in [*needed, *(["email"] if self._oidc.domains else [])])

    # Answers ----------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The provider's name on pages."""
        return self._name

    def refusal(self, error: Exception, request: str) -> Page:
        """The page for a failed login. The reason is for the server's log."""
        match error:
            case UnknownLogin():
                return oidc_pages.unknown_login(error.issuer, error.subject)
            case DisabledLogin():
                return oidc_pages.disabled_login()
            case Untrusted():
                self._write_log(error, request, level="warning")
                return oidc_pages.untrusted(request)
            case _:
                self._write_log(error, request)
                return oidc_pages.unreachable(self._name)

    def _write_log(self, error: Exception, request: str = "", *, level: str = "error") -> None:
        self._log.write("login", level=level, request=request, message=str(error))


class LoginAttempt(NamedTuple):
    """A login that has begun: one secret, and the values derived from it."""

    secret: str

    @property
    def state(self) -> str:
        return self._derived("state")

    @property
    def nonce(self) -> str:
        return self._derived("nonce")

    @property
    def verifier(self) -> str:
        return self._derived("verifier")

    @property
    def challenge(self) -> str:
        return _base64(hashlib.sha256(self.verifier.encode()).digest())

    def is_answered_by(self, state: str) -> bool:
        return bool(self.secret) and hmac.compare_digest(self.state.encode(), state.encode("utf-8", "replace"))

    def _derived(self, name: str) -> str:
        return _base64(hmac.digest(self.secret.encode("utf-8", "replace"), name.encode(), "sha256"))

    def __repr__(self) -> str:
        return "<attempt>"


class _Login:
    """The routes of a login."""

    def __init__(self, openid: OpenId, identity: Identity) -> None:
        self._openid = openid
        self._identity = identity
        self._cookie = f"{identity.cookie}-login"

    async def page(self, request: Request) -> Response:
        _set_route(request, "/login")
        return open_page(request, oidc_pages.login(self._openid.name))

    async def start(self, request: Request) -> Response:
        id = _set_route(request, "/login/start")
        attempt = LoginAttempt(secrets.token_urlsafe(32))
        try:
            url = await asyncio.to_thread(self._openid.url, attempt)
        except Unreachable as error:
            return open_page(request, self._openid.refusal(error, id))
        return RedirectResponse(url, 303, headers={"set-cookie": self._set_cookie(attempt.secret)})

    async def callback(self, request: Request) -> Response:
        id = _set_route(request, CALLBACK)
        attempt = LoginAttempt(request.cookies.get(self._cookie, ""))
        # A login is finished once: the browser forgets it, whether it succeeded or not.
        forget = self._set_cookie("")
        if not attempt.is_answered_by(request.query_params.get("state", "")):
            return open_page(request, oidc_pages.unknown_attempt())
        try:
            key = await asyncio.to_thread(self._openid.key, attempt, dict(request.query_params))
        except (UnknownLogin, DisabledLogin, Untrusted, Unreachable) as error:
            response = open_page(request, self._openid.refusal(error, id))
        else:
            response = RedirectResponse("/", 303)
            response.headers.append("set-cookie", self._identity.set_cookie(key))
        response.headers.append("set-cookie", forget)
        return response

    def _set_cookie(self, secret: str) -> str:
        secure = "; Secure" if self._identity.options.is_secure else ""
        age = LOGIN_SECONDS if secret else 0
        return f"{self._cookie}={secret}; Path=/; HttpOnly; SameSite=Lax; Max-Age={age}{secure}"


def _set_route(request: Request, route: str) -> str:
    """Set the route that logs and metrics record; returns the id of the request."""
    exchange = request.scope["clew.exchange"]
    exchange.route = route
    return str(exchange.id)


def _base64(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
