"""The consumer that follows the files of agent programs.

Its cursor is how far each file was read, stored with the file. It waits for the operating system's notice of a change,
and not for commits.
"""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from clew.model.plain import plain
from clew.runtimes import runtimes
from clew.service.capture import in_background
from clew.service.capture.discovery import home_of
from clew.service.kernel.call import call
from clew.service.kernel.context import Context


class Captures:
    name = "capture"
    rest_seconds = 0.0

    def __init__(self, folders: Sequence[str], capture: Callable[[], None]) -> None:
        """`capture` takes in what is new below the folders."""
        self._folders = folders
        self._capture = capture

    def run(self, stopping: threading.Event) -> float | None:
        import watchfiles

        self._capture()
        if self._folders:
            # A change that comes between the capture and the first wait is found at the next one.
            for _ in watchfiles.watch(
                *self._folders, debounce=400, step=100, stop_event=stopping, raise_interrupt=False
            ):
                self._capture()
        return None


def captures_of_all_programs(context: Context, home: Path, report: Callable[[str], None], *, follows: bool) -> Captures:
    """The consumer for every program of this machine; `report` gets each failure once."""
    known_failures: list[str] = []

    def capture() -> None:
        failures = in_background.capture(
            lambda name, **arguments: call(context, name, arguments), home, "", lambda reports: None
        )
        texts = [in_background.describe(failure) for failure in failures]
        for text in texts:
            if text not in known_failures:
                report(f"capture: {plain(text)}")
        known_failures[:] = texts

    return Captures(folders_of_programs() if follows else [], capture)


def folders_of_programs() -> list[str]:
    """The folders in which programs of this machine keep their sessions, as far as they exist."""
    return [str(home) for runtime in runtimes() if runtime.home and (home := home_of(runtime, "")).exists()]
