"""A client on a log that a server keeps, over HTTP.

An operation's route makes the request, its return type the result, and a problem the same error that a log of one's own
would raise. What changes something carries an Idempotency-Key, so that it can be sent again when the answer was lost.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from clew.model import codec
from clew.model.errors import ClewError, Damaged, InvalidInput, Unavailable
from clew.model.events import Draft, Event
from clew.model.ids import check_prefix, new_id
from clew.service.kernel.argument_error import argument_error
from clew.service.kernel.registry import OPERATIONS, Operation, operation_named
from clew.service.kernel.results import result_from
from clew.service.replication.server import LOOPBACK, checked_url

if TYPE_CHECKING:
    import httpx2

    from clew.service.kernel.context import Context
    from clew.service.sessions.objects import ObjectInfo, OpenedObject
    from clew.service.workspaces.opening import OpenedTar
    from clew.store.objects.objects import Source

PREFIX = "/v1"
# How long something is tried again that failed for a reason which may pass.
PATIENCE_SECONDS = 5.0
CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 120.0
# A stream says at least so often that it is still there.
SILENCE_SECONDS = 45.0
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
PACKED_FROM = 1024
MOST_URLS = 1000
NO_ROUTE = "there is nothing at this address"
# What stands in a refusal beside the details of the error.
PROBLEM_FIELDS = {"type", "title", "status", "detail", "code", "request"}


class Remote:
    """A server; the key says on whose behalf it is asked."""

    def __init__(self, url: str, key: str = "", *, patience: float = PATIENCE_SECONDS) -> None:
        self.url = checked_url(url)
        self._key = key
        self._patience = patience
        self._pool: httpx2.Client | None = None
        self._transport: httpx2.HTTPTransport | None = None
        self._headers: list[tuple[str, str]] = []
        self._extensions: dict[str, Any] = {}
        self._url_of = lru_cache(maxsize=MOST_URLS)(self._parsed_url)
        self._principal = ""

    def __repr__(self) -> str:
        return f"<remote {self.url}>"

    @property
    def principal(self) -> str:
        if not self._principal:
            self._principal = str(self.call("whoami").principal)
        return self._principal

    @property
    def context(self) -> "Context":
        raise InvalidInput(_here(self.url))

    def call(self, name: str, /, **arguments: Any) -> Any:
        """Carry out an operation on the server."""
        operation = OPERATIONS.get(name) or operation_named(name)
        if operation.on_server is not None:
            return operation.on_server
        if not operation.route:
            raise InvalidInput(f"{name} is done on the machine itself. {_here(self.url)}")
        _check(operation, arguments)
        method, path, body = _request(operation, arguments)
        headers = {} if operation.repeatable else {"Idempotency-Key": new_id()}
        answer = self._answered(name, method, path, body, headers)
        try:
            return result_from(operation.result, answer)
        except (msgspec.DecodeError, TypeError, UnicodeDecodeError) as error:
            raise Unavailable(
                f"the server at {self.url} answered {name} in words this clew does not know ({error}); it is of "
                "another version: upgrade the older of the two"
            ) from None

    # Following --------------------------------------------------------------------------------------------------------

    def wait(self, *, after: int, timeout: float) -> bool:
        import httpx2

        end = time.monotonic() + timeout
        try:
            with self._stream(f"{PREFIX}/stream", after, silence=timeout) as messages:
                for _, data in messages:
                    if data:
                        return True
                    if time.monotonic() >= end:
                        return False
        except httpx2.TransportError:
            pass
        # A broken stream is not an answer; the caller polls again.
        time.sleep(max(0.0, min(FIRST_PAUSE, end - time.monotonic())))
        return False

    def last_position(self) -> int:
        import httpx2

        try:
            with self._stream(f"{PREFIX}/stream", None, silence=ANSWER_SECONDS) as messages:
                return next(messages)[0]
        except (httpx2.TransportError, StopIteration) as error:
            raise self._lost(error) from None

    def follow(self, *, after: int, session: str = "", project: str = "") -> Iterator[Event]:
        """The events of a session, a project or everything, as they come; for ever, whatever becomes of the line."""
        import httpx2

        path = f"/sessions/{quote(check_prefix(session))}/stream" if session else "/stream"
        query = f"?{urlencode({'project': project})}" if project else ""
        pause = FIRST_PAUSE
        while True:
            try:
                with self._stream(f"{PREFIX}{path}{query}", after, silence=SILENCE_SECONDS) as messages:
                    for after, data in messages:  # noqa: B007  # Where the next stream goes on.
                        pause = FIRST_PAUSE
                        if data:
                            yield codec.event_from(data)
            except httpx2.TransportError:
                pass
            except ClewError as error:
                if error.code not in ("unavailable", "busy", "too_many_requests"):
                    raise
            time.sleep(pause)  # Nothing tells when a server is back.
            pause = min(2 * pause, LONGEST_PAUSE)

    @contextmanager
    def _stream(self, path: str, after: int | None, *, silence: float) -> Iterator[Iterator[tuple[int, bytes]]]:
        """The messages of a stream: the id of each, and what it says, if anything."""
        headers = {"Accept": "text/event-stream"}
        if after is not None:
            headers["Last-Event-ID"] = str(after)
        with self._open_pool().stream(
            "GET", self.url + path, headers=headers, timeout=self._timeout(silence)
        ) as response:
            if response.status_code != 200:
                raise self._refusal(response.status_code, response.read(), "stream")
            yield _messages(response.iter_bytes())

    # Objects ----------------------------------------------------------------------------------------------------------

    def put_object(
        self,
        session: str,
        name: str,
        source: "Source",
        *,
        media_type: str = "",
        progress: bool = False,
        lease: int | None = None,
    ) -> "ObjectInfo":
        """Send a stream, once: if the answer is lost, the same bytes can be put again under the same name."""
        from clew.service.sessions.objects import ObjectInfo
        from clew.store.objects.objects import pieces_of

        query = urlencode(_pairs_of(name=name, media_type=media_type or None, progress=progress or None, lease=lease))
        # Not read before it is sent, so only a stream that says so is known to be too large.
        with self._exchange("POST", f"{_objects(session)}?{query}", iter(pieces_of(source))) as response:
            return msgspec.json.decode(response.read(), type=ObjectInfo)

    def open_object(self, session: str, object: str) -> "OpenedObject":
        """Read an object; its bytes are checked once more here, unless the server masked something in them."""
        from clew.service.sessions.objects import OpenedObject

        info = self.call("object_stat", session=session, object=object)
        pieces = self._received(f"{_objects(session)}/{info.digest}", info.digest)
        return OpenedObject(info=info, is_exact=next(pieces) == b"exact", pieces=pieces)

    def open_file(self, session: str, path: str, *, at: int | None = None) -> "OpenedObject":
        """Read a file of a session; the server masks the secrets in it."""
        from clew.service.sessions.objects import ObjectInfo, OpenedObject

        pieces, headers = self._downloaded(session, "raw", path, at)
        info = ObjectInfo(
            digest="", size=int(headers.get("content-length", 0)), name=path.rpartition("/")[2], media_type="",
            seq=int(headers["x-clew-seq"]),
        )  # fmt: skip
        return OpenedObject(info=info, is_exact="content-length" in headers, pieces=pieces)

    def open_tar(self, session: str, path: str = "", *, at: int | None = None) -> "OpenedTar":
        """Read the files of a session as an archive; the server masks the secrets in them."""
        from clew.service.workspaces.opening import OpenedTar

        pieces, headers = self._downloaded(session, "tar", path, at)
        seq = int(headers["x-clew-seq"])
        return OpenedTar(name=f"{session[:10]}-{seq}.tar", seq=seq, pieces=pieces)

    def _downloaded(
        self, session: str, route: str, path: str, at: int | None
    ) -> "tuple[Iterator[bytes], Mapping[str, str]]":
        """The pieces of an answer, and its headers, which come first."""
        query = urlencode(_pairs_of(path=path or None, at=at))
        address = f"/sessions/{quote(check_prefix(session))}/workspace/{route}?{query}"
        headers: dict[str, str] = {}

        def received() -> Iterator[bytes]:
            with self._exchange("GET", address) as response:
                headers.update(response.headers)
                yield b""
                yield from response.iter_bytes()

        pieces = received()
        next(pieces)
        return pieces, headers

    def _received(self, path: str, digest: str) -> Iterator[bytes]:
        """The word `exact` or `masked`, and then the pieces of an object."""
        from blake3 import blake3

        hash = blake3()
        with self._exchange("GET", path) as response:
            is_exact = "etag" in response.headers
            yield b"exact" if is_exact else b"masked"
            for piece in response.iter_bytes():
                hash.update(piece)
                yield piece
        if is_exact and hash.hexdigest() != digest:
            raise Damaged(f"what the server at {self.url} sent is not object {digest}; ask for it again")

    def read_bundle(self, session: str) -> Iterator[bytes]:
        """A session as a bundle, piece by piece."""
        with self._exchange("GET", f"/sessions/{quote(session, safe='')}/bundle") as response:
            yield from response.iter_bytes()

    @contextmanager
    def _exchange(self, method: str, path: str, content: Iterator[bytes] | None = None) -> Iterator["httpx2.Response"]:
        """One request and its answer, neither of which is in memory as a whole."""
        import httpx2

        headers = {} if content is None else {"Content-Type": "application/octet-stream"}
        try:
            with self._open_pool().stream(
                method, f"{self.url}{PREFIX}{path}", content=content, headers={**headers, "Accept-Encoding": "identity"}
            ) as response:
                if response.status_code != 200:
                    raise self._refusal(response.status_code, response.read(), "objects")
                yield response
        except httpx2.TransportError as lost:
            raise self._lost(lost) from None

    # Requests ---------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _open_pool(self) -> "httpx2.Client":
        if self._pool is None:
            from urllib.request import getproxies

            try:
                import httpx2
            except ModuleNotFoundError:
                raise InvalidInput("httpx2 is not installed; install clew with its server: clew[server]") from None
            import clew

            headers = {"User-Agent": f"clew/{clew.__version__}", "Accept": "application/json"}
            if self._key:
                headers["Authorization"] = f"Bearer {self._key}"
            # A key goes to the server it is for: to no proxy on the way to this machine, and wherever a redirect says.
            is_own = urlsplit(self.url).hostname in LOOPBACK
            if is_own or not getproxies():
                self._transport = httpx2.HTTPTransport(trust_env=not is_own)
            self._pool = httpx2.Client(
                headers=headers, timeout=self._timeout(ANSWER_SECONDS), follow_redirects=False, trust_env=not is_own,
                transport=self._transport,
            )  # fmt: skip
            self._headers = list(self._pool.headers.items())
            self._extensions = {"timeout": self._timeout(ANSWER_SECONDS).as_dict()}
        return self._pool

    def _timeout(self, seconds: float) -> "httpx2.Timeout":
        import httpx2

        return httpx2.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS, read=max(0.05, seconds))

    def _answered(self, name: str, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> bytes:
        """The answer to a request. One that failed for a reason which may pass is sent again."""
        import httpx2

        content, more = _packed(body)
        # Made here: to merge a client's defaults into each request takes as long as an append takes on the server.
        self._open_pool()
        complete = [*self._headers, *headers.items(), *more.items()]
        end = time.monotonic() + self._patience
        pause = FIRST_PAUSE
        while True:
            error: ClewError
            try:
                request = httpx2.Request(
                    method, self._url_of(path), headers=complete, content=content, extensions=self._extensions
                )
                response = self._sent(request)
                if response.status_code == 200:
                    return response.content
                error = self._refusal(response.status_code, response.content, name)
                is_worth_retrying = response.status_code in (429, 502, 503, 504) or "retry-after" in response.headers
            except httpx2.TransportError as lost:
                error, is_worth_retrying = self._lost(lost), True
            if not is_worth_retrying or time.monotonic() + pause > end:
                raise error
            time.sleep(pause)  # Nothing tells when a server is back; asking again is the only way to know.
            pause = min(2 * pause, LONGEST_PAUSE)

    def _sent(self, request: "httpx2.Request") -> "httpx2.Response":
        """The answer of the server. Without a proxy the request goes to the connections at once.

        What a client does for cookies, redirects and logins takes as long as the request itself, and is not wanted.
        """
        if self._transport is None:
            return self._open_pool().send(request)
        response = self._transport.handle_request(request)
        try:
            response.read()
        finally:
            response.close()
        return response

    def _parsed_url(self, path: str) -> "httpx2.URL":
        import httpx2

        return httpx2.URL(self.url + PREFIX + path)

    def _refusal(self, status: int, body: bytes, name: str) -> ClewError:
        """The error of a server's refusal, as the server raised it."""
        try:
            fields = msgspec.json.decode(body, type=dict[str, Any])
            code, detail = str(fields["code"]), str(fields["detail"])
        except (msgspec.DecodeError, UnicodeDecodeError, KeyError):
            return Unavailable(
                f"what answers at {self.url} is not a clew server (status {status}); check the address", status=status
            )
        if code == "not_found" and detail.startswith(NO_ROUTE):
            return Unavailable(
                f"the server at {self.url} has no {name}: it is of another version than this clew; upgrade the older "
                "of the two"
            )
        details = {key: value for key, value in fields.items() if key not in PROBLEM_FIELDS}
        return errors().get(code, ClewError)(detail, **details)

    def _lost(self, error: Exception) -> Unavailable:
        reason = str(error) or type(error).__name__
        return Unavailable(f"cannot reach the clew server at {self.url} ({reason}); check the address and that it runs")


