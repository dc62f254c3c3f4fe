"""Objects over HTTP as plain bytes: GET reads one, ranges too, and POST stores one. Neither is ever held in memory.

A download is sent in pieces, each of which is a turn of the caller. An upload is read by a thread of a pool of its own,
so that clients that send slowly keep nobody else waiting.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any, NamedTuple
from urllib.parse import quote

from starlette.types import Receive, Send

from clew.model.errors import InvalidInput, TooManyRequests
from clew.server.http.answer_text import NOTHING, AnswerText, NeedsNoMasking, masked, unmasked
from clew.server.http.arguments import pairs
from clew.server.http.exchange import Answer, Exchange
from clew.server.http.operations import Operations
from clew.server.http.problems import Headers, Refused
from clew.server.http.request_body import CLOSE, Gone, next_chunk
from clew.server.http.request_handler import JSON
from clew.server.login.identity import Credential
from clew.service.kernel.call import call
from clew.service.kernel.results import to_json
from clew.service.sessions.objects import OpenedObject

LIST, ONE = "/v1/sessions/{session}/objects", "/v1/sessions/{session}/objects/{object}"
# Uploads at once: of one principal, and in one process.
MOST_UPLOADS, UPLOAD_THREADS = 4, 16
PIECE_BYTES = 1024 * 1024
UPLOAD_PARAMETERS = ("name", "media_type", "progress", "lease")
_RANGE = re.compile(rb"bytes=(\d{0,18})-(\d{0,18})")


class ObjectRoutes:
    """The two routes."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._uploads = ThreadPoolExecutor(UPLOAD_THREADS, thread_name_prefix="clew-upload")
        self._uploading = Counter[str]()
        operations.others.add("GET", ONE, self.download)
        operations.others.add("HEAD", ONE, self.download)
        operations.others.add("POST", LIST, self.upload)

    def close(self) -> None:
        self._uploads.shutdown()

    # Downloads --------------------------------------------------------------------------------------------------------

    async def download(self, exchange: Exchange, values: list[str], receive: Receive, send: Send) -> None:
        exchange.route = ONE
        credential = self._operations.credential(exchange)
        begin = partial(self._open, exchange, credential, *values)
        answer = await self._operations.in_turn(credential, begin, receive)
        await exchange.answer(send, answer)
        if answer.rest is not None:
            await self._operations.send_rest(exchange, credential, answer.rest, receive, send)

    def _open(self, exchange: Exchange, credential: Credential, session: str, object: str) -> Answer:
        if exchange.scope["query_string"]:
            raise InvalidInput("an object is read without parameters; the header Range asks for a part of it")
        context = self._operations.admit(exchange, credential)
        opened: OpenedObject = call(context, "object_open", {"session": session, "object": object})
        headers = headers_of(opened.info.name or opened.info.digest[:16])
        headers.append((b"x-clew-object", opened.info.digest.encode()))
        if not opened.is_exact:
            return begun(200, headers, opened.pieces)
        size = opened.info.size
        tag = b'"%b"' % opened.info.digest.encode()
        headers += [(b"etag", tag), (b"accept-ranges", b"bytes")]
        if tag in exchange.headers.get(b"if-none-match", b""):
            return Answer(304, NOTHING, headers)
        wanted = _range(exchange, tag, size)
        if wanted is None:
            return begun(200, [*headers, (b"content-length", b"%d" % size)], opened.pieces)
        headers.append((b"content-range", b"bytes %d-%d/%d" % (wanted.first, wanted.last, size)))
        headers.append((b"content-length", b"%d" % (wanted.last - wanted.first + 1)))
        return begun(206, headers, _within(opened.pieces, wanted))

    # Uploads ----------------------------------------------------------------------------------------------------------

    async def upload(self, exchange: Exchange, values: list[str], receive: Receive, send: Send) -> None:
        exchange.route = LIST
        operations = self._operations
        credential = operations.credential(exchange)
        if exchange.headers.get(b"content-encoding", b"identity").strip().lower() not in (b"", b"identity"):
            raise Refused(415, "invalid_input", "an object is sent as it is, without Content-Encoding", CLOSE)
        arguments = {"session": values[0], **_parameters(exchange)}
        length = exchange.headers.get(b"content-length", b"")
        if length.isdigit():
            arguments["size"] = int(length[:18])
        body = _Body(receive, asyncio.get_running_loop(), operations.options.body_seconds)

        def put() -> AnswerText:
            context = operations.admit(exchange, credential)
            return masked(context, to_json(call(context, "object_put", {**arguments, "source": body})))

        with self._counted(await operations.principal(credential)):
            running = asyncio.get_running_loop().run_in_executor(self._uploads, put)
            try:
                answer = await running
            except BaseException:
                body.end()
                raise
        await exchange.answer(send, Answer(200, answer, [JSON] if body.is_read else [JSON, *CLOSE]))

    @contextmanager
    def _counted(self, principal: str) -> Iterator[None]:
        if self._uploading[principal] >= MOST_UPLOADS or self._uploading.total() >= UPLOAD_THREADS:
            raise TooManyRequests(f"at most {MOST_UPLOADS} objects of one caller arrive at a time; send fewer at once")
        self._uploading[principal] += 1
        try:
            yield
        finally:
            self._uploading[principal] -= 1
            if not self._uploading[principal]:
                del self._uploading[principal]


