"""Capture: read the sessions that agent programs wrote on this machine into the log, and only what is new.

Capturing a file is a pipeline of steps. Each step is a file of this folder:

1. discovery.py finds session files; those whose fingerprint is stored already are not opened.
2. identity.py reads from a file which native session it is.
3. compare.py compares it with what is stored: it grew, was rewritten, moved, or has the same bytes.
4. archived.py opens a fork if the stored file belongs to an archived session.
5. chunked_lines.py reads the new bytes and translates them into drafts.
6. choose_session.py chooses the session of a new file.
7. reconcile.py makes the conversation in the log the one in the file.
8. prepare.py saves blobs and masks secrets.
9. commit_batch.py queues the result, commits many files at once and completes the reports (report.py).

capture_lines.py, capture_records.py (documents and databases) and capture_packed.py run these steps. An error in one
file is reported for that file; the other files are captured.
"""

import os
from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec

from clew.capture_cache import file_fingerprint
from clew.model.access import Right
from clew.runtimes.contract import Format
from clew.service.capture import discovery
from clew.service.capture.archived import last_known_copy
from clew.service.capture.capture_database import capture_database
from clew.service.capture.capture_document import capture_document
from clew.service.capture.capture_lines import Lines, capture_lines
from clew.service.capture.commit_batch import BATCH_BYTES
from clew.service.capture.discovery import Discovery, SessionFile, open_file, printable_path
from clew.service.capture.report import WAITS_FOR_PARENT, Captured, report_error, report_unchanged
from clew.service.capture.run import CaptureRun, ParentNotCaptured, source_of
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.store.native_files.lookup import known_files
from clew.store.native_files.native_file import file_id_of


class FoundFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The session files of this machine: reports of the unchanged ones, and the files to capture.

    `fingerprints` are of everything on disk that this depends on, the store excepted.
    """

    unchanged: list[Captured]
    changed: list[SessionFile]
    fingerprints: discovery.Fingerprints = {}


@operation(right=Right.SEE, hidden=True)
def capture_find(
    context: Context,
    *,
    runtime: Annotated[str, msgspec.Meta(description="Only this runtime.")] = "",
    home: Annotated[str, msgspec.Meta(description="A home directory other than yours.")] = "",
    paths: Annotated[list[str], msgspec.Meta(description="Only these files and folders.")] | None = None,
) -> FoundFiles:
    """Find the session files of agent programs on this machine, and tell which have changed."""
    found = discovery.recognise_files(paths, runtime) if paths else discovery.discover(runtime_name=runtime, home=home)
    unchanged, changed = _compare_fingerprints(context, found)
    return FoundFiles(unchanged=unchanged, changed=changed, fingerprints=found.fingerprints)


@operation(right=Right.APPEND)
def capture(context: Context, *, files: list[SessionFile]) -> list[Captured]:
    """Capture the new part of these files."""
    run = CaptureRun(context)
    for session_file in files:
        _capture_file(run, session_file)
    run.batch.commit()
    run.is_last_pass = True
    for session_file in run.postponed:
        _capture_file(run, session_file)
    run.batch.commit()
    return run.reports


def split_into_portions(
    files: Iterable[SessionFile], *, most_bytes: int = 4 * BATCH_BYTES, most_files: int = 200
) -> Iterator[list[SessionFile]]:
    """Split the files into portions, each small enough for one call of `capture`, which reports when it ends."""
    portion: list[SessionFile] = []
    size = 0
    for session_file in files:
        portion.append(session_file)
        size += session_file.size
        if size >= most_bytes or len(portion) >= most_files:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def _compare_fingerprints(context: Context, found: Discovery) -> tuple[list[Captured], list[SessionFile]]:
    """Separate the files that look as they did when they were captured from those that do not."""
    known = known_files(context.store, context.machine)
    unchanged, changed = [], []
    for session_file in found.session_files:
        runtime, path = session_file.runtime, session_file.path
        stored = known.get(file_id_of(context.machine, runtime, path))
        if stored is None or stored.fingerprint != session_file.fingerprint:
            changed.append(session_file)
            continue
        report = Captured(runtime=runtime, path=printable_path(path))
        report_unchanged(report, last_known_copy(known, stored, context.machine, runtime))
        unchanged.append(report)
    return unchanged, changed


def _capture_file(run: CaptureRun, session_file: SessionFile) -> None:
    """Capture one file, or every session of one database; whatever goes wrong is reported for that file."""
    report = Captured(runtime=session_file.runtime, path=printable_path(session_file.path), status="failed")
    try:
        format = discovery.format_of(session_file)
        if format.rows is not None:
            capture_database(run, session_file, format, format.rows)
            return
        run.reports.append(report)
        _capture_content(run, session_file, format, report)
    except ParentNotCaptured:
        if run.is_last_pass:
            report.status, report.note = "new", WAITS_FOR_PARENT
        else:
            run.reports.remove(report)
            run.postponed.append(session_file)
    except Exception as error:  # noqa: BLE001  # An error in one file must not keep the other files out.
        if not any(other is report for other in run.reports):
            run.reports.append(report)
        report_error(report, error)


def _capture_content(run: CaptureRun, session_file: SessionFile, format: Format, report: Captured) -> None:
    """Capture one file by its kind: a document, a packed file of lines, or a file of lines."""
    if format.split is not None:
        capture_document(run, session_file, format, report)
    elif format.packed and session_file.path.endswith(".zst"):
        from clew.service.capture.capture_packed import capture_packed  # Loads zstandard.

        capture_packed(run, session_file, format, report)
    else:
        with open_file(session_file.path) as file:
            status = os.fstat(file.fileno())
            source = source_of(run, session_file, format, file_fingerprint(status))
            capture_lines(run, Lines(source=source, file=file, size=status.st_size), report)
