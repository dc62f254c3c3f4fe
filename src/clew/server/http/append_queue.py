"""Appends of many requests in one thread: each is parsed and ruled on in turn, then all are committed together.

The store shares commits between threads by itself. But a thread for each request costs more than the append: they wake
each other up, and then wait for the interpreter. Here those who come while a commit is under way form the next round.
"""

import asyncio
import queue
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Generic, Protocol, TypeVar, cast

from clew.model.events import Draft
from clew.model.ids import LENGTH
from clew.model.session import Session
from clew.store import Store
from clew.store.database.contract import Parameters
from clew.store.log.plan import Appended, Request
from clew.store.store import EVERYWHERE

T = TypeVar("T")
Out = TypeVar("Out", covariant=True)
MOST = 256


class Planned(Exception):
    """An append that is ready to be committed: how far `Store.append` comes in a lane."""

    def __init__(self, request: Request) -> None:
        super().__init__()
        self.request = request


class LaneStore(Store):
    """A caller's store whose `append` goes as far as the commit, and which looks up a session once while it lasts.

    Appending needs no more of a session than its place in the log, which never changes.
    """

    def __init__(self, store: Store) -> None:
        vars(self).update(vars(store))
        self._sessions: dict[str, Session] = {}

    def append(
        self,
        session: Session,
        drafts: Iterable[Draft],
        *,
        actor: str = "",
        expect: int | None = None,
        lease: int | None = None,
    ) -> Appended:
        request = self.request(session, drafts, actor=actor, expect=expect, lease=lease)
        if request.drafts:
            raise Planned(request)
        return super().append(session, ())

    def session(self, prefix: str, reach: Parameters = EVERYWHERE) -> Session:
        known = self._sessions.get(prefix)
        if known is None:
            known = super().session(prefix, reach)
            if len(prefix) == LENGTH:
                self._sessions[prefix] = known
        return known


class Work(Protocol[Out]):
    """One request in a lane."""

    def begin(self) -> Out:
        """Do all of it, or come as far as `Planned`."""
        ...

    def finish(self, request: Request) -> Out:
        """Do the rest, once it was carried out."""
        ...


class _Place(Generic[T]):
    __slots__ = ("done", "error", "request", "result", "work")

    def __init__(self, work: Work[T], done: "asyncio.Future[T]") -> None:
        self.work = work
        self.done = done
        self.request: Request | None = None
        self.result: T | None = None
        self.error: BaseException | None = None


class Lane(Generic[T]):
    """Carries out work in rounds."""

    def __init__(self, store: Store) -> None:
        self._store_all = store.carry_out
        self._waiting: queue.SimpleQueue[_Place[T] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    async def run(self, work: Work[T]) -> T:
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if self._thread is None:
            self._thread = threading.Thread(target=self._carry_out, name="clew-append", daemon=True)
            self._thread.start()
        self._waiting.put(_Place(work, done))
        return await done

    def close(self) -> None:
        """Finish what waits."""
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()

    def _carry_out(self) -> None:
        while True:
            places: list[_Place[T]] = []
            first = self._waiting.get()
            while first is not None:
                places.append(first)
                if len(places) >= MOST or self._waiting.empty():
                    break
                first = self._waiting.get()
            if places:
                self._round(places)
                places[0].done.get_loop().call_soon_threadsafe(_tell, places)
            if first is None:
                return

    def _round(self, places: "list[_Place[T]]") -> None:
        for place in places:
            _try(place, place.work.begin)
        planned = [place for place in places if place.request is not None]
        if not planned:
            return
        try:
            self._store_all([place.request for place in planned if place.request is not None])
        except BaseException as error:  # noqa: BLE001
            for place in planned:
                place.error = error
            return
        for place in planned:
            _try(place, partial(place.work.finish, cast(Request, place.request)))


def _try(place: "_Place[T]", step: Callable[[], T]) -> None:
    try:
        place.result = step()
    except Planned as planned:
        place.request = planned.request
    except BaseException as error:  # noqa: BLE001
        place.error = error


def _tell(places: "list[_Place[Any]]") -> None:
    for place in places:
        if place.done.cancelled():
            continue
        if place.error is not None:
            place.done.set_exception(place.error)
        else:
            place.done.set_result(place.result)
