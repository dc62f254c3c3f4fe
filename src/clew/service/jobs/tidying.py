"""The job `tidying`: remove what clew keeps for a limited time."""

from clew.model.retention import DAY_US
from clew.service.jobs.kinds import Result, Task, job
from clew.service.kernel.context import Context
from clew.store.idempotency import forget_answers, oldest_answer
from clew.store.jobs import forget_jobs, oldest_job

ANSWERS_US = DAY_US
JOBS_US = 30 * DAY_US


def _wanted(context: Context) -> dict[str, int]:
    oldest = (
        (oldest_answer(context.store, age_us=ANSWERS_US), ANSWERS_US),
        (oldest_job(context.store, age_us=JOBS_US), JOBS_US),
    )
    since = [at + age_us for at, age_us in oldest if at is not None]
    return {"": min(since)} if since else {}


@job(every_seconds=3600, wanted=_wanted)
def tidying(context: Context, task: Task) -> Result:
    """Remove answers to repeated requests after a day, and jobs that were done 30 days ago."""
    answers = forget_answers(context.store, age_us=ANSWERS_US)
    task.renew()
    return {"answers": answers, "jobs": forget_jobs(context.store, age_us=JOBS_US)}
