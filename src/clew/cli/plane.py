"""The store that one run of the command line uses."""

from typing import Any

import msgspec

from clew import app, client
from clew.cli.progress import OnProgress
from clew.local import Local
from clew.service import call


class LazyPlane:
    """The store of this run; the first use opens it."""

    def __init__(self, settings: app.Settings) -> None:
        self.settings = settings
        self._plane: client.Plane | None = None

    @property
    def client(self) -> client.Client:
        if self._plane is None:
            self._plane = app.connect(self.settings.store, home=self.settings.home, principal=self.settings.principal)
        return self._plane.client

    def call(self, name: str, /, **arguments: Any) -> Any:
        return self.client.call(name, **arguments)

    def call_reporting(self, on_progress: OnProgress | None, name: str, /, **arguments: Any) -> Any:
        """Call an operation that reports its progress; one that a server carries out reports none."""
        client = self.client
        if on_progress is None or not isinstance(client, Local):
            return client.call(name, **arguments)
        return call(msgspec.structs.replace(client.context, on_progress=on_progress), name, arguments)

    def close(self) -> None:
        if self._plane is not None:
            self._plane.close()
