"""The consumer that pushes what is shared with a server whenever the log has grown.

Its cursors are stored with each server's acknowledgements (service/replication/push.py). A server that is away is tried
again with growing pauses.
"""

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from clew.model.errors import ClewError
from clew.service.kernel.call import call
from clew.service.kernel.context import Context
from clew.service.replication import remotes
from clew.service.replication.push import Pushed, has_news
from clew.service.replication.remotes import Setting
from clew.service.replication.server import OpenServer

# Sessions that a server refused are tried again this often.
AGAIN_SECONDS = 60.0
# Events that arrive within this time go in one push.
BREATH_SECONDS = 0.3
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
# Short, because a stop waits for it.
PATIENCE_SECONDS = 2.0


class Pushes:
    """Pushes to every remote with which something is shared, or to the one of a name."""

    name = "push"
    rest_seconds = BREATH_SECONDS

    def __init__(
        self, context: Context, home: Path, *, pushed: Callable[[Pushed], None], report: Callable[[str], None],
        name: str = "",
    ) -> None:  # fmt: skip
        """`pushed` is called with each result, `report` when a push fails and when it works again."""
        self._context = msgspec.structs.replace(context, open_server=_impatient(context.open_server))
        self._home = home
        self._pushed = pushed
        self._report = report
        self._name = name
        self._failing: dict[str, str] = {}
        self._pause = FIRST_PAUSE
        self._retry_at = 0.0
        self._retry_refused_at = 0.0

    def run(self, stopping: threading.Event) -> float | None:
        now = time.monotonic()
        if now < self._retry_at:
            return self._retry_at - now
        retries_refused = now >= self._retry_refused_at
        if not self._push_all(retries_refused=retries_refused):
            pause, self._pause = self._pause, min(2 * self._pause, LONGEST_PAUSE)
            self._retry_at = time.monotonic() + pause
            return pause
        self._pause = FIRST_PAUSE
        if retries_refused:
            self._retry_refused_at = time.monotonic() + AGAIN_SECONDS
        return AGAIN_SECONDS if self._has_refused() else None

    def _settings(self) -> list[Setting]:
        settings = remotes.all_of(self._home)
        return [setting for setting in settings if self._name in ("", setting.name) and is_shared_with(setting)]

    def _has_refused(self) -> bool:
        return any(setting.refused for setting in self._settings())

    def _push_all(self, *, retries_refused: bool) -> bool:
        """Push to every server; returns whether every push succeeded."""
        results = [
            self._push(setting.name)
            for setting in self._settings()
            # A push is itself recorded in the log, so pushing on every growth would never end.
            if retries_refused or setting.name in self._failing or has_news(self._context, setting)
        ]
        return all(results)

    def _push(self, name: str) -> bool:
        try:
            results: list[Pushed] = call(self._context, "push", {"remote": name})
        except ClewError as error:
            if self._failing.get(name) != error.code:
                self._report(f"push to {name} fails, and is retried: {error}")
            self._failing[name] = error.code
            return False
        if self._failing.pop(name, ""):
            self._report(f"push to {name} works again")
        for pushed in results:
            self._pushed(pushed)
        return True


def is_wanted(home: Path) -> bool:
    """Whether anything is shared with any server."""
    return any(map(is_shared_with, remotes.all_of(home)))


def is_shared_with(setting: Setting) -> bool:
    return bool(setting.projects or setting.sessions)


def _impatient(open_server: OpenServer | None) -> OpenServer | None:
    """Like `open_server`, but with few retries, because a stop waits for them."""
    return None if open_server is None else partial(open_server, patience=PATIENCE_SECONDS)
