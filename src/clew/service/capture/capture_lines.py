"""Capture a file of lines: identify it, compare it with what is stored, and read what is new chunk by chunk."""

import sys
from typing import Any, BinaryIO

import msgspec

from clew.model.access import Right
from clew.model.events import Draft
from clew.runtimes.contract import Identity, Reading
from clew.runtimes.records import Translated, line_name
from clew.service.capture.archived import copy_in_use, fork_archived, save_fingerprint
from clew.service.capture.choose_session import Choice, NewFile, choose_session, postpone_until_parent_is_captured
from clew.service.capture.chunked_lines import (
    Chunk,
    hash_ends,
    read_chunk,
    resume_reading,
    translate_all,
    translate_chunk,
    translate_rewritten,
)
from clew.service.capture.compare import begins_with_stored, find_continued, find_moved
from clew.service.capture.identity import identify
from clew.service.capture.kept_results import with_kept_results
from clew.service.capture.prepare import Part, prepare_update, project_of
from clew.service.capture.reconcile import (
    SharedBeginning,
    reconcile,
    root_of,
    sources_of,
    without_written_by_clew,
)
from clew.service.capture.report import (
    RACED,
    TORN,
    Captured,
    Counts,
    add_counts,
    report_counts,
    report_unchanged,
)
from clew.service.capture.run import CaptureRun, Source
from clew.service.kernel.call import permit
from clew.service.privacy.mask_on_write import masks_secrets
from clew.store.native_files.lookup import find_file, session_of
from clew.store.native_files.native_file import NativeFile
from clew.store.native_files.stored_bytes import iterate_lines


