"""Capture records that are read as a whole each time, from a document or a database; the log gets what is new."""

import msgspec

from clew.model.access import Right
from clew.model.conversation import SPOKEN
from clew.model.events import Draft
from clew.model.source import identity as identity_of
from clew.runtimes.contract import Identity, Reading, Record
from clew.runtimes.records import Translated, quarantine, read_records
from clew.service.capture.archived import copy_in_use, fork_archived, save_fingerprint
from clew.service.capture.choose_session import Choice, NewFile, choose_session
from clew.service.capture.compare import equals_stored, find_continued, find_moved
from clew.service.capture.drift import SAMPLED
from clew.service.capture.prepare import Part, prepare_update
from clew.service.capture.reconcile import (
    is_spoken,
    reconcile,
    root_of,
    without_known_content,
    without_written_by_clew,
)
from clew.service.capture.report import Captured, Counts, report_unchanged
from clew.service.capture.run import CaptureRun, Source
from clew.service.kernel.call import permit
from clew.service.privacy.mask_on_write import masked_if_required
from clew.store.native_files.lookup import find_file, session_of
from clew.store.native_files.native_file import NativeFile, ends_digest_of


class Records(msgspec.Struct, frozen=True, kw_only=True):
    """All records of one session, and the bytes that are stored for them; `records` is None if those are unreadable."""

    identity: Identity
    records: list[Record] | None
    data: bytes


def capture_records(run: CaptureRun, source: Source, content: Records, report: Captured) -> None:
    """Translate the records, compare them with what is stored, find their session, and queue what is new."""
    reading = Reading(source.runtime, content.identity.native, source.format.state())
    translated = _translate(source, reading, content)
    run.drift.count(source.runtime, translated.drafts, b"\n".join(_ends(content.records or [])))
    root = root_of(translated.drafts)
    stored = find_file(run.store, source.file_id)
    if stored is None and root:
        stored = _find_elsewhere(run, source, content.identity.native, root, translated.drafts)
    stored, archived = copy_in_use(run.store, stored) if stored else (None, None)
    if stored is not None and stored.erased:
        report.status, report.session = "erased", stored.session
        return
    if stored is not None and equals_stored(run, content.data, stored):
        save_fingerprint(run.store, stored, source.fingerprint, file_id=source.file_id)
        report_unchanged(report, stored)
        return
    if stored is not None and archived is not None:
        stored = fork_archived(run.context, stored, archived)
    report.status = "grown" if stored else "new"
    if stored is not None:
        choice, drafts = _add_to_stored(run, source, stored, translated.drafts)
    else:
        choice, drafts = _add_to_chosen_session(run, source, content, translated.drafts)
    part = Part(
        data=content.data,
        start=0,
        generation=stored.generation + 1 if stored else 0,
        read_bytes=len(content.data),
        ends=ends_digest_of(content.data, content.data),
        counts=Counts(translated.translated, translated.opaque, translated.quarantined),
        fingerprint=source.fingerprint,
        root=root,
        only_latest=content.records is not None,
    )
    run.batch.add(report, prepare_update(run, source, reading, stored, choice, drafts, part))


def _ends(records: list[Record]) -> list[bytes]:
    return [record for _, record in (*records[:SAMPLED], *records[SAMPLED:][-SAMPLED:])]


def _find_elsewhere(run: CaptureRun, source: Source, native: str, root: str, drafts: list[Draft]) -> NativeFile | None:
    """The stored document that was moved here, or the document or database session of which this is a grown copy."""
    if source.format.rows is not None:
        # The path of a session in a database does not say whether it is gone.
        return find_continued(run, source, native, lambda stored: _repeats(run, stored, drafts))
    return find_moved(run, source, native, lambda moved: moved.root == root) or find_continued(
        run, source, native, lambda stored: stored.root == root and _continues(run, stored, drafts)
    )


def _continues(run: CaptureRun, stored: NativeFile, drafts: list[Draft]) -> bool:
    """Whether a document is a copy of a stored one that has grown: it has all that was said there, and more."""
    spoken = {identity_of(draft.source) for draft in drafts if is_spoken(draft)}
    events = run.store.read(session_of(run.store, stored), kinds=[body.kind for body in SPOKEN])
    stored_spoken = {identity_of(event.source) for event in events}
    # What is known only by its place can be anything else in another file.
    return stored_spoken < spoken and not any("@" in source for source in spoken)


def _repeats(run: CaptureRun, stored: NativeFile, drafts: list[Draft]) -> bool:
    """Whether a database says all that a stored one said, word for word, and more.

    In some databases sessions are only numbered, so the words are compared: a source has a digest of them.
    """
    spoken = {draft.source for draft in drafts if is_spoken(draft)}
    events = run.store.read(session_of(run.store, stored), kinds=[body.kind for body in SPOKEN])
    stored_spoken = {event.source for event in events}
    return bool(stored_spoken) and stored_spoken < spoken


def _translate(source: Source, reading: Reading[msgspec.Struct], content: Records) -> Translated:
    """The drafts of the records; of unreadable content, one that quarantines all of it."""
    if content.records is None:
        damaged = quarantine(content.data, 0, "not a document of this kind", "whole@")
        return Translated(drafts=[damaged], quarantined=1)
    return read_records(source.format, reading, content.records)


def _add_to_stored(
    run: CaptureRun, source: Source, stored: NativeFile, drafts: list[Draft]
) -> tuple[Choice, list[Draft]]:
    """The session of a stored file, and the drafts after which its conversation is the one in the file."""
    session = session_of(run.store, stored)
    permit(run.context, Right.APPEND, session)
    # Masked before they are compared: the log has the masked ones.
    all_drafts = masked_if_required(run.context, session.project, without_written_by_clew(drafts, stored.written))
    is_fork_copy = stored.file_id != source.file_id
    new = without_known_content(run.store, session, all_drafts) if is_fork_copy else all_drafts
    return Choice(into=session), reconcile(run.store, session, new, stored.generation + 1, all_drafts)


def _add_to_chosen_session(
    run: CaptureRun, source: Source, content: Records, drafts: list[Draft]
) -> tuple[Choice, list[Draft]]:
    """The session that is chosen for a new file, and the drafts that are new in it."""
    new = NewFile(
        source=source, identity=content.identity, root=root_of(drafts), drafts=drafts, all_drafts=lambda: drafts
    )
    choice = choose_session(run, new)
    return choice, without_written_by_clew(drafts, choice.written)
