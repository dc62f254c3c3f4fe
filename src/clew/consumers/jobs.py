"""The consumer that fires schedules and carries out due jobs, one after the other, each in a thread of its own.

A schedule fires at multiples of its period by the database's clock, and each firing is a job with that time as its key,
so it runs once however many workers see it. After a pause or a jump of the clock only the newest firing counts.
"""

import os
import random
import threading
import time
from collections.abc import Callable, Mapping

import msgspec

from clew.model.errors import ClewError, LeaseLost
from clew.service.jobs.kinds import JobKind, load_kinds
from clew.service.kernel.context import Context
from clew.service.privacy.masking import masker_of
from clew.store.jobs import (
    FIRST_PAUSE_US,
    LEASE_US,
    LONGEST_PAUSE_US,
    TakenJob,
    add_job,
    fail_job,
    finish_job,
    has_job,
    open_job,
    release_job,
    renew_job,
    seconds_until_due,
    take_job,
)


class Stopped(Exception):
    """The worker stops, and the job goes back to the others."""


class Jobs:
    """Runs jobs of the kinds that this version knows; other kinds are left alone."""

    name = "jobs"
    rest_seconds = 0.2

    def __init__(
        self,
        context: Context,
        report: Callable[[str], None],
        *,
        kinds: Mapping[str, JobKind] | None = None,
        lease_us: int = LEASE_US,
    ) -> None:
        self._context = context
        self._report = report
        self._kinds = load_kinds() if kinds is None else kinds
        self._lease_us = lease_us
        self._holder = f"{context.machine or 'worker'}:{os.getpid()}"
        # The firing of each schedule that was looked at last.
        self._fired: dict[str, int] = {}

    def run(self, stopping: threading.Event) -> float | None:
        next_firing = self._fire()
        store = self._context.store
        # Only a due job is worth a write lock.
        while (due := seconds_until_due(store, self._kinds)) == 0.0 and not stopping.is_set():
            job = take_job(store, self._kinds, holder=self._holder, lease_us=self._lease_us)
            if job is not None:
                self._carry_out(job, stopping)
        return next_firing if due is None else min(due, next_firing)

    # Schedules --------------------------------------------------------------------------------------------------------

    def _fire(self) -> float:
        """Add a job for each schedule whose time has come; returns the seconds until the next one."""
        now = self._context.store.now()
        seconds = 3600.0
        for kind in self._kinds.values():
            period = kind.every_seconds * 1_000_000
            slot = now - now % period
            if self._fired.get(kind.name) != slot:
                for project in kind.wanted(self._context):
                    self._fire_for(kind, project, slot)
                self._fired[kind.name] = slot
            seconds = min(seconds, (slot + period - now) / 1e6)
        return seconds

    def _fire_for(self, kind: JobKind, project: str, slot: int) -> None:
        store = self._context.store
        if not has_job(store, kind.name, project=project, key=str(slot)) and not open_job(store, kind.name, project):
            add_job(store, kind.name, project=project, key=str(slot))

    # Carrying out -----------------------------------------------------------------------------------------------------

    def _carry_out(self, job: TakenJob, stopping: threading.Event) -> None:
        """Carry a job out in a thread; give up waiting for it once its lease has run out."""
        task = _Task(self._context, job, self._lease_us, stopping)
        thread = threading.Thread(target=self._finish, args=(job, task), name=f"clew-job-{job.kind}", daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(task.seconds_left())
            if thread.is_alive() and not task.seconds_left():
                self._report(f"the {job.kind} job {job.id} hangs; it counts as failed, and is tried again")
                return

    def _finish(self, job: TakenJob, task: "_Task") -> None:
        store = self._context.store
        try:
            try:
                result = self._kinds[job.kind].run(self._context, task)
            except Stopped:
                release_job(store, job)
                return
            except LeaseLost:
                raise
            except Exception as error:  # noqa: BLE001  # Every error is stored with the job, where people can see it.
                self._fail(job, error)
                return
            finish_job(store, job, result=msgspec.json.encode(result).decode())
        except ClewError as error:
            # Another worker has the job, or the database is away and the lease runs out.
            self._report(f"the {job.kind} job {job.id}: {error}")

    def _fail(self, job: TakenJob, error: Exception) -> None:
        text = f"{error}" if isinstance(error, ClewError) else f"{type(error).__name__}: {error}"
        masked = masker_of(self._context).blanked(text.encode("utf-8", "replace")).decode("utf-8", "replace")
        pause_us = min(FIRST_PAUSE_US << (job.attempts - 1), LONGEST_PAUSE_US)
        # Jitter, so that jobs that failed together are not retried together.
        parked = fail_job(
            self._context.store, job, error=masked, pause_us=int(pause_us * random.uniform(0.5, 1.5))  # noqa: S311
        )  # fmt: skip
        self._report(f"the {job.kind} job {job.id} failed{', and is parked' if parked else ''}: {masked}")


class _Task:
    """A job under way, as its handler sees it."""

    def __init__(self, context: Context, job: TakenJob, lease_us: int, stopping: threading.Event) -> None:
        self.id = job.id
        self.project = job.project
        self.attempts = job.attempts
        self._context = context
        self._job = job
        self._lease_us = lease_us
        self._stopping = stopping
        self._until = time.monotonic() + lease_us / 1e6

    def renew(self, seconds: float = 0.0) -> None:
        """Renew the lease, for its usual time or for more seconds."""
        if self._stopping.is_set():
            raise Stopped
        wanted = max(seconds, self._lease_us / 1e6)
        # A row is written when half of the time is over, not for every step.
        if self.seconds_left() < wanted / 2:
            renew_job(self._context.store, self._job, lease_us=int(wanted * 1e6))
            self._until = time.monotonic() + wanted

    def seconds_left(self) -> float:
        return max(0.0, self._until - time.monotonic())
