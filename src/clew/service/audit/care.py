"""Care for the log: verify the chains, collect what nothing names any more."""

import msgspec

from clew.model.access import Right
from clew.model.session import Session
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.store import maintenance
from clew.store.log import verify as chains
from clew.store.log.problems import Verified
from clew.store.objects import objects


class Collected(msgspec.Struct, frozen=True, kw_only=True):
    """What garbage collection freed."""

    blobs: int
    bytes: int


@operation(
    right=Right.AUDIT, route="GET /chains", finds_damage=lambda reports: any(report.problems for report in reports)
)
def verify(context: Context, session: Session | None = None) -> list[Verified]:
    """Recompute the digest chain of one session, or of all, and report what does not hold."""
    if session is not None:
        return [chains.verify(context.store, session)]
    return list(chains.verify_all(context.store))


@operation(right=Right.ADMINISTER, route="POST /blobs/collect", audited=True)
def collect(context: Context) -> Collected:
    """Delete blobs that no event names any more, and overwrite what was removed."""
    blobs, size = objects.collect(context.store)
    maintenance.overwrite_free_space(context.store)
    return Collected(blobs=blobs, bytes=size)
