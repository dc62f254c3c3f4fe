"""Originals: the native files of agent programs, byte for byte, beside the events that were read from them.

One transaction takes a stretch of a file in: the session is opened if it is new, the drafts become events, the bytes
become a segment, and the file's row says how far it has been taken. So a crash leaves nothing half-read, and a file
that did not change costs one line of one query.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from blake3 import blake3

from clew.model.conversation import REVISION
from clew.model.errors import ClewError, Conflict, InvalidInput, SourceReused, TooLarge
from clew.model.events import Draft, Opaque, SessionOpened, SessionResumed
from clew.model.ids import new_id
from clew.model.session import Session, State
from clew.store import blobs as blob
from clew.store.append import write
from clew.store.contract import Row, Transaction
from clew.store.log import Store, session_from
from clew.store.plan import Plan, Request, plan_from
from clew.store.prepare import Prepared, prepare

# A segment's bytes before packing: small enough to unpack without a thought.
SEGMENT_BYTES = 4 * 1024 * 1024
# How much of each end of what was kept is hashed, to see that a file has only grown.
EDGE_BYTES = 4096


class Original(msgspec.Struct, frozen=True):
    """A native file as it was last taken. `kept` bytes are in segments, `taken` of them have been read as records.

    `root` is the source of its first record. `written` names the records that clew itself wrote into it, as a JSON list
    of sources: they are the ancestor's history and never become events of this session.
    """

    key: int
    place: bytes
    project_key: int
    session_key: int
    machine: str
    runtime: str
    format: str
    path: str
    native: str
    stamp: str
    generation: int
    kept: int
    taken: int
    edges: bytes
    state: str
    told: int
    opaque: int
    quarantined: int
    root: str
    written: str
    session: str

    @property
    def erased(self) -> bool:
        return not self.path


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """The session a new file opens."""

    project: str
    agent: str
    metadata: str = "{}"


class Take(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of a native file on its way into the store. The counts are those of the whole file."""

    place: bytes
    machine: str
    runtime: str
    format: str
    path: str
    native: str
    stamp: str
    before: Original | None
    into: Session | Opening
    drafts: Sequence[Draft]
    data: bytes
    start: int
    generation: int
    taken: int
    edges: bytes
    state: str
    told: int
    opaque: int
    quarantined: int
    root: str = ""
    written: str = ""
    only_latest: bool = False


def place_of(machine: str, runtime: str, path: str) -> bytes:
    """The name a native file goes by for ever."""
    return blake3(f"{machine}\0{runtime}\0{path}".encode("utf-8", "surrogateescape")).digest()


def edges_of(first: bytes, last: bytes) -> bytes:
    """What the two ends of the kept bytes look like."""
    return blake3(first[:EDGE_BYTES] + last[-EDGE_BYTES:]).digest()


class Known(msgspec.Struct, frozen=True):
    """What is remembered of a file, in short."""

    stamp: str
    told: int
    opaque: int
    quarantined: int
    session: str


def known(store: Store, machine: str) -> dict[bytes, Known]:
    """Every file of this machine that was ever taken, by place."""
    with store.database.read() as tx:
        return {bytes(row[0]): Known(*row[1:]) for row in tx.run("originals_known", machine=machine)}


def original(store: Store, place: bytes) -> Original | None:
    with store.database.read() as tx:
        return _at(tx, place)


def originals(store: Store, session: Session) -> list[Original]:
    """The native files of a session."""
    with store.database.read() as tx:
        rows = tx.run("originals_of", project=session.project_key, session=session.key)
        return [_from(row) for row in rows]


def relatives(store: Store, runtime: str, root: str) -> list[Original]:
    """The files whose first record is this one: a program's own forks copy the beginning of the session."""
    with store.database.read() as tx:
        return [_from(row) for row in tx.run("originals_root", runtime=runtime, root=root)]


def claimants(store: Store, runtime: str, native: str) -> list[Original]:
    """The files that say they are this native session."""
    with store.database.read() as tx:
        return [_from(row) for row in tx.run("originals_native", runtime=runtime, native=native)]


def load(store: Store, one: Original, *, first: int = 0) -> bytes:
    """The bytes of an original, from `first` on, checked against their digests."""
    with store.database.read() as tx:
        rows = tx.run("segments", original=one.key, generation=one.generation)
        parts = [(row[0], store.blob_in(tx, bytes(row[2]))) for row in rows if row[0] + row[1] > first]
    return b"".join(data[max(0, first - start) :] for start, data in parts)


