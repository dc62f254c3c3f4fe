"""The operation `workspace_gc`: delete the files of snapshots that no event names any more."""

from clew.model.access import Right
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.privacy.collect import Collected, collect
from clew.service.workspaces.snapshot import WORKSPACE


@operation(right=Right.ADMINISTER, route="POST /workspaces/gc", audited=True, group=WORKSPACE)
def workspace_gc(context: Context) -> Collected:
    """Delete the objects that nothing names any more, and say what that freed; safe while others write."""
    return collect(context)
