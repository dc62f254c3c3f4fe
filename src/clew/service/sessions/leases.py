"""Leases: the exclusive right to append."""

from typing import Annotated

import msgspec

from clew.model.access import Right
from clew.model.session import Session
from clew.service.kernel.context import Context
from clew.service.kernel.registry import Group, operation
from clew.store.log import leases
from clew.store.log.leases import Lease

Holder = Annotated[str, msgspec.Meta(description="A name that no other writer uses.")]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=86400, description="How long, from now.")]

LEASES = Group("lease", "The exclusive right to append to a session.")


@operation(right=Right.APPEND, route="POST /sessions/{session}/lease", group=LEASES)
def lease_acquire(
    context: Context,
    session: Session,
    *,
    holder: Holder = "",
    seconds: Seconds = 60.0,
) -> Lease:
    """Take the exclusive right to append for some seconds."""
    return leases.acquire(
        context.store,
        session,
        holder=holder or context.principal,
        ttl_us=round(seconds * 1_000_000),
        actor=context.principal,
    )


@operation(right=Right.APPEND, route="PUT /sessions/{session}/lease", group=LEASES)
def lease_renew(context: Context, session: Session, *, lease: int, seconds: Seconds = 60.0) -> Lease:
    """Hold a lease for some seconds from now."""
    return leases.renew(context.store, session, epoch=lease, ttl_us=round(seconds * 1_000_000))


@operation(right=Right.APPEND, route="DELETE /sessions/{session}/lease", group=LEASES)
def lease_release(context: Context, session: Session, *, lease: int) -> None:
    """Give a lease back."""
    leases.release(context.store, session, epoch=lease, actor=context.principal)
