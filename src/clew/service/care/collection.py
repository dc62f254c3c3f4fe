"""The job `collection`: delete the objects that nothing names any more."""

from clew.service.care.kinds import Result, Task, job
from clew.service.kernel.context import Context
from clew.store.objects import objects

# A large store takes long, and the collection has no steps between which it could keep the job.
LONGEST_SECONDS = 900.0


@job(every_seconds=24 * 3600)
def collection(context: Context, task: Task) -> Result:
    """Delete objects that nothing names, once they are older than an hour."""
    task.keep(LONGEST_SECONDS)
    deleted, size = objects.collect(context.store)
    return {"objects": deleted, "bytes": size}
