"""Operations over HTTP: a request becomes arguments, `call` does the rest in a thread, the result becomes JSON.

All of it, from letting the caller in to masking the answer, is one visit to a thread: a visit costs as much as a small
statement. What is read from the socket is read before, what is written to it after.
"""

import asyncio
import re
import typing
import zlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, TypeVarTuple

import msgspec
from starlette.types import Receive, Send

from clew.model.errors import ClewError, InvalidInput, StaleHead
from clew.server.http import idempotency, request_body
from clew.server.http.append_queue import Lane, LaneStore
from clew.server.http.arguments import from_body, from_path, from_query
from clew.server.http.compression import compressed
from clew.server.http.exchange import Answer, Exchange
from clew.server.http.paging import cursor, link
from clew.server.http.problems import CONTENT_TYPE, Headers, Refused, problem
from clew.server.http.rate_limit import Rates
from clew.server.http.route_table import RouteTable
from clew.server.login.identity import SAFE, Credential, Identity
from clew.service.kernel.call import call
from clew.service.kernel.context import Context
from clew.service.kernel.registry import Operation, load
from clew.service.kernel.results import to_json
from clew.store import Store
from clew.store.log.plan import Appended, Request
from clew.store.log.prepare import INLINE_BYTES

T = TypeVar("T")
Given = TypeVarTuple("Given")

PREFIX = "/v1"
JSON = (b"content-type", b"application/json")
SHOWN_ONCE = Refused(409, "conflict", "this was done, and the secret in its answer was shown once; make a new one")
UNKNOWN = Refused(
    409, "conflict", "the first request with this Idempotency-Key broke off and what it did is unknown; look first"
)
POLL_SECONDS = 0.05
PATIENCE_SECONDS = 10.0
_ETAG = re.compile(rb'(?:W/)?"(\d{1,19})(?:\.[0-9a-f]+)?"')


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """An operation as a route."""

    operation: Operation
    method: str
    template: str
    names: tuple[str, ...]
    """The parameters in its path, in order."""
    result: Any
    is_masked: bool
    """Whether the result can hold a secret that is not meant to be shown."""


def endpoints() -> list[Endpoint]:
    """Every operation that can be asked for from elsewhere."""
    return [_endpoint(one) for one in load().values() if one.route]


def _endpoint(operation: Operation) -> Endpoint:
    method, _, path = operation.route.partition(" ")
    return Endpoint(
        operation=operation, method=method, template=PREFIX + path, names=tuple(re.findall(r"\{(\w+)\}", path)),
        result=operation.result,
        is_masked=_holds_text(operation.result) and not (operation.shows_secret or operation.proves),
    )  # fmt: skip


def _holds_text(kind: Any) -> bool:
    """Whether values of a type can hold anything but numbers."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return any(_holds_text(one) for one in typing.get_type_hints(kind).values())
    inner = typing.get_args(kind)
    return any(map(_holds_text, inner)) if inner else kind not in (int, bool, float, type(None))


def masked(context: Context, body: bytes) -> bytes:
    """What leaves the machine: the one place where secrets are taken out of answers."""
    from clew.service.privacy.masking import masker

    return masker(context)(body)


class Operations:
    """The routes below /v1."""

    def __init__(self, identity: Identity, pool: ThreadPoolExecutor) -> None:
        self._identity = identity
        self.options = identity.options
        self._pool = pool
        self._rates = Rates(self.options.rate, self.options.burst)
        self._tree: RouteTable[Endpoint] = RouteTable()
        self.endpoints = endpoints()
        for one in self.endpoints:
            self._tree.add(one.method, one.template, one)
        self.lane: Lane[Answer] = Lane(self.store)
        self.others: RouteTable[Callable[[Exchange, list[str], Receive, Send], Any]] = RouteTable()
        """Routes below /v1 that are no operations: streams."""

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
        if self._fits_lane(exchange, endpoint, body):
            done = await self.lane.run(_Append(self, exchange, endpoint, values, credential, body))
        else:
            done = await self._done(_Work(self, exchange, endpoint, values, credential, body))
        await exchange.answer(send, done)

    def _fits_lane(self, exchange: Exchange, endpoint: Endpoint, body: bytes) -> bool:
        """Whether it is an append that keeps the others waiting for nothing but the commit they share."""
        return (
            endpoint.operation.drafts != ""
            and len(body) <= INLINE_BYTES
            and not self.store.database.remote
            and b"idempotency-key" not in exchange.headers
        )

    async def _done(self, work: "_Work") -> Answer:
        loop = asyncio.get_running_loop()
        end = loop.time() + PATIENCE_SECONDS
        while True:
            try:
                return await self.in_thread(work.run)
            except idempotency.Running:
                if loop.time() > end:
                    raise Refused(
                        409, "conflict", "the first request with this Idempotency-Key is still running; try again",
                        [(b"retry-after", b"1")],
                    ) from None  # fmt: skip
                await asyncio.sleep(POLL_SECONDS)

    def admit(self, exchange: Exchange, credential: Credential) -> Context:
        """The caller's context, unless they ask too often; in a thread."""
        context = self._identity.authenticate(credential)
        exchange.context = context
        if credential.how != "owner":
            self._rates.take(credential.text)
        return context

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


