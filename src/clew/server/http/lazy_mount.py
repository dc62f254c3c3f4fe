"""Another application below a path of ours, loaded at the first request for it: MCP takes two seconds to load."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Protocol, TypeVar

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clew.server.http.operations import Operations
from clew.server.login.identity import Credential
from clew.service.kernel.context import Context

T = TypeVar("T")


class MountedApp(Protocol):
    """A mounted application, and the context manager that stays open while it serves."""

    @property
    def app(self) -> ASGIApp: ...
    @property
    def run(self) -> Callable[[], AbstractAsyncContextManager[None]]: ...


class LazyMount:
    """Authenticates each request, then passes it on; its work takes turns with all other work of its principal."""

    def __init__(self, operations: Operations, make: Callable[[Callable[..., Context]], MountedApp]) -> None:
        self._operations = operations
        self._make = make
        self._mounted: MountedApp | None = None
        self._loading = asyncio.Lock()
        self._closing = asyncio.Event()
        self._open: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = scope["clew.exchange"]
        exchange.route = "/mcp"
        credential = self._operations.credential(exchange)
        await self._operations.in_thread(self._operations.admit, exchange, credential)
        application = self._mounted or await self._load()
        await application.app({**scope, "clew.in_turn": partial(self._in_turn, credential)}, receive, send)

    async def _in_turn(self, credential: Credential, function: Callable[[], T]) -> T:
        return await self._operations.in_turn(credential, function, _nothing)

    async def _load(self) -> MountedApp:
        async with self._loading:
            if self._mounted is None:
                application = await self._operations.in_thread(self._make, context_of)
                ready = asyncio.Event()
                # In a task of its own: a context manager has to be closed by the task that opened it.
                self._open = asyncio.get_running_loop().create_task(self._keep_open(application, ready))
                await ready.wait()
                self._mounted = application
        return self._mounted

    async def _keep_open(self, application: MountedApp, ready: asyncio.Event) -> None:
        async with application.run():
            ready.set()
            await self._closing.wait()

    async def close(self) -> None:
        self._closing.set()
        if self._open is not None:
            await self._open


async def _nothing() -> Message:
    """What comes from a client whose request another application reads: nothing, until the request ends."""
    await asyncio.Event().wait()
    return {"type": "http.disconnect"}


def context_of(request: Request) -> Context:
    """The context of the authenticated caller of a request."""
    context: Context = request.scope["clew.exchange"].context
    return context
