"""How the requests of many callers become events in one commit: from memory first, under locks when that fails.

`append_from_memory` plans against the heads this store left behind and writes at once; the write itself finds out
whether a head has moved on. `append_all` takes what is left: it locks the heads, looks up the sources, plans against
the model's rules and writes. A request that is refused writes nothing and does not disturb the others.
"""

from collections.abc import Sequence

import msgspec

from clew.model.errors import ClewError, Damaged
from clew.model.session import Session
from clew.store.database.contract import Database, Statement, Transaction
from clew.store.log.heads import Heads
from clew.store.log.plan import AlreadyAnswered, Plan, Request, lease_lost, plan_from
from clew.store.log.prepare import Prepared
from clew.store.objects.pack_store import PackStores


def append_from_memory(database: Database, requests: Sequence[Request], heads: Heads) -> list[Request]:
    """Carry out the requests whose sessions' heads are remembered, without reading first; returns all others.

    Only a success counts here. Whatever speaks against a request is left for `append_all` to find out under a lock.
    """
    plans: dict[int, Plan] = {}
    planned: list[Request] = []
    left: list[Request] = []
    now = database.now()
    for request in requests:
        key = request.session.key
        plan = plans.get(key)
        if plan is None and (head := heads.recall(key)) is not None:
            plan = plans[key] = Plan(request.session, head, now, {})
        if plan is None or request.needs_reading():
            left.append(request)
            continue
        try:
            request.result = plan.add(request)
            planned.append(request)
        except ClewError:
            left.append(request)
    written = [plan for plan in plans.values() if plan.rows]
    if not written:
        return left
    moved = _write_planned(database, written, planned)
    for plan in written:
        if plan.session.key in moved:
            heads.keep(plan)
        else:
            heads.forget(plan.session.key)
    for request in planned:
        if request.session.key not in moved:
            request.result = None
            left.append(request)
    return left


def _write_planned(database: Database, plans: Sequence[Plan], requests: Sequence[Request]) -> set[int]:
    """Write what was planned from memory, with the receipts; returns the sessions whose heads moved."""
    moves, rows = [plan.move() for plan in plans], [row for plan in plans for row in plan.rows]
    if not any(request.receipt for request in requests):
        return database.append(moves, rows)
    with database.write() as tx:
        moved = tx.append(moves, rows)
        keep_receipts(tx, [request for request in requests if request.session.key in moved])
    return moved


def keep_receipts(tx: Transaction, requests: Sequence[Request]) -> None:
    """Keep the answers of the requests under their keys; `AlreadyAnswered` undoes the commit of one that came twice."""
    for request in requests:
        receipt, result = request.receipt, request.result
        if receipt is None or result is None:
            continue
        status, body = receipt.answer(result)
        if not tx.run(
            "answer_add", principal=receipt.principal, key=receipt.key, request=receipt.request, status=status,
            answer=body,
        ):  # fmt: skip
            raise AlreadyAnswered("a request with this Idempotency-Key was carried out before")


def append_all(tx: Transaction, requests: Sequence[Request], pack_stores: PackStores) -> list["Plan"]:
    """Lock the heads, plan and write the requests; each ends with a result or an error. Returns the plans written."""
    sessions = {request.session.key: request.session for request in requests}
    ordered = sorted(sessions.values(), key=_lock_order)
    reads: list[Statement] = [
        ("head_lock", {"project": session.project_key, "session": session.key}) for session in ordered
    ]
    sourced = {session.key: _sources(requests, session) for session in ordered}
    asked = [session for session in ordered if sourced[session.key]]
    reads += [
        (
            "events_by_source",
            {
                "project": session.project_key,
                "session": session.key,
                "sources": msgspec.json.encode(sourced[session.key]).decode(),
            },
        )
        for session in asked
    ]
    answers = tx.batch(reads)
    known = {
        (session.key, source): tuple(stored)
        for session, rows in zip(asked, answers[len(ordered) :], strict=True)
        for source, *stored in rows
    }
    plans: dict[int, Plan] = {}
    for session, rows in zip(ordered, answers[: len(ordered)], strict=True):
        plans[session.key] = plan_from(session, rows, known)
    for request in requests:
        try:
            request.result = plans[request.session.key].add(request)
        except ClewError as error:
            request.error = error
    written = [plan for plan in plans.values() if plan.rows]
    write(tx, written, pack_stores)
    keep_receipts(tx, requests)
    return written


def _sources(requests: Sequence[Request], session: Session) -> list[str]:
    """The sources of new drafts for a session that may be in it already."""
    return [
        draft.source
        for request in requests
        if request.session.key == session.key
        for draft in request.drafts
        if draft.source and draft.source not in request.unseen
    ]


def write(tx: Transaction, plans: Sequence[Plan], pack_stores: PackStores) -> None:
    """Write what was planned, in the order of the locks: the heads are held already, then objects, then the clock."""
    name_objects(tx, [draft for plan in plans for draft in plan.blobs], pack_stores)
    moving = [plan for plan in plans if plan.rows]
    if not moving:
        return
    moved = tx.append([plan.move() for plan in moving], [row for plan in moving for row in plan.rows])
    for plan in moving:
        if plan.session.key in moved:
            _write_columns(tx, plan)
            continue
        if plan.lease is not None:
            raise lease_lost(plan.session.id, plan.lease, "expired while this was being written", plan.start.epoch)
        raise Damaged(f"the head of session {plan.session.id} moved while it was locked", session=plan.session.id)


def _write_columns(tx: Transaction, plan: Plan) -> None:
    """Write the title and the privacy of a session, which its row has as well."""
    session = plan.session
    row = {"project": session.project_key, "session": session.key}
    if plan.given_title is not None:
        tx.run("session_title", **row, title=plan.given_title)
    elif plan.title is not None:
        # Nobody can have given a title to a session without events, so they are not looked through.
        is_new = plan.start.head == session.upto
        tx.run("session_title" if is_new else "session_own_title", **row, title=plan.title)
    if plan.private is not None:
        tx.run("session_privacy", **row, private=int(plan.private))


def name_objects(tx: Transaction, drafts: list[Prepared], pack_stores: PackStores) -> None:
    """Count the references of new events, in the same commit as the events."""
    if not drafts:
        return
    from clew.store.objects.objects import add_in, name_in  # Loads BLAKE3 and zstandard, which few events need.

    own = {draft.blob: draft for draft in drafts if draft.blob is not None}
    counts: dict[bytes, int] = {}
    for draft in drafts:
        for digest in (*draft.names, *((draft.blob,) if draft.blob is not None else ())):
            counts[digest] = counts.get(digest, 0) + 1
    for digest in sorted(counts):
        new = own.get(digest)
        if new is not None and new.stored is not None:
            add_in(tx, pack_stores, new.stored, refs=counts[digest])
        else:
            name_in(tx, digest, counts[digest])


def _lock_order(session: Session) -> tuple[int, int]:
    return (session.project_key, session.key)
