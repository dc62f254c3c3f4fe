"""The turn of a request: it waits while its principal has as many operations running as it may.

A client that goes away while its request waits gives up its place, and the request is not carried out.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from starlette.types import Receive

from clew.model.errors import TooManyRequests
from clew.server.http.budgets import Budgets
from clew.server.http.request_body import Gone
from clew.service.kernel.cancellation import Cancelled, cancellable

T = TypeVar("T")
# Requests of one principal that wait in one process.
MOST_WAITING = 128
# How often a process looks whether an operation has ended in another one.
POLL_SECONDS = 0.02


class Turns:
    """Runs operations in threads, each when it is its principal's turn."""

    def __init__(self, budgets: Budgets, pool: ThreadPoolExecutor, *, most_waiting: int = MOST_WAITING) -> None:
        self._budgets = budgets
        self._pool = pool
        self._most_waiting = most_waiting
        self._waiting: dict[str, list[asyncio.Event]] = {}

    async def run(self, principal: str, function: Callable[[], T], receive: Receive) -> T:
        """The result of a function that runs in a thread; it stops early when the client goes away."""
        leaving = asyncio.get_running_loop().create_task(_left(receive))
        try:
            await self._turn(principal, leaving)
            return await self._run(principal, function, leaving)
        finally:
            leaving.cancel()

    async def _turn(self, principal: str, leaving: "asyncio.Task[None]") -> None:
        if not self._waiting.get(principal) and self._budgets.begin_operation(principal):
            return
        queue = self._waiting.setdefault(principal, [])
        if len(queue) >= self._most_waiting:
            raise TooManyRequests(f"{len(queue)} requests of {principal} wait already; send fewer at once")
        next_ = asyncio.Event()
        queue.append(next_)
        try:
            while queue[0] is not next_ or not self._budgets.begin_operation(principal):
                is_first = queue[0] is next_
                waiting = asyncio.get_running_loop().create_task(next_.wait())
                # The first in the queue looks again: an operation may end in another process, and busy times end.
                await asyncio.wait(
                    {waiting, leaving}, timeout=POLL_SECONDS if is_first else None, return_when=asyncio.FIRST_COMPLETED
                )
                waiting.cancel()
                next_.clear()
                if leaving.done():
                    raise Gone
        finally:
            queue.remove(next_)
            self._wake(principal)

    async def _run(self, principal: str, function: Callable[[], T], leaving: "asyncio.Task[None]") -> T:
        has_gone = False

        def work() -> T:
            began = time.thread_time()
            try:
                with cancellable(lambda: has_gone):
                    return function()
            finally:
                self._budgets.end_operation(principal, time.thread_time() - began)

        running = asyncio.get_running_loop().run_in_executor(self._pool, work)
        running.add_done_callback(lambda _: self._wake(principal))
        ends: set[asyncio.Future[Any]] = {running, leaving}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            has_gone = True
        try:
            return await running
        except Cancelled:
            raise Gone from None

    def _wake(self, principal: str) -> None:
        queue = self._waiting.get(principal)
        if queue:
            queue[0].set()
        elif queue is not None:
            del self._waiting[principal]


async def _left(receive: Receive) -> None:
    """Return when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        continue
