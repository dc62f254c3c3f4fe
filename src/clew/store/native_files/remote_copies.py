"""Copies of originals: native files of agent programs that lie on another machine, so that this one can give them back.

A copy is not read for events: those come by themselves. It is never taken for a file of this machine, whatever whoever
sent it says: its bytes are given back when they are asked for, and are written nowhere else. A file of lines that grows
is sent in stretches, and what was sent of it once is settled; the rest, and everything that is rewritten as a whole, is
sent again. Each time the copy begins a new generation that shares the settled segments.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from clew.model.errors import Conflict, WrongState
from clew.model.session import Session, State
from clew.store.database.contract import Transaction
from clew.store.log.opening import plan_in
from clew.store.log.writing import keep_blobs
from clew.store.native_files import segments
from clew.store.native_files.native_files import Original, original_in, place_of
from clew.store.store import Store

# What is said of a copy where an original has the time of its file: it is never looked for.
STAMP = "copy"
# Before the name of the machine, so that it is the name of none.
ELSEWHERE = "copy from "


Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]


class Copy(msgspec.Struct, frozen=True, kw_only=True):
    """Which file it is a copy of, and how often that was rewritten from the start."""

    runtime: str
    format: str
    path: str
    native: str
    machine: str
    told: Count = 0
    opaque: Count = 0
    quarantined: Count = 0
    generation: Count = 0


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of a copy; `upto` is how far they go in the file itself, which may be longer or shorter."""

    data: bytes
    upto: int
    settled: bool = False


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How far a copy goes in its file: all of it, and what will not be sent again, with its length here."""

    generation: int = -1
    upto: int = 0
    settled: int = 0
    settled_here: int = 0


def is_copy(one: Original) -> bool:
    return one.stamp == STAMP


def machine_of(one: Original) -> str:
    """The machine that a file, or what it is a copy of, lies on."""
    return one.machine.removeprefix(ELSEWHERE) if is_copy(one) else one.machine


def standing(one: Original) -> Standing:
    return msgspec.json.decode(one.state, type=Standing) if is_copy(one) else Standing()


def place_of_copy(session: Session, copy: Copy) -> bytes:
    """The name of a copy: of one session, so that nobody's files meet somebody else's."""
    return place_of(session.id, copy.runtime, f"{copy.machine}\0{copy.path}")


def keep(store: Store, session: Session, copy: Copy, stretches: Sequence[Stretch], *, after: int) -> Standing:
    """Take stretches in after what is settled up to `after`; with 0, in the place of all there is."""
    ready = [segments.as_blob(one.data, store) if one.data else None for one in stretches]
    place = place_of_copy(session, copy)
    with store.database.write() as tx:
        if plan_in(tx, session).head.state == State.ERASED:
            raise WrongState(f"session {session.id} was erased and takes no files", state="erased")
        # Whoever would change it waits for the lock on the head.
        before = original_in(tx, place)
        known = standing(before) if before else Standing()
        if after and (known.generation, known.settled) != (copy.generation, after):
            raise Conflict(f"of {copy.path} other bytes are here than thought; ask again", settled=known.settled)
        kept = _settled(tx, before, known.settled_here) if before and after else []
        size = known.settled_here if after else 0
        now = Standing(generation=copy.generation, settled=after, settled_here=size, upto=after)
        pieces = list(kept)
        for one, made in zip(stretches, ready, strict=True):
            if made is not None:
                pieces.append((size, made.size, made.digest))
                size += made.size
            now = Standing(
                generation=copy.generation, upto=one.upto, settled=one.upto if one.settled else now.settled,
                settled_here=size if one.settled else now.settled_here,
            )  # fmt: skip
        keep_blobs(tx, [made.blob for made in ready if made is not None and made.blob is not None], store.blobs)
        for digest in sorted(piece[2] for piece in kept):
            tx.run("blob_ref", digest=digest, refs=1)
        _record(tx, session, copy, place, before, now, pieces, size)
    return now


def _settled(tx: Transaction, one: Original, size: int) -> list[tuple[int, int, bytes]]:
    rows = tx.run("segments", original=one.key, generation=one.generation)
    return [(start, length, bytes(digest)) for start, length, digest in rows if start < size]


def _record(
    tx: Transaction, session: Session, copy: Copy, place: bytes, before: Original | None, now: Standing,
    pieces: list[tuple[int, int, bytes]], size: int,
) -> None:  # fmt: skip
    generation = before.generation + 1 if before else 0
    values = {
        "place": place, "stamp": STAMP, "generation": generation, "kept": size, "taken": size, "edges": b"",
        "state": msgspec.json.encode(now).decode(), "told": copy.told, "opaque": copy.opaque,
        "quarantined": copy.quarantined,
    }  # fmt: skip
    if before is None:
        values |= {
            "project": session.project_key, "session": session.key, "machine": ELSEWHERE + copy.machine,
            "runtime": copy.runtime, "format": copy.format, "path": copy.path, "native": copy.native, "root": "",
            "written": "",
        }  # fmt: skip
    [(key,)] = tx.run("original_add" if before is None else "original_move", **values)
    for start, length, digest in pieces:
        tx.run(
            "segment_add", original=key, generation=generation, start=start, length=length, blob=digest, first=None,
            last=None, data=None,
        )  # fmt: skip
    for digest in segments.drop(tx, key, before=generation):
        tx.run("blob_ref", digest=digest, refs=-1)
