"""A provider, a server that trusts it, and browsers that reach the server through a proxy that speaks TLS."""

import io
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2
import msgspec
import pytest

from clew.model.access import Grant, Right, owner_of_everything
from clew.server.http.application import Application
from clew.server.http.json_log import JsonLog
from clew.server.http.listener import listen, url_of
from clew.server.http.uvicorn_server import make_server
from clew.server.options import Oidc, Options
from clew.service import Context, call
from clew.service.access.authenticator import Authenticator
from clew.store import open_store
from clew.store.access.grants import add_grant
from clew.store.access.principals import Principal, set_principal
from support.provider import CLIENT, SECRET, Provider

URL = "https://clew.example"
# Nothing here speaks TLS, and reading the certificates of the world takes longer than a test.
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class Site:
    """A server at `URL`, as others see it."""

    def __init__(self, home: Path, oidc: Oidc | None) -> None:
        self.log = io.StringIO()
        self.authenticator = Authenticator(open_store(f"sqlite:///{home / 'clew.db'}"), home=str(home))
        options = Options(public_url=URL, hosts=("clew.example",), oidc=oidc)
        self.application = Application(self.authenticator, options, mcp=_mcp, log=JsonLog(self.log))
        made = listen("127.0.0.1", 0)
        self.address = url_of(made)
        self._server = make_server(self.application)
        self._thread = threading.Thread(target=self._server.run, args=([made],), name="site")

    def __enter__(self) -> Self:
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive(), self.log.getvalue()
            time.sleep(0.005)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join()

    def add(self, name: str, *, issuer: str = "", subject: str = "", rights: frozenset[Right] = frozenset()) -> None:
        """Add somebody, as an owner does."""
        login = f"{issuer} {subject}" if issuer else ""
        set_principal(self.authenticator.store, Principal(name=name, login=login))
        if rights:
            add_grant(self.authenticator.store, Grant(principal=name, rights=rights), given_by="person:owner")

    def key(self, name: str) -> str:
        """The text of a new API key of somebody."""
        store, root = self.authenticator.store, "person:root"
        context = Context(store=store, unrestricted=store, principal=root, grants=(owner_of_everything(root),))
        return str(call(context, "key_create", {"principal": name}).key)

    def browser(self, **options: Any) -> httpx2.Client:
        """A client that keeps cookies and follows redirects."""
        return httpx2.Client(
            base_url=URL, mounts={URL: Proxy(self.address)}, follow_redirects=True, timeout=30, verify=NO_TLS, **options
        )

    def program(self, token: str = "") -> httpx2.Client:
        return self.browser(headers={"authorization": f"Bearer {token}"} if token else {})

    def lines(self) -> list[dict[str, Any]]:
        """What the server's log says so far."""
        self.application.log.flush()
        return [msgspec.json.decode(line) for line in self.log.getvalue().splitlines()]


class Proxy(httpx2.HTTPTransport):
    """Stands before the server and ends TLS, so that cookies are the ones of production."""

    def __init__(self, place: str) -> None:
        super().__init__(verify=NO_TLS)
        self._place = httpx2.URL(place)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        url = request.url.copy_with(scheme="http", host=self._place.host, port=self._place.port)
        return super().handle_request(
            httpx2.Request(
                request.method, url, headers=request.headers, stream=request.stream, extensions=request.extensions
            )
        )


def _mcp(contexts: Any) -> Any:
    from clew.mcp.server import http_app

    return http_app(contexts, hosts=["clew.example"])


@pytest.fixture(scope="session")
def _provider() -> Iterator[Provider]:
    with Provider(f"{URL}/login/callback") as provider:
        yield provider


@pytest.fixture
def provider(_provider: Provider) -> Provider:
    """An honest provider."""
    _provider.reset()
    return _provider


@pytest.fixture(scope="module")
def _site(_provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("site"), trusted(_provider, domains=frozenset({"team.example"}))) as site:
        yield site


@pytest.fixture
def site(_site: Site, provider: Provider) -> Site:
    """A server that has met the provider, who has been honest so far."""
    return _site


@pytest.fixture
def sites(provider: Provider, tmp_path: Path) -> Iterator[Callable[..., Site]]:
    """Starts servers of one's own."""
    started: list[Site] = []

    def start(**options: Any) -> Site:
        home = tmp_path / str(len(started))
        home.mkdir()
        started.append(Site(home, trusted(provider, **options)).__enter__())
        return started[-1]

    yield start
    for one in started:
        one.__exit__(None, None, None)


def trusted(provider: Provider, **options: Any) -> Oidc:
    return Oidc(**{"issuer": provider.issuer, "client_id": CLIENT, "client_secret": SECRET, **options})
