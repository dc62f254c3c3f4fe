"""The Python API for asyncio: what the plain one does, awaited."""

import asyncio
import gc
import inspect
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.async_plane import Async
from clew.model.errors import ClewError, NotFound

Work = Callable[[Any], Coroutine[Any, Any, Any]]


@pytest.fixture
def carried_out(store_url: str, tmp_path: Path) -> Callable[[Work], Any]:
    async def work_in(work: Work) -> Any:
        async with clew.connect_async(store_url, home=tmp_path, principal="person:ada") as plane:
            return await work(plane)

    return lambda work: asyncio.run(work_in(work))


def test_blocks_close_and_pause_as_the_plain_ones_do(carried_out: Callable[[Work], Any]) -> None:
    async def work(plane: Any) -> list[str]:
        async with plane.session("good") as good, good.call("read", {"path": "a"}) as call:
            call.output = "A"
        bad = await plane.session("bad")
        with pytest.raises(ZeroDivisionError):
            async with bad, bad.call("divide"):
                raise ZeroDivisionError
        cancelled = await plane.session("cancelled")

        async def wait_in_a_block() -> None:
            async with cancelled:
                await asyncio.Event().wait()

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(wait_in_a_block(), 0.01)
        returned = (await bad.events())[2]
        assert returned.body.failed
        return [(await s.info).state for s in (good, bad, cancelled)]

    assert carried_out(work) == ["closed", "paused", "paused"]


def test_many_tasks_write_one_session_at_once(carried_out: Callable[[Work], Any]) -> None:
    async def work(plane: Any) -> None:
        s = await plane.session("many")
        seqs = await asyncio.gather(*(s.user(str(number)) for number in range(50)))
        assert sorted(seqs) == [*range(2, 52)]
        texts = {event.body.text: event.seq for event in await s.events(after=1)}
        assert texts == {str(number): seq for number, seq in enumerate(seqs)}

    carried_out(work)


def test_a_session_is_given_and_taken_as_one(carried_out: Callable[[Work], Any]) -> None:
    async def work(plane: Any) -> None:
        s = await plane.session("t")
        await s.user("x")
        child = await s.fork(at=1)
        assert isinstance(child, Async)
        assert (await plane.diff(s, child)).shared == 1
        assert await plane.run(lambda plain, left, right: plain.diff(left, right).shared, s, child) == 1
        await s.call("read")
        [call] = await (await plane.resume(s.id)).unanswered
        await call.returned("late")
        assert [len(turn.items) async for turn in s.transcript()] == [1, 2]
        await s.scratch.update({"next": 1})
        assert await s.scratch.get("next") == 1
        with pytest.raises(NotFound):
            await plane.get("zzzzzzzz")

    carried_out(work)


def test_what_nobody_awaits_is_told(carried_out: Callable[[Work], Any]) -> None:
    async def work(plane: Any) -> None:
        s = await plane.session("t")

        def forget() -> None:
            s.user("forgotten")
            gc.collect()

        with pytest.warns(RuntimeWarning, match="coroutine 'user' was never awaited"):
            forget()
        assert await s.head == 1

    carried_out(work)


def test_every_method_and_value_is_there(tmp_path: Path) -> None:
    """Without a list of names: what the plain objects have, the asynchronous ones have."""
    with clew.connect(home=tmp_path) as plane:
        s = plane.session("t")
        for plain in (plane, s, s.call("x")):
            for name in [name for name, _ in inspect.getmembers(type(plain)) if not name.startswith("_")]:
                there = getattr(Async(plain), name)
                if isinstance(getattr(type(plain), name), property):
                    there._result.close()
                else:
                    assert callable(there), name
        for wrong in (lambda: Async(s).nothing, lambda: Async(s)._call):
            with pytest.raises(AttributeError):
                wrong()


def test_an_error_is_the_plain_one(carried_out: Callable[[Work], Any]) -> None:
    async def work(plane: Any) -> None:
        s = await plane.session("t")
        with pytest.raises(ClewError, match="takes no"):
            await s.archive()

    carried_out(work)