def rights_of(context: Context) -> str:
    """What a caller may do, to be compared: an answer that was given to somebody with more is not given again."""
    scopes = "*" if context.scopes is None else sorted(map(str, context.scopes))
    return f"{scopes} {context.bound} {sorted(map(repr, context.grants))}"


class _Work:
    """What a thread does for one request."""

    __slots__ = ("_body", "_credential", "_endpoint", "_exchange", "_operations", "_values")

    def __init__(
        self,
        operations: Operations,
        exchange: Exchange,
        endpoint: Endpoint,
        values: list[str],
        credential: Credential,
        body: bytes,
    ) -> None:
        self._operations = operations
        self._exchange = exchange
        self._endpoint = endpoint
        self._values = values
        self._credential = credential
        self._body = body

    def run(self) -> Answer:
        context = self._operations.admit(self._exchange, self._credential)
        key = self._exchange.headers.get(b"idempotency-key")
        if key is None or self._endpoint.method in SAFE:
            return self._called(context)
        return self._once(context, idempotency.check_key(key.decode("latin-1")))

    def _once(self, context: Context, key: str) -> Answer:
        """Run, unless a request with this key has run; what it came to is remembered, refusals too."""
        store, exchange = self._operations.store, self._exchange
        request = idempotency.digest(
            exchange.method, exchange.scope["path"], exchange.scope["query_string"], self._body, rights_of(context)
        )  # fmt: skip
        place = idempotency.claim(store, context.principal, key, request)
        if isinstance(place, idempotency.Replay):
            kind = JSON if place.status < 400 else (b"content-type", CONTENT_TYPE)
            return Answer(place.status, place.body, [kind, (b"idempotency-replayed", b"true")])
        try:
            answer = self._called(context)
        except (ClewError, Refused) as error:
            status, body, _ = problem(error, exchange.id)
            if error.details.get("ambiguous"):
                idempotency.keep(store, place, 409, problem(UNKNOWN, exchange.id)[1])
            elif status >= 500 or status == 429:
                idempotency.release(store, place)
            else:
                idempotency.keep(store, place, status, masked(context, body))
            raise
        except Exception:
            idempotency.keep(store, place, 409, problem(UNKNOWN, exchange.id)[1])
            raise
        if self._endpoint.operation.shows_secret:
            idempotency.keep(store, place, 409, problem(SHOWN_ONCE, exchange.id)[1])
        else:
            idempotency.keep(store, place, answer.status, answer.body)
        return answer

    def _called(self, context: Context) -> Answer:
        endpoint, exchange = self._endpoint, self._exchange
        arguments = self._arguments()
        is_expected = _expected(endpoint.operation, exchange.headers, arguments)
        try:
            result = call(context, endpoint.operation.name, arguments)
        except StaleHead as error:
            raise _precondition(error) if is_expected else error from None
        body = to_json(result)
        if endpoint.is_masked:
            body = masked(context, body)
        return self._answer(result, arguments, body)

    def _arguments(self) -> dict[str, Any]:
        endpoint, query = self._endpoint, self._exchange.scope["query_string"]
        operation, names = endpoint.operation, endpoint.names
        found: dict[str, Any] = {}
        if endpoint.method in ("GET", "DELETE"):
            found = from_query(operation, query, beside=names)
        else:
            media_type = self._exchange.headers.get(b"content-type", b"").split(b";")[0].strip().lower()
            found = from_body(operation, self._body, media_type.decode("latin-1"), beside=names)
            found |= from_query(operation, query, beside=(*names, *found))
        return found | from_path(operation, dict(zip(names, self._values, strict=True)))

    def _answer(self, result: Any, arguments: Mapping[str, Any], body: bytes) -> Answer:
        operation, exchange = self._endpoint.operation, self._exchange
        headers: Headers = [JSON]
        if self._endpoint.method == "GET":
            goes_on = cursor(operation, arguments, result)
            if goes_on:
                path = exchange.scope.get("raw_path") or exchange.scope["path"].encode()
                headers.append((b"link", link(path.decode("latin-1"), exchange.scope["query_string"], *goes_on)))
            if operation.version is not None:
                tag = b'"%d.%08x"' % (operation.version(result), zlib.crc32(body))
                headers.append((b"etag", tag))
                if _is_known(tag, exchange.headers.get(b"if-none-match", b"")):
                    return Answer(304, b"", headers[1:])
            body, more = compressed(body, exchange.headers.get(b"accept-encoding", b""))
            headers += more
        return Answer(200, body, headers)


