"""Retention: how long conversations are kept, and what may not be removed. Pruning removes the bodies that expired.

Bodies go, with the references they held on blobs. Seq, kind, time and seal stay, and the session records which events
lost their bodies.
"""

import msgspec

from clew.model.events import KINDS, BodiesPruned
from clew.model.retention import DAY_US, Policy, ranges
from clew.model.session import Session, State
from clew.store.database.contract import Transaction
from clew.store.log.opening import plan_in
from clew.store.log.removal import remove_bodies, rows_of
from clew.store.log.rows import EventRow
from clew.store.log.sessions import head_in, session_in
from clew.store.log.writing import write
from clew.store.native_files.updates import drop_bytes
from clew.store.store import Store


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy removed from one session, and how many bodies stay because a fork reads them."""

    session: str
    events: int
    kept_for_forks: int
    policy: str


# Policies -------------------------------------------------------------------------------------------------------------


def set_policy(store: Store, policy: Policy) -> None:
    with store.database.write() as tx:
        tx.run(
            "policy_set", project=policy.project, agent=policy.agent, keep_days=policy.keep_days, hold=int(policy.hold)
        )


def remove_policy(store: Store, project: str, agent: str) -> bool:
    with store.database.write() as tx:
        return bool(tx.run("policy_remove", project=project, agent=agent))


def list_policies(store: Store) -> list[Policy]:
    with store.database.read() as tx:
        return policies_in(tx)


def policies_in(tx: Transaction) -> list[Policy]:
    return [
        Policy(project=project, agent=agent, keep_days=keep_days, hold=bool(hold))
        for project, agent, keep_days, hold in tx.run("policy_list")
    ]


def policy_for(policies: list[Policy], session: Session) -> Policy | None:
    """The policy of the session's agent if there is one, else its project's. A hold on either holds."""
    matching = [
        policy for policy in policies if policy.project == session.project and policy.agent in ("", session.agent)
    ]
    matching.sort(key=lambda policy: policy.agent, reverse=True)
    if not matching:
        return None
    return msgspec.structs.replace(matching[0], hold=any(policy.hold for policy in matching))


# Pruning --------------------------------------------------------------------------------------------------------------


def apply_policies(store: Store, *, actor: str, now: int | None = None) -> list[Pruned]:
    """Prune every conversation whose time is over; one transaction per session, so it can be stopped anywhere."""
    with store.database.read() as tx:
        policies = policies_in(tx)
        now = now or int(tx.run("now")[0][0])
        keys: list[int] = []
        for project in sorted({policy.project for policy in policies}):
            keys += [key for (key,) in tx.run("expired_sessions", project=project, agent=None, before=now)]
        sessions = [session_in(tx, key) for key in keys]
    done = []
    for session in sessions:
        policy = policy_for(policies, session)
        if policy is not None and policy.keep_days is not None and not policy.hold:
            pruned = _prune(store, session, policy, actor=actor, now=now)
            if pruned.events or pruned.kept_for_forks:
                done.append(pruned)
    return done


def _prune(store: Store, session: Session, policy: Policy, *, actor: str, now: int) -> Pruned:
    with store.database.write() as tx:
        plan = plan_in(tx, session)
        rows: list[EventRow] = []
        kept = 0
        # As the policies are now: a hold may have come since the work began.
        policies = policies_in(tx)
        current = policy_for(policies, session)
        if current == policy and _expired(policy, plan.head.at, now) and plan.head.state != State.ERASED:
            needed = _needed_upto(tx, session, policies, now)
            conversation = [row for row in rows_of(tx, session) if _is_conversation(row)]
            rows = [row for row in conversation if row.seq > needed]
            kept = len(conversation) - len(rows)
        if rows:
            remove_bodies(store, tx, session, rows, "event_remove")
            drop_bytes(tx, session)
            plan.note(BodiesPruned(ranges=ranges([row.seq for row in rows]), policy=str(policy)), actor)
            # The note is no activity of the session: its age still counts from its last real event.
            plan.active_at = plan.start.at
            write(tx, [plan], store.blobs)
    return Pruned(session=session.id, events=len(rows), kept_for_forks=kept, policy=str(policy))


def _expired(policy: Policy | None, last_at: int, now: int) -> bool:
    return policy is not None and policy.keep_days is not None and last_at < now - policy.keep_days * DAY_US


def _needed_upto(tx: Transaction, session: Session, policies: list[Policy], now: int) -> int:
    """The last seq of this session that a fork which is still kept reads; 0 when there is none."""
    needed = 0
    for key, _, upto in tx.run("children", key=session.key):
        if upto > needed and _is_kept(tx, session_in(tx, key), policies, now):
            needed = upto
    return needed


def _is_kept(tx: Transaction, session: Session, policies: list[Policy], now: int) -> bool:
    policy = policy_for(policies, session)
    head = head_in(tx, session)
    gone = head.state == State.ERASED or (not (policy and policy.hold) and _expired(policy, head.at, now))
    return not gone or _needed_upto(tx, session, policies, now) > 0


def _is_conversation(row: EventRow) -> bool:
    """Whether a stored event still has a body that belongs to the conversation. Unknown kinds do."""
    kind = KINDS.get(row.kind)
    return (row.body is not None or row.blob is not None) and not (kind is not None and kind.durable)
