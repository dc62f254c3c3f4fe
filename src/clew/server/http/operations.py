"""Operations over HTTP: the route of a request, who asks, the body, and the thread in which it is carried out.

All of it, from authenticating the caller to masking the answer, is one visit to a thread: a visit costs as much as a
small statement. What is read from the socket is read before, what is written to it after.
"""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, TypeVar, TypeVarTuple

from starlette.types import Message, Receive, Send

from clew.server.http import idempotency, request_body
from clew.server.http.answer_text import NOTHING, AnswerText
from clew.server.http.append_queue import AppendQueue
from clew.server.http.budgets import Budgets
from clew.server.http.endpoints import Endpoint, endpoints
from clew.server.http.exchange import Answer, Exchange
from clew.server.http.problems import Refused
from clew.server.http.request_handler import Later, RequestHandler
from clew.server.http.right_of_way import RightOfWay
from clew.server.http.route_table import RouteTable
from clew.server.http.turns import Turns
from clew.server.login.identity import Credential, Identity
from clew.service.kernel.context import Context
from clew.store import Store
from clew.store.log.prepare import INLINE_BYTES

T = TypeVar("T")
Given = TypeVarTuple("Given")

# How long a request waits for the answer to an earlier one with its Idempotency-Key.
POLL_SECONDS = 0.05
# Credentials whose principal is remembered, so that a request needs no look-up before its turn.
MOST_CREDENTIALS = 10_000
PATIENCE_SECONDS = 10.0


