"""Store new bytes of native files together with the events that were read from them.

One transaction stores an update: it opens the session if the file is new, appends the drafts, adds the bytes as a
segment, and records how far the file was read. So a crash leaves nothing half captured.
"""

from collections.abc import Iterable, Sequence

import msgspec

from clew.model.errors import Busy, ClewError, Conflict, DiskFull, StoreError, Unavailable, WrongState
from clew.model.events import SessionResumed
from clew.model.session import Session, State
from clew.store.database.contract import Row, Transaction
from clew.store.log.opening import Forking, open_in
from clew.store.log.plan import Plan, Request, plan_from
from clew.store.log.prepare import Prepared
from clew.store.log.writing import write
from clew.store.native_files import segments
from clew.store.native_files.lookup import find_file_in
from clew.store.native_files.native_file import FileUpdate, NativeFile, file_from, file_id_of, short_source
from clew.store.native_files.prepare_drafts import mark_revisions, prepare_draft
from clew.store.native_files.segments import Segment
from clew.store.store import Store


class _Ready(msgspec.Struct, frozen=True):
    """An update, with its drafts and segments prepared."""

    update: FileUpdate
    drafts: list[Prepared]
    segments: list[Segment]


_Batch = dict[int, _Ready]
_Outcomes = dict[int, Session | ClewError]


def apply_updates(store: Store, updates: Sequence[FileUpdate], *, actor: str) -> list[Session | ClewError]:
    """Store the updates in one commit; returns for each its session, or the error that prevented it.

    When one fails after writing has begun, all are rolled back and each is tried by itself.
    """
    outcomes: _Outcomes = {}
    ready: _Batch = {}
    for i, update in enumerate(updates):
        try:
            drafts = [prepare_draft(draft, store) for draft in update.drafts]
            ready[i] = _Ready(update, drafts, segments.cut(update.data, drafts, store))
        except ClewError as error:
            outcomes[i] = error
    while ready:
        batch = _one_per_session(ready)
        try:
            outcomes |= _commit(store, batch, actor)
        except (Unavailable, Busy, DiskFull) as error:
            outcomes |= dict.fromkeys(batch, error)
        except ClewError:
            for i, update_ready in batch.items():
                outcomes |= _commit_alone(store, i, update_ready, actor)
        for i in batch:
            del ready[i]
    return [outcomes[i] for i in range(len(updates))]


def move_file(
    store: Store, file: NativeFile, *, machine: str, path: str, fingerprint: str, file_id: bytes | None = None
) -> None:
    """Record that a file is at another path now. Its id is made of the path, unless `file_id` is given."""
    file_id = file_id or file_id_of(machine, file.runtime, path)
    printable = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    with store.database.write() as tx:
        tx.run("original_place", key=file.key, place=file_id, path=printable, stamp=fingerprint)


def set_fingerprint(store: Store, file: NativeFile, fingerprint: str) -> None:
    """Record that a file was touched and still holds the same bytes."""
    with store.database.write() as tx:
        tx.run("original_place", key=file.key, place=file.file_id, path=file.path, stamp=fingerprint)


def drop_bytes(tx: Transaction, session: Session) -> None:
    """Delete the bytes of a session's native files."""
    digests: list[bytes] = []
    for row in tx.run("originals_of", project=session.project_key, session=session.key):
        file = file_from(row)
        digests += segments.drop(tx, file.key, before=file.generation + 1)
    for digest in sorted(digests):
        tx.run("object_ref", digest=digest, refs=-1)


def erase_files(tx: Transaction, session: Session) -> None:
    """Delete the bytes of a session's native files, and their paths, names and state."""
    drop_bytes(tx, session)
    tx.run("original_erase", project=session.project_key, session=session.key, nothing=b"")


def _one_per_session(ready: _Batch) -> _Batch:
    """The updates for the next commit: two updates of one session need two commits."""
    batch: _Batch = {}
    session_keys: set[int] = set()
    for i, each in ready.items():
        into = each.update.into
        if not isinstance(into, Session):
            batch[i] = each
        elif into.key not in session_keys:
            batch[i] = each
            session_keys.add(into.key)
    return batch


def _commit_alone(store: Store, i: int, ready: _Ready, actor: str) -> _Outcomes:
    try:
        return _commit(store, {i: ready}, actor)
    except ClewError as error:
        return {i: error}


