"""Originals: the native files of agent programs, byte for byte, beside the events that were read from them.

One transaction takes a stretch of a file in: the session is opened if it is new, the drafts become events, the bytes
become a segment, and the file's row says how far it has been taken. So a crash leaves nothing half-read, and a file
that did not change costs one line of one query.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from blake3 import blake3

from clew.model.conversation import REVISION
from clew.model.errors import (
    Busy,
    ClewError,
    Conflict,
    DiskFull,
    InvalidInput,
    NotFound,
    StoreError,
    TooLarge,
    Unavailable,
    WrongState,
)
from clew.model.events import Draft, Opaque, SessionResumed, SessionTitled
from clew.model.session import Session, State
from clew.store.database.contract import Row, Transaction
from clew.store.log.opening import Forking, Opening, open_in
from clew.store.log.plan import Plan, Request, plan_from
from clew.store.log.prepare import LARGEST_INTEGER, Prepared, check_source, prepare
from clew.store.log.rows import session_from
from clew.store.log.writing import write
from clew.store.native_files import segments
from clew.store.native_files.segments import Segment
from clew.store.store import Store

# How much of each end of what was kept is hashed, to see that a file has only grown.
EDGE_BYTES = 4096
# A source that is longer goes by its hash: PostgreSQL's index takes no more, whatever the characters.
LONGEST_SOURCE = 250


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
    into: Session | Opening | Forking
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

    key: int
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
        return original_in(tx, place)


def originals(store: Store, session: Session) -> list[Original]:
    """The native files of a session."""
    with store.database.read() as tx:
        rows = tx.run("originals_of", project=session.project_key, session=session.key)
        return [_from(row) for row in rows]


def relatives(store: Store, runtime: str, root: str) -> list[Original]:
    """The files whose first record is this one: a program's own forks copy the beginning of the session."""
    with store.database.read() as tx:
        return [_from(row) for row in tx.run("originals_root", runtime=runtime, root=_short(root) or "")]


def claimants(store: Store, runtime: str, native: str) -> list[Original]:
    """The files that say they are this native session."""
    with store.database.read() as tx:
        return [_from(row) for row in tx.run("originals_native", runtime=runtime, native=native)]


def digests(store: Store, one: Original) -> list[tuple[int, int, bytes]]:
    """Where each stretch of the kept bytes begins, how long it is, and its BLAKE3 digest."""
    with store.database.read() as tx:
        rows = tx.run("segments", original=one.key, generation=one.generation)
    return [(start, length, bytes(digest)) for start, length, digest in rows]


def lines(store: Store, one: Original) -> Iterator[bytes]:
    """The lines of an original as far as they were taken, one stretch of it in memory at a time."""
    rest, left = b"", one.taken
    for start, _, _ in digests(store, one):
        with store.database.read() as tx:
            data = segments.read(tx, store, one, start)[: max(0, left - start)]
        *whole, rest = (rest + data).split(b"\n")
        yield from whole
    if rest:
        yield rest


def load(store: Store, one: Original, *, first: int = 0) -> bytes:
    """The bytes of an original, from `first` on, checked against their digests."""
    with store.database.read() as tx:
        rows = tx.run("segments", original=one.key, generation=one.generation)
        parts = [(row[0], segments.read(tx, store, one, row[0])) for row in rows if row[0] + row[1] > first]
    return b"".join(data[max(0, first - start) :] for start, data in parts)


def stretch(store: Store, session: Session, digest: str) -> bytes | None:
    """The bytes with this digest that a native file of a session holds in one piece."""
    for one in originals(store, session):
        for start, _, found in digests(store, one):
            if found.hex() == digest:
                with store.database.read() as tx:
                    return segments.read(tx, store, one, start)
    return None


def move(store: Store, one: Original, *, machine: str, path: str, stamp: str, place: bytes | None = None) -> None:
    """Remember that an original now lies elsewhere; it goes by its new path, or by a `place` of its own."""
    place = place or place_of(machine, one.runtime, path)
    plain = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    with store.database.write() as tx:
        tx.run("original_place", key=one.key, place=place, path=plain, stamp=stamp)


def restamp(store: Store, one: Original, stamp: str) -> None:
    """Remember that a file was touched and holds the same bytes as before."""
    with store.database.write() as tx:
        tx.run("original_place", key=one.key, place=one.place, path=one.path, stamp=stamp)


