"""An HTTP exchange: one request and its response, and what logs and metrics record of it.

They record the route template, never a body, a query, or the names and ids in a path.
"""

import asyncio
import itertools
import re
import time
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec
from starlette.types import Scope, Send

from clew.model.ids import new_id
from clew.server.http.answer_text import AnswerText
from clew.server.http.problems import Headers
from clew.service.kernel.context import Context

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_TRACE = re.compile(rb"00-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
# Ids are this random text and a number: random bytes for each request would cost as much as a small statement.
_PROCESS = new_id()[:10]
_NUMBERS = itertools.count(1)
# Headers of every response: no cache stores it, no browser guesses its type, and no page of another site embeds it.
ALWAYS = [
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


@lru_cache(maxsize=2)
def _timestamp(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))


PIECE_BYTES = 256 * 1024
# How long a client may take to read a piece.
WRITE_SECONDS = 20.0


class Answer(msgspec.Struct, frozen=True):
    """A response: whole, or the beginning of one whose `rest` is sent while it is made."""

    status: int
    body: AnswerText
    headers: Headers
    rest: Iterator[AnswerText] | None = None
    held: int = 0
    """How many bytes the rest may hold until it is sent."""


class Exchange:
    """A request that is being served."""

    __slots__ = ("began", "context", "headers", "id", "method", "route", "scope", "status")

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.method: str = scope["method"]
        self.headers: Mapping[bytes, bytes] = dict(scope["headers"])
        given = self.headers.get(b"x-request-id")
        self.id = (
            given.decode() if given is not None and _REQUEST_ID.fullmatch(given) else f"{_PROCESS}-{next(_NUMBERS):x}"
        )
        self.began = time.perf_counter()
        self.route = ""
        self.context: Context | None = None
        self.status = 0

    @property
    def trace(self) -> str:
        """The id of the W3C trace that the caller named; empty without one."""
        match = _TRACE.fullmatch(self.headers.get(b"traceparent", b""))
        return match[1].decode() if match else ""

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.began

    async def answer(self, send: Send, answer: Answer) -> None:
        """Send a whole response, or the beginning of one."""
        self.status = answer.status
        headers = [*answer.headers, *ALWAYS, (b"x-request-id", self.id.encode())]
        if answer.status != 304 and answer.rest is None:
            headers.append((b"content-length", str(len(answer.body)).encode()))
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await self.send_body(send, answer.body, is_last=answer.rest is None)

    async def send_body(self, send: Send, body: AnswerText, *, is_last: bool) -> None:
        """Send a part of the body in pieces: a client that does not read holds one in the socket, and not for long."""
        for start in range(0, max(1, len(body)), PIECE_BYTES):
            end = start + PIECE_BYTES
            more_body = end < len(body) or not is_last
            try:
                async with asyncio.timeout(WRITE_SECONDS):
                    await send({"type": "http.response.body", "body": body[start:end], "more_body": more_body})
            except TimeoutError:
                raise ConnectionAbortedError from None  # The server closes the connection.

    def line(self) -> dict[str, Any]:
        """The line of the log."""
        line = {
            "at": _timestamp(int(time.time())),
            "level": "error" if self.status >= 500 else "info",
            "event": "request",
            "method": self.method if self.method.isalpha() and len(self.method) <= 10 else "?",
            "route": self.route,
            "status": self.status,
            "ms": round(self.seconds * 1000, 2),
            "principal": self.context.principal if self.context else "",
            "request": self.id,
        }
        return line if not self.trace else {**line, "trace": self.trace}