def errors() -> dict[str, type[ClewError]]:
    """Every error by its code."""

    def below(root: type[ClewError]) -> Iterator[type[ClewError]]:
        yield root
        for kind in root.__subclasses__():
            yield from below(kind)

    # A kind that has no code of its own is the one above it, seen from elsewhere.
    return {kind.code: kind for kind in below(ClewError) if "code" in vars(kind)}


# Arguments ------------------------------------------------------------------------------------------------------------


def _check(operation: Operation, arguments: Mapping[str, Any]) -> None:
    """Refuse here what the server would refuse, in the same words."""
    try:
        msgspec.convert(dict(arguments), operation.arguments)
    except msgspec.ValidationError as error:
        raise argument_error(operation.name, arguments, operation.arguments, error) from error
    for parameter in operation.parameters:
        if parameter.is_session and arguments.get(parameter.name) is not None:
            check_prefix(arguments[parameter.name])


def _request(operation: Operation, arguments: Mapping[str, Any]) -> tuple[str, str, bytes | None]:
    """The method, the path with its query, and the body."""
    method, _, path = operation.route.partition(" ")
    left = {name: value for name, value in arguments.items() if value is not None}
    for parameter in operation.parameters:
        if f"{{{parameter.name}}}" in path:
            path = path.replace(f"{{{parameter.name}}}", quote(str(left.pop(parameter.name)), safe=""))
    if method in ("GET", "DELETE"):
        pairs = _pairs_of(**left)
        return method, f"{path}?{urlencode(pairs)}" if pairs else path, None
    if operation.drafts:
        left[operation.drafts] = [_draft(value) for value in left[operation.drafts]]
    return method, path, msgspec.json.encode(left)


