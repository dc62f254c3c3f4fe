"""Prepare what was read for the commit: save its blobs, and mask its secrets if the project keeps none."""

from typing import Any

import msgspec

from clew.model.events import Draft
from clew.model.session import Session
from clew.runtimes.contract import Reading
from clew.secrets import REACH
from clew.service.capture.choose_session import Choice
from clew.service.capture.discovery import printable_path
from clew.service.capture.report import Counts
from clew.service.capture.run import CaptureRun, Source
from clew.service.privacy.mask_on_write import bytes_masked_if_required, masked_if_required, masks_secrets
from clew.store.log.opening import Forking, Opening
from clew.store.native_files.native_file import FileUpdate, NativeFile
from clew.store.native_files.segments import SEGMENT_BYTES
from clew.store.objects import objects


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes of a file to store, where they begin, and how far the file is read after them.

    `ends` is the hash of both ends of all that is stored then. `counts` are those of the whole file.
    """

    data: bytes
    start: int
    generation: int
    read_bytes: int
    ends: bytes
    counts: Counts
    fingerprint: str
    root: str
    only_latest: bool = False


def prepare_update(
    run: CaptureRun, source: Source, reading: Reading[Any], stored: NativeFile | None, choice: Choice,
    drafts: list[Draft], part: Part,
) -> FileUpdate:  # fmt: skip
    """Prepare a part of a file, and the drafts that were read from it, for the commit."""
    for blob in reading.blobs.values():
        objects.save(run.store, blob)
    reading.blobs.clear()
    project = project_of(choice.into)
    return FileUpdate(
        file_id=stored.file_id if stored else source.file_id,
        machine=run.context.machine,
        runtime=source.runtime,
        format=source.format.name,
        path=printable_path(source.path),
        native_id=reading.native,
        fingerprint=part.fingerprint,
        before=stored,
        into=choice.into,
        drafts=masked_if_required(run.context, project, drafts),
        data=_masked_segments(run, project, part.data),
        start=part.start,
        generation=part.generation,
        read_bytes=part.read_bytes,
        ends_digest=part.ends,
        state=msgspec.json.encode(reading.state).decode(),
        translated=part.counts.translated,
        opaque=part.counts.opaque,
        quarantined=part.counts.quarantined,
        root=part.root,
        written=choice.written,
        only_latest=part.only_latest,
    )


def project_of(into: Session | Opening | Forking) -> str:
    return into.parent.project if isinstance(into, Forking) else into.project


def _masked_segments(run: CaptureRun, project: str, data: bytes) -> bytes:
    """The bytes as the project keeps them, masked segment by segment: later captures compare the file by segments."""
    if not masks_secrets(run.context, project):
        return data
    ends = range(SEGMENT_BYTES, len(data) + SEGMENT_BYTES, SEGMENT_BYTES)
    return b"".join(
        bytes_masked_if_required(
            run.context, project, data[end - SEGMENT_BYTES : end],
            before=data[max(0, end - SEGMENT_BYTES - REACH) : end - SEGMENT_BYTES], after=data[end : end + REACH],
        )
        for end in ends
    )  # fmt: skip