def keep(store: Store, takes: Sequence[Take], *, actor: str) -> list[Session | ClewError]:
    """Take all of them in, in one commit; each ends with its session or with the error that kept it out.

    When one cannot be taken once writing has begun, all is undone and each is tried by itself.
    """
    outcomes: dict[int, Session | ClewError] = {}
    ready: dict[int, _Ready] = {}
    for i, take in enumerate(takes):
        try:
            drafts = [_prepared(draft, store) for draft in take.drafts]
            ready[i] = take, drafts, segments.cut(take.data, drafts, store)
        except ClewError as error:
            outcomes[i] = error
    while ready:
        batch = _once_each(ready)
        try:
            outcomes |= _commit(store, batch, actor)
        except (Unavailable, Busy, DiskFull) as error:
            outcomes |= dict.fromkeys(batch, error)
        except ClewError:
            for i, one in batch.items():
                outcomes |= _alone(store, i, one, actor)
        for i in batch:
            del ready[i]
    return [outcomes[i] for i in range(len(takes))]


_Ready = tuple[Take, list[Prepared], list[Segment]]
"""A take, and its drafts and segments made ready."""


def _once_each(ready: dict[int, "_Ready"]) -> dict[int, "_Ready"]:
    """As many takes as there are sessions: two for one session need two commits."""
    found: dict[int, _Ready] = {}
    sessions: set[int] = set()
    for i, one in ready.items():
        into = one[0].into
        if not isinstance(into, Session) or into.key not in sessions:
            found[i] = one
            sessions |= {into.key} if isinstance(into, Session) else set()
    return found


def _alone(store: Store, i: int, one: "_Ready", actor: str) -> dict[int, Session | ClewError]:
    try:
        return _commit(store, {i: one}, actor)
    except ClewError as error:
        return {i: error}


def _commit(store: Store, batch: dict[int, "_Ready"], actor: str) -> dict[int, Session | ClewError]:
    outcomes: dict[int, Session | ClewError] = {}
    with store.database.write() as tx:
        plans: dict[int, Plan] = {}
        # Heads are locked from old to young; new sessions are nobody else's yet.
        for i in sorted(batch, key=lambda i: _age(batch[i][0])):
            take, drafts, pieces = batch[i]
            try:
                plan = _plan(tx, take, drafts, actor)
            except ClewError as error:
                if isinstance(error, StoreError) or not isinstance(take.into, Session):
                    raise  # What was written for it, a session perhaps, has to be undone.
                outcomes[i] = error
                continue
            plan.blobs += [piece.blob for piece in pieces if piece.blob is not None]
            plans[i] = plan
        # Packed before anything is written: on PostgreSQL all wait for whoever has written an event.
        rows = {
            i: segments.rows_of(batch[i][2], start=batch[i][0].start, seq=plan.start.head, events=plan.rows)
            for i, plan in plans.items()
        }
        write(tx, list(plans.values()), store.blobs)
        for i, plan in plans.items():
            outcomes[i] = plan.session
            _record(tx, batch[i][0], plan.session, rows[i])
    return outcomes


def forget(tx: Transaction, store: Store, session: Session, *, erase: bool) -> None:
    """Drop the bytes of a session's originals; with `erase`, also where they were and what they were called."""
    blobs: list[bytes] = []
    for row in tx.run("originals_of", project=session.project_key, session=session.key):
        one = _from(row)
        blobs += segments.drop(tx, one.key, before=one.generation + 1)
    for digest in sorted(blobs):
        tx.run("blob_ref", digest=digest, refs=-1)
    if erase:
        tx.run("original_erase", project=session.project_key, session=session.key, nothing=b"")


def _age(take: Take) -> tuple[int, int, str]:
    into = take.into.parent if isinstance(take.into, Forking) else take.into
    return (into.project_key, into.key, "") if isinstance(into, Session) else (2**62, 0, into.project)


def _refuse_if_moved(tx: Transaction, take: Take) -> None:
    there = original_in(tx, take.place)
    if (there and there.key, there and (there.generation, there.kept, there.taken)) != (
        take.before and take.before.key,
        take.before and (take.before.generation, take.before.kept, take.before.taken),
    ):
        raise Conflict(f"{take.path} was captured by another process just now; nothing of it is missing")


def _plan(tx: Transaction, take: Take, drafts: list[Prepared], actor: str) -> Plan:
    known: dict[tuple[int, str], Row] = {}
    if isinstance(take.into, Session):
        session = take.into
        rows = tx.run("head_lock", project=session.project_key, session=session.key)
        # Behind the lock: whoever was quicker is done by now.
        _refuse_if_moved(tx, take)
        known = _known(tx, session, drafts)
        plan = plan_from(session, rows, known)
    else:
        _refuse_if_moved(tx, take)
        plan = open_in(tx, take.into, actor)
    if plan.head.state == State.ERASED:
        raise WrongState(f"session {plan.session.id} was erased and takes no files", state="erased")
    drafts = _revised(drafts, {source: row for (_, source), row in known.items()})
    new = any(draft.source is None or (plan.session.key, draft.source) not in known for draft in drafts)
    if new and plan.head.state in (State.PAUSED, State.CLOSED):
        plan.note(SessionResumed(reason="it went on in its runtime", runtime=take.runtime), actor)
    if drafts:
        plan.add(Request(plan.session, drafts, actor))
    return plan


