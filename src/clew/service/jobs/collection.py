"""The job `collection`: delete the objects that nothing names any more."""

from clew.service.jobs.kinds import Result, Task, job
from clew.service.kernel.context import Context
from clew.store.objects.collection import collect

# The longest step lists everything in a place.
LONGEST_SECONDS = 900.0


@job(every_seconds=24 * 3600)
def collection(context: Context, task: Task) -> Result:
    """Delete objects that nothing names, once they are older than an hour."""
    deleted, size = collect(context.store, before_each=lambda: task.renew(LONGEST_SECONDS))
    return {"objects": deleted, "bytes": size}