def move(store: Store, one: Original, *, machine: str, path: str, stamp: str) -> None:
    """Remember that an original now lies elsewhere."""
    with store.database.write() as tx:
        tx.run("original_place", key=one.key, place=place_of(machine, one.runtime, path), path=path, stamp=stamp)


def restamp(store: Store, one: Original, stamp: str) -> None:
    """Remember that a file was touched and holds the same bytes as before."""
    with store.database.write() as tx:
        tx.run("original_place", key=one.key, place=one.place, path=one.path, stamp=stamp)


def keep(store: Store, takes: Sequence[Take], *, actor: str) -> list[Session | ClewError]:
    """Take all of them in one commit; each ends with its session or with the error that kept it out."""
    ready = [([_prepared(draft, store) for draft in take.drafts], _segments(take, store)) for take in takes]
    outcomes: dict[int, Session | ClewError] = {}
    with store.database.write() as tx:
        plans: list[Plan] = []
        written: list[tuple[int, Take, Plan]] = []
        # Heads are locked from old to young; new sessions are nobody else's yet.
        for i in sorted(range(len(takes)), key=lambda i: _age(takes[i])):
            take, (drafts, segments) = takes[i], ready[i]
            try:
                _refuse_if_moved(tx, take)
                plan = _plan(store, tx, take, drafts, actor)
            except ClewError as error:
                outcomes[i] = error
                continue
            plan.blobs += segments
            plans.append(plan)
            written.append((i, take, plan))
        write(tx, plans, store.blobs)
        for i, take, plan in written:
            outcomes[i] = plan.session
            _record(tx, take, plan.session, ready[i][1])
    return [outcomes[i] for i in range(len(takes))]


def forget(tx: Transaction, store: Store, session: Session, *, erase: bool) -> None:
    """Drop the bytes of a session's originals; with `erase`, also where they were and what they were called."""
    blobs: list[bytes] = []
    for row in tx.run("originals_of", project=session.project_key, session=session.key):
        one = _from(row)
        blobs += [bytes(dropped[0]) for dropped in tx.run("segments_drop", original=one.key, before=one.generation + 1)]
    for digest in sorted(blobs):
        tx.run("blob_ref", digest=digest, refs=-1)
    if erase:
        tx.run("original_erase", project=session.project_key, session=session.key, nothing=b"")


def _age(take: Take) -> tuple[int, int]:
    into = take.into
    return (into.project_key, into.key) if isinstance(into, Session) else (2**62, 0)


def _refuse_if_moved(tx: Transaction, take: Take) -> None:
    there = _at(tx, take.place)
    if (there and there.key, there and (there.generation, there.kept, there.taken)) != (
        take.before and take.before.key,
        take.before and (take.before.generation, take.before.kept, take.before.taken),
    ):
        raise Conflict(f"{take.path} was captured by another process just now; nothing of it is missing")


def _plan(store: Store, tx: Transaction, take: Take, drafts: list[Prepared], actor: str) -> Plan:
    if isinstance(take.into, Opening):
        plan = _open(store, tx, take.into, actor)
        unseen = frozenset(draft.source for draft in drafts)
    else:
        session = take.into
        rows = tx.run("head_lock", project=session.project_key, session=session.key)
        plan = plan_from(session, rows, _known(tx, session, drafts))
        unseen = frozenset()
        if drafts and plan.head.state in (State.PAUSED, State.CLOSED):
            plan.note(SessionResumed(reason="it went on in its runtime", runtime=take.runtime), actor)
    request = Request(plan.session, drafts, actor)
    request.unseen = unseen
    while drafts:
        try:
            plan.add(request)
            break
        except SourceReused as error:
            request.drafts = _revised(request.drafts, error.details["source"])
    return plan


def _revised(drafts: Sequence[Prepared], source: str) -> list[Prepared]:
    """Another body under a source that is taken becomes a revision: the same record, written again."""
    found: list[Prepared] = []
    first: bytes | None = None
    for draft in drafts:
        if draft.source == source:
            first = first or draft.hash
            if draft.hash != first or _is_only(drafts, source):
                draft = msgspec.structs.replace(draft, source=f"{source}{REVISION}{draft.hash.hex()[:12]}")
        found.append(draft)
    return found