def _commit(store: Store, batch: _Batch, actor: str) -> _Outcomes:
    outcomes: _Outcomes = {}
    with store.database.write() as tx:
        plans: dict[int, Plan] = {}
        # Heads are locked in the order of their keys. A new session has no lock that another writer could wait for.
        for i in sorted(batch, key=lambda i: _lock_order(batch[i].update)):
            ready = batch[i]
            try:
                plan = _plan(tx, ready.update, ready.drafts, actor)
            except ClewError as error:
                if isinstance(error, StoreError) or not isinstance(ready.update.into, Session):
                    raise  # It may have written something, such as a new session, that has to be rolled back.
                outcomes[i] = error
                continue
            plan.blobs += [segment.blob for segment in ready.segments if segment.blob is not None]
            plans[i] = plan
        # Compressed before anything is written: on PostgreSQL every writer waits for one that has added an event.
        rows = {
            i: segments.rows_of(batch[i].segments, start=batch[i].update.start, seq=plan.start.head, events=plan.rows)
            for i, plan in plans.items()
        }
        write(tx, list(plans.values()), store.pack_stores)
        for i, plan in plans.items():
            outcomes[i] = plan.session
            _record(tx, batch[i].update, plan.session, rows[i])
    return outcomes


def _lock_order(update: FileUpdate) -> tuple[int, int, str]:
    session = update.into.parent if isinstance(update.into, Forking) else update.into
    return (session.project_key, session.key, "") if isinstance(session, Session) else (2**62, 0, session.project)


def _refuse_if_changed(tx: Transaction, update: FileUpdate) -> None:
    if _version(find_file_in(tx, update.file_id)) != _version(update.before):
        raise Conflict(f"{update.path} was captured by another process just now; nothing of it is missing")


def _version(file: NativeFile | None) -> tuple[int, int, int, int] | None:
    """What changes when a file is captured again."""
    return None if file is None else (file.key, file.generation, file.stored_bytes, file.read_bytes)


def _plan(tx: Transaction, update: FileUpdate, drafts: list[Prepared], actor: str) -> Plan:
    stored: dict[tuple[int, str], Row] = {}
    if isinstance(update.into, Session):
        session = update.into
        rows = tx.run("head_lock", project=session.project_key, session=session.key)
        # After the lock: a process that captured the file at the same time has committed by now.
        _refuse_if_changed(tx, update)
        stored = _stored_events(tx, session, drafts)
        plan = plan_from(session, rows, stored)
    else:
        _refuse_if_changed(tx, update)
        plan = open_in(tx, update.into, actor)
    if plan.head.state == State.ERASED:
        raise WrongState(f"session {plan.session.id} was erased and takes no files", state="erased")
    drafts = mark_revisions(drafts, {source: row for (_, source), row in stored.items()})
    is_new = any(draft.source is None or (plan.session.key, draft.source) not in stored for draft in drafts)
    if is_new and plan.head.state in (State.PAUSED, State.CLOSED):
        plan.note(SessionResumed(reason="it went on in its runtime", runtime=update.runtime), actor)
    if drafts:
        plan.add(Request(plan.session, drafts, actor))
    return plan


def _stored_events(tx: Transaction, session: Session, drafts: Iterable[Prepared]) -> dict[tuple[int, str], Row]:
    """The events of the session that have the source of a draft."""
    sources = [draft.source for draft in drafts if draft.source]
    if not sources:
        return {}
    rows = tx.run(
        "events_by_source", project=session.project_key, session=session.key,
        sources=msgspec.json.encode(sources).decode(),
    )  # fmt: skip
    return {(session.key, source): tuple(event) for source, *event in rows}


def _record(tx: Transaction, update: FileUpdate, session: Session, segment_rows: list[dict[str, object]]) -> None:
    values = {
        "place": update.file_id, "stamp": update.fingerprint, "generation": update.generation,
        "kept": update.start + len(update.data), "taken": update.read_bytes, "edges": update.ends_digest,
        "state": update.state, "told": update.translated, "opaque": update.opaque, "quarantined": update.quarantined,
    }  # fmt: skip
    if update.before is None:
        values |= {
            "project": session.project_key, "session": session.key, "machine": update.machine,
            "runtime": update.runtime, "format": update.format, "path": update.path, "native": update.native_id,
            "root": short_source(update.root) or "", "written": update.written,
        }  # fmt: skip
    [(key,)] = tx.run("original_add" if update.before is None else "original_move", **values)
    for row in segment_rows:
        tx.run("segment_add", original=key, generation=update.generation, **row)
    if update.only_latest:
        for digest in segments.drop(tx, key, before=update.generation):
            tx.run("object_ref", digest=digest, refs=-1)
