"""clew as a resource server of OAuth 2.1: which access tokens it takes, and where a client learns how to get one.

A token counts when the provider made it for this server (its audience), and for no more than the rights that its scopes
name. It is looked at here and sent to nobody.
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
from clew.server.login.oidc_tokens import SCOPE_PREFIX, Untrusted, check_access_token, scopes_of
from clew.server.options import Oidc
from clew.service.access.authenticator import Authenticator
from clew.service.access.principals import login_of
from clew.service.kernel.context import Context
from clew.store.access.principals import find_principal_by_login

WELL_KNOWN = "/.well-known/oauth-protected-resource"
MCP = "/mcp"
# What an agent needs to read and to write; it can ask for more.
USUAL = (Right.SEE, Right.READ, Right.APPEND, Right.FORK)
FRESH_SECONDS = 0.5
MOST_REMEMBERED = 10_000
NO_SCOPE = [(b"www-authenticate", b'Bearer error="insufficient_scope"')]


class Resource:
    """Takes access tokens."""

    def __init__(
        self,
        authenticator: Authenticator,
        oidc: Oidc,
        provider: Provider,
        *,
        url: str,
        tell: Callable[[Exception], None],
    ) -> None:
        """`url` is what this server is called, `tell` gets what its operator should know."""
        self._authenticator = authenticator
        self._oidc = oidc
        self._provider = provider
        self._url = url
        self._tell = tell
        self._remembered: dict[str, tuple[float, Context]] = {}

    def authenticate_bearer(self, token: str) -> Context:
        """The context of whoever holds an access token; in a thread."""
        until, known = self._remembered.get(token, (0.0, None))
        if known is not None and until > time.monotonic():
            return known
        context = self._entered(token)
        if len(self._remembered) >= MOST_REMEMBERED:
            self._remembered.clear()
        self._remembered[token] = (time.monotonic() + FRESH_SECONDS, context)
        return context

    def _entered(self, token: str) -> Context:
        try:
            claims = self._provider.claims(token)
            subject = check_access_token(
                token, claims, issuer=self._oidc.issuer, audience=[self._url, self._url + MCP]
            )  # fmt: skip
        except Untrusted as error:
            raise Unauthenticated(f"this is no API key of clew, and as an access token not good: {error}") from None
        except Unreachable as error:
            self._tell(error)
            raise Refused(
                503, "unavailable", "the provider of logins cannot be reached just now; try again, or use an API key",
                [(b"retry-after", b"5")],
            ) from None  # fmt: skip
        scopes = scopes_of(claims)
        if not scopes:
            wanted = " ".join(map(_scope, USUAL))
            raise Refused(403, "denied", f"this token has no scope of clew; ask for one with {wanted}", NO_SCOPE)
        there = find_principal_by_login(self._authenticator.store, login_of(self._oidc.issuer, subject))
        if there is None:
            raise Unauthenticated(
                "nobody has added the login of this token; an owner can, with `clew principal add` and its issuer and "
                "subject"
            )
        return self._authenticator.principal_context(there.name, scopes)

    # Where tokens come from -------------------------------------------------------------------------------------------

    def routes(self) -> list[Route]:
        return [self._about(""), self._about(MCP)]

    def _about(self, path: str) -> Route:
        told = {
            "resource": self._url + path,
            "authorization_servers": [self._oidc.issuer],
            "scopes_supported": [_scope(right) for right in Right],
            "bearer_methods_supported": ["header"],
            "resource_name": "clew",
        }

        async def tell(request: Request) -> Response:
            request.scope["clew.exchange"].route = WELL_KNOWN + path
            return Response(msgspec.json.encode(told), media_type="application/json")

        return Route(WELL_KNOWN + path, tell, methods=["GET"])

    def with_challenges(self, app: ASGIApp) -> ASGIApp:
        """The application, which tells whoever is refused for a token's sake where tokens come from."""

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            async def tell(message: Message) -> None:
                if message["type"] == "http.response.start" and message["status"] in (401, 403):
                    message["headers"] = [
                        (name, self._challenge(scope, value) if name == b"www-authenticate" else value)
                        for name, value in message["headers"]
                    ]
                await send(message)

            await app(scope, receive, tell if scope["type"] == "http" else send)

        return serve

    def _challenge(self, scope: Scope, before: bytes) -> bytes:
        path = MCP if scope["path"] == MCP or scope["path"].startswith(MCP + "/") else ""
        parts = [f'resource_metadata="{self._url}{WELL_KNOWN}{path}"', f'scope="{" ".join(map(_scope, USUAL))}"']
        if before == b"Bearer" and any(name == b"authorization" for name, _ in scope["headers"]):
            parts.insert(0, 'error="invalid_token"')
        return before + (b" " if before == b"Bearer" else b", ") + ", ".join(parts).encode("latin-1")


def _scope(right: Right) -> str:
    return f"{SCOPE_PREFIX}{right}"
