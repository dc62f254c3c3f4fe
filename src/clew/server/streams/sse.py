"""Live streams: Server-Sent Events of a session (the id is its seq) and of a project or everything (its position).

A listener is one task that sleeps until the watcher wakes it, then reads a page in a thread, narrowed anew by what its
subscriber may read at that moment. It goes on from `Last-Event-ID`, so that a reconnect, to whichever process, neither
skips nor repeats an event.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar, TypeVarTuple

import anyio
from starlette.types import Receive, Send

from clew.model.access import Right
from clew.model.codec import on_one_line
from clew.model.errors import ClewError, InvalidInput, TooManyRequests
from clew.model.events import Event
from clew.server.http.arguments import pairs
from clew.server.http.exchange import ALWAYS, Exchange
from clew.server.http.metrics import Metrics
from clew.server.http.operations import Operations
from clew.server.http.problems import STATUS, problem
from clew.server.http.request_handler import masked
from clew.server.login.identity import Credential
from clew.server.streams.watcher import EVERYWHERE, TROUBLE_SECONDS, Watcher
from clew.service.find.filters import project_key
from clew.service.kernel.call import call, permit
from clew.service.kernel.context import Context
from clew.service.kernel.results import to_json

T = TypeVar("T")
Given = TypeVarTuple("Given")

PAGE = 200
# How long a listener may take to make room for the next page.
SEND_SECONDS = 60.0
MOST_LISTENERS = 20_000
FARTHEST = 10**18 - 1
RETRY = b"retry: 1000\n"
BEAT = b": still here\n\n"


class Topic(NamedTuple):
    """What a listener listens to; both empty is everything in reach."""

    session: str = ""
    project: str = ""

    @property
    def name(self) -> str:
        if self.session:
            return f"session {self.session}"
        return f"project {self.project}" if self.project else EVERYWHERE


class Page(NamedTuple):
    """Events as they go out; `after` is where the next page begins, `is_full` that there may be more at once."""

    text: bytes
    events: int
    after: int
    is_full: bool


class Streams:
    """The two streams, as routes of their own."""

    def __init__(self, operations: Operations, watcher: Watcher, metrics: Metrics, pool: ThreadPoolExecutor) -> None:
        self._operations = operations
        self._options = operations.options
        self._watcher = watcher
        self._metrics = metrics
        self._pool = pool
        self.listeners = 0
        """Open streams of this process."""
        self._stopping = False
        self._subscribers: dict[Credential, _Subscriber] = {}
        self._checking: asyncio.Task[None] | None = None
        operations.others.add("GET", "/v1/sessions/{session}/stream", self.session)
        operations.others.add("GET", "/v1/stream", self.everything)

    async def session(self, exchange: Exchange, values: list[str], receive: Receive, send: Send) -> None:
        exchange.route = "/v1/sessions/{session}/stream"
        await self._listen(exchange, values[0], receive, send)

    async def everything(self, exchange: Exchange, values: list[str], receive: Receive, send: Send) -> None:
        exchange.route = "/v1/stream"
        await self._listen(exchange, "", receive, send)

    async def stop(self) -> None:
        """End every stream where it is; clients come back, to another process or to this one started anew."""
        self._stopping = True
        self._watcher.wake()
        if self._checking is not None:
            self._checking.cancel()

    # One listener -----------------------------------------------------------------------------------------------------

    async def _listen(self, exchange: Exchange, session: str, receive: Receive, send: Send) -> None:
        credential = self._operations.credential(exchange)
        start = _start_of(exchange, is_session=bool(session))
        if self.listeners >= MOST_LISTENERS or self._stopping:
            raise TooManyRequests("no more listeners fit here now; try again")
        topic, after, rights = await self._in_thread(self._begin, exchange, credential, session, start)
        headers = [(b"content-type", b"text/event-stream"), (b"x-accel-buffering", b"no"), *ALWAYS]
        headers.append((b"x-request-id", exchange.id.encode()))
        exchange.status = 200
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        woken = self._watcher.listen(topic.name)
        subscriber = self._subscribe(credential, rights, woken)
        self.listeners += 1
        self._metrics.listeners.inc()
        try:
            # With the id at once: who loses the connection before the first event comes back to the same event.
            await _send(send, b"%bid: %d\n\n" % (RETRY, after))
            await self._follow(exchange, credential, topic, after, woken, receive, send)
        except TimeoutError:
            return  # It takes nothing any more; without an end of the answer the connection is closed.
        finally:
            self.listeners -= 1
            self._metrics.listeners.dec()
            self._watcher.leave(topic.name, woken)
            self._unsubscribe(credential, subscriber, woken)
        await send({"type": "http.response.body", "body": b""})

    async def _follow(
        self, exchange: Exchange, credential: Credential, topic: Topic, after: int, woken: asyncio.Event,
        receive: Receive, send: Send,
    ) -> None:  # fmt: skip
        sent = after
        loop = asyncio.get_running_loop()
        end = loop.time() + self._options.stream_seconds
        while not self._stopping and loop.time() < end:
            woken.clear()
            try:
                page = await self._in_thread(self._page, credential, topic, after)
            except ClewError as error:
                if STATUS.get(error.code, 500) >= 500:
                    # The store comes back, and the listener goes on where it was; a browser would not come back.
                    if await _is_gone(receive):
                        return
                    await _send(send, BEAT)
                    await asyncio.sleep(TROUBLE_SECONDS)
                    continue
                # Whoever lost the right to listen is told so, and that it is over.
                text = problem(error, exchange.id)[1]
                await _send(send, b"event: problem\ndata: %b\n\n" % text)
                return
            if page.events:
                await _send(send, page.text)
                self._metrics.streamed.inc(page.events)
                sent = page.after
            after = page.after
            if page.is_full or self._stopping:
                continue
            if not await _woken(woken, min(self._options.heartbeat_seconds, max(0.0, end - loop.time()))):
                if await _is_gone(receive):
                    return
                # The id alone moves on where the client comes back to, past what was not for this listener.
                await _send(send, BEAT if sent == after else b"id: %d\n\n" % after)
                sent = after

    # In a thread ------------------------------------------------------------------------------------------------------

    def _begin(
        self, exchange: Exchange, credential: Credential, session: str, start: "_Start"
    ) -> "tuple[Topic, int, _Rights]":
        context = self._operations.admit(exchange, credential)
        if session:
            # The first look is an operation like any other, and on record like it; what follows belongs to it.
            call(context, "events", {"session": session, "limit": 1})
            found = context.store.session(session, context.reach(None))
            return Topic(session=found.id), start.after or 0, _rights(context)
        call(context, "tail", {"project": start.project, "limit": 1})
        after = start.after if start.after is not None else context.store.last_position()
        return Topic(project=start.project), after, _rights(context)

    def _page(self, credential: Credential, topic: Topic, after: int) -> Page:
        context = self._operations.authenticate(credential)
        if topic.session:
            session = context.store.session(topic.session, context.reach(None))
            permit(context, Right.READ, session)
            events = context.store.read(session, after=after, limit=PAGE)
        else:
            if topic.project:
                project_key(context, topic.project, Right.READ)
            # Positions become visible in order, so all up to here is seen with the page.
            upto = context.store.last_position()
            events = context.store.tail(after=after, project=topic.project, limit=PAGE, reach=context.reach(Right.READ))
            if len(events) < PAGE:
                after = max(after, upto)
        ids = [event.seq if topic.session else event.position for event in events]
        texts = [_event(context, id, event) for id, event in zip(ids, events, strict=True)]
        return Page(b"".join(texts), len(events), max([after, *ids]), len(events) == PAGE)

    async def _in_thread(self, function: Callable[[*Given], T], *arguments: *Given) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)

    # Rights that are taken away ---------------------------------------------------------------------------------------

    def _subscribe(self, credential: Credential, rights: "_Rights", woken: asyncio.Event) -> "_Subscriber":
        subscriber = self._subscribers.setdefault(credential, _Subscriber(rights))
        subscriber.listeners.add(woken)
        if self._checking is None:
            self._checking = asyncio.get_running_loop().create_task(self._check())
        return subscriber

    def _unsubscribe(self, credential: Credential, subscriber: "_Subscriber", woken: asyncio.Event) -> None:
        subscriber.listeners.discard(woken)
        if not subscriber.listeners:
            self._subscribers.pop(credential, None)

    async def _check(self) -> None:
        """Wake the listeners of whoever has other rights than a moment ago; they then look whether they still may."""
        while True:
            await asyncio.sleep(self._options.recheck_seconds)
            for credential, subscriber in list(self._subscribers.items()):
                rights = await self._in_thread(self._current_rights, credential, subscriber.rights)
                if rights != subscriber.rights:
                    subscriber.rights = rights
                    for woken in subscriber.listeners:
                        woken.set()

    def _current_rights(self, credential: Credential, before: "_Rights") -> "_Rights":
        try:
            return _rights(self._operations.authenticate(credential))
        except ClewError as error:
            # A store that cannot be reached says nothing about anybody's rights.
            return () if error.code == "unauthenticated" else before


_Rights = tuple[object, ...]
"""What somebody may do, to be compared with what they may do later; nothing when they may not come in."""


def _rights(context: Context) -> _Rights:
    now = context.store.database.now()
    standing = tuple(grant for grant in context.grants if not 0 < grant.until <= now)
    return standing, context.teams, context.scopes, context.key_project


class _Subscriber:
    """Somebody who listens, maybe often."""

    __slots__ = ("listeners", "rights")

    def __init__(self, rights: _Rights) -> None:
        self.listeners: set[asyncio.Event] = set()
        self.rights = rights


class _Start(NamedTuple):
    after: int | None
    project: str


def _start_of(exchange: Exchange, *, is_session: bool) -> _Start:
    """Where to go on, from the header that a browser sends when it comes back, or else from the query."""
    query = pairs(exchange.scope["query_string"])
    known = {"after"} if is_session else {"after", "project"}
    if len(query) != len({name for name, _ in query}) or not {name for name, _ in query} <= known:
        raise InvalidInput(f"a stream takes {' and '.join(sorted(known))}, each once")
    values = dict(query)
    text = exchange.headers.get(b"last-event-id", b"").decode("latin-1") or values.get("after", "")
    if text and not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= FARTHEST):
        raise InvalidInput(f"{text[:40]!r} is not a valid id to go on after; use the id of the last event that came")
    return _Start(int(text) if text else None, values.get("project", ""))


def _event(context: Context, id: int, event: Event) -> bytes:
    return b"id: %d\ndata: %b\n\n" % (id, on_one_line(masked(context, to_json(event))))


async def _send(send: Send, text: bytes) -> None:
    async with asyncio.timeout(SEND_SECONDS):
        await send({"type": "http.response.body", "body": text, "more_body": True})


async def _woken(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


async def _is_gone(receive: Receive) -> bool:
    """Whether the client has left, without waiting for it."""
    while True:
        with anyio.CancelScope() as scope:
            scope.cancel()
            if (await receive())["type"] == "http.disconnect":
                return True
            continue
        return False
