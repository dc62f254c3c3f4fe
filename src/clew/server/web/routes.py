"""Routes that are not operations: pages for people, the login, the description of the API, health and metrics."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from importlib.resources import files
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from clew.model.access import Right, Target
from clew.model.errors import ClewError, Conflict, Denied, InvalidInput, Unauthenticated
from clew.server.http import request_body
from clew.server.http.answer_text import AnswerText, NeedsNoMasking, masked, unmasked
from clew.server.http.compression import compressed
from clew.server.http.exchange import Exchange
from clew.server.http.lazy_mount import LazyMount
from clew.server.http.metrics import Metrics
from clew.server.http.openapi import openapi
from clew.server.http.operations import Operations, no_route
from clew.server.http.problems import STATUS
from clew.server.login.identity import Identity
from clew.server.options import LOOPBACK_NAMES
from clew.server.web import pages
from clew.server.web.page_request import PageRequest
from clew.server.web.transcript import transcript
from clew.service.kernel.call import call
from clew.service.kernel.context import Context

ASSETS = {
    "clew.css": "text/css",
    "clew.js": "text/javascript",
    "docs.js": "text/javascript",
    "login.js": "text/javascript",
}
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
PAGE_HEADERS = {
    "content-security-policy": POLICY,
    # With `no-referrer` a browser sends the Origin `null` when the form to log out is posted.
    "referrer-policy": "same-origin",
    "x-frame-options": "DENY",
    # No window of another site keeps a handle on a page of ours.
    "cross-origin-opener-policy": "same-origin",
}
FORWARDED = (b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip")
LONGEST_LOGIN = 4096

Endpoint = Callable[[Request], Awaitable[Response]]


class Web:
    """The routes beside /v1."""

    def __init__(self, operations: Operations, identity: Identity, metrics: Metrics) -> None:
        self._operations = operations
        self._identity = identity
        self._metrics = metrics
        self._description = b""

    def routes(self, mcp: LazyMount | None) -> list[BaseRoute]:
        routes: list[BaseRoute] = [
            self._route("/", self._list),
            self._route("/sessions/{session}", self._transcript),
            self._route("/login", self._login),
            self._route("/login", self._redeem, "POST"),
            self._route("/logout", self._logout, "POST"),
            self._route("/docs", self._docs),
            self._route("/openapi.json", self._openapi),
            self._route("/errors/{code}", self._error),
            self._route("/assets/{name}", self._asset),
            self._route("/healthz", self._healthy),
            self._route("/readyz", self._ready),
            self._route("/metrics", self._metrics_text),
        ]
        if mcp is not None:
            routes += [Route("/mcp", mcp), Mount("/mcp", app=mcp)]  # A mount takes only what is below its path.
        return routes

    def _route(self, path: str, endpoint: Endpoint, method: str = "GET") -> Route:
        async def serve(request: Request) -> Response:
            _exchange(request).route = path
            return await endpoint(request)

        return Route(path, serve, methods=[method])

    # Pages ------------------------------------------------------------------------------------------------------------

    async def _list(self, request: Request) -> Response:
        return await self._page(request, pages.sessions)

    async def _transcript(self, request: Request) -> Response:
        return await self._page(request, transcript)

    async def _page(self, request: Request, render: Callable[[PageRequest], str]) -> Response:
        """A page for callers who may see it; others are sent to the login."""
        exchange = _exchange(request)
        try:
            credential = self._operations.credential(exchange)
            text, status = await self._operations.in_turn(
                credential, partial(self._render, exchange, credential, request, render), request.receive
            )
        except Unauthenticated:
            return RedirectResponse("/login", 303)
        return _html(request, text, status)

    def _render(
        self, exchange: Exchange, credential: Any, request: Request, render: Callable[[PageRequest], str]
    ) -> tuple[str, int]:
        context = self._operations.admit(exchange, credential)
        page_request = PageRequest(
            call=lambda name, **arguments: _masked_result(context, name, arguments), path=dict(request.path_params),
            query=dict(request.query_params), has_login=credential.how == "cookie",
        )  # fmt: skip
        try:
            return render(page_request), 200
        except Unauthenticated:
            raise
        except ClewError as error:
            if STATUS.get(error.code, 500) >= 500:
                raise
            text = masked(context, str(error).encode()).decode()
            return pages.refusal(text, has_login=page_request.has_login), STATUS[error.code]

    # Login ------------------------------------------------------------------------------------------------------------

    async def _login(self, request: Request) -> Response:
        return _html(request, pages.login(), 200)

    async def _redeem(self, request: Request) -> Response:
        """Set the cookie of this browser, for the secret of a login link or for an API key."""
        exchange = _exchange(request)
        self._identity.check_origin(exchange.headers, exchange.method)
        if exchange.headers.get(b"content-type", b"").split(b";")[0] != b"application/json":
            raise InvalidInput("expected a JSON object with a token")
        body = await request_body.read(
            request.receive, exchange.headers, most=LONGEST_LOGIN, seconds=self._identity.options.body_seconds
        )
        try:
            login = msgspec.json.decode(body, type=_Login)
        except msgspec.DecodeError:
            raise InvalidInput("expected a JSON object with a token") from None
        key = await self._operations.in_thread(self._log_in, exchange, login)
        return Response(b"{}", media_type="application/json", headers={"set-cookie": self._identity.set_cookie(key)})

    def _log_in(self, exchange: Exchange, login: "_Login") -> str:
        """A link that somebody sends must not exchange, unseen, who a person is."""
        present = None if login.replace else self._identity.logged_in(exchange.headers)
        if present:
            raise Conflict(f"this browser is logged in as {present}; log out first, or confirm that you change it")
        return self._browser_key(login.token)

    def _browser_key(self, token: str) -> str:
        if self._identity.is_own_secret(token):
            return token
        if self._identity.options.is_own:
            raise Unauthenticated("this is not the link of this server; open the one that it printed when it started")
        return self._identity.authenticator.log_in(token)

    async def _logout(self, request: Request) -> Response:
        headers = _exchange(request).headers
        self._identity.check_origin(headers, "POST", needed=True)
        await self._operations.in_thread(self._identity.log_out, headers)
        return RedirectResponse("/login", 303, headers={"set-cookie": self._identity.set_cookie("")})

    # The API about itself ---------------------------------------------------------------------------------------------

    async def _docs(self, request: Request) -> Response:
        return _html(request, pages.docs(), 200)

    async def _openapi(self, request: Request) -> Response:
        if not self._description:
            self._description = msgspec.json.encode(
                openapi(self._operations.endpoints, url=self._identity.options.public_url)
            )
        return _compressed(request, unmasked(self._description, NeedsNoMasking.OWN_WORDS), "application/json")

    async def _error(self, request: Request) -> Response:
        code = request.path_params["code"]
        if code not in STATUS:
            raise no_route(set())
        return _html(request, pages.error(code, STATUS[code]), 200)

    async def _asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in ASSETS:
            raise no_route(set())
        data = (files("clew.server.web") / "assets" / name).read_bytes()
        return _compressed(
            request, unmasked(data, NeedsNoMasking.OWN_WORDS), ASSETS[name], {"cache-control": "no-cache"}
        )

    # Health and metrics -----------------------------------------------------------------------------------------------

    async def _healthy(self, request: Request) -> Response:
        return Response(b'{"healthy":true}', media_type="application/json")

    async def _ready(self, request: Request) -> Response:
        await self._operations.in_thread(self._operations.store.last_position)
        return Response(b'{"ready":true}', media_type="application/json")

    async def _metrics_text(self, request: Request) -> Response:
        exchange = _exchange(request)
        if self._identity.options.is_own or not _is_local(request, exchange):
            credential = self._operations.credential(exchange)
            context = await self._operations.in_thread(self._operations.admit, exchange, credential)
            ruling = context.caller.rule(Right.AUDIT, Target())
            if not ruling.allowed:
                raise Denied(f"metrics were refused: {ruling.because}", right=str(Right.AUDIT))
        text = await self._operations.in_thread(self._metrics.text)
        return Response(text, media_type="text/plain; version=0.0.4")


class _Login(msgspec.Struct, frozen=True):
    """What a browser sends to log in; `replace` says that its person confirmed to end the present login."""

    token: str
    replace: bool = False


def _exchange(request: Request) -> Exchange:
    exchange: Exchange = request.scope["clew.exchange"]
    return exchange


def _is_local(request: Request, exchange: Exchange) -> bool:
    """Whether a program on this machine asks for itself, and not as a proxy for somebody else."""
    host = exchange.headers.get(b"host", b"").decode("latin-1").rpartition(":")[0]
    is_loopback = request.client is not None and request.client.host in ("127.0.0.1", "::1")
    return is_loopback and host in LOOPBACK_NAMES and not any(header in exchange.headers for header in FORWARDED)


def _masked_result(context: Context, name: str, arguments: Mapping[str, Any]) -> Any:
    """The result of an operation as plain values, with secrets masked: pages are made from nothing else."""
    from clew.service.kernel.results import to_json

    return msgspec.json.decode(masked(context, to_json(call(context, name, arguments))))


def _html(request: Request, text: str, status: int) -> Response:
    # Pages are made from `PageRequest`, whose results are masked, and from our own words.
    body = unmasked(text.encode("utf-8", "replace"), NeedsNoMasking.MASKED_BEFORE)
    response = _compressed(request, body, "text/html; charset=utf-8", PAGE_HEADERS)
    response.status_code = status
    return response


def _compressed(
    request: Request, body: AnswerText, media_type: str, headers: Mapping[str, str] | None = None
) -> Response:
    body, more = compressed(body, _exchange(request).headers.get(b"accept-encoding", b""))
    encoding = {name.decode(): value.decode() for name, value in more}
    return Response(body, media_type=media_type, headers={**(headers or {}), **encoding})
