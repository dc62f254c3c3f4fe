"""Capture the sessions in a document that holds many of them, such as the export of a chat service."""

from collections.abc import Callable, Iterable

from blake3 import blake3

from clew.model.errors import Busy, ClewError, DiskFull, InvalidInput
from clew.runtimes.contract import Format, Identity
from clew.runtimes.records import UNREADABLE
from clew.service.capture.capture_document import read_whole, split_document
from clew.service.capture.capture_records import Records, capture_records
from clew.service.capture.discovery import SessionFile, printable_path
from clew.service.capture.identity import clean_identity
from clew.service.capture.report import Captured, report_copy, report_error, report_unchanged
from clew.service.capture.run import AlreadyCaptured, CaptureRun, Source, source_of
from clew.store.native_files.lookup import find_file

Sessions = Callable[[bytes], Iterable[tuple[Identity, bytes]]]


def capture_collection(run: CaptureRun, session_file: SessionFile, format: Format, sessions: Sessions) -> None:
    """Capture what is new in each session of a document, with a report for each."""
    data, _ = read_whole(session_file, "document")
    try:
        members = list(sessions(data))
    except UNREADABLE as error:
        raise InvalidInput(f"not a whole document of this kind ({error}); export it again") from error
    if not members:
        raise InvalidInput("no conversation in it has a message; there is nothing to import")
    for named, member in members:
        identity = clean_identity(named, session_file)
        source = source_of(run, session_file, format, blake3(member).hexdigest(), row=identity.native)
        report = Captured(runtime=source.runtime, path=printable_path(source.path), status="failed")
        run.reports.append(report)
        try:
            _capture_session(run, source, identity, member, report)
        except AlreadyCaptured as copy:
            report_copy(report, copy.original)
        except (ClewError, *UNREADABLE) as error:
            report_error(report, error)
            if isinstance(error, DiskFull | Busy):
                run.batch.stopped_by = error
                return


def _capture_session(run: CaptureRun, source: Source, identity: Identity, data: bytes, report: Captured) -> None:
    """Capture one session, unless its bytes are unchanged."""
    stored = find_file(run.store, source.file_id)
    if stored is not None and stored.fingerprint == source.fingerprint:
        report_unchanged(report, stored)
        return
    records = split_document(source.format, data)
    capture_records(run, source, Records(identity=identity, records=records, data=data), report)
