"""Capture: read the sessions that agent programs wrote on this machine into the log, and only what is new.

Capturing a file is a pipeline of steps. Each step is a file of this folder:

1. discovery.py finds session files; changed_files.py leaves out those whose fingerprint is stored already.
2. identity.py reads from a file which native session it is.
3. compare.py compares it with what is stored: it grew, was rewritten, moved, or has the same bytes.
4. archived.py opens a fork if the stored file belongs to an archived session.
5. chunked_lines.py reads the new bytes and translates them into drafts.
6. choose_session.py chooses the session of a new file.
7. reconcile.py makes the conversation in the log the one in the file.
8. prepare.py saves blobs and masks secrets.
9. commit_batch.py queues the result, commits many files at once and completes the reports (report.py).

capture_lines.py, capture_records.py (documents, collections of them, and databases) and capture_packed.py run these
steps. An error in one file is reported for that file; the other files are captured. An error of the log, such as a full
disk, ends the capture and is raised once; what was committed before stays.
"""

import os

from clew.capture_cache import file_fingerprint
from clew.model.access import Right
from clew.model.errors import Busy, DiskFull
from clew.runtimes.contract import Format
from clew.service.capture import discovery
from clew.service.capture.capture_lines import Lines, capture_lines
from clew.service.capture.discovery import SessionFile, open_file, printable_path
from clew.service.capture.report import NOTHING_SAID, WAITS_FOR_PARENT, Captured, report_copy, report_error
from clew.service.capture.run import AlreadyCaptured, CaptureRun, NothingSaidYet, ParentNotCaptured, source_of
from clew.service.capture.unrecognised import note_unknown
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation


@operation(right=Right.APPEND)
def capture(context: Context, *, files: list[SessionFile]) -> list[Captured]:
    """Capture the new part of these files."""
    run = CaptureRun(context)
    run.total_bytes = sum(session_file.size for session_file in files)
    _capture_files(run, files)
    run.is_last_pass = True
    _capture_files(run, run.postponed)
    note_unknown(run.store, run.reports)
    run.drift.save(context.home)
    return run.reports


def _capture_files(run: CaptureRun, files: list[SessionFile]) -> None:
    for session_file in files:
        _capture_file(run, session_file)
        if run.batch.stopped_by is not None:
            raise run.batch.stopped_by
        run.done_bytes += session_file.size
        run.report_progress()
    run.batch.commit()
    if run.batch.stopped_by is not None:
        raise run.batch.stopped_by


def _capture_file(run: CaptureRun, session_file: SessionFile) -> None:
    """Capture one file, or every session of one database; whatever goes wrong is reported for that file."""
    report = Captured(runtime=session_file.runtime, path=printable_path(session_file.path), status="failed")
    try:
        format = discovery.format_of(session_file)
        if format.rows is not None:
            from clew.service.capture.capture_database import capture_database  # Most programs write files of lines.

            capture_database(run, session_file, format, format.rows)
            return
        if format.sessions is not None:
            from clew.service.capture.capture_collection import capture_collection  # Exports are seldom.

            capture_collection(run, session_file, format, format.sessions)
            return
        run.reports.append(report)
        _capture_content(run, session_file, format, report)
    except ParentNotCaptured:
        if run.is_last_pass:
            report.status, report.note = "new", WAITS_FOR_PARENT
        else:
            run.reports.remove(report)
            run.postponed.append(session_file)
    except AlreadyCaptured as copy:
        report_copy(report, copy.original)
    except NothingSaidYet:
        report.status, report.note = "new", NOTHING_SAID
    except Exception as error:  # noqa: BLE001  # An error in one file must not keep the other files out.
        if not any(other is report for other in run.reports):
            run.reports.append(report)
        report_error(report, error)
        if isinstance(error, DiskFull | Busy):
            run.batch.stopped_by = error


def _capture_content(run: CaptureRun, session_file: SessionFile, format: Format, report: Captured) -> None:
    """Capture one file by its kind: a document, a packed file of lines, or a file of lines."""
    if format.split is not None:
        from clew.service.capture.capture_document import capture_document  # As above.

        capture_document(run, session_file, format, report)
    elif format.packed and session_file.path.endswith(".zst"):
        from clew.service.capture.capture_packed import capture_packed  # Loads zstandard.

        capture_packed(run, session_file, format, report)
    else:
        with open_file(session_file.path) as file:
            status = os.fstat(file.fileno())
            source = source_of(run, session_file, format, file_fingerprint(status))
            capture_lines(run, Lines(source=source, file=file, size=status.st_size), report)
