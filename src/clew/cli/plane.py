"""The store that one run of the command line uses."""

from typing import Any

from clew import app, client


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

    def close(self) -> None:
        if self._plane is not None:
            self._plane.close()
