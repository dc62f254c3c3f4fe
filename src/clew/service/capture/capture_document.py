"""Capture a file that is one JSON document, which its program rewrites each time."""

import os

import msgspec

from clew.capture_cache import file_fingerprint
from clew.model.errors import TooLarge
from clew.runtimes.contract import Format, Record
from clew.runtimes.records import UNREADABLE, without_halves
from clew.service.capture.capture_records import Records, capture_records
from clew.service.capture.discovery import SessionFile, open_file
from clew.service.capture.identity import identify
from clew.service.capture.report import TORN, Captured, Counts, report_counts
from clew.service.capture.run import CaptureRun, Source, source_of
from clew.store.native_files.lookup import find_file

# A document is read as a whole; a larger one is refused.
LARGEST_DOCUMENT_BYTES = 256 * 1024 * 1024


def capture_document(run: CaptureRun, session_file: SessionFile, format: Format, report: Captured) -> None:
    """Capture what is new in a document."""
    data, fingerprint = read_whole(session_file, "document")
    if not data.strip():
        report.status = "empty"
        return
    source = source_of(run, session_file, format, fingerprint)
    records = split_document(format, data)
    if records is None and is_cut_off(data):
        _report_half_written(run, source, report)
        return
    identity = identify(format, session_file, data)
    capture_records(run, source, Records(identity=identity, records=records, data=data), report)


def read_whole(session_file: SessionFile, what: str) -> tuple[bytes, str]:
    """The bytes of a file, and how it looked before they were read."""
    with open_file(session_file.path) as file:
        before = os.fstat(file.fileno())
        if before.st_size > LARGEST_DOCUMENT_BYTES:
            raise TooLarge(f"a {what} of {before.st_size:,} bytes; up to {LARGEST_DOCUMENT_BYTES:,} are read")
        return file.read(), file_fingerprint(before)


def split_document(format: Format, data: bytes) -> list[Record] | None:
    """The records of a document; None if it cannot be read."""
    if format.split is None:
        raise AssertionError("the format of a document can split it")
    try:
        return list(format.split(data))
    except UNREADABLE:
        return None


def _report_half_written(run: CaptureRun, source: Source, report: Captured) -> None:
    """Report that the program is writing the document just now; what is stored stays as it is."""
    stored = find_file(run.store, source.file_id)
    report.session = stored.session if stored else ""
    report.status, report.note = "grown" if stored else "new", TORN
    report_counts(report, Counts(quarantined=1))


def is_cut_off(data: bytes) -> bool:
    """Whether a JSON document ends in the middle."""
    if data.lstrip()[:1] not in (b"{", b"["):
        return False
    try:
        msgspec.json.decode(without_halves(data), type=msgspec.Raw)
    except msgspec.DecodeError as error:
        return "truncated" in str(error)
    except RecursionError:
        pass
    return False
