"""The job `index_upkeep`: merge the pieces of the text index."""

from clew.service.jobs.kinds import Result, Task, job, since_first_session
from clew.service.kernel.context import Context
from clew.store.log.feed import end_position

# The merge is one step.
LONGEST_SECONDS = 900.0


def _wanted(context: Context) -> dict[str, int]:
    """PostgreSQL maintains its indexes itself."""
    return since_first_session(context) if not context.store.is_remote and end_position(context.store) else {}


@job(every_seconds=7 * 24 * 3600, wanted=_wanted)
def index_upkeep(context: Context, task: Task) -> Result:
    """Merge the text index, so that a search reads few pieces."""
    task.renew(LONGEST_SECONDS)
    context.views.merge()
    return {}
