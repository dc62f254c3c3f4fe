"""A progress bar on standard error, for a person at a terminal, as soon as something takes longer than a second."""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

PATIENCE_SECONDS = 1.0

OnProgress = Callable[[int, int], None]


@contextmanager
def progress(text: str, *, shown: bool = True) -> Iterator[OnProgress | None]:
    """Show a bar while the block runs; the block reports how much is done, and of how much, if it knows.

    Without a terminal, with NO_COLOR and for programs (`shown` is false) there is none.
    """
    if not shown or not _is_watched():
        yield None
        return
    bar = _Bar(text)
    try:
        yield bar.report
    finally:
        bar.end()


def _is_watched() -> bool:
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class _Bar:
    """A bar that a timer shows; until then nothing is loaded for it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._done, self._total = 0, 0
        self._shown: Progress | None = None
        self._lock = threading.Lock()
        self._timer = threading.Timer(PATIENCE_SECONDS, self._show)
        self._timer.daemon = True
        self._timer.start()

    def report(self, done: int, total: int) -> None:
        self._done, self._total = done, total
        with self._lock:
            self._update()

    def end(self) -> None:
        self._timer.cancel()
        self._timer.join()
        if self._shown is not None:
            self._shown.stop()

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        columns = (TextColumn(self._text), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        shown = Progress(*columns, console=Console(stderr=True), transient=True)
        shown.add_task("", total=None)
        with self._lock:
            self._shown = shown
            self._update()
        shown.start()

    def _update(self) -> None:
        if self._shown is not None and self._total:
            self._shown.update(self._shown.task_ids[0], completed=self._done, total=self._total)
