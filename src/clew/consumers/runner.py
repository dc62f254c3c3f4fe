"""The one runner of background work.

A consumer is a name, a cursor of its own, and `run`, which does all that is due. The runner calls `run` when it starts,
whenever something was committed, and when the time comes that the last `run` asked for; each consumer has a thread, so
a slow one holds up no other. When nothing happens the runner waits on the database: it writes nothing and reads no
file.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from clew.model.errors import ClewError, SchemaNewer
from clew.store import Store

# Poll this often, in case the database's notice of a commit got lost.
POLL_SECONDS = 60.0
# After a commit the runner does not listen for so long, so that a busy writer is not held up by waking it each time.
REST_SECONDS = 0.02
LONGEST_STOP_SECONDS = 10.0
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 10.0


class Consumer(Protocol):
    """Something that follows the log or the clock."""

    name: str
    rest_seconds: float
    """How long to wait after a commit: what is committed meanwhile is handled in the same run."""

    def run(self, stopping: threading.Event) -> float | None:
        """Do what is due, and stop early when asked to; returns how many seconds later to run again at the latest."""
        ...


class Runner:
    """Runs consumers over one store until it is stopped. Several runners may work on one store."""

    def __init__(self, store: Store, consumers: Sequence[Consumer], report: Callable[[str], None]) -> None:
        """`report` gets a line when a consumer begins to fail, and one when it works again."""
        self._store = store
        self._report = report
        self._loops = [_Loop(consumer, report, self._end) for consumer in consumers]
        self._stopping = threading.Event()
        self._ended_by: SchemaNewer | None = None
        self._thread: threading.Thread | None = None

    def run(self) -> None:
        """Run until `stop` is called or an exception, such as an interrupt, is raised in this thread.

        Raises `SchemaNewer` once a newer program has migrated the store: only that program can continue.
        """
        threads = [
            threading.Thread(target=loop.work, args=(self._stopping,), name=f"clew-{loop.name}", daemon=True)
            for loop in self._loops
        ]
        try:
            for thread in threads:
                thread.start()
            self._poke_after_commits()
        finally:
            self._stopping.set()
            for loop in self._loops:
                loop.poke()
            for thread in threads:
                # A handler that hangs does not delay the stop; its lease runs out.
                thread.join(LONGEST_STOP_SECONDS)
        if self._ended_by is not None:
            raise self._ended_by

    def once(self) -> None:
        """Let each consumer do what is due now, one after the other; the first error is raised after all of them."""
        errors = []
        for loop in self._loops:
            try:
                loop.consumer.run(self._stopping)
            except ClewError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def start(self) -> "Runner":
        """Run in a thread."""
        self._thread = threading.Thread(target=self._run_in_thread, name="clew-runner", daemon=True)
        self._thread.start()
        return self

    def _run_in_thread(self) -> None:
        try:
            self.run()
        except SchemaNewer as newer:
            self._report(f"background work has ended: {newer}")

    def stop(self) -> None:
        """Stop, and wait until every consumer has."""
        self._stopping.set()
        self._store.wake()
        if self._thread is not None:
            self._thread.join()

    def _end(self, reason: SchemaNewer) -> None:
        self._ended_by = reason
        self._stopping.set()
        self._store.wake()

    def _poke_after_commits(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while not self._stopping.is_set():
            mark = self._store.mark()
            for loop in self._loops:
                loop.poke()
            if self._stopping.is_set():
                return
            try:
                self._store.wait_for_commit(since=mark, timeout=POLL_SECONDS)
                self._stopping.wait(REST_SECONDS)
                pause = FIRST_PAUSE_SECONDS
            except ClewError:
                # Every consumer reports on its own that the database is unreachable.
                self._stopping.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


class _Loop:
    """A consumer with its thread's state: whether there was news, and how long it has been failing."""

    def __init__(
        self, consumer: Consumer, report: Callable[[str], None], end: Callable[[SchemaNewer], None]
    ) -> None:  # fmt: skip
        self.consumer = consumer
        self._end = end
        self.name = consumer.name
        self._report = report
        self._news = threading.Event()
        self._failing = ""
        self._pause = FIRST_PAUSE_SECONDS

    def poke(self) -> None:
        self._news.set()

    def work(self, stopping: threading.Event) -> None:
        """Run the consumer once, and then whenever there is a reason, until the runner stops."""
        while True:
            self._news.clear()
            seconds = self._run(stopping)
            if not stopping.is_set() and self._news.wait(seconds):
                stopping.wait(self.consumer.rest_seconds)
            if stopping.is_set():
                return

    def _run(self, stopping: threading.Event) -> float | None:
        try:
            seconds = self.consumer.run(stopping)
        except SchemaNewer as newer:
            self._end(newer)
            return None
        except Exception as error:  # noqa: BLE001  # No caller catches it; the consumer is tried again.
            return self._failed(error, stopping)
        if self._failing:
            self._report(f"{self.name} works again")
        self._failing, self._pause = "", FIRST_PAUSE_SECONDS
        return seconds

    def _failed(self, error: Exception, stopping: threading.Event) -> float:
        text = f"{error}" if isinstance(error, ClewError) else f"{type(error).__name__}: {error}"
        if text != self._failing:
            self._report(f"{self.name} fails, and is retried: {text}")
        self._failing = text
        # Commits must not make a failing consumer run without a pause.
        stopping.wait(self._pause)
        self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)
        return 0.0
