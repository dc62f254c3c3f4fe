"""One request and its answer, as logs and metrics know them: never a body, a query, a name or an id of a path."""

import itertools
import re
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec
from starlette.types import Scope, Send

from clew.model.ids import new_id
from clew.server.http.problems import Headers
from clew.service.kernel.context import Context

_OURS = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_TRACE = re.compile(rb"00-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
# Random once and counted from there: asking for randomness each time costs as much as a small statement.
_PROCESS = new_id()[:10]
_NUMBERS = itertools.count(1)
# What every answer says: it is for this caller alone, and is what it says it is.
ALWAYS = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]


@lru_cache(maxsize=2)
def _told(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))


class Answer(msgspec.Struct, frozen=True):
    """What goes back."""

    status: int
    body: bytes
    headers: Headers


class Exchange:
    """A request on its way."""

    __slots__ = ("began", "context", "headers", "id", "method", "route", "scope", "status")

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.method: str = scope["method"]
        self.headers: Mapping[bytes, bytes] = dict(scope["headers"])
        given = self.headers.get(b"x-request-id")
        self.id = given.decode() if given is not None and _OURS.fullmatch(given) else f"{_PROCESS}-{next(_NUMBERS):x}"
        self.began = time.perf_counter()
        self.route = ""
        self.context: Context | None = None
        self.status = 0

    @property
    def trace(self) -> str:
        """The W3C trace that this is a part of."""
        found = _TRACE.fullmatch(self.headers.get(b"traceparent", b""))
        return found[1].decode() if found else ""

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.began

    async def answer(self, send: Send, answer: Answer) -> None:
        """Send all of an answer."""
        self.status = answer.status
        headers = [*answer.headers, *ALWAYS, (b"x-request-id", self.id.encode())]
        if answer.status != 304:
            headers.append((b"content-length", str(len(answer.body)).encode()))
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})

    def line(self) -> dict[str, Any]:
        """What the log says about it."""
        told = {
            "at": _told(int(time.time())),
            "level": "error" if self.status >= 500 else "info",
            "event": "request",
            "method": self.method if self.method.isalpha() and len(self.method) <= 10 else "?",
            "route": self.route,
            "status": self.status,
            "ms": round(self.seconds * 1000, 2),
            "principal": self.context.principal if self.context else "",
            "request": self.id,
        }
        return told if not self.trace else {**told, "trace": self.trace}
