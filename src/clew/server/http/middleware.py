"""The root application: checks the host, passes a request on, turns errors into responses, logs and counts."""

import asyncio
from collections.abc import Awaitable, Callable

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clew.server.http.answer_text import AnswerText, NeedsNoMasking, masked, unmasked
from clew.server.http.endpoints import PREFIX
from clew.server.http.exchange import ALWAYS, Answer, Exchange
from clew.server.http.json_log import JsonLog
from clew.server.http.metrics import Metrics
from clew.server.http.operations import no_route
from clew.server.http.problems import Headers, Refused, problem
from clew.server.http.request_body import CLOSE, Gone
from clew.server.http.tracing import Traces
from clew.server.login.identity import Identity

CLIENT_WENT_AWAY = 499
# A proxy in front of the server and the server itself could each believe another one of two such headers.
ONCE = frozenset(
    b"host origin authorization cookie content-type content-encoding content-length transfer-encoding sec-fetch-site "
    b"sec-fetch-mode idempotency-key if-match last-event-id".split()
)
ProblemPage = Callable[[Exchange, AnswerText, int], tuple[AnswerText, Headers]]
Served = Callable[[Exchange, Receive, Send], Awaitable[None]]


class RootApp:
    """Passes paths below /v1 to the operations and streams, and all others to `pages`."""

    def __init__(
        self,
        operations: Served,
        pages: ASGIApp,
        identity: Identity,
        *,
        log: JsonLog,
        metrics: Metrics,
        traces: Traces | None = None,
        problem_page: ProblemPage | None = None,
    ) -> None:
        """`problem_page` makes the page that a browser gets where a program gets a problem."""
        self._problem_page = problem_page
        self._operations = operations
        self._pages = pages
        self._identity = identity
        self._log = log
        self._metrics = metrics
        self._traces = traces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._pages(scope, receive, send)
            return
        exchange = Exchange(scope)
        scope["clew.exchange"] = exchange
        try:
            _check_repeated(scope["headers"])
            self._identity.check_host(exchange.headers)
            if scope["path"].startswith(PREFIX + "/"):
                await self._operations(exchange, receive, send)
            else:
                # With an `app`, the router raises for an unknown path, and it is answered here like other errors.
                await self._pages({**scope, "app": self}, receive, self._with_our_headers(exchange, send))
        except HTTPException as error:
            allowed = (error.headers or {}).get("Allow", "").replace(" ", "")
            await self._refuse(exchange, no_route(set(allowed.split(",")) - {""}), send)
        except Gone:
            exchange.status = CLIENT_WENT_AWAY
        except asyncio.CancelledError:
            exchange.status = exchange.status or CLIENT_WENT_AWAY
            raise
        except Exception as error:  # noqa: BLE001 - Answered with a 500 and an id; the log has the error.
            await self._refuse(exchange, error, send)
        finally:
            self._metrics.count(exchange.method, exchange.route, exchange.status, exchange.seconds)
            self._log.write_request(exchange)
            if self._traces is not None:
                self._traces.request(exchange)

    async def _refuse(self, exchange: Exchange, error: Exception, send: Send) -> None:
        status, body, headers = problem(error, exchange.id, challenge=self._identity.challenge)
        if status >= 500:
            self._metrics.failures.inc()
            self._log.write_failure(exchange.id, error)
        # Without a context nothing was read yet for anybody.
        own_words = NeedsNoMasking.OWN_WORDS
        text = masked(exchange.context, body) if exchange.context else unmasked(body, own_words)
        if exchange.status:
            # The response has begun, so its status cannot change any more; the client sees the connection break.
            raise ConnectionAbortedError from None
        if self._problem_page is not None and _is_page(exchange):
            text, page_headers = self._problem_page(exchange, text, status)
            headers = [header for header in headers if header[0] != b"content-type"] + page_headers
        await exchange.answer(send, Answer(status, text, headers))

    def _with_our_headers(self, exchange: Exchange, send: Send) -> Send:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                exchange.status = message["status"]
                headers = list(message.get("headers", []))
                names = {name for name, _ in headers}
                ours = [*ALWAYS, (b"x-request-id", exchange.id.encode())]
                message["headers"] = headers + [header for header in ours if header[0] not in names]
            await send(message)

        return send_with_headers


def _check_repeated(headers: Headers) -> None:
    """Refuse a header that decides something and is there twice."""
    names = [name for name, _ in headers]
    if len(set(names)) < len(names):
        for name in sorted(ONCE):
            if names.count(name) > 1:
                raise Refused(400, "invalid_input", f"the header {name.decode()} is there twice; send it once", CLOSE)


def _is_page(exchange: Exchange) -> bool:
    """Whether a browser asks for a page: it says that it takes HTML, which a program does not."""
    is_open = not exchange.scope["path"].startswith(PREFIX + "/")
    return is_open and b"text/html" in exchange.headers.get(b"accept", b"")
