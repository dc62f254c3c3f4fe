"""Push whenever the log has grown, until stopped, and retry while a server fails.

A failure is reported once, and the recovery once. The log is the outbox, so stopping at any moment loses nothing.
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

# Short, because a stop waits for it.
WAIT_SECONDS = 1.0
AGAIN_SECONDS = 60.0
# Events that arrive within this time go in one push.
BREATH_SECONDS = 0.3
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
PATIENCE_SECONDS = 2.0


class Flow:
    """Pushes to every remote with which something is shared, whenever the log has grown."""

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
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def run(self) -> None:
        """Push until `stop` is called."""
        store = self._context.store
        pause = FIRST_PAUSE
        retries_refused = True
        while not self._stopping.is_set():
            position = store.last_position()
            if self._push_all(retries_refused=retries_refused):
                pause = FIRST_PAUSE
                retries_refused = self._wait(position)
                self._stopping.wait(BREATH_SECONDS)
            else:
                self._stopping.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    def _wait(self, position: int) -> bool:
        """Wait until the log has grown, or until refused sessions are due for a retry; returns whether they are."""
        end = time.monotonic() + AGAIN_SECONDS
        while not self._stopping.is_set() and not self._context.store.wait(after=position, timeout=WAIT_SECONDS):
            if time.monotonic() > end and self._has_refused():
                return True
        return False

    def start(self) -> "Flow":
        """Run in a thread."""
        self._thread = threading.Thread(target=self._run_quietly, name="clew-flow", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop after the current request; the next flow continues from the cursors."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(2 * PATIENCE_SECONDS)

    def _run_quietly(self) -> None:
        try:
            self.run()
        except ClewError as error:
            self._report(f"push stopped: {error}")

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
