"""Live streams: Server-Sent Events of a session (the id is its seq), of a project or of everything (its position).

A stream of changes says only that there is something new, once for all that came since; a page that shows lists follows
it and reads them again. Whoever may see that a session is there may follow it, without the right to read.

A listener is a task that sleeps until the watcher wakes it. Then it reads a page in a thread, with the rights that its
caller has at that moment. It continues after `Last-Event-ID`, so a reconnect to any process neither skips nor repeats
events. By hand: the format is a few lines of text, and no library does the rest: positions, rights, the end.
"""

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, TypeVar, TypeVarTuple

import anyio
from starlette.types import Receive, Send

from clew.model.access import Right
from clew.model.codec import on_one_line
from clew.model.errors import ClewError, InvalidInput, TooManyRequests
from clew.model.events import Event
from clew.model.steps import end_step
from clew.server.http.answer_text import AnswerText, NeedsNoMasking, masked, unmasked
from clew.server.http.arguments import pairs
from clew.server.http.exchange import ALWAYS, Exchange
from clew.server.http.metrics import Metrics
from clew.server.http.operations import Operations
from clew.server.http.problems import STATUS, problem
from clew.server.http.request_body import Gone
from clew.server.http.turns import Turns
from clew.server.login.identity import Credential
from clew.server.streams.watcher import EVERYWHERE, Watcher
from clew.service.find.filters import project_keys
from clew.service.kernel.audit_record import record_reads
from clew.service.kernel.call import call, permit, prepare_call, run
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation_named
from clew.service.kernel.results import to_json
from clew.service.kernel.touched import projects_in
from clew.service.sessions.history import text_bytes

T = TypeVar("T")
Given = TypeVarTuple("Given")

# The texts of the events that are read and masked at once.
PAGE_BYTES = 512 * 1024
PAGE = 200
# A piece is sent once the client has read the one before, so the connection holds no more than one.
PIECE_BYTES = 64 * 1024
# How long a client may take to read a piece.
SEND_SECONDS = 60.0
# How long a stream waits before it reads again after the store could not be read.
RETRY_SECONDS = 0.5
MOST_LISTENERS = 20_000
LARGEST_ID = 10**18 - 1
RETRY = b"retry: 1000\n"
BEAT = unmasked(b": still here\n\n", NeedsNoMasking.OWN_WORDS)


CHANGES = "changes"


class Topic(NamedTuple):
    """A session or a project; with both empty, everything that the caller may read."""

    session: str = ""
    project: str = ""
    only_changes: bool = False
    """Whether the stream says that something changed, and not what."""

    @property
    def name(self) -> str:
        if self.session:
            return f"session {self.session}"
        return f"project {self.project}" if self.project else EVERYWHERE


class Page(NamedTuple):
    """Events as text. The next page begins after `after`; a full page means that there may be more already."""

    text: bytes
    events: int
    after: int
    is_full: bool