class Lines(msgspec.Struct, frozen=True, kw_only=True):
    """A file of lines, open for reading, and its size when it was opened. What is appended later is read next time."""

    source: Source
    file: BinaryIO
    size: int


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a file is captured: how many bytes are stored, and how many of them were read as records.

    A rewritten file has another `generation`. `stored_lines` names the lines whose drafts are in the log already.
    """

    generation: int = 0
    stored_bytes: int = 0
    read_bytes: int = 0
    counts: Counts = Counts()
    stored_lines: frozenset[bytes] = frozenset()


class State(msgspec.Struct, frozen=True, kw_only=True):
    """All that one chunk of a file needs to know of the chunks before it."""

    stored: NativeFile | None
    identity: Identity | None
    reading: Reading[Any]
    progress: Progress
    shared: SharedBeginning | None = None


def capture_lines(run: CaptureRun, lines: Lines, report: Captured) -> None:
    """Capture what is new in a file of lines."""
    source, identity, first_chunk = lines.source, None, None
    stored = find_file(run.store, source.file_id)
    if stored is None:
        first_chunk = read_chunk(lines.file, 0, lines.size)
        if not first_chunk.data.strip():
            report.status = "empty"
            return
        identity = identify(source.format, source.session_file, first_chunk.data)
        postpone_until_parent_is_captured(run, source, identity)
        stored = find_moved(
            run, source, identity.native, lambda moved: begins_with_stored(run, lines.file, lines.size, moved)
        ) or find_continued(run, source, identity.native, lambda stored: _continues(run, lines, stored))
    if stored is None:
        report.status, progress = "new", Progress()
        reading = Reading(source.runtime, identity.native if identity else "", source.format.state())
    else:
        stored, archived = copy_in_use(run.store, stored)
        new_progress = _compare_with_stored(run, lines, stored, report)
        if new_progress is None:
            return
        progress = new_progress
        if archived is not None:
            stored = fork_archived(run.context, stored, archived)
        reading = _reading_of_stored(source, stored, progress)
    state = State(stored=stored, identity=identity, reading=reading, progress=progress)
    _capture_chunks(run, lines, state, None if progress.read_bytes else first_chunk, report)


def _continues(run: CaptureRun, lines: Lines, stored: NativeFile) -> bool:
    """Whether the file is a copy of a stored one that has grown."""
    return 0 < stored.stored_bytes < lines.size and begins_with_stored(run, lines.file, lines.size, stored)


def _compare_with_stored(run: CaptureRun, lines: Lines, stored: NativeFile, report: Captured) -> Progress | None:
    """Report how the file differs from what is stored; None if there is nothing to read."""
    if stored.erased:
        report.status, report.session = "erased", stored.session
    elif begins_with_stored(run, lines.file, lines.size, stored):
        if lines.size > stored.stored_bytes:
            report.status = "grown"
            return _progress_of(run, stored)
        save_fingerprint(run.store, stored, lines.source.fingerprint, file_id=lines.source.file_id)
        report_unchanged(report, stored)
    elif not lines.size:
        report.status, report.session = "empty", stored.session
    else:
        report.status = "rewritten"
        return Progress(generation=stored.generation + 1, stored_lines=_names_of_lines(run, stored))
    return None


def _progress_of(run: CaptureRun, stored: NativeFile) -> Progress:
    """How far a stored file was captured."""
    stored_lines = frozenset[bytes]()
    if not stored.fingerprint and stored.generation:
        # A capture was cut off while it read a rewritten file: the rest may be in the log from the generation before.
        previous = msgspec.structs.replace(stored, generation=stored.generation - 1, read_bytes=sys.maxsize)
        stored_lines = _names_of_lines(run, previous)
    # A torn last line was counted as quarantined. It is read again, and counted as what it has become.
    quarantined = stored.quarantined - (stored.read_bytes < stored.stored_bytes)
    return Progress(
        generation=stored.generation,
        stored_bytes=stored.stored_bytes,
        read_bytes=stored.read_bytes,
        counts=Counts(stored.translated, stored.opaque, quarantined),
        stored_lines=stored_lines,
    )


def _names_of_lines(run: CaptureRun, stored: NativeFile) -> frozenset[bytes]:
    return frozenset(line_name(line) for line in iterate_lines(run.store, stored))


def _reading_of_stored(source: Source, stored: NativeFile, progress: Progress) -> Reading[Any]:
    """The reader, in the state after what is stored; a rewritten file is read from its beginning."""
    if progress.generation != stored.generation:
        return Reading(source.runtime, stored.native_id, source.format.state())
    return resume_reading(source.runtime, source.format, stored)


def _capture_chunks(run: CaptureRun, lines: Lines, state: State, chunk: Chunk | None, report: Captured) -> None:
    """Capture chunk after chunk. Each is committed before the next is read, unless it is the last."""
    file_id = state.stored.file_id if state.stored else lines.source.file_id
    while True:
        chunk = chunk or read_chunk(lines.file, state.progress.read_bytes, lines.size)
        after = _capture_chunk(run, lines, state, chunk, report) if chunk.data else None
        if after is None or chunk.is_last:
            return
        run.batch.commit()
        run.report_progress(after.progress.read_bytes)
        if report.error or report.note == RACED:
            return
        stored = find_file(run.store, file_id)
        if stored is None or not _is_at(stored, after.progress):
            run.batch.report_race(report, file_id)
            return
        state, chunk = msgspec.structs.replace(after, stored=stored), None


def _is_at(stored: NativeFile, progress: Progress) -> bool:
    """Whether a file is stored exactly as far as this capture got; otherwise another process captured it, too."""
    expected = (progress.generation, progress.stored_bytes, progress.read_bytes)
    return (stored.generation, stored.stored_bytes, stored.read_bytes) == expected


def _capture_chunk(run: CaptureRun, lines: Lines, state: State, chunk: Chunk, report: Captured) -> State | None:
    """Translate a chunk, find its session, and queue it; None if a new file has no whole record yet."""
    source, progress = lines.source, state.progress
    translated = translate_chunk(
        source.format, state.reading, chunk, generation=progress.generation, stored_lines=progress.stored_lines
    )
    run.drift.count(source.runtime, translated.drafts, chunk.data)
    is_torn = chunk.is_last and translated.torn > 0
    report.note = TORN if is_torn else ""
    if state.stored is None and not translated.records:
        report_counts(report, Counts(quarantined=int(translated.torn > 0)))
        return None
    if state.stored is not None:
        choice, drafts = _add_to_stored(run, source, state, chunk, translated)
    else:
        choice, drafts = _add_to_chosen_session(run, lines, state, chunk, translated)
    if choice.shared is not None:
        drafts = [draft for draft in drafts if draft.source not in choice.shared.sources]
    drafts = with_kept_results(run, source, state.reading, choice, drafts)
    if is_torn and masks_secrets(run.context, project_of(choice.into)):
        # Half of a secret looks like none, so the half line is not stored; it is read again when it is whole.
        chunk, is_torn = msgspec.structs.replace(chunk, data=chunk.data[: translated.end - chunk.start]), False
    progress, part = _next_part(lines, progress, chunk, translated, is_torn=is_torn)
    update = prepare_update(run, source, state.reading, state.stored, choice, drafts, part)
    run.batch.add(report, update)
    return msgspec.structs.replace(state, progress=progress, shared=choice.shared)


def _next_part(
    lines: Lines, progress: Progress, chunk: Chunk, translated: Translated, *, is_torn: bool
) -> tuple[Progress, Part]:
    """The part of a chunk that is not stored yet, and the progress after it."""
    counts = add_counts(progress.counts, translated)
    # What was read again because it was torn is stored already.
    data = chunk.data[max(0, progress.stored_bytes - chunk.start) :]
    after = msgspec.structs.replace(
        progress, stored_bytes=progress.stored_bytes + len(data), read_bytes=translated.end, counts=counts
    )
    part = Part(
        data=data,
        start=progress.stored_bytes,
        generation=progress.generation,
        read_bytes=translated.end,
        ends=hash_ends(lines.file, after.stored_bytes, chunk.data),
        counts=add_counts(counts, Counts(quarantined=int(is_torn))),
        # A file without a fingerprint is read again: this capture may be cut off before the last chunk.
        fingerprint=lines.source.fingerprint if chunk.is_last else "",
        root=root_of(translated.drafts),
    )
    return after, part


def _add_to_stored(
    run: CaptureRun, source: Source, state: State, chunk: Chunk, translated: Translated
) -> tuple[Choice, list[Draft]]:
    """The session of a stored file, and the drafts that are new in it."""
    stored, progress, shared = state.stored, state.progress, state.shared
    if stored is None:
        raise AssertionError("the file is stored")
    session = session_of(run.store, stored)
    permit(run.context, Right.APPEND, session)
    drafts = without_written_by_clew(translated.drafts, stored.written)
    if shared is None and session.parent and not stored.fingerprint:
        # The first capture was cut off: what is read now may still repeat the session that this one forked from.
        inherited = run.store.read(session, upto=session.upto)
        shared = SharedBeginning(session.upto, sources_of(inherited))
    if progress.stored_lines and chunk.is_last and not progress.read_bytes:
        all_drafts = translate_rewritten(source.format, stored.native_id, chunk.data, progress.generation)
        drafts = reconcile(run.store, session, drafts, progress.generation, all_drafts)
    return Choice(into=session, shared=shared), drafts


def _add_to_chosen_session(
    run: CaptureRun, lines: Lines, state: State, chunk: Chunk, translated: Translated
) -> tuple[Choice, list[Draft]]:
    """The session that is chosen for a new file, and the drafts that are new in it."""
    source = lines.source
    if state.identity is None:
        raise AssertionError("a new file was identified")

    def all_drafts() -> Any:
        if chunk.is_last:
            return translated.drafts
        return translate_all(source.format, source.runtime, state.reading.native, lines.file, lines.size)

    new = NewFile(
        source=source, identity=state.identity, root=root_of(translated.drafts), drafts=translated.drafts,
        all_drafts=all_drafts,
    )  # fmt: skip
    choice = choose_session(run, new)
    return choice, without_written_by_clew(translated.drafts, choice.written)
