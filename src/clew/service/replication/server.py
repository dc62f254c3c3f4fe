"""Another store's server, as replication needs it. `app.py` says who opens one, because `service/` knows no HTTP."""

from typing import Any, Protocol

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
