"""The job `thinning`: of old snapshots keep one of each hour, and later one of each day."""

from clew.service.jobs.kinds import Result, Task, job
from clew.service.kernel.context import Context
from clew.service.workspaces.thinning import SETTING
from clew.store.log.thinning import sessions_with_snapshots, thin

# Finding the sessions that have snapshots reads the kinds of all events.
LONGEST_SECONDS = 900.0


@job(every_seconds=24 * 3600)
def thinning(context: Context, task: Task) -> Result:
    """Thin the snapshots of workspaces: all of a day are kept, then one an hour for a week, then one a day."""
    task.renew(LONGEST_SECONDS)
    thinned = []
    for session in sessions_with_snapshots(context.store):
        task.renew()
        if context.setting(session.project, SETTING) != "keep":
            thinned.append(thin(context.store, session, actor=context.principal).snapshots)
    return {"sessions": sum(count > 0 for count in thinned), "snapshots": sum(thinned)}
