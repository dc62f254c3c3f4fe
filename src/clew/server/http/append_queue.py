"""Appends of many requests in one thread: each is prepared in turn, then all are committed together.

The store shares commits between threads by itself. But a thread for each request costs more than the append: the
threads wake each other up, and then wait for the interpreter. Here the requests that arrive while a commit is under way
form the next round.
"""

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from clew.store import Store
from clew.store.log.plan import Request

T = TypeVar("T")
# How many requests share a commit at the most.
LARGEST_ROUND = 256


class Pending(NamedTuple, Generic[T]):
    """An append that is ready to be committed, and the step that follows the commit."""

    request: Request
    finish: Callable[[], T]


class AppendQueue(Generic[T]):
    """Commits the appends of concurrent requests together, one round after the other."""

    def __init__(self, store: Store) -> None:
        self._commit = store.commit
        self._waiting: queue.SimpleQueue[_Entry[T] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    async def run(self, prepare: Callable[[], T | Pending[T]]) -> T:
        """The result of `prepare`, or of the step that follows the commit it asked for."""
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run_rounds, name="clew-append", daemon=True)
            self._thread.start()
        self._waiting.put(_Entry(prepare, result))
        return await result

    def close(self) -> None:
        """Finish the requests that wait."""
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()

    def _run_rounds(self) -> None:
        while True:
            entries: list[_Entry[T]] = []
            entry = self._waiting.get()
            while entry is not None:
                entries.append(entry)
                if len(entries) >= LARGEST_ROUND or self._waiting.empty():
                    break
                entry = self._waiting.get()
            if entries:
                self._run_round(entries)
                entries[0].result.get_loop().call_soon_threadsafe(_deliver, entries)
            if entry is None:
                return

    def _run_round(self, entries: "list[_Entry[T]]") -> None:
        waiting: list[tuple[_Entry[T], Pending[T]]] = []
        for entry in entries:
            outcome = _outcome(entry.prepare)
            if isinstance(outcome, Pending):
                waiting.append((entry, outcome))
            else:
                entry.outcome = outcome
        if not waiting:
            return
        try:
            self._commit([pending.request for _, pending in waiting])
        except BaseException as error:  # noqa: BLE001 - Every request that waited is answered with it.
            for entry, _ in waiting:
                entry.outcome = _Failure(error)
            return
        for entry, pending in waiting:
            entry.outcome = _outcome(pending.finish)


class _Failure(NamedTuple):
    error: BaseException


class _Entry(Generic[T]):
    """A request in the queue, with what became of it."""

    __slots__ = ("outcome", "prepare", "result")

    def __init__(self, prepare: Callable[[], T | Pending[T]], result: "asyncio.Future[T]") -> None:
        self.prepare = prepare
        self.result = result
        self.outcome: T | _Failure | None = None


def _outcome(step: Callable[[], T]) -> T | _Failure:
    try:
        return step()
    except BaseException as error:  # noqa: BLE001 - It is raised where the request waits.
        return _Failure(error)


def _deliver(entries: "list[_Entry[T]]") -> None:
    for entry in entries:
        if entry.result.cancelled():
            continue
        if isinstance(entry.outcome, _Failure):
            entry.result.set_exception(entry.outcome.error)
        else:
            entry.result.set_result(entry.outcome)  # type: ignore[arg-type]
