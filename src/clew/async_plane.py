"""The Python API for asyncio: a method of a plane, a session or a call is awaited, and carried out in a thread.

Nothing is written twice: a name is looked up on the wrapped object, so a new method needs no copy here. A method
that is cancelled is finished by its thread all the same: what it wrote is stored.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator
from types import TracebackType
from typing import Any, Self

from clew.client import Call, OpenSession, Plane, Scratch

Wrapped = Plane | OpenSession | Call | Scratch

END = object()


class Async:
    """A plane, a session, a call or the scratch of a session, for asyncio.

    Methods and what has to be read are awaited. What is in memory, such as an id or the output of a call, is a plain
    attribute.
    """

    _wrapped: Wrapped

    def __init__(self, wrapped: Wrapped) -> None:
        object.__setattr__(self, "_wrapped", wrapped)

    def __repr__(self) -> str:
        return f"<async {self._wrapped!r}>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if name in vars(self._wrapped):
            return _asynchronous(vars(self._wrapped)[name])
        known = getattr(type(self._wrapped), name)
        if isinstance(known, property):
            return Pending(name, lambda: getattr(self._wrapped, name))
        method = getattr(self._wrapped, name)
        return lambda *given, **named: Pending(name, lambda: method(*map(_unwrapped, given), **named))

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._wrapped, name, value)

    async def run(self, do: Callable[..., Any], *given: Any) -> Any:
        """What a function returns that is called in a thread, with the plain object and what is given."""
        return _asynchronous(await asyncio.to_thread(do, self._wrapped, *map(_unwrapped, given)))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(self._wrapped, Scratch):
            await asyncio.to_thread(self._wrapped.__exit__, kind, error, trace)


class Pending:
    """The result of a method, to come: `await` gives it, `async with` is its block, `async for` gives its items.

    It holds a coroutine, so that Python warns when nobody awaits it.
    """

    def __init__(self, name: str, do: Callable[[], Any]) -> None:
        async def result() -> Any:
            return await asyncio.to_thread(do)

        result.__qualname__ = name  # What the warning says.
        self._result = result()
        self._entered: Async | None = None

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._get().__await__()

    async def _get(self) -> Any:
        return _asynchronous(await self._result)

    async def __aenter__(self) -> Async:
        self._entered = await self._get()
        return await self._entered.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._entered is not None  # noqa: S101  # `async with` has entered it
        await self._entered.__aexit__(kind, error, trace)

    async def __aiter__(self) -> AsyncIterator[Any]:
        items = iter(await self._result)
        while (item := await asyncio.to_thread(next, items, END)) is not END:
            yield _asynchronous(item)


def connect(open_plane: Callable[[], Plane]) -> Pending:
    """A plane that is opened in a thread."""
    return Pending("connect_async", open_plane)


def _asynchronous(value: Any) -> Any:
    if isinstance(value, list):
        return [_asynchronous(item) for item in value]
    return Async(value) if isinstance(value, Wrapped) else value


def _unwrapped(value: Any) -> Any:
    return value._wrapped if isinstance(value, Async) else value