class _Body:
    """The body of a request for a thread: each piece is asked for in the loop, once the one before was stored."""

    def __init__(self, receive: Receive, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._receive = receive
        self._loop = loop
        self._seconds = seconds
        self.is_read = False
        self._has_ended = False

    def __iter__(self) -> Iterator[bytes]:
        while not self.is_read:
            if self._has_ended:
                raise Gone  # The beginning of an object must not be stored as if it were the whole.
            yield asyncio.run_coroutine_threadsafe(self._next(), self._loop).result()

    async def _next(self) -> bytes:
        piece = bytearray()
        try:
            async with asyncio.timeout(self._seconds):
                while len(piece) < PIECE_BYTES and not self.is_read:
                    chunk, self.is_read = await next_chunk(self._receive)
                    piece += chunk
        except TimeoutError:
            raise Refused(
                408, "invalid_input", f"no more of the object arrived within {self._seconds:g} s", CLOSE
            ) from None
        return bytes(piece)

    def end(self) -> None:
        """Nobody waits for the answer any more: the thread gets no further piece."""
        self._has_ended = True


# Headers --------------------------------------------------------------------------------------------------------------


class Range(NamedTuple):
    first: int
    last: int


def headers_of(name: str) -> Headers:
    """Nothing that a session holds is shown by a browser as a page of ours: it is saved as a file."""
    return [
        (b"content-type", b"application/octet-stream"),
        (b"content-disposition", f"attachment; filename*=UTF-8''{quote(name, safe='')}".encode()),
        (b"content-security-policy", b"sandbox; default-src 'none'"),
    ]


def _range(exchange: Exchange, tag: bytes, size: int) -> Range | None:
    """The wanted part; None for the whole, as for anything but one range of bytes."""
    match = _RANGE.fullmatch(exchange.headers.get(b"range", b"").strip())
    if match is None or match[0] == b"bytes=-" or exchange.headers.get(b"if-range", tag) != tag:
        return None
    first, last = match.groups()
    if not first:
        wanted = Range(max(0, size - int(last)), size - 1)
    else:
        wanted = Range(int(first), min(int(last or size), size - 1))
        if last and int(last) < int(first):
            return None
    if wanted.first > wanted.last:
        raise Refused(
            416, "invalid_input", f"the object has {size:,} bytes, and none in this range",
            [(b"content-range", b"bytes */%d" % size)],
        )  # fmt: skip
    return wanted


def _within(pieces: Iterator[bytes], wanted: Range) -> Iterator[bytes]:
    """The wanted part of the pieces. All up to it are read, because an object is checked from its beginning on."""
    at = 0
    for piece in pieces:
        start, end = max(0, wanted.first - at), wanted.last + 1 - at
        if start < len(piece):
            yield piece[start:end]
        at += len(piece)
        if at > wanted.last:
            return


def begun(status: int, headers: Headers, pieces: Iterator[bytes]) -> Answer:
    """An answer whose first piece is read already: an object that cannot be read is a problem, and no answer."""
    whole = chain([next(pieces, b"")], pieces)
    return Answer(status, NOTHING, headers, (unmasked(piece, NeedsNoMasking.MASKED_BEFORE) for piece in whole))


def _parameters(exchange: Exchange) -> dict[str, Any]:
    """The parameters of an upload. They are in the query, because the body is the object."""
    given = dict(pairs(exchange.scope["query_string"]))
    if unknown := given.keys() - set(UPLOAD_PARAMETERS):
        raise InvalidInput(f"object_put has no parameter {min(unknown)[:40]!r}; it has {', '.join(UPLOAD_PARAMETERS)}")
    if "name" not in given:
        raise InvalidInput("an object needs a name: add ?name=report.pdf to the address")
    if any("\0" in value for value in given.values()):
        raise InvalidInput("a parameter contains a NUL character; remove it")
    if "lease" in given and not re.fullmatch(r"\d{1,18}", given["lease"]):
        raise InvalidInput(f"lease has to be the number of an epoch, not {given['lease'][:40]!r}")
    if given.get("progress", "true") not in ("true", "false"):
        raise InvalidInput(f"progress has to be true or false, not {given['progress'][:40]!r}")
    lease = {"lease": int(given["lease"])} if "lease" in given else {}
    return {**given, **lease, "progress": given.get("progress") == "true"}
