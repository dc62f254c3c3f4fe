"""Compare a file with what is stored of it: whether it only grew, holds the same bytes, or moved here."""

import os
from collections.abc import Callable
from typing import BinaryIO

from blake3 import blake3

from clew.secrets import REACH
from clew.service.capture.archived import move_fork_copies
from clew.service.capture.chunked_lines import hash_ends
from clew.service.capture.run import CaptureRun, Source
from clew.service.privacy.mask_on_write import bytes_masked_if_required, masks_secrets
from clew.store.native_files.lookup import files_with_native_id, find_file, session_of
from clew.store.native_files.native_file import NativeFile
from clew.store.native_files.stored_bytes import segment_digests
from clew.store.native_files.updates import move_file

# A file that grew is compared with every stored byte up to this many; beyond it only the two ends are compared.
COMPARED_BYTES = 32 * 1024 * 1024


def begins_with_stored(run: CaptureRun, file: BinaryIO, size: int, stored: NativeFile) -> bool:
    """Whether the file still begins with the stored bytes."""
    if size < stored.stored_bytes or hash_ends(file, stored.stored_bytes) != stored.ends_digest:
        return False
    if size > stored.stored_bytes > COMPARED_BYTES:
        return True

    def read(start: int, end: int) -> bytes:
        file.seek(start)
        return file.read(end - start)

    return all(
        _has_digest(run, stored, read, start, length, digest)
        for start, length, digest in segment_digests(run.store, stored)
    )


def equals_stored(run: CaptureRun, data: bytes, stored: NativeFile) -> bool:
    """Whether these are exactly the stored bytes."""
    if stored.stored_bytes != len(data):
        return False
    segments = segment_digests(run.store, stored)
    return bool(segments) and all(
        _has_digest(run, stored, lambda start, end: data[start:end], start, length, digest)
        for start, length, digest in segments
    )


def find_moved(
    run: CaptureRun, source: Source, native: str, is_same_file: Callable[[NativeFile], bool]
) -> NativeFile | None:
    """Find the stored file that was moved to this path, and record its new path.

    It has the same native id, nothing is left at its old path, and `is_same_file` recognises its content.
    """
    for candidate in _own_files(run, source, native):
        # A path with bytes that are not UTF-8 is stored spelled out, so clew cannot check whether it still exists.
        is_gone = "\\x" not in candidate.path and not os.path.lexists(candidate.path)
        if is_gone and is_same_file(candidate):
            return _at_new_path(run, source, candidate)
    return None


def find_continued(
    run: CaptureRun, source: Source, native: str, continues: Callable[[NativeFile], bool]
) -> NativeFile | None:
    """Find the stored file of which a copy at this path has grown, and record that the session goes on here.

    The file at the old path has no more than what is stored, and is a copy from now on.
    """
    for candidate in _own_files(run, source, native):
        if candidate.fingerprint and continues(candidate):
            return _at_new_path(run, source, candidate)
    return None


def _own_files(run: CaptureRun, source: Source, native: str) -> list[NativeFile]:
    """The stored files of this machine that claim to be this native session, in the same format."""
    run.batch.commit_if_waiting([native])
    return [
        candidate
        for candidate in files_with_native_id(run.store, source.runtime, native)
        if candidate.machine == run.context.machine and candidate.format == source.format.name and not candidate.erased
    ]


def _at_new_path(run: CaptureRun, source: Source, stored: NativeFile) -> NativeFile | None:
    move_file(run.store, stored, machine=stored.machine, path=source.path, fingerprint="")
    move_fork_copies(run.store, stored, source.path)
    return find_file(run.store, source.file_id)


def _has_digest(
    run: CaptureRun, stored: NativeFile, read: Callable[[int, int], bytes], start: int, length: int, digest: bytes
) -> bool:
    """Whether bytes of a file have the digest of a stored segment, as they are or masked."""
    data = read(start, start + length)
    if blake3(data).digest() == digest:
        return True
    project = session_of(run.store, stored).project
    if not masks_secrets(run.context, project):
        return False
    # Each segment was masked with those of the same capture next to it; which they were is not stored.
    before, after = read(max(0, start - REACH), start), read(start + length, start + length + REACH)
    return any(
        blake3(bytes_masked_if_required(run.context, project, data, before=first, after=last)).digest() == digest
        for first, last in ((before, after), (b"", after), (before, b""), (b"", b""))
    )