def _is_only(drafts: Sequence[Prepared], source: str) -> bool:
    """Whether all drafts of this source agree, so that what they clash with is in the log."""
    return len({draft.hash for draft in drafts if draft.source == source}) == 1


def _known(tx: Transaction, session: Session, drafts: Iterable[Prepared]) -> dict[tuple[int, str], Row]:
    sources = [draft.source for draft in drafts if draft.source]
    if not sources:
        return {}
    rows = tx.run(
        "events_by_source", project=session.project_key, session=session.key,
        sources=msgspec.json.encode(sources).decode(),
    )  # fmt: skip
    return {(session.key, source): tuple(there) for source, *there in rows}


def _open(store: Store, tx: Transaction, opening: Opening, actor: str) -> Plan:
    session = store.add_session(
        tx,
        Session(
            id=new_id(), key=0, project=opening.project, project_key=store.project_in(tx, opening.project),
            agent=opening.agent, metadata=opening.metadata, opened_at=tx.run("now")[0][0],
        ),
    )  # fmt: skip
    plan = store.plan(tx, session)
    raw = msgspec.Raw(opening.metadata.encode())
    plan.note(SessionOpened(agent=opening.agent, project=opening.project, metadata=raw), actor)
    return plan


def _prepared(draft: Draft, store: Store) -> Prepared:
    """A draft made ready; one the log cannot take as it is becomes one that says so."""
    try:
        return prepare(draft, store.blobs)
    except TooLarge as error:
        raw = msgspec.json.encode({"why": str(error), "kind": draft.body.kind, **error.details}).decode()
        return prepare(Draft(body=Opaque(kind="clew.too_large", raw=raw), source=draft.source), store.blobs)
    except InvalidInput:
        named = f"hash:{blake3((draft.source or '').encode('utf-8', 'replace')).hexdigest()[:32]}"
        return prepare(msgspec.structs.replace(draft, source=named), store.blobs)


_BYTES = Opaque(kind="clew.segment", raw="{}")


def _segments(take: Take, store: Store) -> list[Prepared]:
    """The new bytes, packed; large ones are durable before any row names them."""
    found = []
    for at in range(0, len(take.data), SEGMENT_BYTES):
        data = take.data[at : at + SEGMENT_BYTES]
        digest, packed = blob.address(data), blob.pack(data)
        store.blobs.prepare(digest, packed)
        found.append(Prepared(_BYTES, None, b"", None, None, blob=digest, packed=packed, size=len(data)))
    return found


def _record(tx: Transaction, take: Take, session: Session, segments: list[Prepared]) -> None:
    values = {
        "place": take.place, "stamp": take.stamp, "generation": take.generation, "kept": take.start + len(take.data),
        "taken": take.taken, "edges": take.edges, "state": take.state, "told": take.told, "opaque": take.opaque,
        "quarantined": take.quarantined,
    }  # fmt: skip
    if take.before is None:
        values |= {
            "project": session.project_key, "session": session.key, "machine": take.machine, "runtime": take.runtime,
            "format": take.format, "path": take.path, "native": take.native, "root": take.root,
            "written": take.written,
        }  # fmt: skip
    [(key,)] = tx.run("original_add" if take.before is None else "original_move", **values)
    start = take.start
    for one in segments:
        tx.run(
            "segment_add", original=key, generation=take.generation, start=start, length=one.size, blob=one.blob
        )  # fmt: skip
        start += one.size
    if take.only_latest:
        for (dropped,) in tx.run("segments_drop", original=key, before=take.generation):
            tx.run("blob_ref", digest=bytes(dropped), refs=-1)


def _at(tx: Transaction, place: bytes) -> Original | None:
    rows = tx.run("original_at", place=place)
    return _from(rows[0]) if rows else None


def _from(row: Row) -> Original:
    values: list[Any] = list(row)
    # place and edges, whatever a driver makes of bytes
    values[1], values[13] = bytes(values[1]), bytes(values[13])
    return Original(*values)


def session_of(store: Store, one: Original) -> Session:
    """The session an original belongs to."""
    with store.database.read() as tx:
        return session_from(tx.run("session_by_key", key=one.session_key)[0])