class Streams:
    """The routes of the two streams."""

    def __init__(self, operations: Operations, watcher: Watcher, metrics: Metrics, pool: ThreadPoolExecutor) -> None:
        self._operations = operations
        self._options = operations.options
        self._watcher = watcher
        self._metrics = metrics
        self._pool = pool
        # All streams of a principal may wait: each has one page to read.
        self._turns = Turns(operations.budgets, pool, operations.right_of_way, most_waiting=MOST_LISTENERS)
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
        """End every stream; clients reconnect, to another process or to the next start of this one."""
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
        principal = await self._operations.principal(credential)
        # Counted before anything is read, so that a refusal costs next to nothing.
        self._operations.budgets.begin_stream(principal)
        try:
            begin = partial(self._begin, exchange, credential, session, start)
            topic, after, rights = await self._turns.run(principal, begin, receive)
            await self._serve(exchange, credential, _Begun(topic, after, rights, principal), receive, send)
        finally:
            self._operations.budgets.end_stream(principal)

    async def _serve(
        self, exchange: Exchange, credential: Credential, begun: "_Begun", receive: Receive, send: Send
    ) -> None:
        headers = [(b"content-type", b"text/event-stream"), (b"x-accel-buffering", b"no"), *ALWAYS]
        headers.append((b"x-request-id", exchange.id.encode()))
        exchange.status = 200
        topic = begun.topic
        woken = self._watcher.listen(topic.name)
        subscriber = self._subscribe(credential, begun.rights, woken)
        self.listeners += 1
        self._metrics.listeners.inc()
        try:
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            # The id at once: a client that loses the connection before the first event continues at the same one.
            await _send(send, unmasked(b"%bid: %d\n\n" % (RETRY, begun.after), NeedsNoMasking.OWN_WORDS))
            await self._follow(exchange, credential, begun, woken, receive, send)
        except (TimeoutError, Gone):
            return  # The client reads no more. A response without an end closes the connection.
        finally:
            self.listeners -= 1
            self._metrics.listeners.dec()
            self._watcher.leave(topic.name, woken)
            self._unsubscribe(credential, subscriber, woken)
        await send({"type": "http.response.body", "body": b""})

    async def _follow(
        self, exchange: Exchange, credential: Credential, begun: "_Begun", woken: asyncio.Event, receive: Receive,
        send: Send,
    ) -> None:  # fmt: skip
        topic, after, _, principal = begun
        sent = after
        read: set[str] = set()
        loop = asyncio.get_running_loop()
        end = loop.time() + self._options.stream_seconds
        while not self._stopping and loop.time() < end:
            woken.clear()
            try:
                page = await self._turns.run(principal, partial(self._page, credential, topic, after, read), receive)
            except ClewError as error:
                if STATUS.get(error.code, 500) >= 500:
                    # The store comes back, and the stream continues. A browser would not reconnect after an error.
                    if await _is_gone(receive):
                        return
                    await _send(send, BEAT)
                    await asyncio.sleep(RETRY_SECONDS)
                    continue
                # The caller lost the right to listen: say so, and end the stream.
                text = b"event: problem\ndata: %b\n\n" % problem(error, exchange.id)[1]
                await _send(send, unmasked(text, NeedsNoMasking.OWN_WORDS))
                return
            if page.events:
                with self._turns.sending(principal, len(page.text)):
                    for start in range(0, len(page.text), PIECE_BYTES):
                        piece = page.text[start : start + PIECE_BYTES]
                        await _send(send, unmasked(piece, NeedsNoMasking.MASKED_BEFORE))
                self._metrics.streamed.inc(page.events)
                sent = page.after
            after = page.after
            if page.is_full or self._stopping:
                continue
            if not await _woken(woken, min(self._options.heartbeat_seconds, max(0.0, end - loop.time()))):
                if await _is_gone(receive):
                    return
                # The id alone moves the client past events that it may not read, for its next reconnect.
                moved = unmasked(b"id: %d\n\n" % after, NeedsNoMasking.OWN_WORDS)
                await _send(send, BEAT if sent == after else moved)
                sent = after

    # In a thread ------------------------------------------------------------------------------------------------------

    def _begin(
        self, exchange: Exchange, credential: Credential, session: str, start: "_Start"
    ) -> "tuple[Topic, int, _Rights]":
        context = self._operations.admit(exchange, credential)
        if session:
            # The first read is an operation, ruled on and audited like others; the rest of the stream belongs to it.
            call(context, "events", {"session": session, "limit": 1})
            found_session = context.store.session(session, context.reach(None))
            return Topic(session=found_session.id), start.after or 0, _rights(context)
        # Ruled on here, and read and recorded page by page: this event may never be sent.
        ruled_like = "sessions" if start.only_changes else "tail"
        run(prepare_call(context, ruled_like, {"project": start.project, "limit": 1}))
        after = start.after if start.after is not None else context.store.last_position()
        return Topic(project=start.project, only_changes=start.only_changes), after, _rights(context)

    def _page(self, credential: Credential, topic: Topic, after: int, read: set[str]) -> Page:
        """The next page; `read` has the projects whose content the stream has shown, each of them recorded once."""
        context = self._operations.authenticate(credential)
        if topic.session:
            session = context.store.session(topic.session, context.reach(None))
            permit(context, Right.READ, session)
            events, is_full = _page_of(context.store.read(session, after=after, limit=PAGE))
        elif topic.only_changes:
            return _changes(context, topic.project, after)
        else:
            if topic.project:
                project_keys(context, topic.project, Right.READ)
            # Positions become visible in order, so the page holds everything up to this one.
            upto = context.store.last_position()
            reach = context.reach(Right.READ)
            found = context.store.tail(after=after, project=topic.project, limit=PAGE, reach=reach)
            events, is_full = _page_of(found)
            if not is_full:
                after = max(after, upto)
            _record_reads(context, events, read)
        ids = [event.seq if topic.session else event.position for event in events]
        texts = [_event(context, id, event) for id, event in zip(ids, events, strict=True)]
        return Page(b"".join(texts), len(events), max([after, *ids]), is_full)

    async def _in_thread(self, function: Callable[[*Given], T], *arguments: *Given) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)

    # Rights that are revoked ------------------------------------------------------------------------------------------

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
        """Wake the listeners of callers whose rights have changed; each then checks whether it may still read."""
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
            # An unreachable store is not an answer, so the rights stay as they were.
            return () if error.code == "unauthenticated" else before


