"""Retention: how long conversations are kept, and what may not be removed. Pruning removes the bodies that expired.

Bodies go, with the references they held on blobs. Seq, kind, time and seal stay, and the session records which events
lost their bodies. Time counts from when the conversation was said, not from when it was captured.
"""

from collections.abc import Callable
from functools import cache

import msgspec

from clew.model.events import KINDS, BodiesPruned
from clew.model.retention import DAY_US, Policy, ranges
from clew.model.session import Head, Session, State
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


def pruning_since(store: Store) -> dict[str, int]:
    """The projects with a policy under which bodies expire, and since when each has one."""
    with store.database.read() as tx:
        return {project: int(at) for project, at in tx.run("policies_that_prune")}


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


def apply_policies(
    store: Store,
    *,
    actor: str,
    now: int | None = None,
    project: str = "",
    dry_run: bool = False,
    before_each: Callable[[], None] = lambda: None,
) -> list[Pruned]:
    """Prune every conversation whose time is over; one transaction per session, so it can be stopped anywhere.

    With `project` only its conversations; a dry run reports the same and removes nothing.
    """
    with store.database.read() as tx:
        policies = policies_in(tx)
        now = now or int(tx.run("now")[0][0])
        names = sorted({policy.project for policy in policies if project in ("", policy.project)})
        due = [pair for name in names for pair in _due(tx, name, policies, now)]
    done = []
    for session, policy in due:
        before_each()
        if dry_run:
            with store.database.read() as tx:
                rows, kept = _rows_to_prune(tx, session, policy, head_in(tx, session), now)
            pruned = Pruned(session=session.id, events=len(rows), kept_for_forks=kept, policy=str(policy))
        else:
            pruned = _prune(store, session, policy, actor=actor, now=now)
        if pruned.events or pruned.kept_for_forks:
            done.append(pruned)
    return done


def _due(tx: Transaction, project: str, policies: list[Policy], now: int) -> list[tuple[Session, Policy]]:
    """The sessions of a project that still have a conversation and whose time is over, each with its policy."""
    due = []
    shortest = min((policy.keep_days for policy in policies if policy.keep_days is not None), default=None)
    for key, head_at, said_at in tx.run("last_said", project=project, **_kinds()):
        if shortest is not None and _said_at(head_at, said_at) < now - shortest * DAY_US:
            session = session_in(tx, key)
            policy = policy_for(policies, session)
            if policy and not policy.hold and _expired(policy, _said_at(head_at, said_at), now):
                due.append((session, policy))
    return sorted(due, key=lambda pair: pair[0].key)


def _prune(store: Store, session: Session, policy: Policy, *, actor: str, now: int) -> Pruned:
    with store.database.write() as tx:
        plan = plan_in(tx, session)
        rows, kept = _rows_to_prune(tx, session, policy, plan.head, now)
        if rows:
            remove_bodies(store, tx, session, rows, "event_remove")
            drop_bytes(tx, session)
            plan.note(BodiesPruned(ranges=ranges([row.seq for row in rows]), policy=str(policy)), actor)
            # The note does not count as activity of the session: its age still counts from its last real event.
            plan.active_at = plan.start.at
            write(tx, [plan], store.pack_stores)
    return Pruned(session=session.id, events=len(rows), kept_for_forks=kept, policy=str(policy))


def _rows_to_prune(
    tx: Transaction, session: Session, policy: Policy, head: Head, now: int
) -> tuple[list[EventRow], int]:
    """The events whose bodies may go, and how many stay because a fork reads them."""
    # As the policies are now: a hold may have come since the work began.
    policies = policies_in(tx)
    if policy_for(policies, session) != policy or head.state == State.ERASED:
        return [], 0
    if not _expired(policy, _last_said(tx, session, head), now):
        return [], 0
    needed = _needed_upto(tx, session, policies, now)
    conversation = [row for row in rows_of(tx, session) if _is_conversation(row)]
    rows = [row for row in conversation if row.seq > needed]
    return rows, len(conversation) - len(rows)


def _last_said(tx: Transaction, session: Session, head: Head) -> int:
    """When a session's conversation was last said; without a conversation, when something last happened."""
    rows = tx.run("last_said", project=session.project, session=session.key, **_kinds())
    return _said_at(head.at, rows[0][2] if rows else None)


def _said_at(head_at: int, said_at: int | None) -> int:
    # A program whose clock is ahead says nothing later than it was stored.
    return head_at if said_at is None else min(head_at, said_at)


@cache
def _kinds() -> dict[str, str]:
    """The kinds of events that are durable, and those of a conversation."""
    durable = [kind for kind, body in KINDS.items() if body.durable]
    conversation = [kind for kind, body in KINDS.items() if not body.durable]
    return {name: msgspec.json.encode(kinds).decode() for name, kinds in (("names", durable), ("kinds", conversation))}


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
    is_expired = not (policy and policy.hold) and _expired(policy, _last_said(tx, session, head), now)
    return not (head.state == State.ERASED or is_expired) or _needed_upto(tx, session, policies, now) > 0


def _is_conversation(row: EventRow) -> bool:
    """Whether a stored event still has a body that belongs to the conversation. Unknown kinds do."""
    kind = KINDS.get(row.kind)
    return (row.body is not None or row.blob is not None) and not (kind is not None and kind.durable)
