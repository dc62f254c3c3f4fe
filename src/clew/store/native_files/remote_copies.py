"""Remote copies: native files of another machine, stored so that this one can give them back.

A copy is not read for events: replication brings those by itself. It is never taken for a file of this machine,
for any claim of the sender: its bytes are returned on request and written nowhere else. A file of lines that grows is
sent in stretches. A settled stretch is not sent again; the rest, and every file that is rewritten as a whole, is. Each
time the copy begins a new generation that shares the settled segments.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from clew.model.errors import Conflict, WrongState
from clew.model.session import Session, State
from clew.store.database.contract import Transaction
from clew.store.log.opening import plan_in
from clew.store.log.writing import name_objects
from clew.store.native_files import segments
from clew.store.native_files.lookup import find_file_in
from clew.store.native_files.native_file import NativeFile, file_id_of
from clew.store.native_files.segments import Segment
from clew.store.store import Store

# The fingerprint of a copy: no file on disk has it, so a capture never compares a copy with a file.
COPY_FINGERPRINT = "copy"
# Stands before the name of the machine, so that no machine has this name.
MACHINE_PREFIX = "copy from "


Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]


class Copy(msgspec.Struct, frozen=True, kw_only=True):
    """Which file it is a copy of, and how often that was rewritten from the start."""

    runtime: str
    format: str
    path: str
    native_id: str = msgspec.field(name="native")
    machine: str
    translated: Count = msgspec.field(name="told", default=0)
    opaque: Count = 0
    quarantined: Count = 0
    generation: Count = 0


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of a copy; `upto` is how far they go in the file itself, which may be longer or shorter."""

    data: bytes
    upto: int
    settled: bool = False


class CopyProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a copy goes in its file: `upto` in all, `settled` without what will be sent again.

    `settled_here` is the length of the settled bytes in this store: masking may have changed it.
    """

    generation: int = -1
    upto: int = 0
    settled: int = 0
    settled_here: int = 0


_Pieces = list[tuple[int, int, bytes]]
"""Segments: where each begins, its length, its digest."""


def is_copy(file: NativeFile) -> bool:
    return file.fingerprint == COPY_FINGERPRINT


def machine_of(file: NativeFile) -> str:
    """The machine that has the file, or the file that this is a copy of."""
    return file.machine.removeprefix(MACHINE_PREFIX) if is_copy(file) else file.machine


def progress_of(file: NativeFile | None) -> CopyProgress:
    return msgspec.json.decode(file.state, type=CopyProgress) if file and is_copy(file) else CopyProgress()


def copy_id_of(session: Session, copy: Copy) -> bytes:
    """The file id of a copy. It contains the session, so that a sender cannot overwrite another session's copy."""
    return file_id_of(session.id, copy.runtime, f"{copy.machine}\0{copy.path}")


def store_copy(store: Store, session: Session, copy: Copy, stretches: Sequence[Stretch], *, after: int) -> CopyProgress:
    """Store stretches after the bytes that are settled up to `after`; with 0 they replace all that was stored."""
    new = [segments.as_blob(stretch.data, store) if stretch.data else None for stretch in stretches]
    file_id = copy_id_of(session, copy)
    with store.database.write() as tx:
        # This locks the head of the session, so that no other caller changes the copy before the commit.
        if plan_in(tx, session).head.state == State.ERASED:
            raise WrongState(f"session {session.id} was erased and takes no files", state="erased")
        before = find_file_in(tx, file_id)
        progress = progress_of(before)
        if after and (progress.generation, progress.settled) != (copy.generation, after):
            raise Conflict(
                f"{copy.path} is settled up to byte {progress.settled} here, not up to {after}; ask again and send "
                "what follows",
                settled=progress.settled,
            )
        settled = _settled_segments(tx, before, progress.settled_here) if before and after else []
        now, pieces = _advance(copy, progress.settled_here if after else 0, after, settled, stretches, new)
        name_objects(tx, [segment.blob for segment in new if segment and segment.blob], store.pack_stores)
        for digest in sorted(digest for _, _, digest in settled):
            tx.run("object_ref", digest=digest, refs=1)
        _record(tx, session, copy, file_id, before, now, pieces)
    return now


def _advance(
    copy: Copy, size: int, after: int, settled: _Pieces, stretches: Sequence[Stretch], new: Sequence[Segment | None]
) -> tuple[CopyProgress, _Pieces]:
    """The progress and the segments of a copy after these stretches. `size` is the length of the settled segments."""
    pieces = list(settled)
    settled_upto, settled_here = after, size
    for stretch, segment in zip(stretches, new, strict=True):
        if segment is not None:
            pieces.append((size, segment.size, segment.digest))
            size += segment.size
        if stretch.settled:
            settled_upto, settled_here = stretch.upto, size
    upto = stretches[-1].upto if stretches else after
    now = CopyProgress(generation=copy.generation, upto=upto, settled=settled_upto, settled_here=settled_here)
    return now, pieces


def _settled_segments(tx: Transaction, file: NativeFile, size: int) -> _Pieces:
    return [piece for piece in segments.digests_in(tx, file) if piece[0] < size]


def _record(
    tx: Transaction, session: Session, copy: Copy, file_id: bytes, before: NativeFile | None, now: CopyProgress,
    pieces: _Pieces,
) -> None:  # fmt: skip
    generation = before.generation + 1 if before else 0
    size = sum(length for _, length, _ in pieces)
    values = {
        "place": file_id, "stamp": COPY_FINGERPRINT, "generation": generation, "kept": size, "taken": size,
        "edges": b"", "state": msgspec.json.encode(now).decode(), "told": copy.translated, "opaque": copy.opaque,
        "quarantined": copy.quarantined,
    }  # fmt: skip
    if before is None:
        values |= {
            "project": session.project_key, "session": session.key, "machine": MACHINE_PREFIX + copy.machine,
            "runtime": copy.runtime, "format": copy.format, "path": copy.path, "native": copy.native_id, "root": "",
            "written": "",
        }  # fmt: skip
    [(key,)] = tx.run("original_add" if before is None else "original_move", **values)
    for start, length, digest in pieces:
        tx.run(
            "segment_add", original=key, generation=generation, start=start, length=length, blob=digest, first=None,
            last=None, data=None,
        )  # fmt: skip
    for digest in segments.drop(tx, key, before=generation):
        tx.run("object_ref", digest=digest, refs=-1)
