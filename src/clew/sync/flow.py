"""Flow: push whenever the log has grown, for as long as somebody wants it, whatever becomes of the servers.

A failure is told once, and again when it works. The log is the outbox, so nothing is lost by stopping at any moment.
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

# Short, so that stopping need not wait for it.
WAIT_SECONDS = 1.0
AGAIN_SECONDS = 60.0
# What is said in one breath goes in one push.
BREATH_SECONDS = 0.3
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
PATIENCE_SECONDS = 2.0


class Flow:
    """Pushes to every remote with something shared, again and again."""

    def __init__(
        self, context: Context, home: Path, *, pushed: Callable[[Pushed], None], report: Callable[[str], None],
        name: str = "",
    ) -> None:  # fmt: skip
        """`pushed` is called with what was sent, `report` when a push fails and when it works again."""
        self._context = msgspec.structs.replace(context, open_server=_impatient(context.open_server))
        self._home = home
        self._pushed = pushed
        self._report = report
        self._name = name
        self._failing: dict[str, str] = {}
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def run(self) -> None:
        """Push until told to stop."""
        store = self._context.store
        pause = FIRST_PAUSE
        retries_refused = True
        while not self._stopping.is_set():
            seen = store.last_position()
            if self._push_all(retries_refused=retries_refused):
                pause = FIRST_PAUSE
                retries_refused = self._wait(seen)
                self._stopping.wait(BREATH_SECONDS)
            else:
                self._stopping.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    def _wait(self, seen: int) -> bool:
        """Wait until the log has grown, or until it is time to try again what was refused; whether it is that."""
        end = time.monotonic() + AGAIN_SECONDS
        while not self._stopping.is_set() and not self._context.store.wait(after=seen, timeout=WAIT_SECONDS):
            if time.monotonic() > end and self._has_refused():
                return True
        return False

    def start(self) -> "Flow":
        """Run beside whatever else is done."""
        self._thread = threading.Thread(target=self._run_quietly, name="clew-flow", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop after the request that is under way; the next flow goes on from there."""
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
        """Push to every server; whether each took what there was."""
        results = [
            self._push(setting.name)
            for setting in self._settings()
            # A push is recorded in the log: to push whenever the log has grown would never end.
            if retries_refused or setting.name in self._failing or has_news(self._context, setting)
        ]
        return all(results)

    def _push(self, name: str) -> bool:
        try:
            results: list[Pushed] = call(self._context, "push", {"remote": name})
        except ClewError as error:
            if self._failing.get(name) != error.code:
                self._report(f"push to {name} fails, and is tried again: {error}")
            self._failing[name] = error.code
            return False
        if self._failing.pop(name, ""):
            self._report(f"push to {name} works again")
        for pushed in results:
            self._pushed(pushed)
        return True


def is_wanted(home: Path) -> bool:
    """Whether anything is shared with anybody."""
    return any(map(is_shared_with, remotes.all_of(home)))


def is_shared_with(setting: Setting) -> bool:
    return bool(setting.projects or setting.sessions)


def _impatient(open_server: OpenServer | None) -> OpenServer | None:
    """Opens servers that are asked again only for a moment, so that stopping need not wait for them."""
    return None if open_server is None else partial(open_server, patience=PATIENCE_SECONDS)