class Operations:
    """The routes below /v1."""

    def __init__(self, identity: Identity, pool: ThreadPoolExecutor) -> None:
        self._identity = identity
        self.options = identity.options
        self._pool = pool
        self.budgets = Budgets(self.options)
        self.right_of_way = RightOfWay()
        self._turns = Turns(self.budgets, pool, self.right_of_way)
        self._principals: dict[str, str] = {}
        self._tree: RouteTable[Endpoint] = RouteTable()
        self.endpoints = endpoints()
        for endpoint in self.endpoints:
            self._tree.add(endpoint.method, endpoint.template, endpoint)
        self.append_queue: AppendQueue[Answer | Later] = AppendQueue(self.store)
        self.others: RouteTable[Callable[[Exchange, list[str], Receive, Send], Any]] = RouteTable()
        """Routes below /v1 that are not operations: streams."""

    async def __call__(self, exchange: Exchange, receive: Receive, send: Send) -> None:
        scope = exchange.scope
        path = scope["path"].removeprefix("/")
        methods, values = self._tree.find(path)
        endpoint = methods.get("GET" if exchange.method == "HEAD" else exchange.method)
        if endpoint is None:
            others, values = self.others.find(path)
            if exchange.method in others:
                await others[exchange.method](exchange, values, receive, send)
                return
            raise no_route({*methods, *others})
        exchange.route = endpoint.template
        credential = self.credential(exchange)
        if endpoint.method in ("GET", "DELETE"):
            body = b""
        else:
            body = await request_body.read(
                receive, exchange.headers, most=self.options.most_bytes, seconds=self.options.body_seconds
            )
        admit = partial(self.admit, exchange, credential, is_counted=self._is_counted(credential))
        handler = RequestHandler(admit, self.store, exchange, endpoint, values, body)
        step: Answer | Later = handler.run
        if self._shares_commit(endpoint, body):
            with self._on_the_way(credential):
                step = await self.append_queue.run(handler.prepare)
        answer = step if isinstance(step, Answer) else await self._finish(step, credential, receive)
        with self._sending(credential, len(answer.body) + answer.held):
            await exchange.answer(send, answer)
            if answer.rest is not None:
                await self.send_rest(exchange, credential, answer.rest, receive, send)

    async def send_rest(
        self, exchange: Exchange, credential: Credential, rest: Iterator[AnswerText], receive: Receive, send: Send
    ) -> None:
        """Send the rest of a response while it is made: each piece is a turn of the caller, until the client goes."""
        gone = asyncio.create_task(_disconnected(receive))

        async def receive_end() -> Message:
            return await asyncio.shield(gone)

        try:
            while exchange.method != "HEAD":
                piece = await self.in_turn(credential, partial(next, rest, None), receive_end, is_begun=True)
                if gone.done():
                    raise request_body.Gone
                if piece is None:
                    break
                await exchange.send_body(send, piece, is_last=False)
            await exchange.send_body(send, NOTHING, is_last=True)
        finally:
            gone.cancel()

    def _shares_commit(self, endpoint: Endpoint, body: bytes) -> bool:
        """Whether the request can share a commit: others in the queue then wait for that commit alone."""
        return (
            endpoint.operation.prepare is not None
            and not endpoint.is_masked
            and len(body) <= INLINE_BYTES
            and not self.store.is_remote
        )

    async def _finish(self, step: Later, credential: Credential, receive: Receive) -> Answer:
        """The answer, once an earlier request with the same Idempotency-Key has one."""
        loop = asyncio.get_running_loop()
        end = loop.time() + PATIENCE_SECONDS
        while True:
            try:
                return await self.in_turn(credential, step, receive)
            except idempotency.StillRunning:
                if loop.time() > end:
                    raise Refused(
                        409, "conflict", "the first request with this Idempotency-Key is still running; try again",
                        [(b"retry-after", b"1")],
                    ) from None  # fmt: skip
                await asyncio.sleep(POLL_SECONDS)

    def admit(self, exchange: Exchange, credential: Credential, *, is_counted: bool = False) -> Context:
        """The caller's context, unless they ask too often; in a thread."""
        context = self._identity.authenticate(credential)
        exchange.context = context
        if credential.how != "owner" and not is_counted:
            self.budgets.take_request(context.budget)
        return context

    def _is_counted(self, credential: Credential) -> bool:
        """Count a request of a known caller before anything else is done for it: refusing a flood costs little then."""
        principal = self._principals.get(credential.text)
        if principal is None:
            return False
        self.budgets.take_request(principal)
        return True

    async def in_turn(
        self, credential: Credential, function: Callable[[], T], receive: Receive, *, is_begun: bool = False
    ) -> T:
        """The result of a function in a thread, when it is the turn of the caller."""
        if credential.how == "owner":
            return await self.in_thread(function)
        return await self._turns.run(await self.principal(credential), function, receive, is_begun=is_begun)

    @contextmanager
    def _on_the_way(self, credential: Credential) -> Iterator[None]:
        """Long work of others waits for this request, whose principal is known if it is not its first one."""
        principal = self._principals.get(credential.text, "")
        self.right_of_way.begin(principal)
        try:
            yield
        finally:
            self.right_of_way.end(principal)

    def _sending(self, credential: Credential, size: int) -> AbstractContextManager[None]:
        principal = self._principals.get(credential.text)
        return self._turns.sending(principal, size) if principal else nullcontext()

    async def principal(self, credential: Credential) -> str:
        """Whose budget a request counts for: its principal's, or that of all links of one maker.

        The credential may have ended meanwhile; `admit` looks.
        """
        principal = self._principals.get(credential.text)
        if principal is None:
            principal = (await self.in_thread(self._identity.authenticate, credential)).budget
            if len(self._principals) >= MOST_CREDENTIALS:
                self._principals.clear()
            self._principals[credential.text] = principal
        return principal

    def credential(self, exchange: Exchange) -> Credential:
        return self._identity.credential(exchange.method, exchange.headers)

    def authenticate(self, credential: Credential) -> Context:
        """The caller's context, for what belongs to a request that was let in."""
        return self._identity.authenticate(credential)

    async def in_thread(self, function: Callable[[*Given], T], *arguments: *Given) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)

    @property
    def store(self) -> Store:
        return self._identity.authenticator.store


async def _disconnected(receive: Receive) -> Message:
    """Return when the client has gone away."""
    while (message := await receive())["type"] != "http.disconnect":
        pass
    return message


def no_route(methods: set[str]) -> Refused:
    if not methods:
        return Refused(404, "not_found", "there is nothing at this address; /docs shows what there is")
    allowed = ", ".join(sorted(methods | ({"HEAD"} if "GET" in methods else set())))
    return Refused(405, "invalid_input", f"this address takes {allowed}; see /docs", [(b"allow", allowed.encode())])
