"""A real server on a free port of the loopback address, in a thread, which can be stopped and started again."""

import io
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import httpx2
import msgspec

from clew import app
from clew.model.access import ROLES, Grant, owner_of_everything
from clew.server.http.application import Application
from clew.server.http.json_log import JsonLog
from clew.server.http.listener import listen, url_of
from clew.server.http.tracing import Traces
from clew.server.http.uvicorn_server import Server, make_server
from clew.server.options import Options
from clew.service import Context, call
from clew.service.access.authenticator import Authenticator
from clew.store import open_store
from clew.store.access.grants import add_grant
from clew.store.access.principals import Principal, find_principal, set_principal

OWNER = "person:owner"


def _mcp(contexts: Any) -> Any:
    from clew.mcp.server import http_app  # It takes two seconds, so only a test that asks for /mcp loads it.

    return http_app(contexts)


class Running:
    """Serves the store at a URL. Each start opens the store anew, as another process would."""

    def __init__(self, url: str, home: str = "", *, port: int = 0, **options: Any) -> None:
        self.url = url
        self.log = io.StringIO()
        self._home = home
        self._options = Options(**options)
        self.traces: Traces | None = None
        self._port = port
        self.server: Server | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> Self:
        made = listen("127.0.0.1", self._port)
        self.address = url_of(made)
        self._port = made.getsockname()[1]
        opens = app.open_server if self._options.is_own else None
        self.authenticator = Authenticator(open_store(self.url), home=self._home, open_server=opens)
        self.application = Application(
            self.authenticator, self._options, log=JsonLog(self.log), traces=self.traces, mcp=_mcp
        )
        self.server = make_server(self.application)
        self._thread = threading.Thread(target=self.server.run, args=([made],), name="server")
        self._thread.start()
        while not self.server.started:
            assert self._thread.is_alive(), self.log.getvalue()
            time.sleep(0.005)
        return self

    def stop(self) -> None:
        assert self.server is not None
        assert self._thread is not None
        self.server.should_exit = True
        self._thread.join()

    def restart(self) -> None:
        self.stop()
        self.start()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @contextmanager
    def busy(self) -> Iterator[None]:
        """The server looks at no connection meanwhile."""
        assert self.server is not None
        released, begun = threading.Event(), threading.Event()

        def wait() -> None:
            begun.set()
            released.wait()

        self.server.servers[0].get_loop().call_soon_threadsafe(wait)
        begun.wait()
        try:
            yield
        finally:
            released.set()

    # Who asks ---------------------------------------------------------------------------------------------------------

    def key(self, principal: str = OWNER, *grants: Grant, **fields: Any) -> str:
        """A key of somebody with these grants; of the owner with all."""
        set_principal(self.authenticator.store, Principal(name=principal))
        for grant in grants or ((owner_of_everything(principal),) if principal == OWNER else ()):
            add_grant(self.authenticator.store, grant, given_by=OWNER)
        made = call(self.owner, "key_create", {"principal": principal, **fields})
        return str(made.key)

    @property
    def owner(self) -> Context:
        if find_principal(self.authenticator.store, OWNER) is None:
            set_principal(self.authenticator.store, Principal(name=OWNER))
            add_grant(self.authenticator.store, owner_of_everything(OWNER), given_by="test")
        return self.authenticator.principal_context(OWNER)

    def client(self, key: str | None = None, **options: Any) -> httpx2.Client:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return httpx2.Client(base_url=self.address, headers=headers, timeout=30, **options)

    def own_browser(self, **options: Any) -> httpx2.Client:
        """The browser of the person whose own server this is."""
        identity = self.application.identity
        cookies, origin = {identity.cookie: identity.options.own_secret}, {"Origin": self.address}
        return httpx2.Client(base_url=self.address, cookies=cookies, headers=origin, timeout=30, **options)

    def lines(self) -> list[dict[str, Any]]:
        """What the server's log says so far."""
        self.application.log.flush()
        return [msgspec.json.decode(line) for line in self.log.getvalue().splitlines()]


def viewer(principal: str, **where: str) -> Grant:
    return Grant(principal=principal, rights=ROLES["viewer"], **where)


def writer(principal: str, **where: str) -> Grant:
    return Grant(principal=principal, rights=ROLES["writer"], **where)


class Listener:
    """A client of a stream that reads it in a thread and comes back when it ends, as browsers do."""

    def __init__(self, running: Running, path: str, key: str, *, last: str = "") -> None:
        self.events: list[dict[str, Any]] = []
        self.ids: list[int] = []
        self.problems: list[dict[str, Any]] = []
        self.reconnects = 0
        self.broken = 0
        """How often a stream was cut off, and did not end."""
        self._running, self._path, self._key, self._last = running, path, key, last
        self._ended = threading.Event()
        self._grown = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="listener")
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.is_set():
            headers = {"Last-Event-ID": self._last} if self._last else {}
            try:
                with (
                    self._running.client(self._key) as client,
                    client.stream("GET", self._path, headers=headers) as got,
                ):
                    assert got.status_code == 200, got.read()
                    with self._grown:
                        self.broken += 1
                        self._grown.notify_all()
                    self._read(got.iter_lines())
                    self.broken -= 1
            except httpx2.TransportError:
                pass  # Nobody is there just now, or it was cut off.
            if self.problems:
                return
            self.reconnects += 1
            time.sleep(0.02)

    def _read(self, lines: Iterator[str]) -> None:
        id, name, data = "", "", ""
        for line in lines:
            field, _, value = line.partition(": ")
            if field == "id":
                id = value
            elif field == "event":
                name = value
            elif field == "data":
                data = value
            elif not line:
                self._last = id or self._last
                if data:
                    self._take(name, data)
                name = data = ""
            if self._ended.is_set():
                return

    def _take(self, name: str, data: str) -> None:
        with self._grown:
            if name == "problem":
                self.problems.append(msgspec.json.decode(data))
            else:
                self.events.append(msgspec.json.decode(data))
                self.ids.append(int(self._last))
            self._grown.notify_all()

    def wait(self, count: int, seconds: float = 20.0) -> list[dict[str, Any]]:
        """The events, as soon as there are so many."""
        with self._grown:
            assert self._grown.wait_for(lambda: len(self.events) >= count, seconds), (
                f"{len(self.events)} of {count} came"
            )
        return self.events

    def wait_until_open(self, seconds: float = 20.0) -> None:
        """Return when the server has answered, so that what happens from then on comes."""
        with self._grown:
            assert self._grown.wait_for(lambda: self.broken > 0, seconds), "no stream was opened"

    def wait_for_problem(self, seconds: float = 20.0) -> dict[str, Any]:
        with self._grown:
            assert self._grown.wait_for(lambda: bool(self.problems), seconds), "it goes on listening"
        return self.problems[0]

    def join(self) -> None:
        self._thread.join(20)
        assert not self._thread.is_alive()

    def end(self) -> None:
        """Stop; whatever is sent next wakes it."""
        self._ended.set()


@contextmanager
def listening(running: Running, path: str, key: str, **options: str) -> Iterator[Listener]:
    listener = Listener(running, path, key, **options)
    try:
        yield listener
    finally:
        listener.end()
