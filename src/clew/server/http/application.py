"""The application: wires operations, streams, pages and login together."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from starlette.routing import BaseRoute, Router
from starlette.types import ASGIApp

from clew.consumers.runner import Runner
from clew.server.http.bundle_route import BundleRoute
from clew.server.http.json_log import JsonLog
from clew.server.http.lazy_mount import LazyMount, MountedApp
from clew.server.http.metrics import Metrics
from clew.server.http.middleware import RootApp
from clew.server.http.object_routes import ObjectRoutes
from clew.server.http.operations import Operations
from clew.server.http.tracing import Traces
from clew.server.http.workspace_routes import WorkspaceRoutes
from clew.server.login.identity import Identity
from clew.server.options import Options
from clew.server.streams.sse import Streams
from clew.server.streams.watcher import Watcher
from clew.server.web.routes import Web, problem_page
from clew.service.access.authenticator import Authenticator
from clew.service.kernel.context import Context
from clew.service.kernel.decoders import build_decoders

if TYPE_CHECKING:
    from clew.server.login.oidc import OpenId

STREAM_THREADS = 8


class Application:
    """Serves one store. A server runs `app`, and calls `end_streams` before it stops."""

    def __init__(
        self,
        authenticator: Authenticator,
        options: Options | None = None,
        *,
        bearer: Callable[[str], Context] | None = None,
        routes: Sequence[BaseRoute] = (),
        mcp: Callable[[Callable[..., Context]], MountedApp] | None = None,
        log: JsonLog | None = None,
        traces: Traces | None = None,
    ) -> None:
        """`bearer` authenticates tokens that are not keys of clew; `routes` come before our own; `mcp` makes /mcp."""
        options = options or Options()
        self.authenticator = authenticator
        self.options = options
        self.log = log or JsonLog(requests=options.logs_requests)
        self.metrics = Metrics(options.worker)
        openid = _openid(authenticator, options, self.log)
        self.identity = Identity(authenticator, options, openid.authenticate_bearer if openid else bearer)
        self._pool = ThreadPoolExecutor(options.threads, thread_name_prefix="clew-operation")
        self._stream_pool = ThreadPoolExecutor(STREAM_THREADS, thread_name_prefix="clew-stream")
        self.operations = Operations(self.identity, self._pool)
        self._objects = ObjectRoutes(self.operations)
        WorkspaceRoutes(self.operations)
        BundleRoute(self.operations)
        self._watcher = Watcher(authenticator.store)
        # In this process, because it wakes listeners of this process; a worker does all other background work.
        self._runner = Runner(
            authenticator.store, [self._watcher], lambda text: self.log.write("runner", level="error", message=text)
        )  # fmt: skip
        self.streams = Streams(self.operations, self._watcher, self.metrics, self._stream_pool)
        self._mcp = LazyMount(self.operations, mcp) if mcp else None
        web = Web(self.operations, self.identity, self.metrics)
        first_routes = [*routes, *(openid.routes(self.identity) if openid else ())]
        pages = Router([*first_routes, *web.routes(self._mcp)], redirect_slashes=False, lifespan=self._lifespan)
        self._traces = traces or (Traces() if options.traces else None)
        root = RootApp(
            self.operations, pages, self.identity, log=self.log, metrics=self.metrics, traces=self._traces,
            problem_page=problem_page,
        )  # fmt: skip
        self.app: ASGIApp = openid.with_challenges(root) if openid else root
        build_decoders()  # Last: every module of the application is loaded, and none of its threads runs yet.

    async def end_streams(self) -> None:
        await self.streams.stop()

    @asynccontextmanager
    async def _lifespan(self, _: object) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            if self._mcp is not None:
                stack.push_async_callback(self._mcp.close)
            flushing = asyncio.get_running_loop().create_task(self._flush_log())
            self._runner.start()
            try:
                yield
            finally:
                flushing.cancel()
                await self.streams.stop()
                await asyncio.to_thread(self._runner.stop)
                self._watcher.wake()
        # Running operations end before the store is closed.
        await asyncio.to_thread(self.operations.append_queue.close)
        await asyncio.to_thread(self._pool.shutdown)
        await asyncio.to_thread(self._objects.close)
        await asyncio.to_thread(self._stream_pool.shutdown)
        await asyncio.to_thread(self.authenticator.close)
        if self._traces is not None:
            await asyncio.to_thread(self._traces.close)
        self.log.flush()

    async def _flush_log(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self.log.flush()


def _openid(authenticator: Authenticator, options: Options, log: JsonLog) -> "OpenId | None":
    """The login with a provider, if there is one; its libraries are loaded only then."""
    if options.oidc is None:
        return None
    from clew.server.login.oidc import OpenId

    return OpenId(authenticator, options.oidc, log, url=options.public_url)