def _objects(session: str) -> str:
    return f"/sessions/{quote(check_prefix(session))}/objects"


def _pairs_of(**given: Any) -> list[tuple[str, str]]:
    return [pair for name, value in given.items() if value is not None for pair in _pairs(name, value)]


def _pairs(name: str, value: Any) -> list[tuple[str, str]]:
    if isinstance(value, list | tuple | set | frozenset):
        return [pair for item in value for pair in _pairs(name, item)]
    if isinstance(value, bool):
        return [(name, "true" if value else "false")]
    if isinstance(value, dict):
        return [(name, msgspec.json.encode(value).decode())]
    return [(name, str(value.value if isinstance(value, Enum) else value))]


def _draft(value: Any) -> Any:
    """A draft as it is sent; one that is none is refused before it leaves."""
    if not isinstance(value, Draft):
        if not isinstance(value, str | bytes | Mapping):
            raise InvalidInput(f"a draft is a JSON object, not {type(value).__name__}")
        codec.draft(value)
        return (
            value if isinstance(value, Mapping) else msgspec.Raw(value if isinstance(value, bytes) else value.encode())
        )
    fields: dict[str, Any] = {"kind": value.body.kind}
    fields |= {} if value.source is None else {"source": value.source}
    fields |= {} if value.said_at is None else {"said_at": value.said_at}
    try:
        return fields | msgspec.json.decode(codec.encode(value.body), type=dict[str, msgspec.Raw])
    except msgspec.ValidationError:
        raise InvalidInput(f"{value.body.kind}: only a JSON object can be appended to a server's log") from None


def _packed(body: bytes | None) -> tuple[bytes | None, dict[str, str]]:
    if body is None:
        return None, {}
    headers = {"Content-Type": "application/json"}
    if len(body) < PACKED_FROM:
        return body, headers
    import zstandard

    return zstandard.compress(body), {**headers, "Content-Encoding": "zstd"}


# Results --------------------------------------------------------------------------------------------------------------


def _messages(chunks: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
    """The id and the data of each message; a problem is raised. A line ends with a line feed and nothing else."""
    rest, id, name, data = b"", 0, b"", b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            field, _, value = line.partition(b": ")
            if field == b"id":
                id = int(value)
            elif field == b"event":
                name = value
            elif field == b"data":
                data = value
            elif not line:
                if name == b"problem":
                    fields = msgspec.json.decode(data, type=dict[str, Any])
                    details = {key: value for key, value in fields.items() if key not in PROBLEM_FIELDS}
                    raise errors().get(fields["code"], ClewError)(fields["detail"], **details)
                yield id, data
                name = data = b""


def _here(url: str) -> str:
    return (
        f"CLEW_STORE or --store names the server {url}: run this on the server's own machine, or leave the server out "
        "for the log of this machine"
    )