def no_route(methods: set[str]) -> Refused:
    if not methods:
        return Refused(404, "not_found", "there is nothing at this address; /docs shows what there is")
    allowed = ", ".join(sorted(methods | ({"HEAD"} if "GET" in methods else set())))
    return Refused(405, "invalid_input", f"this address takes {allowed}; see /docs", [(b"allow", allowed.encode())])


def _is_known(tag: bytes, known: bytes) -> bool:
    tags = [one.strip().removeprefix(b"W/") for one in known.split(b",")]
    return tag in tags or b"*" in tags


def _precondition(error: StaleHead) -> Refused:
    """What HTTP says when `If-Match` does not fit."""
    return Refused(412, error.code, str(error), **error.details)


def _expected(operation: Operation, headers: Mapping[bytes, bytes], arguments: dict[str, Any]) -> bool:
    """Take `If-Match` as the head that the caller has seen; whether it was there."""
    given, name = headers.get(b"if-match"), operation.if_match
    if not name or given is None or given.strip() == b"*":
        return False
    found = _ETAG.fullmatch(given.strip())
    if found is None:
        raise InvalidInput('If-Match has to be the ETag of the session, such as "12", or *')
    head = int(found[1])
    if arguments.get(name, head) != head:
        raise InvalidInput(f"If-Match says {head} and {name} says {arguments[name]}; send one of them")
    arguments[name] = head
    return True


# Appending ------------------------------------------------------------------------------------------------------------


class _Append(_Work):
    """An append in the lane: all but the commit itself."""

    __slots__ = ("_context", "_found", "_is_expected")

    def begin(self) -> Answer:
        self._context = self._operations.admit(self._exchange, self._credential)
        self._found = self._arguments()
        self._is_expected = _expected(self._endpoint.operation, self._exchange.headers, self._found)
        return self._told(call(_in_lane(self._context), "append", self._found))

    def finish(self, request: Request) -> Answer:
        try:
            return self._told(self._context.store.outcome(request))
        except StaleHead as error:
            raise _precondition(error) if self._is_expected else error from None

    def _told(self, appended: Appended) -> Answer:
        return Answer(200, _encode(appended), [JSON])


def _in_lane(context: Context) -> Context:
    known = context._found.get("lane")
    if known is None:
        known = context._found["lane"] = msgspec.structs.replace(context, store=LaneStore(context.store))
    found: Context = known
    return found


_encode = msgspec.json.Encoder().encode
