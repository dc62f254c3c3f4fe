"""What the steps of one capture share: the context, the batch, and what was looked up once for all files."""

import msgspec

from clew.runtimes.contract import Format
from clew.service.capture.commit_batch import CommitBatch
from clew.service.capture.discovery import SessionFile
from clew.service.capture.drift import DriftCounts
from clew.service.capture.find_project import ProjectFinder
from clew.service.capture.report import Captured
from clew.service.kernel.context import Context
from clew.store.access.agents import Agent, list_agents
from clew.store.native_files.native_file import NativeFile, file_id_of


class ParentNotCaptured(Exception):
    """A file forks from a session that has to be captured first."""


class AlreadyCaptured(Exception):
    """A file is a copy: everything in it was captured from another file of the same native session."""

    def __init__(self, original: NativeFile) -> None:
        self.original = original


class NothingSaidYet(Exception):
    """A file that is being written does not say yet where its program works."""


class CaptureRun:
    """One call of `capture`, over some files."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.store = context.store
        self.batch = CommitBatch(context)
        self.reports: list[Captured] = []
        # Files whose parent may be among the files still to come. They are captured in a second, last pass.
        self.postponed: list[SessionFile] = []
        self.is_last_pass = False
        self.done_bytes = 0
        self.total_bytes = 0
        self.drift = DriftCounts()
        self.projects = ProjectFinder(context.unrestricted, context.machine)
        self._agents: list[Agent] | None = None

    def report_progress(self, bytes_of_file: int = 0) -> None:
        """Report how far the capture is: the files before this one, and so much of this one."""
        if self.context.on_progress is not None:
            # A postponed file is counted twice.
            self.context.on_progress(min(self.done_bytes + bytes_of_file, self.total_bytes), self.total_bytes)

    def agents(self) -> list[Agent]:
        """The registered agents."""
        if self._agents is None:
            self._agents = list_agents(self.store)
        return self._agents


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Where one session is read from: a file, or the rows of one session in a database.

    `file_id` is the store's key for it. `fingerprint` is how it looked before it was read.
    """

    session_file: SessionFile
    format: Format
    path: str
    file_id: bytes
    fingerprint: str

    @property
    def runtime(self) -> str:
        return self.session_file.runtime


def source_of(run: CaptureRun, session_file: SessionFile, format: Format, fingerprint: str, *, row: str = "") -> Source:
    """A session file as a source, or the session `row` of a database."""
    path = f"{session_file.path}#{row}" if row else session_file.path
    file_id = file_id_of(run.context.machine, session_file.runtime, path)
    return Source(session_file=session_file, format=format, path=path, file_id=file_id, fingerprint=fingerprint)
