"""The job `tidying`: remove what clew keeps for a while only."""

from clew.model.retention import DAY_US
from clew.service.care.kinds import Result, Task, job
from clew.service.kernel.context import Context
from clew.store.answers import forget_answers, has_answers
from clew.store.jobs import forget_jobs, has_old_jobs

ANSWERS_US = DAY_US
JOBS_US = 30 * DAY_US


def _wanted(context: Context) -> list[str]:
    store = context.store
    return [""] if has_answers(store, age_us=ANSWERS_US) or has_old_jobs(store, age_us=JOBS_US) else []


@job(every_seconds=3600, wanted=_wanted)
def tidying(context: Context, task: Task) -> Result:
    """Remove answers to repeated requests after a day, and jobs that were done 30 days ago."""
    answers = forget_answers(context.store, age_us=ANSWERS_US)
    task.keep()
    return {"answers": answers, "jobs": forget_jobs(context.store, age_us=JOBS_US)}
