"""Capture the sessions in an agent program's database."""

from typing import TYPE_CHECKING

from clew.model.errors import Busy, ClewError, DiskFull
from clew.runtimes.contract import Format, Rows
from clew.runtimes.records import UNREADABLE
from clew.service.capture.capture_records import Records, capture_records
from clew.service.capture.client_database import open_client_database, raise_sqlite_errors, row_as_line
from clew.service.capture.discovery import SessionFile, printable_path
from clew.service.capture.identity import clean_identity
from clew.service.capture.report import Captured, report_copy, report_error, report_unchanged
from clew.service.capture.run import AlreadyCaptured, CaptureRun, Source, source_of
from clew.store.native_files.lookup import find_file

if TYPE_CHECKING:
    from clew.runtimes.contract import Identity
    from clew.service.capture.client_database import ClientDatabase


def capture_database(run: CaptureRun, session_file: SessionFile, format: Format, rows: Rows) -> None:
    """Capture what is new in each session of a database, with a report for each."""
    with open_client_database(session_file.path) as database:
        # The list is complete before anything else is done: an open statement would lock the program out.
        for named, fingerprint in list(rows.sessions(database.connection)):
            identity = clean_identity(named, session_file)
            source = source_of(run, session_file, format, fingerprint, row=identity.native)
            report = Captured(runtime=source.runtime, path=printable_path(source.path), status="failed")
            run.reports.append(report)
            try:
                _capture_session(run, source, rows, database, named, identity, report)
            except AlreadyCaptured as copy:
                report_copy(report, copy.original)
            except (ClewError, *UNREADABLE) as error:
                report_error(report, error)
                if isinstance(error, DiskFull | Busy):
                    run.batch.stopped_by = error
                    return


def _capture_session(
    run: CaptureRun, source: Source, rows: Rows, database: "ClientDatabase", named: "Identity", identity: "Identity",
    report: Captured,
) -> None:  # fmt: skip
    """Capture one session, unless its fingerprint is unchanged. The program knows it by the name in `named`."""
    stored = find_file(run.store, source.file_id)
    if stored is not None and stored.fingerprint == source.fingerprint:
        report_unchanged(report, stored)
        return
    with raise_sqlite_errors():
        records = list(rows.records(database.connection, named.native))
    database.refuse_if_written()
    data = b"".join(row_as_line(key, record) for key, record in records)
    capture_records(run, source, Records(identity=identity, records=records, data=data), report)