def _revised(drafts: list[Prepared], known: dict[str, Row]) -> list[Prepared]:
    """Another body under a source that is taken becomes a revision: the same record, written again."""
    if not known and len({draft.source for draft in drafts}) == len(drafts):
        return drafts
    found = []
    first: dict[str, Prepared] = {}
    for draft in drafts:
        source = draft.source
        if source is not None:
            there, before = known.get(source), first.setdefault(source, draft)
            if (there is not None and not _is(draft, there)) or (draft.hash, draft.body.kind) != (
                before.hash,
                before.body.kind,
            ):
                mark = draft.hash.hex()[:12]
                draft = msgspec.structs.replace(draft, source=f"{source}{REVISION}{mark}")
        found.append(draft)
    return found


def _is(draft: Prepared, there: Row) -> bool:
    """Whether a draft is what became this event."""
    _, kind, body, digest, seal = there
    if kind != draft.body.kind:
        return False
    if digest is not None:
        return draft.blob == bytes(digest)
    return draft.hash == bytes(seal[32:]) if seal is not None else draft.text == body


def _known(tx: Transaction, session: Session, drafts: Iterable[Prepared]) -> dict[tuple[int, str], Row]:
    sources = [draft.source for draft in drafts if draft.source]
    if not sources:
        return {}
    rows = tx.run(
        "events_by_source", project=session.project_key, session=session.key,
        sources=msgspec.json.encode(sources).decode(),
    )  # fmt: skip
    return {(session.key, source): tuple(there) for source, *there in rows}


def _prepared(draft: Draft, store: Store) -> Prepared:
    """A draft made ready; one the log cannot take as it is becomes one that says so."""
    if isinstance(draft.body, SessionTitled) and "\0" in draft.body.title:
        # The title is a column, too, and PostgreSQL has no NUL in a text.
        draft = msgspec.structs.replace(draft, body=SessionTitled(title=draft.body.title.replace("\0", "\ufffd")))
    if draft.source is not None and len(draft.source) > LONGEST_SOURCE:
        draft = msgspec.structs.replace(draft, source=_short(draft.source))
    try:
        return prepare(draft, store.blobs)
    except TooLarge as error:
        return _said_so(draft, "clew.too_large", error, store)
    except (InvalidInput, NotFound):
        draft = msgspec.structs.replace(draft, source=_short(draft.source), said_at=_time(draft.said_at))
    try:
        return prepare(draft, store.blobs)
    except (InvalidInput, NotFound) as error:
        return _said_so(draft, "clew.unreadable", error, store)


def _said_so(draft: Draft, kind: str, error: ClewError, store: Store) -> Prepared:
    raw = msgspec.json.encode({"why": str(error), "kind": draft.body.kind, **error.details}).decode()
    return prepare(Draft(body=Opaque(kind=kind, raw=raw), source=_short(draft.source)), store.blobs)


def _short(source: str | None) -> str | None:
    """A source that every database takes; a revision of it stays one."""
    if not source:
        return None
    try:
        if len(source) <= LONGEST_SOURCE:
            check_source(source)
            return source
    except InvalidInput:
        pass
    name, mark, revision = source.partition(REVISION)
    if not name or not _OWN_REVISION.fullmatch(revision):
        name, mark, revision = source, "", ""
    return f"hash:{blake3(name.encode('utf-8', 'replace')).hexdigest()[:32]}{mark}{revision}"


_OWN_REVISION = re.compile(r"[0-9a-f.]{1,40}")


def _time(said_at: int | None) -> int | None:
    return said_at if said_at is not None and abs(said_at) <= LARGEST_INTEGER else None


def _record(tx: Transaction, take: Take, session: Session, rows: list[dict[str, object]]) -> None:
    values = {
        "place": take.place, "stamp": take.stamp, "generation": take.generation, "kept": take.start + len(take.data),
        "taken": take.taken, "edges": take.edges, "state": take.state, "told": take.told, "opaque": take.opaque,
        "quarantined": take.quarantined,
    }  # fmt: skip
    if take.before is None:
        values |= {
            "project": session.project_key, "session": session.key, "machine": take.machine, "runtime": take.runtime,
            "format": take.format, "path": take.path, "native": take.native, "root": _short(take.root) or "",
            "written": take.written,
        }  # fmt: skip
    [(key,)] = tx.run("original_add" if take.before is None else "original_move", **values)
    for row in rows:
        tx.run("segment_add", original=key, generation=take.generation, **row)
    if take.only_latest:
        for digest in segments.drop(tx, key, before=take.generation):
            tx.run("blob_ref", digest=digest, refs=-1)


def original_in(tx: Transaction, place: bytes) -> Original | None:
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
