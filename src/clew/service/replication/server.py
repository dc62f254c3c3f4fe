"""Another store's server, as replication needs it. `app.py` says who opens one, because `service/` knows no HTTP."""

from typing import Any, Protocol
from urllib.parse import urlsplit

from clew.model.errors import InvalidInput

# Names of this machine: what is sent to them does not leave it.
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Server(Protocol):
    """A server that runs operations on its store."""

    def call(self, name: str, /, **arguments: Any) -> Any:
        """Run an operation; returns its result or raises its error."""
        ...

    def close(self) -> None: ...


class OpenServer(Protocol):
    """Opens a server at an address with a key; `patience` is how many seconds a failed request is retried."""

    def __call__(self, url: str, key: str, *, patience: float | None = None) -> Server: ...


def checked_url(url: str) -> str:
    """The address of a server: scheme, host and port."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        raise InvalidInput("that is not a valid server address; expected https://host or https://host:port") from None
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        # Not repeated: a part of it is a secret.
        raise InvalidInput("an address with a name or a password in it is refused; the key is kept apart (CLEW_KEY)")
    host = parts.hostname or ""
    if (
        parts.scheme not in ("http", "https")
        or not host
        or parts.path not in ("", "/")
        or parts.query
        or parts.fragment
    ):
        raise InvalidInput(f"{url[:200]!r} is not a valid server address; expected https://host or https://host:port")
    if parts.scheme == "http" and host not in LOOPBACK:
        raise InvalidInput(f"http://{host} would send your key and what is said in the clear; use https")
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}"