def _changes(context: Context, project: str, after: int) -> Page:
    """Whether a session that the caller may see has changed since, in one message."""
    if project:
        project_keys(context, project, Right.SEE)
    upto = context.store.last_position()
    found = context.store.tail(after=after, project=project, limit=1, reach=context.reach(Right.SEE))
    first = next(iter(found), None)
    if first is None:
        return Page(b"", 0, max(after, upto), False)
    upto = max(upto, first.position)
    return Page(b'id: %d\ndata: {"changed":true}\n\n' % upto, 1, upto, False)


def _record_reads(context: Context, events: list[Event], read: set[str]) -> None:
    if events and context.has_setting("audit_reads", "on"):
        projects = projects_in(context.unrestricted, events) - read
        record_reads(context, operation_named("tail"), projects)
        read |= projects


_Rights = tuple[object, ...]
"""The rights of a caller, to be compared with later ones; empty for a credential that is no longer valid."""


def _rights(context: Context) -> _Rights:
    now = context.store.now()
    valid = tuple(grant for grant in context.grants if not 0 < grant.until <= now)
    return valid, context.teams, context.scopes, context.key_project


class _Begun(NamedTuple):
    """A stream that may begin: its topic, where it goes on, the rights and the name of its caller."""

    topic: Topic
    after: int
    rights: _Rights
    principal: str


class _Subscriber:
    """The open streams of one credential, and its rights when they were last checked."""

    __slots__ = ("listeners", "rights")

    def __init__(self, rights: _Rights) -> None:
        self.listeners: set[asyncio.Event] = set()
        self.rights = rights


class _Start(NamedTuple):
    after: int | None
    project: str
    only_changes: bool


def _start_of(exchange: Exchange, *, is_session: bool) -> _Start:
    """Where the stream begins: after the id in the header of a browser that reconnects, or else in the query."""
    query = pairs(exchange.scope["query_string"])
    known = {"after"} if is_session else {"after", "project", "only"}
    if len(query) != len({name for name, _ in query}) or not {name for name, _ in query} <= known:
        raise InvalidInput(f"a stream takes {' and '.join(sorted(known))}, each once")
    values = dict(query)
    text = exchange.headers.get(b"last-event-id", b"").decode("latin-1") or values.get("after", "")
    if text and not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= LARGEST_ID):
        raise InvalidInput(f"{text[:40]!r} is not a valid id to go on after; use the id of the last event that came")
    only = values.get("only", "")
    if only not in ("", CHANGES):
        raise InvalidInput(f"{only[:40]!r} is not a valid value of only; the one that there is is {CHANGES}")
    return _Start(int(text) if text else None, values.get("project", ""), only == CHANGES)


def _event(context: Context, id: int, event: Event) -> bytes:
    return b"id: %d\ndata: %b\n\n" % (id, on_one_line(masked(context, to_json(event))))


def _page_of(found: Iterable[Event]) -> tuple[list[Event], bool]:
    """Events of at most PAGE_BYTES, one at least, and whether there may be more."""
    events: list[Event] = []
    size = 0
    for event in found:
        end_step()
        events.append(event)
        size += text_bytes(event.body)
        if size > PAGE_BYTES:
            return events, True
    return events, len(events) == PAGE


async def _send(send: Send, text: AnswerText) -> None:
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
    """Whether the client has disconnected, without waiting for it."""
    while True:
        with anyio.CancelScope() as scope:
            scope.cancel()
            if (await receive())["type"] == "http.disconnect":
                return True
            continue
        return False
