"""Another application below a path of ours, made when it is first asked for: MCP takes two seconds to load."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from clew.server.http.operations import Operations
from clew.service.kernel.context import Context


class MountedApp(Protocol):
    """What is mounted, and what has to stay open while it serves."""

    @property
    def app(self) -> ASGIApp: ...
    @property
    def run(self) -> Callable[[], AbstractAsyncContextManager[None]]: ...


class LazyMount:
    """Authenticates each request, then hands it on."""

    def __init__(self, operations: Operations, make: Callable[[Callable[..., Context]], MountedApp]) -> None:
        self._operations = operations
        self._make = make
        self._made: MountedApp | None = None
        self._making = asyncio.Lock()
        self._closing = asyncio.Event()
        self._open: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = scope["clew.exchange"]
        exchange.route = "/mcp"
        credential = self._operations.credential(exchange)
        await self._operations.in_thread(self._operations.admit, exchange, credential)
        made = self._made or await self._first()
        await made.app(scope, receive, send)

    async def _first(self) -> MountedApp:
        async with self._making:
            if self._made is None:
                made = await self._operations.in_thread(self._make, context_of)
                ready = asyncio.Event()
                # In a task of its own, because what it opens has to be closed by the task that opened it.
                self._open = asyncio.get_running_loop().create_task(self._keep_open(made, ready))
                await ready.wait()
                self._made = made
        return self._made

    async def _keep_open(self, made: MountedApp, ready: asyncio.Event) -> None:
        async with made.run():
            ready.set()
            await self._closing.wait()

    async def close(self) -> None:
        self._closing.set()
        if self._open is not None:
            await self._open


def context_of(request: Request) -> Context:
    """On whose behalf a request is served that was let in."""
    found: Context = request.scope["clew.exchange"].context
    return found
