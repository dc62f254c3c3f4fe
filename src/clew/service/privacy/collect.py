"""The operation `collect`: delete unreferenced blobs and overwrite free space."""

from itertools import count

import msgspec

from clew.model.access import Right
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.store import maintenance
from clew.store.objects.collection import collect as collect_objects


class Collected(msgspec.Struct, frozen=True, kw_only=True):
    """What garbage collection freed."""

    blobs: int
    bytes: int


@operation(right=Right.ADMINISTER, route="POST /blobs/collect", audited=True)
def collect(context: Context) -> Collected:
    """Delete blobs that no event names any more, and overwrite what was removed."""
    steps = count(1)

    def report() -> None:
        if context.on_progress is not None:
            context.on_progress(next(steps), 0)

    blobs, size = collect_objects(context.store, before_each=report)
    maintenance.overwrite_free_space(context.store)
    context.views.purge()
    return Collected(blobs=blobs, bytes=size)
