"""Leases: the exclusive right to append, until a time of the database's clock, with an epoch that only ever grows.

The holder of the current epoch writes; a holder that slept past its time finds the epoch moved on and is refused by the
write itself (writing.py). No client's clock has a say.
"""

import msgspec

from clew.model.errors import InvalidInput
from clew.model.events import LeaseLost, LeaseReleased, LeaseTaken
from clew.model.ids import check_name
from clew.model.session import Session
from clew.store.database.contract import Transaction
from clew.store.log.opening import plan_in
from clew.store.log.plan import Plan, check_lease, held_by_another
from clew.store.log.writing import write
from clew.store.store import Store

LONGEST_US = 24 * 60 * 60 * 1_000_000


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """The right to append to `session` until `until`, as long as `epoch` is the session's."""

    session: str
    holder: str
    epoch: int
    until: int


def acquire(store: Store, session: Session, *, holder: str, ttl_us: int, actor: str) -> Lease:
    """Take the lease if it is free, expired or already the holder's own; a new epoch each time."""
    if not 0 < ttl_us <= LONGEST_US:
        raise InvalidInput(f"a lease lasts between 1 microsecond and 24 hours, not {ttl_us} microseconds")
    check_name(holder, "the holder of a lease")
    if not holder:
        raise InvalidInput("a lease needs a holder: a name that no other writer uses")
    with store.database.write() as tx:
        plan = plan_in(tx, session)
        head = plan.head
        if head.holder is not None and head.holder != holder and head.lease_until > plan.now:
            raise held_by_another(head, plan.now, session.id)
        if head.holder is not None and head.holder != holder:
            plan.note(LeaseLost(holder=head.holder, epoch=head.epoch), actor)
        plan.note(LeaseTaken(holder=holder, epoch=head.epoch + 1), actor)
        write(tx, [plan], store.pack_stores)
        return _set(tx, plan, holder=holder, epoch=head.epoch + 1, until=plan.now + ttl_us)


def renew(store: Store, session: Session, *, epoch: int, ttl_us: int) -> Lease:
    """Hold the lease until `ttl_us` from now; refused once it expired or was taken over."""
    if not 0 < ttl_us <= LONGEST_US:
        raise InvalidInput(f"a lease lasts between 1 microsecond and 24 hours, not {ttl_us} microseconds")
    with store.database.write() as tx:
        plan = plan_in(tx, session)
        check_lease(plan.head, plan.now, epoch, session.id)
        return _set(tx, plan, holder=plan.head.holder or "", epoch=epoch, until=plan.now + ttl_us)


def release(store: Store, session: Session, *, epoch: int, actor: str) -> None:
    """Give the lease back; the next holder need not wait for its time to end."""
    with store.database.write() as tx:
        plan = plan_in(tx, session)
        check_lease(plan.head, plan.now, epoch, session.id)
        plan.note(LeaseReleased(holder=plan.head.holder or "", epoch=epoch), actor)
        write(tx, [plan], store.pack_stores)
        # The epoch moves on too, so that a late write of the former holder is refused.
        _set(tx, plan, holder=None, epoch=epoch + 1, until=0)


def _set(tx: Transaction, plan: Plan, *, holder: str | None, epoch: int, until: int) -> Lease:
    session = plan.session
    tx.run(
        "lease_set", project=session.project_key, session=session.key, epoch=epoch, holder=holder, until=until,
        from_epoch=plan.start.epoch,
    )  # fmt: skip
    return Lease(session=session.id, holder=holder or "", epoch=epoch, until=until)
