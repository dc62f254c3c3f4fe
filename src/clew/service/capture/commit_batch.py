"""The last steps of a capture: queue what was read from many files, commit it at once, and complete the reports."""

from collections.abc import Iterable

from clew.model.errors import Busy, ClewError, Conflict, DiskFull, Unavailable
from clew.model.session import Session
from clew.service.capture.report import RACED, Captured, report_counts, report_error, report_unchanged
from clew.service.kernel.context import Context
from clew.store.native_files.lookup import find_file
from clew.store.native_files.native_file import FileUpdate
from clew.store.native_files.updates import apply_updates

# A batch of this many bytes is committed.
BATCH_BYTES = 8 * 1024 * 1024
# Errors of the log, which every other file would meet as well.
STOPPING = (DiskFull, Busy, Unavailable)


class CommitBatch:
    """What was read and waits for the next commit, and the native ids of the sessions that it will open."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._queue: list[tuple[Captured, FileUpdate]] = []
        self._bytes = 0
        # The log cannot find these sessions by name before the commit.
        self._waiting_names: set[str] = set()
        self.stopped_by: ClewError | None = None
        """Why the log takes nothing more at present: nothing more is committed, and the capture ends."""

    def add(self, report: Captured, update: FileUpdate) -> None:
        """Queue a part of a file; a batch that is large enough is committed."""
        self._queue.append((report, update))
        self._bytes += len(update.data)
        if self._bytes >= BATCH_BYTES:
            self.commit()

    def announce(self, names: Iterable[str]) -> None:
        """Note the names of a session that is about to be queued."""
        self._waiting_names |= {name for name in names if name}

    def is_waiting(self, name: str) -> bool:
        """Whether a session of this name waits for the commit."""
        return name in self._waiting_names

    def commit_if_waiting(self, names: Iterable[str]) -> None:
        """Commit first if a session of one of these names waits, so that it can be looked up."""
        if not self._waiting_names.isdisjoint(names):
            self.commit()

    def commit(self) -> None:
        """Commit what is queued, and complete its reports."""
        if not self._queue:
            return
        queue, self._queue, self._bytes, self._waiting_names = self._queue, [], 0, set()
        if self.stopped_by is not None:
            for report, _ in queue:
                report_error(report, self.stopped_by)
            return
        outcomes = apply_updates(self._context.store, [update for _, update in queue], actor=self._context.principal)
        for (report, update), outcome in zip(queue, outcomes, strict=True):
            if isinstance(outcome, Session):
                report.session = outcome.id
                report_counts(report, update)
            elif type(outcome) is Conflict:
                self.report_race(report, update.file_id)
            else:
                report_error(report, outcome)
                if isinstance(outcome, STOPPING):
                    self.stopped_by = outcome

    def report_race(self, report: Captured, file_id: bytes) -> None:
        """Report what another process, which was quicker, stored of the file."""
        report.status, report.note = "same", RACED
        if stored := find_file(self._context.store, file_id):
            report_unchanged(report, stored)
