"""Capture a packed file of lines: its content under the name that the unpacked file has, its bytes beside that."""

import os

import msgspec

from clew.capture_cache import file_fingerprint
from clew.model.errors import ClewError, Conflict
from clew.model.session import Session
from clew.runtimes.contract import Format
from clew.service.capture.archived import copy_in_use
from clew.service.capture.capture_document import read_whole
from clew.service.capture.capture_lines import Lines, capture_lines
from clew.service.capture.discovery import SessionFile, printable_path
from clew.service.capture.packed_files import PackedState, unpack
from clew.service.capture.report import IS_UNPACKED_TOO, PARTLY_UNPACKED, Captured
from clew.service.capture.run import CaptureRun, Source, source_of
from clew.service.privacy.mask_on_write import masks_secrets
from clew.store.native_files.lookup import find_file, session_of
from clew.store.native_files.native_file import FileUpdate, NativeFile, ends_digest_of
from clew.store.native_files.stored_bytes import segment_digests
from clew.store.native_files.updates import apply_updates


def capture_packed(run: CaptureRun, session_file: SessionFile, format: Format, report: Captured) -> None:
    """Capture the lines in a packed file, then store its packed bytes."""
    unpacked_file = msgspec.structs.replace(session_file, path=os.path.splitext(session_file.path)[0])
    if os.path.lexists(unpacked_file.path):
        report.status, report.note = "same", IS_UNPACKED_TOO
        return
    stored_packed = find_file(run.store, source_of(run, session_file, format, "").file_id)
    data, fingerprint = read_whole(session_file, "packed file")
    packed = source_of(run, session_file, format, fingerprint)
    file, is_whole = unpack(data)
    with file:
        status = os.fstat(file.fileno())
        unpacked = source_of(run, unpacked_file, format, file_fingerprint(status))
        capture_lines(run, Lines(source=unpacked, file=file, size=status.st_size), report)
    run.batch.commit()
    if not is_whole:
        report.note = PARTLY_UNPACKED
    stored = find_file(run.store, unpacked.file_id)
    if report.error or report.status == "erased" or stored is None:
        return
    stored, _ = copy_in_use(run.store, stored)
    session = session_of(run.store, stored)
    if not _may_store_packed(run, stored, session, stored_packed):
        data = b""
    state = PackedState(status.st_size)
    _store_packed(run, packed, stored.native_id, session, stored_packed, data, state, report)


def _may_store_packed(run: CaptureRun, stored: NativeFile, session: Session, stored_packed: NativeFile | None) -> bool:
    """Whether the packed bytes may be stored beside the lines that they hold: they have to be removed together."""
    if stored_packed is not None and stored_packed.session_key != session.key:
        return False  # The row of the packed bytes belongs to the archived session.
    if sum(length for _, length, _ in segment_digests(run.store, stored)) < stored.stored_bytes:
        return False  # A retention policy removed the lines.
    return not masks_secrets(run.context, session.project)  # Packed bytes cannot be masked.


def _store_packed(
    run: CaptureRun, packed: Source, native: str, session: Session, stored: NativeFile | None, data: bytes,
    state: PackedState, report: Captured,
) -> None:  # fmt: skip
    """Store the packed bytes in place of those before, and how they look, so that the next capture skips the file."""
    update = FileUpdate(
        file_id=packed.file_id, machine=run.context.machine, runtime=packed.runtime, format=packed.format.name,
        path=printable_path(packed.path), native_id=native, fingerprint=packed.fingerprint, before=stored, into=session,
        drafts=[], data=data, start=0, generation=stored.generation + 1 if stored else 0, read_bytes=len(data),
        ends_digest=ends_digest_of(data, data), state=msgspec.json.encode(state).decode(), translated=report.events,
        opaque=report.opaque, quarantined=report.quarantined, only_latest=True,
    )  # fmt: skip
    [outcome] = apply_updates(run.store, [update], actor=run.context.principal)
    # A conflict means that another process stored the packed bytes first.
    if isinstance(outcome, ClewError) and type(outcome) is not Conflict:
        raise outcome
