"""Flow: push whenever the log has grown, for as long as somebody wants it, whatever becomes of the servers.

A failure is told once, and again when it works. The log is the outbox, so nothing is lost by stopping at any moment.
"""

import threading
import time
from collections.abc import Callable
from pathlib import Path

from clew.model.errors import ClewError
from clew.service.kernel.context import Context
from clew.sync import remotes
from clew.sync.push import Push, Pushed
from clew.sync.remotes import Setting

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
        self, context: Context, home: Path, *, pushed: Callable[[Pushed], None], told: Callable[[str], None],
        name: str = "",
    ) -> None:  # fmt: skip
        """`pushed` hears what was sent, `told` when something fails and when it works again."""
        self._context = context
        self._home = home
        self._pushed = pushed
        self._told = told
        self._name = name
        self._failing: dict[str, str] = {}
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def run(self) -> None:
        """Push until told to stop."""
        store = self._context.store
        pause = FIRST_PAUSE
        while not self._stopping.is_set():
            seen = store.last_position()
            if self._push_all():
                pause = FIRST_PAUSE
                self._wait(seen)
                self._stopping.wait(BREATH_SECONDS)
            else:
                self._stopping.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    def _wait(self, seen: int) -> None:
        """Wait until the log has grown, or until it is time to try again what was refused."""
        end = time.monotonic() + AGAIN_SECONDS
        while not self._stopping.is_set() and not self._context.store.wait(after=seen, timeout=WAIT_SECONDS):
            if time.monotonic() > end and self._has_refused():
                return

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
            self._told(f"push stopped: {error}")

    def _settings(self) -> list[Setting]:
        found = remotes.all_of(self._home)
        return [one for one in found if self._name in ("", one.name) and (one.projects or one.sessions)]

    def _has_refused(self) -> bool:
        return any(one.refused for one in self._settings())

    def _push_all(self) -> bool:
        """Whether every server took what there was."""
        results = [self._push(one) for one in self._settings()]
        return all(results)

    def _push(self, setting: Setting) -> bool:
        name = setting.name
        remote = None
        try:
            remote = remotes.connect(self._home, setting, patience=PATIENCE_SECONDS)
            done = Push(self._context, self._home, setting, remote).run()
        except ClewError as error:
            if self._failing.get(name) != error.code:
                self._told(f"push to {name} fails, and is tried again: {error}")
            self._failing[name] = error.code
            return False
        finally:
            if remote is not None:
                remote.close()
        if self._failing.pop(name, ""):
            self._told(f"push to {name} works again")
        self._pushed(done)
        return True


def is_wanted(home: Path) -> bool:
    """Whether anything is shared with anybody."""
    return any(one.projects or one.sessions for one in remotes.all_of(home))
