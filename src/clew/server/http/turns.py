"""The turn of a request: it waits while its principal has as many operations running, or as much unread, as it may.

A client that goes away while its request waits gives up its place, and the request is not carried out.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from starlette.types import Receive

from clew.model.errors import TooManyRequests
from clew.model.steps import in_steps
from clew.server.http.budgets import Budgets, Turn
from clew.server.http.request_body import Gone
from clew.server.http.right_of_way import RightOfWay, Work

T = TypeVar("T")
# Requests of one principal that wait in one process.
MOST_WAITING = 128
# How often a process looks whether an operation has ended in another one.
POLL_SECONDS = 0.02
# The answers of one principal that this process holds until they are read.
MOST_UNREAD_BYTES = 32 * 1024 * 1024


class Abandoned(Exception):
    """The client of this work has gone."""


class Turns:
    """Runs operations in threads, each when it is its principal's turn."""

    def __init__(
        self,
        budgets: Budgets,
        pool: ThreadPoolExecutor,
        right_of_way: RightOfWay,
        *,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self._budgets = budgets
        self._pool = pool
        self._right_of_way = right_of_way
        self._most_waiting = most_waiting
        self._waiting: dict[_Queue, list[asyncio.Event]] = {}
        self._unread = Counter[str]()

    async def run(
        self, principal: str, function: Callable[[], T], receive: Receive, *, is_begun: bool = False
    ) -> T:  # fmt: skip
        """The result of a function that runs in a thread; it stops early when the client goes away.

        With `is_begun` it makes the next piece of an answer that is being sent.
        """
        leaving = asyncio.get_running_loop().create_task(_disconnected(receive))
        try:
            turn = await self._turn(_Queue(principal, is_begun), leaving)
            work = Work(self._right_of_way, principal, is_long=turn is Turn.LONG)
            try:
                return await self._run(principal, function, work, leaving)
            finally:
                work.end()
        finally:
            leaving.cancel()

    @contextmanager
    def sending(self, principal: str, size: int) -> Iterator[None]:
        """Count an answer until its client has read it: a client that reads nothing gets no further answer."""
        self._unread[principal] += size
        try:
            yield
        finally:
            self._unread[principal] -= size
            if not self._unread[principal]:
                del self._unread[principal]
            self._wake(principal)

    async def _turn(self, queue: "_Queue", leaving: "asyncio.Task[None]") -> Turn:
        if not self._waiting.get(queue) and (turn := self._begin(queue)) is not Turn.NOT_YET:
            return turn
        waiting = self._waiting.setdefault(queue, [])
        if len(waiting) >= self._most_waiting:
            raise TooManyRequests(f"{len(waiting)} of your requests wait already; send fewer at once")
        next_ = asyncio.Event()
        waiting.append(next_)
        try:
            while waiting[0] is not next_ or (turn := self._begin(queue)) is Turn.NOT_YET:
                is_first = waiting[0] is next_
                woken = asyncio.get_running_loop().create_task(next_.wait())
                # The first in the queue looks again: an operation may end in another process, and busy times end.
                await asyncio.wait(
                    {woken, leaving}, timeout=POLL_SECONDS if is_first else None, return_when=asyncio.FIRST_COMPLETED
                )
                woken.cancel()
                next_.clear()
                if leaving.done():
                    raise Gone
            return turn
        finally:
            waiting.remove(next_)
            self._wake(queue.principal)

    def _begin(self, queue: "_Queue") -> Turn:
        # Sending an answer continues, because only its end makes room for others.
        if not queue.is_begun and self._unread[queue.principal] >= MOST_UNREAD_BYTES:
            return Turn.NOT_YET
        return self._budgets.begin_operation(queue.principal)

    async def _run(
        self, principal: str, function: Callable[[], T], work: Work, leaving: "asyncio.Task[None]"
    ) -> T:  # fmt: skip
        has_gone = False

        def end_step() -> None:
            if has_gone:
                raise Abandoned
            work.end_step()

        def run() -> T:
            work.start()
            try:
                with in_steps(end_step):
                    return function()
            finally:
                self._budgets.end_operation(principal, work.seconds, is_abandoned=has_gone)

        running = asyncio.get_running_loop().run_in_executor(self._pool, run)
        running.add_done_callback(lambda _: self._wake(principal))
        ends: set[asyncio.Future[Any]] = {running, leaving}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            has_gone = True
        try:
            return await running
        except Abandoned:
            raise Gone from None

    def _wake(self, principal: str) -> None:
        for queue in (_Queue(principal, True), _Queue(principal, False)):
            waiting = self._waiting.get(queue)
            if waiting:
                waiting[0].set()
            elif waiting is not None:
                del self._waiting[queue]


class _Queue(NamedTuple):
    """Who waits: requests of a principal, or the next pieces of its answers that are being sent."""

    principal: str
    is_begun: bool


async def _disconnected(receive: Receive) -> None:
    """Return when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        continue
