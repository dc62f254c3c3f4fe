"""Jobs: background work that is stored, leased, tried again when it fails, and parked when it fails too often.

The database's clock decides every lease. A worker that slept past its time finds the epoch moved on, and its result is
refused by the statement that would have stored it.
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from clew.model.errors import LeaseLost, NotFound, WrongState
from clew.model.ids import check_name, new_id
from clew.store.store import Store

LEASE_US = 60_000_000
# After this many attempts without success a job waits for a person.
MOST_ATTEMPTS = 8
FIRST_PAUSE_US, LONGEST_PAUSE_US = 1_000_000, 3_600_000_000
# How far in the future a row may have been changed before its times count as those of another clock.
SLACK_US = 60_000_000
LONGEST_ERROR = 1000
LOST = f"its worker ended or hung {MOST_ATTEMPTS} times while it ran"


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it stands now."""

    id: str
    kind: str
    project: str
    key: str
    """What is unique among the jobs of its kind and project, such as the time at which a schedule fired."""
    state: str
    due_at: int
    attempts: int
    holder: str
    lease_until: int
    error: str
    result: str
    made_at: int
    at: int


class TakenJob(NamedTuple):
    """A job that this worker holds, under an epoch."""

    id: str
    kind: str
    project: str
    key: str
    arguments: str
    attempts: int
    epoch: int


# Adding ---------------------------------------------------------------------------------------------------------------


def add_job(store: Store, kind: str, *, key: str, project: str = "", arguments: str = "{}") -> str:
    """Add a job that is due now; returns its id, or the id of the one with this key."""
    for name, what in ((kind, "the kind of a job"), (project, "the project"), (key, "the key of a job")):
        check_name(name, what, longest=200)
    with store.database.write() as tx:
        added = tx.run("job_add", id=new_id(), kind=kind, project=project, key=key, arguments=arguments)
        if not added:
            return str(tx.run("job_exists", kind=kind, project=project, key=key)[0][0])
        tx.run("jobs_changed")
    return str(added[0][0])


def has_job(store: Store, kind: str, *, key: str, project: str = "") -> bool:
    """Whether there is a job with this key, in any state."""
    with store.database.read() as tx:
        return bool(tx.run("job_exists", kind=kind, project=project, key=key))


def open_job(store: Store, kind: str, project: str = "") -> str:
    """The id of a job of this kind that waits or runs; empty when there is none."""
    with store.database.read() as tx:
        rows = tx.run("job_open", kind=kind, project=project)
    return str(rows[0][0]) if rows else ""


# Working --------------------------------------------------------------------------------------------------------------


def take_job(store: Store, kinds: Iterable[str], *, holder: str, lease_us: int = LEASE_US) -> TakenJob | None:
    """Take the job that has been due longest; a job whose holder's lease ran out is due, too."""
    with store.database.write() as tx:
        tx.run("jobs_park_lost", error=LOST, most=MOST_ATTEMPTS, names=_json(kinds), slack=SLACK_US)
        rows = tx.run("job_take", names=_json(kinds), holder=holder, lease=lease_us, slack=SLACK_US)
    return TakenJob(*rows[0]) if rows else None


def renew_job(store: Store, job: TakenJob, *, lease_us: int = LEASE_US) -> None:
    """Renew the lease of a job."""
    _fenced(store, job, "job_renew", lease=lease_us)


def finish_job(store: Store, job: TakenJob, *, result: str = "") -> None:
    """Record that a job is done."""
    _fenced(store, job, "job_finish", result=result)


def fail_job(store: Store, job: TakenJob, *, error: str, pause_us: int) -> bool:
    """Record why an attempt failed; returns whether the job is parked now, because it has failed too often."""
    parked = job.attempts >= MOST_ATTEMPTS
    state = "parked" if parked else "waiting"
    _fenced(store, job, "job_fail", state=state, error=error[:LONGEST_ERROR], pause=0 if parked else pause_us)
    return parked


def release_job(store: Store, job: TakenJob) -> None:
    """Return a job to the queue without a result; the attempt does not count."""
    _fenced(store, job, "job_release")


def _fenced(store: Store, job: TakenJob, statement: str, **values: object) -> None:
    with store.database.write() as tx:
        if not tx.run(statement, id=job.id, epoch=job.epoch, **values):
            raise LeaseLost(
                f"another worker has taken over the {job.kind} job {job.id}; what this one did since does not count",
                job=job.id,
            )


def seconds_until_due(store: Store, kinds: Iterable[str]) -> float | None:
    """How long until a job of these kinds becomes due, or the lease of one runs out; None when none is open."""
    with store.database.read() as tx:
        [(microseconds,)] = tx.run("job_next", names=_json(kinds), slack=SLACK_US)
    return None if microseconds is None else max(0.0, int(microseconds) / 1e6)


# Looking --------------------------------------------------------------------------------------------------------------


def list_jobs(
    store: Store, *, kind: str = "", state: str = "", projects: Iterable[str] | None = None, limit: int = 50
) -> list[Job]:
    """Jobs, newest first; with `projects` only those of these projects."""
    given = {name: value for name, value in (("kind", kind), ("state", state)) if value}
    given |= {} if projects is None else {"names": _json(projects)}
    with store.database.read() as tx:
        return [_job(row) for row in tx.run("jobs_newest", limit=limit, **given)]


def find_job(store: Store, id: str) -> Job | None:
    with store.database.read() as tx:
        rows = tx.run("job_read", id=id)
    return _job(rows[0]) if rows else None


def last_done(store: Store) -> dict[tuple[str, str], int]:
    """When a job of each kind and project was last done."""
    with store.database.read() as tx:
        return {(kind, project): int(at) for kind, project, at in tx.run("jobs_last_done")}


def first_opened_at(store: Store) -> int:
    """When the first session of the store was opened; the time now when there is none."""
    with store.database.read() as tx:
        return int(tx.run("first_opened")[0][0])


def retry_job(store: Store, id: str) -> Job:
    """Make a parked or waiting job due now, with all its attempts."""
    with store.database.write() as tx:
        retried = tx.run("job_retry", id=id)
        rows = tx.run("job_read", id=id)
        if not rows:
            raise NotFound(f"no job {id[:40]!r}")
        job = _job(rows[0])
        if not retried:
            raise WrongState(f"the job {job.id} is {job.state}; only a parked or a waiting job can be retried")
        tx.run("jobs_changed")
    return job


def oldest_job(store: Store, *, age_us: int) -> int | None:
    """When the oldest job that `forget_jobs` would remove was made; None if there is none."""
    with store.database.read() as tx:
        rows = tx.run("job_oldest", age=age_us)
    return int(rows[0][0]) if rows else None


def forget_jobs(store: Store, *, age_us: int) -> int:
    """Remove done jobs that are older than this, but not the last one of each kind and project; returns how many."""
    with store.database.write() as tx:
        return len(tx.run("jobs_forget", age=age_us))


def _job(row: tuple[object, ...]) -> Job:
    return msgspec.convert(dict(zip(Job.__struct_fields__, row, strict=True)), Job)


def _json(names: Iterable[str]) -> str:
    return msgspec.json.encode(sorted(names)).decode()
