"""Routes that are not operations: pages for people, the login, the description of the API, health and metrics."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from clew.model.access import Right, Target
from clew.model.errors import ClewError, Conflict, Denied, InvalidInput, TooLarge, Unauthenticated
from clew.server.http import request_body
from clew.server.http.answer_text import AnswerText, NeedsNoMasking, masked, unmasked
from clew.server.http.arguments import pairs
from clew.server.http.compression import compressed
from clew.server.http.exchange import Exchange
from clew.server.http.lazy_mount import LazyMount
from clew.server.http.metrics import Metrics
from clew.server.http.openapi import openapi
from clew.server.http.operations import Operations, no_route
from clew.server.http.problems import STATUS, Headers, Refusal, Refused
from clew.server.login.identity import Identity
from clew.server.options import LOOPBACK_NAMES
from clew.server.web import acting, images, results, static_files
from clew.server.web.action import Action
from clew.server.web.navigation import ACTIONS, PAGES
from clew.server.web.page_request import Done, Download, Made, Page, PageRequest, Shell
from clew.server.web.pages import others
from clew.server.web.rendering import render
from clew.service.kernel.call import call
from clew.service.kernel.context import Context
from clew.service.sessions.objects import OpenedObject

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
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
LONGEST_FORM = 512 * 1024
FORM = b"application/x-www-form-urlencoded"
THEME = "clew-theme"
THEMES = ("light", "dark")
# The action that led to the next page; that page says what was done, once.
DONE = "clew-done"
DONE_SECONDS = 30
BY_KEY = {action.key: action for action in ACTIONS}

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
            *(self._route(entry.path, partial(self._page, entry.page)) for entry in PAGES),
            *(self._route(action.path, partial(self._ask, action)) for action in ACTIONS if action.asks),
            *(self._route(action.path, partial(self._act, action), "POST") for action in ACTIONS),
            self._route("/sessions/{session}/events/{seq}/images/{object}", self._image),
            self._route("/sessions/{session}/workspace/image", self._workspace_image),
            self._route("/login", self._login),
            self._route("/login", self._redeem, "POST"),
            self._route("/logout", self._logout, "POST"),
            self._route("/docs", self._docs),
            self._route("/openapi.json", self._openapi),
            self._route("/errors/{code}", self._error),
            self._route("/assets/{name:path}", self._asset),
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

    async def _page(self, page: Callable[[PageRequest], Page | Download], request: Request) -> Response:
        """A page for callers who may see it; others are sent to the login."""
        return await self._answer(request, page)

    async def _ask(self, action: Action, request: Request) -> Response:
        """The page that says what an action will do."""
        return await self._answer(request, partial(acting.ask, action))

    async def _act(self, action: Action, request: Request) -> Response:
        """Do what a form asks for. A form of another site is refused with its credential, before its body is read."""
        exchange = _exchange(request)
        try:
            self._operations.credential(exchange)
        except Unauthenticated:
            return RedirectResponse("/login", 303)
        if exchange.headers.get(b"content-type", b"").split(b";")[0].strip().lower() != FORM:
            raise InvalidInput("expected the fields of a form")
        body = await request_body.read(
            request.receive, exchange.headers, most=LONGEST_FORM, seconds=self._identity.options.body_seconds
        )
        form = tuple(pairs(body))

        def act(about: PageRequest) -> Page | Done:
            run = partial(results.result, _context(exchange))
            return acting.act(action, about._replace(given=form), store=self._operations.store, run=run)

        return await self._answer(request, act)

    async def _answer(self, request: Request, make: Callable[[PageRequest], Made]) -> Response:
        exchange = _exchange(request)
        try:
            credential = self._operations.credential(exchange)
            made, text = await self._operations.in_turn(
                credential, partial(self._made, exchange, credential, request, make), request.receive
            )
        except Unauthenticated:
            return RedirectResponse("/login", 303)
        if isinstance(made, Done):
            return _went(request, made, text)
        if isinstance(made, Download):
            return _download(made)
        answer = _html(request, text, made.status)
        if DONE in request.cookies and not _is_fragment(request):
            answer.set_cookie(DONE, "", max_age=0, httponly=True, samesite="lax")
        return answer

    def _made(
        self,
        exchange: Exchange,
        credential: Any,
        request: Request,
        make: Callable[[PageRequest], Made],
    ) -> tuple[Made, str]:
        """A page and its text, in a thread."""
        context = self._operations.admit(exchange, credential)
        now = context.store.now()

        def told(error: ClewError) -> str:
            return masked(context, str(error).encode()).decode()

        is_own = self._identity.options.is_own
        address = self._identity.options.public_url or f"{request.url.scheme}://{request.url.netloc}"
        page_request = PageRequest(
            call=partial(results.read, context, is_own), path=dict(request.path_params),
            query=dict(request.query_params), given=tuple(request.query_params.multi_items()),
            principal=context.principal, now=now, told=told, address=address.rstrip("/"), is_own=is_own,
            examine=partial(results.findings, context),
        )  # fmt: skip
        made: Made
        try:
            made = make(page_request)
        except Unauthenticated:
            raise
        except ClewError as error:
            if STATUS.get(error.code, 500) >= 500:
                raise
            made = others.problem(told(error), STATUS[error.code])
        shell = _shell(request, principal=context.principal, has_login=credential.how == "cookie")
        if isinstance(made, Download):
            return made, ""
        if isinstance(made, Done):
            return made, render(others.done(made, is_anew=BY_KEY[made.key].is_dangerous), shell, now=now)
        return made, render(made, shell, now=now)

    async def _image(self, request: Request) -> Response:
        """An image that an event names, if its bytes are one; a browser shows it in the page of the session."""
        exchange = _exchange(request)
        credential = self._operations.credential(exchange)
        return await self._operations.in_turn(
            credential, partial(self._read_image, exchange, credential, request), request.receive
        )

    def _read_image(self, exchange: Exchange, credential: Any, request: Request) -> Response:
        context = self._operations.admit(exchange, credential)
        session, seq, object = (request.path_params[name] for name in ("session", "seq", "object"))
        if not (seq.isascii() and seq.isdigit() and len(seq) < 16):
            raise InvalidInput(f"{seq[:40]!r} is not the number of an event")
        opened: OpenedObject = call(context, "object_open", {"session": session, "object": object, "at": int(seq)})
        return _image(exchange, opened)

    async def _workspace_image(self, request: Request) -> Response:
        """An image among the files of a session, if its bytes are one."""
        exchange = _exchange(request)
        credential = self._operations.credential(exchange)
        return await self._operations.in_turn(
            credential, partial(self._read_workspace_image, exchange, credential, request), request.receive
        )

    def _read_workspace_image(self, exchange: Exchange, credential: Any, request: Request) -> Response:
        context = self._operations.admit(exchange, credential)
        at, path = (request.query_params.get(name, "") for name in ("at", "path"))
        if not (at.isascii() and at.isdigit() and 0 < len(at) < 16):
            raise InvalidInput(f"{at[:40]!r} is not the number of an event")
        asked = {"session": request.path_params["session"], "path": path, "at": int(at)}
        return _image(exchange, call(context, "workspace_open", asked))

    # Login ------------------------------------------------------------------------------------------------------------

    async def _login(self, request: Request) -> Response:
        return open_page(request, others.login())

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
        return open_page(request, others.docs())

    async def _openapi(self, request: Request) -> Response:
        if not self._description:
            self._description = msgspec.json.encode(
                openapi(self._operations.endpoints, url=self._identity.options.public_url)
            )
        body, headers = _compressed(request, unmasked(self._description, NeedsNoMasking.OWN_WORDS))
        return Response(body, headers=headers, media_type="application/json")

    async def _error(self, request: Request) -> Response:
        code = request.path_params["code"]
        if code not in STATUS:
            raise no_route(set())
        return open_page(request, others.error(code, STATUS[code]))

    async def _asset(self, request: Request) -> Response:
        path = request.path_params["name"]
        digest, _, name = path.partition("/")
        known = static_files.static_files()
        if path in known or name not in known:
            name, digest = path, ""
        if name not in known:
            raise no_route(set())
        # A page from before an update asks for a file under the address that the file had then.
        lasts = static_files.FOREVER if digest == static_files.digest() else static_files.CHECKED
        return _static(request, name, lasts)

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


def _context(exchange: Exchange) -> Context:
    if exchange.context is None:
        raise AssertionError("nobody is admitted yet")
    return exchange.context


def _shell(request: Request, *, principal: str = "", has_login: bool = False) -> Shell:
    theme = request.cookies.get(THEME, "")
    is_fragment = _is_fragment(request)
    action = BY_KEY.get(request.cookies.get(DONE, "")) if not is_fragment else None
    return Shell(
        path=request.url.path, principal=principal, has_login=has_login, theme=theme if theme in THEMES else "",
        is_fragment=is_fragment, done=action.done if action else "",
    )  # fmt: skip


def _is_fragment(request: Request) -> bool:
    return request.headers.get("hx-request") == "true"


def _image(exchange: Exchange, opened: OpenedObject) -> Response:
    """An object as an image, if its bytes are one."""
    if opened.info.size > images.MOST_BYTES:
        raise TooLarge(f"this image has {opened.info.size:,} bytes; pages show up to {images.MOST_BYTES:,}")
    tag = f'"{opened.info.digest}"'
    if tag in exchange.headers.get(b"if-none-match", b"").decode("latin-1"):
        return Response(b"", 304, {**images.HEADERS, "etag": tag})
    data = b"".join(opened.pieces)
    media_type = images.raster_type(data)
    if not media_type:
        raise Refused(415, "invalid_input", f"object {opened.info.digest[:16]} is not an image that pages show")
    body = unmasked(data, NeedsNoMasking.MASKED_BEFORE)
    return Response(body, headers={**images.HEADERS, "etag": tag}, media_type=media_type)


def _download(made: Download) -> Response:
    """A file to keep. What it holds is never shown as a page of this server."""
    headers = {**PAGE_HEADERS, "content-disposition": f'attachment; filename="{made.name}"'}
    body = unmasked(made.data, NeedsNoMasking.MASKED_BEFORE)
    return Response(body, headers=headers, media_type="application/octet-stream")


def _went(request: Request, done: Done, text: str) -> Response:
    """Where the browser goes after an action: a script is told, a form is sent there."""
    answer = _html(request, text, 200) if _is_fragment(request) else RedirectResponse(done.next, 303)
    answer.set_cookie(DONE, done.key, max_age=DONE_SECONDS, httponly=True, samesite="lax")
    return answer


def problem_page(exchange: Exchange, body: AnswerText, status: int) -> tuple[AnswerText, Headers]:
    """The page for a problem, and its headers; the principal, if there is one, keeps the menu."""
    problem = msgspec.json.decode(body, type=Refusal)
    principal = "" if exchange.context is None else exchange.context.principal
    shell = Shell(principal=principal, is_fragment=exchange.headers.get(b"hx-request") == b"true")
    text = render(others.problem(problem.detail, status, code=problem.code), shell)
    headers = {**PAGE_HEADERS, "content-type": "text/html; charset=utf-8"}
    return _page_text(text), [(name.encode(), value.encode()) for name, value in headers.items()]


def open_page(request: Request, page: Page) -> Response:
    """A page that everybody may see."""
    return _html(request, render(page, _shell(request)), page.status)


def _page_text(text: str) -> AnswerText:
    """The text of a page: it is made from `PageRequest`, whose results are masked, and from our own words."""
    return unmasked(text.encode("utf-8", "replace"), NeedsNoMasking.MASKED_BEFORE)


def _html(request: Request, text: str, status: int) -> Response:
    body, headers = _compressed(request, _page_text(text))
    return Response(body, status, {**PAGE_HEADERS, **headers}, "text/html; charset=utf-8")


def _static(request: Request, name: str, headers: Mapping[str, str]) -> Response:
    file = static_files.static_files()[name]
    body, encoding = _compressed(request, unmasked(file.data, NeedsNoMasking.OWN_WORDS))
    return Response(body, headers={**headers, **encoding}, media_type=file.media_type)


def _compressed(request: Request, body: AnswerText) -> tuple[AnswerText, dict[str, str]]:
    body, more = compressed(body, _exchange(request).headers.get(b"accept-encoding", b""))
    return body, {name.decode(): value.decode() for name, value in more}
