"""The operations on jobs: list them, try one again, run one now. A worker carries them out (consumers/)."""

from typing import Annotated, Any, Literal

import msgspec

from clew.model.access import Right, Target
from clew.model.errors import InvalidInput, NotFound
from clew.model.ids import new_id
from clew.service.jobs.kinds import JobKind, load_kinds
from clew.service.kernel.context import Context
from clew.service.kernel.registry import Group, operation
from clew.store.jobs import Job, add_job, find_job, list_jobs, open_job, retry_job
from clew.store.projects import list_projects


class JobInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A job: its kind and project, its state, when it is or was due, and its result or error."""

    id: str
    kind: str
    project: str
    state: str
    due_at: int
    attempts: int
    holder: str
    error: str
    result: dict[str, Any]
    made_at: int
    at: int
    known: bool
    """Whether this version of clew knows the kind; others are left to the version that does."""


JOBS = Group("jobs", "What runs by itself.")


@operation(right=Right.ADMINISTER, route="GET /jobs", filters_by_reach=True)
def jobs(
    context: Context,
    *,
    kind: Annotated[str, msgspec.Meta(description="Only this kind, such as retention.")] = "",
    state: Annotated[
        Literal["", "waiting", "running", "done", "parked"], msgspec.Meta(description="Only jobs in this state.")
    ] = "",
    project: Annotated[str, msgspec.Meta(description="Only this project.")] = "",
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000, description="How many at the most.")] = 50,
) -> list[JobInfo]:
    """List the background jobs, newest first: their state, when they are due, and their last error.

    Owners see all; an administrator of a project sees the jobs of that project.
    """
    projects: list[str] | None = None
    if not _administers(context, ""):
        projects = [name for name in list_projects(context.store).values() if _administers(context, name)]
    if project:
        projects = [project] if projects is None or project in projects else []
    return [_info(job) for job in list_jobs(context.store, kind=kind, state=state, projects=projects, limit=limit)]


@operation(right=Right.ADMINISTER, route="POST /jobs/{job}/retry", filters_by_reach=True, audited=True, group=JOBS)
def jobs_retry(context: Context, job: str) -> JobInfo:
    """Try a parked or waiting job again, now and with all its attempts."""
    stored = find_job(context.store, job)
    if stored is None or not _administers(context, stored.project):
        raise NotFound(f"no job {job[:40]!r}")
    return _info(retry_job(context.store, stored.id))


@operation(right=Right.ADMINISTER, route="POST /jobs", audited=True, group=JOBS)
def jobs_run(
    context: Context,
    kind: Annotated[str, msgspec.Meta(description="Which job, such as retention.")],
    *,
    project: Annotated[str, msgspec.Meta(description="Only for this project.")] = "",
) -> list[JobInfo]:
    """Have a job run now, by the next worker that is free; one that waits already becomes due."""
    declared = load_kinds().get(kind)
    if declared is None:
        raise InvalidInput(f"no job {kind[:40]!r}; there are {', '.join(sorted(load_kinds()))}")
    if project and not declared.is_per_project:
        raise InvalidInput(f"the job {kind} is about the whole store; leave the project out")
    ids = [_run_now(context, declared, name) for name in ([project] if project else declared.wanted(context))]
    return [_info(stored) for id in ids if (stored := find_job(context.store, id))]


def _run_now(context: Context, kind: JobKind, project: str) -> str:
    waiting = open_job(context.store, kind.name, project)
    stored = find_job(context.store, waiting) if waiting else None
    if stored is None:
        return add_job(context.store, kind.name, project=project, key=f"now {new_id()}")
    if stored.state == "waiting":
        retry_job(context.store, stored.id)
    return stored.id


def _administers(context: Context, project: str) -> bool:
    return context.caller.rule(Right.ADMINISTER, Target(project=project)).allowed


def _info(job: Job) -> JobInfo:
    return JobInfo(
        id=job.id, kind=job.kind, project=job.project, state=job.state, due_at=job.due_at, attempts=job.attempts,
        holder=job.holder, error=job.error, result=msgspec.json.decode(job.result or "{}"), made_at=job.made_at,
        at=job.at, known=job.kind in load_kinds(),
    )  # fmt: skip
