"""clew as a resource server of OAuth 2.1: which access tokens it accepts, and how a client learns where to get one.

A token is valid if the provider made it for this server (its audience), and only for the rights that its scopes name.
It is verified here and never forwarded.
"""

import time
from collections.abc import Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clew.model.access import Right
from clew.model.errors import Unauthenticated
from clew.server.http.problems import Refused
from clew.server.login.oidc_provider import Provider, Unreachable
from clew.server.login.oidc_tokens import LEEWAY_SECONDS, SCOPE_PREFIX, Untrusted, check_access_token, scopes_of
from clew.server.options import Oidc
from clew.service.access.authenticator import Authenticator
from clew.service.access.principals import login_of
from clew.service.kernel.context import Context
from clew.store.access.principals import find_principal_by_login

WELL_KNOWN = "/.well-known/oauth-protected-resource"
MCP = "/mcp"
# What an agent needs to read and to write; it can ask for more.
USUAL_RIGHTS = (Right.SEE, Right.READ, Right.APPEND, Right.FORK)
FRESH_SECONDS = 0.5
MOST_CACHED = 10_000
NO_SCOPE = [(b"www-authenticate", b'Bearer error="insufficient_scope"')]


class Resource:
    """Authenticates access tokens."""

    def __init__(
        self,
        authenticator: Authenticator,
        oidc: Oidc,
        provider: Provider,
        *,
        url: str,
        report: Callable[[Exception], None],
    ) -> None:
        """`url` is the address of this server; `report` takes errors that its operator should see."""
        self._authenticator = authenticator
        self._oidc = oidc
        self._provider = provider
        self._url = url
        self._report = report
        self._contexts: dict[str, tuple[float, Context]] = {}

    def authenticate_bearer(self, token: str) -> Context:
        """The context of the holder of an access token. It may ask the provider, so it runs in a thread."""
        until, cached = self._contexts.get(token, (0.0, None))
        if cached is not None and until > time.monotonic():
            return cached
        context = self._verify(token)
        if len(self._contexts) >= MOST_CACHED:
            self._contexts.clear()
        self._contexts[token] = (time.monotonic() + FRESH_SECONDS, context)
        return context

    def _verify(self, token: str) -> Context:
        try:
            claims = self._provider.claims(token)
            subject = check_access_token(
                token, claims, issuer=self._oidc.issuer, audience=[self._url, self._url + MCP]
            )  # fmt: skip
        except Untrusted as error:
            raise Unauthenticated(f"this is neither an API key of clew nor a valid access token: {error}") from None
        except Unreachable as error:
            self._report(error)
            raise Refused(
                503, "unavailable", "the provider of logins cannot be reached just now; try again, or use an API key",
                [(b"retry-after", b"5")],
            ) from None  # fmt: skip
        scopes = scopes_of(claims)
        if not scopes:
            wanted = " ".join(map(_scope, USUAL_RIGHTS))
            raise Refused(403, "denied", f"this token has no scope of clew; ask for one with {wanted}", NO_SCOPE)
        principal = find_principal_by_login(self._authenticator.store, login_of(self._oidc.issuer, subject))
        if principal is None:
            raise Unauthenticated(
                "no principal has the login of this token; an owner can add one with its issuer and subject"
            )
        until = int((claims["exp"] + LEEWAY_SECONDS) * 1_000_000)
        return self._authenticator.access_token_context(token, principal.name, scopes=scopes, until=until)

    # Where tokens come from -------------------------------------------------------------------------------------------

    def routes(self) -> list[Route]:
        return [self._metadata_route(""), self._metadata_route(MCP)]

    def _metadata_route(self, path: str) -> Route:
        document = {
            "resource": self._url + path,
            "authorization_servers": [self._oidc.issuer],
            "scopes_supported": [_scope(right) for right in Right],
            "bearer_methods_supported": ["header"],
            "resource_name": "clew",
        }

        async def serve(request: Request) -> Response:
            request.scope["clew.exchange"].route = WELL_KNOWN + path
            return Response(msgspec.json.encode(document), media_type="application/json")

        return Route(WELL_KNOWN + path, serve, methods=["GET"])

    def with_challenges(self, app: ASGIApp) -> ASGIApp:
        """The application; its refusals of a token say where to get one (`WWW-Authenticate`)."""

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            async def send_with_challenge(message: Message) -> None:
                if message["type"] == "http.response.start" and message["status"] in (401, 403):
                    message["headers"] = [
                        (name, self._challenge(scope, value) if name == b"www-authenticate" else value)
                        for name, value in message["headers"]
                    ]
                await send(message)

            await app(scope, receive, send_with_challenge if scope["type"] == "http" else send)

        return serve

    def _challenge(self, scope: Scope, before: bytes) -> bytes:
        path = MCP if scope["path"] == MCP or scope["path"].startswith(MCP + "/") else ""
        parts = [f'resource_metadata="{self._url}{WELL_KNOWN}{path}"', f'scope="{" ".join(map(_scope, USUAL_RIGHTS))}"']
        if before == b"Bearer" and any(name == b"authorization" for name, _ in scope["headers"]):
            parts.insert(0, 'error="invalid_token"')
        return before + (b" " if before == b"Bearer" else b", ") + ", ".join(parts).encode("latin-1")


def _scope(right: Right) -> str:
    return f"{SCOPE_PREFIX}{right}"
