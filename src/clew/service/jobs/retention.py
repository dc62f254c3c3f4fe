"""The job `retention`: prune what the policies no longer keep, and record each run."""

from clew.service.jobs.kinds import Result, Task, job
from clew.service.kernel.audit_record import record_job
from clew.service.kernel.context import Context
from clew.store.log.retention import apply_policies, list_policies, pruning_since

# Finding what has expired reads all of a project, and overwriting the views' free space is one step, too.
LONGEST_SECONDS = 900.0


def _wanted(context: Context) -> dict[str, int]:
    """The projects with a policy under which bodies expire, each since it has one."""
    return pruning_since(context.store)


@job(every_seconds=24 * 3600, wanted=_wanted, is_per_project=True)
def retention(context: Context, task: Task) -> Result:
    """Prune the conversations of a project whose time is over, as its policies say."""
    task.renew(LONGEST_SECONDS)
    pruned = apply_policies(
        context.store, actor=context.principal, project=task.project, before_each=task.renew
    )  # fmt: skip
    # An attempt that broke off may have pruned and not purged.
    if task.attempts > 1 or any(session.events for session in pruned):
        task.renew(LONGEST_SECONDS)
        context.views.purge()
    policies = [policy for policy in list_policies(context.store) if policy.project == task.project]
    result: Result = {
        "sessions": sum(session.events > 0 for session in pruned),
        "bodies": sum(session.events for session in pruned),
        "kept_for_forks": sum(session.kept_for_forks for session in pruned),
        "policies": [str(policy) for policy in policies],
    }
    record_job(context, "retention", task.project, result, source=f"job:{task.id}")
    return result
