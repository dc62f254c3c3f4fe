"""Jobs, for people."""

from typing import TYPE_CHECKING

import click

from clew.cli.output import table
from clew.cli.times import moment
from clew.model.plain import plain

if TYPE_CHECKING:
    from clew.service.jobs.jobs import JobInfo


def print_jobs(jobs: "list[JobInfo]") -> None:
    if not jobs:
        click.echo("no jobs yet; a worker adds them: clew up, clew serve or clew worker", err=True)
        return
    rows = (
        (job.id, job.kind, job.project or "(all)", _state(job), str(job.attempts), moment(job.at), _outcome(job))
        for job in jobs
    )
    table(("job", "kind", "project", "state", "attempts", "changed", "outcome"), rows, wrapped="outcome")


def print_jobs_retry(job: "JobInfo") -> None:
    print_jobs_run([job])


def _state(job: "JobInfo") -> str:
    if not job.known:
        return f"{job.state} (for another version)"
    return f"waiting until {moment(job.due_at)}" if job.state == "waiting" and job.attempts else job.state


def _outcome(job: "JobInfo") -> str:
    if job.error:
        return plain(job.error)
    return ", ".join(f"{plain(name)} {plain(str(value))}" for name, value in job.result.items())


def print_jobs_run(jobs: "list[JobInfo]") -> None:
    if not jobs:
        click.echo("nothing to do", err=True)
    for job in jobs:
        about = f" of {plain(job.project)}" if job.project else ""
        click.echo(f"{job.id}: {job.kind}{about} is due now; a running worker takes it, or: clew worker --once")
