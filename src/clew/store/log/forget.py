"""Forgetting: prune the bodies of old conversations, or erase a whole session. The chain verifies afterwards.

What goes: bodies, the references they held on blobs, and with erasure also sources, actors, title and metadata. What
stays: seq, kind, time and the two hashes each digest was made of (the seal). The log records its own gaps.
"""

import msgspec

from clew.model import chain
from clew.model.errors import Damaged, HasForks, NotFound, OnHold
from clew.model.events import KINDS, BodiesPruned, SessionErased, blobs_of
from clew.model.retention import DAY_US, Policy, ranges
from clew.model.session import Session, State
from clew.store.database.contract import Row, Transaction
from clew.store.log.append import write
from clew.store.log.log import EVERYTHING, Store, session_from
from clew.store.log.plan import Plan
from clew.store.native_files import native_files


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy removed from one session, and how many bodies stay because a fork reads them."""

    session: str
    events: int
    kept_for_forks: int
    policy: str


# What is left to do when others must not be kept waiting.
LATER = (
    "free space of the database and attached files, until they are reused or collected; `clew collect`, run by an "
    "owner, overwrites them"
)


class Erased(msgspec.Struct, frozen=True, kw_only=True):
    """What was erased, and what this program cannot reach."""

    session: str
    events: int
    blobs: int
    beyond_reach: list[str]


# Policies -------------------------------------------------------------------------------------------------------------


def set_policy(store: Store, policy: Policy) -> None:
    with store.database.write() as tx:
        tx.run(
            "policy_set", project=policy.project, agent=policy.agent, keep_days=policy.keep_days, hold=int(policy.hold)
        )


def remove_policy(store: Store, project: str, agent: str) -> bool:
    with store.database.write() as tx:
        return bool(tx.run("policy_remove", project=project, agent=agent))


def policies(store: Store) -> list[Policy]:
    with store.database.read() as tx:
        return _policies(tx)


def _policies(tx: Transaction) -> list[Policy]:
    rows = tx.run("policy_list")
    return [Policy(project=row[0], agent=row[1], keep_days=row[2], hold=bool(row[3])) for row in rows]


def policy_for(found: list[Policy], session: Session) -> Policy | None:
    """The policy of the session's agent if there is one, else its project's. A hold on either holds."""
    fitting = [policy for policy in found if policy.project == session.project and policy.agent in ("", session.agent)]
    fitting.sort(key=lambda policy: policy.agent, reverse=True)
    if not fitting:
        return None
    return msgspec.structs.replace(fitting[0], hold=any(policy.hold for policy in fitting))


# Pruning --------------------------------------------------------------------------------------------------------------


def apply_policies(store: Store, *, actor: str, now: int | None = None) -> list[Pruned]:
    """Prune every conversation whose time is over; one transaction per session, so it can be stopped anywhere."""
    with store.database.read() as tx:
        found = _policies(tx)
        now = now or int(tx.run("now")[0][0])
        keys: list[int] = []
        for project in sorted({policy.project for policy in found}):
            keys += [row[0] for row in tx.run("expired_sessions", project=project, agent=None, before=now)]
        sessions = [session_from(tx.run("session_by_key", key=key)[0]) for key in keys]
    done = []
    for session in sessions:
        policy = policy_for(found, session)
        if policy is not None and policy.keep_days is not None and not policy.hold:
            pruned = _prune(store, session, policy, actor=actor, now=now)
            if pruned.events or pruned.kept_for_forks:
                done.append(pruned)
    return done


def _prune(store: Store, session: Session, policy: Policy, *, actor: str, now: int) -> Pruned:
    with store.database.write() as tx:
        plan = store.plan(tx, session)
        rows: list[Row] = []
        kept = 0
        # As the policies are now: a hold may have come since the work began.
        found = _policies(tx)
        current = policy_for(found, session)
        if current == policy and _expired(policy, plan.head.at, now) and plan.head.state != State.ERASED:
            needed = _needed_upto(store, tx, session, found, now)
            whole = [row for row in _rows(tx, session) if _is_conversation(row)]
            rows = [row for row in whole if row[0] > needed]
            kept = len(whole) - len(rows)
        if rows:
            _empty(store, tx, session, rows, "event_remove")
            native_files.forget(tx, store, session, erase=False)
            plan.note(BodiesPruned(ranges=ranges([row[0] for row in rows]), policy=str(policy)), actor)
            # The note is no activity of the session: its age still counts from its last real event.
            plan.active_at = plan.start.at
            write(tx, [plan], store.blobs)
    return Pruned(session=session.id, events=len(rows), kept_for_forks=kept, policy=str(policy))


def _expired(policy: Policy | None, last_at: int, now: int) -> bool:
    return policy is not None and policy.keep_days is not None and last_at < now - policy.keep_days * DAY_US


def _needed_upto(store: Store, tx: Transaction, session: Session, found: list[Policy], now: int) -> int:
    """The last seq of this session that a fork which is still kept reads; 0 when there is none."""
    needed = 0
    for key, _, upto in tx.run("children", key=session.key):
        child = session_from(tx.run("session_by_key", key=key)[0])
        if upto > needed and _is_kept(store, tx, child, found, now):
            needed = upto
    return needed


def _is_kept(store: Store, tx: Transaction, session: Session, found: list[Policy], now: int) -> bool:
    policy = policy_for(found, session)
    head = store.head_in(tx, session)
    gone = head.state == State.ERASED or (not (policy and policy.hold) and _expired(policy, head.at, now))
    return not gone or _needed_upto(store, tx, session, found, now) > 0


def _is_conversation(row: Row) -> bool:
    """Whether a stored event still has a body that belongs to the conversation. Unknown kinds do."""
    kind, body, digest = row[7], row[9], row[10]
    known = KINDS.get(kind)
    return (body is not None or digest is not None) and not (known is not None and known.durable)


# Erasure --------------------------------------------------------------------------------------------------------------


def descendants(store: Store, session: Session) -> list[Session]:
    """The session and every living fork below it, parents before children."""
    with store.database.read() as tx:
        return _descendants(tx, session)


def erase(
    store: Store, session: Session, *, actor: str, reason: str = "", with_forks: bool = False, scrub: bool = True
) -> list[Erased]:
    """Erase a session, and its forks if asked to, beyond recovery by this program.

    Without `scrub` the free space that is left is not overwritten, which would keep every other caller waiting.
    """
    doomed = descendants(store, session)
    forks = [one.id for one in doomed[1:]]
    if forks and not with_forks:
        raise HasForks(
            f"{len(forks)} other session(s) read events of {session.id} ({', '.join(forks[:5])}); erase them too with "
            "--with-forks, or one by one first",
            session=session.id,
            forks=forks,
        )
    for one in doomed:
        with store.database.read() as tx:
            _refuse_if_held(tx, one)
    # A session that was erased before is only scrubbed again: the last time something may have been in the way.
    counts = [
        (0, 0) if store.head(one).state == State.ERASED else _erase(store, one, actor=actor, reason=reason)
        for one in reversed(doomed)
    ]
    beyond = [LATER]
    if scrub:
        store.collect_blobs(grace_us=0)
        beyond = store.database.scrub()
    return [
        Erased(session=one.id, events=events, blobs=blobs, beyond_reach=beyond)
        for one, (events, blobs) in zip(reversed(doomed), counts, strict=True)
    ]


def _descendants(tx: Transaction, session: Session) -> list[Session]:
    """The session and every living fork below it, parents before children."""
    found = [session]
    for one in found:
        for key, _, _ in tx.run("children", key=one.key):
            child = session_from(tx.run("session_by_key", key=key)[0])
            state = tx.run("head_read", project=child.project_key, session=child.key)[0][0]
            if state != State.ERASED:
                found.append(child)
    return found


def _erase(store: Store, session: Session, *, actor: str, reason: str) -> tuple[int, int]:
    with store.database.write() as tx:
        plan: Plan = store.plan(tx, session)
        # Once more, now that nobody can fork it or put it on hold before this is done. Its forks went first.
        _refuse_if_held(tx, session)
        if len(_descendants(tx, session)) > 1:
            raise HasForks(
                f"session {session.id} was forked while it was being erased; erase it again", session=session.id
            )
        rows = _rows(tx, session)
        blobs = _empty(store, tx, session, rows, "event_erase")
        native_files.forget(tx, store, session, erase=True)
        plan.note(SessionErased(events=len(rows), reason=reason), actor)
        write(tx, [plan], store.blobs)
        tx.run("session_erase", project=session.project_key, session=session.key)
        tx.run("grants_erase", session=session.id)
        tx.run("answers_about", session=session.id)
        # A new epoch, so that nobody who held a lease can write into what is gone.
        tx.run("head_erase", project=session.project_key, session=session.key)
    return len(rows), blobs


def _refuse_if_held(tx: Transaction, session: Session) -> None:
    policy = policy_for(_policies(tx), session)
    if policy is not None and policy.hold:
        raise OnHold(
            f"session {session.id} is under a legal hold ({policy}); it was not erased: lift the hold first "
            "(`clew retention set`)",
            session=session.id,
        )


def _rows(tx: Transaction, session: Session) -> list[Row]:
    return tx.run(
        "events", project=session.project_key, session=session.key, first=1, last=EVERYTHING, limit=EVERYTHING
    )


def _empty(store: Store, tx: Transaction, session: Session, rows: list[Row], statement: str) -> int:
    """Empty the rows, leave their seals, and give back the blobs they named; returns how many of those."""
    dropped: dict[bytes, int] = {}
    statements = []
    for row in rows:
        seal = row[11]
        if seal is None:
            seal = _seal(store, tx, session, row)
            for digest in _blobs(store, tx, session, row):
                dropped[digest] = dropped.get(digest, 0) + 1
        statements.append(
            (statement, {"project": session.project_key, "session": session.key, "seq": row[0], "seal": bytes(seal)})
        )
    tx.batch(statements)
    for digest in sorted(dropped):
        tx.run("blob_ref", digest=digest, refs=-dropped[digest])
    return len(dropped)


def _seal(store: Store, tx: Transaction, session: Session, row: Row) -> bytes:
    seq, _, at, said_at, actor, source, _, kind, version, body, digest, _ = row
    try:
        text = body.encode() if body is not None else store.blob_in(tx, bytes(digest))
        hashed = chain.body_hash(text)
    except (NotFound, Damaged):
        hashed = bytes(32)  # The bytes are lost already; that must not keep the rest from being forgotten.
    return chain.header_hash(session.id, seq, kind, version, at, said_at, actor, source) + hashed


def _blobs(store: Store, tx: Transaction, session: Session, row: Row) -> list[bytes]:
    own = [bytes(row[10])] if row[10] is not None else []
    try:
        [event] = store.events_in(tx, session.project_key, session.key, session.id, [row])
    except Damaged:
        return own
    return own + [bytes.fromhex(name) for name in blobs_of(event.body)]
