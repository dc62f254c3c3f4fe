"""The consumer of jobs: schedules fire once, failures come back, a hung handler is fenced."""

import threading
from typing import Any

import pytest

from clew.consumers.jobs import Jobs
from clew.model.errors import ClewError, Denied, InvalidInput, LeaseLost, NotFound
from clew.service import Context, call
from clew.service.access.authenticator import Authenticator
from clew.service.jobs.kinds import Result, Task
from clew.store import Store, open_store
from clew.store.jobs import MOST_ATTEMPTS, add_job, list_jobs, take_job
from consumers.conftest import ADA, kind
from isolation.tenants import tenant
from store.crowd import at_once, await_
from store.rows import DAY_US, change

HOUR_US = 3_600_000_000


class Counted:
    """A handler that counts its runs by project."""

    def __init__(self, error: Exception | None = None) -> None:
        self.runs: list[str] = []
        self.error = error

    def __call__(self, context: Context, task: Task) -> Result:
        self.runs.append(task.project)
        if self.error is not None:
            raise self.error
        return {"runs": len(self.runs)}


class Reports:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, text: str) -> None:
        self.lines.append(text)


def due_now(store: Store) -> None:
    change(store, "UPDATE job SET due_at = 1 WHERE state = 'waiting'")


# Schedules ------------------------------------------------------------------------------------------------------------


def test_a_schedule_fires_once_however_many_workers_see_it(
    context: Context, store_url: str, stopping: threading.Event
) -> None:
    sweep = Counted()
    kinds = kind("sweep", sweep, wanted=["", "demo"])
    with open_store(store_url) as elsewhere:
        other = Context(store=elsewhere, unrestricted=elsewhere, principal=ADA, grants=context.grants)
        workers = [Jobs(each, print, kinds=kinds) for each in (context, other, context)]
        outcomes = at_once([lambda worker=worker: worker.run(stopping) for worker in workers])  # type: ignore[misc]
    assert not [error for error in outcomes if isinstance(error, Exception)]
    assert sorted(sweep.runs) == ["", "demo"]
    assert [job.state for job in list_jobs(context.store)] == ["done", "done"]


def test_a_worker_that_starts_again_fires_nothing_twice(context: Context, stopping: threading.Event) -> None:
    sweep = Counted()
    for _ in range(3):
        Jobs(context, print, kinds=kind("sweep", sweep, wanted=[""])).run(stopping)
    assert sweep.runs == [""]


def test_what_is_not_wanted_makes_no_job(context: Context, stopping: threading.Event) -> None:
    sweep = Counted()
    pause = Jobs(context, print, kinds=kind("sweep", sweep, every_seconds=60)).run(stopping)
    assert pause is not None
    assert 0 < pause <= 60
    assert list_jobs(context.store) == []


def test_a_clock_that_jumps_ahead_fires_once_and_one_that_is_set_back_goes_on(
    context: Context, stopping: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = Counted()
    worker = Jobs(context, print, kinds=kind("sweep", sweep, every_seconds=3600, wanted=[""]))
    now = context.store.now()
    # Which slot fires is decided by the store's clock; SQLite and PostgreSQL cannot be set in a test.
    for jump, runs in ((0, 1), (400 * DAY_US, 2), (400 * DAY_US + 1, 2), (0, 2), (2 * HOUR_US, 3)):
        monkeypatch.setattr(context.store.database, "now", lambda jump=jump: now + jump)
        worker.run(stopping)
        assert len(sweep.runs) == runs, jump


def test_a_job_of_yesterday_that_still_runs_is_not_joined_by_todays(
    context: Context, stopping: threading.Event
) -> None:
    add_job(context.store, "sweep", key="yesterday")
    take_job(context.store, ["sweep"], holder="elsewhere")
    sweep = Counted()
    Jobs(context, print, kinds=kind("sweep", sweep, wanted=[""])).run(stopping)
    assert [job.key for job in list_jobs(context.store)] == ["yesterday"]
    assert sweep.runs == []


# Failures -------------------------------------------------------------------------------------------------------------


def test_a_job_that_always_fails_is_parked_shown_and_works_when_it_is_retried(
    context: Context, stopping: threading.Event
) -> None:
    reports, sweep = Reports(), Counted(ValueError("the shelf is gone"))
    worker = Jobs(context, reports, kinds=kind("sweep", sweep))
    add_job(context.store, "sweep", key="x")
    for _ in range(MOST_ATTEMPTS + 3):
        worker.run(stopping)
        due_now(context.store)
    assert len(sweep.runs) == MOST_ATTEMPTS
    [job] = call(context, "jobs", {"state": "parked"})
    assert job.error == "ValueError: the shelf is gone"
    assert "parked" in reports.lines[-1]
    sweep.error = None
    call(context, "jobs_retry", {"job": job.id})
    worker.run(stopping)
    [job] = call(context, "jobs", {})
    assert (job.state, job.result, job.error) == ("done", {"runs": MOST_ATTEMPTS + 1}, "")


def test_the_error_of_a_job_is_stored_without_its_secrets(context: Context, stopping: threading.Event) -> None:
    secret = "AKIA" + "Z7Q3MTX5WBN2K4JD"
    sweep = Counted(ValueError(f"no access with aws_access_key_id={secret}"))
    reports = Reports()
    add_job(context.store, "sweep", key="x")
    Jobs(context, reports, kinds=kind("sweep", sweep)).run(stopping)
    [job] = list_jobs(context.store)
    assert "no access" in job.error
    assert secret not in job.error + "".join(reports.lines)


def test_a_handler_that_hangs_is_overtaken_and_its_result_is_refused(
    context: Context, store_url: str, stopping: threading.Event
) -> None:
    began, go_on, refused = threading.Event(), threading.Event(), threading.Event()
    effects: list[str] = []

    def hang(context: Context, task: Task) -> Result:
        began.set()
        go_on.wait(60)
        try:
            task.renew()
        except LeaseLost:
            refused.set()
            raise
        effects.append("of the hung worker")
        return {"by": "the hung worker"}

    def work(context: Context, task: Task) -> Result:
        effects.append("of the other worker")
        return {"by": "the other worker"}

    add_job(context.store, "sweep", key="x")
    reports = Reports()
    hung = Jobs(context, reports, kinds=kind("sweep", hang), lease_us=300_000)
    thread = threading.Thread(target=hung.run, args=(stopping,))
    thread.start()
    assert began.wait(60)
    with open_store(store_url) as elsewhere:
        other = Context(store=elsewhere, unrestricted=elsewhere, principal=ADA, grants=context.grants)
        stopping.set()  # The first worker leaves the hung job alone and takes no other.
        thread.join(60)
        stopping.clear()
        worker = Jobs(other, print, kinds=kind("sweep", work))
        await_(lambda: worker.run(stopping) is not None and bool(effects))
    go_on.set()
    assert refused.wait(60)
    assert effects == ["of the other worker"]
    [job] = list_jobs(context.store)
    assert (job.state, job.result) == ("done", '{"by":"the other worker"}')
    assert "hangs" in reports.lines[0]


def test_a_worker_that_stops_gives_its_job_back(context: Context, stopping: threading.Event) -> None:
    def stopped(context: Context, task: Task) -> Result:
        stopping.set()
        task.renew()
        raise AssertionError("the handler went on")

    add_job(context.store, "sweep", key="x")
    Jobs(context, print, kinds=kind("sweep", stopped)).run(stopping)
    [job] = list_jobs(context.store)
    assert (job.state, job.attempts) == ("waiting", 0)


def test_a_kind_of_another_version_is_left_alone_and_shown(context: Context, stopping: threading.Event) -> None:
    add_job(context.store, "of a newer version", key="x")
    Jobs(context, print, kinds=kind("sweep", Counted())).run(stopping)
    [job] = call(context, "jobs", {})
    assert (job.state, job.attempts, job.known) == ("waiting", 0, False)


# The operations -------------------------------------------------------------------------------------------------------


def test_a_job_that_is_run_now_is_run_once(context: Context, stopping: threading.Event) -> None:
    [first] = call(context, "jobs_run", {"kind": "collection"})
    assert [job.id for job in call(context, "jobs_run", {"kind": "collection"})] == [first.id]
    Jobs(context, print).run(stopping)
    [done] = call(context, "jobs", {"kind": "collection"})
    assert (done.id, done.state, done.result) == (first.id, "done", {"objects": 0, "bytes": 0})


@pytest.mark.parametrize("arguments", [{"kind": "nosuchjob"}, {"kind": "collection", "project": "demo"}])
def test_a_job_that_is_none_is_refused(context: Context, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        call(context, "jobs_run", arguments)
    assert list_jobs(context.store) == []


def test_an_administrator_of_a_project_sees_and_retries_its_jobs_only(store: Store) -> None:
    ours, theirs = tenant(store, "apricot"), tenant(store, "walnut")
    whole = add_job(store, "collection", key="x")
    me = Authenticator(store, fresh_seconds=0).principal_context(ours.person)
    assert [job.id for job in call(me, "jobs", {})] == [ours.job]
    assert call(me, "jobs", {"project": theirs.project}) == []
    for job in (theirs.job, whole):
        with pytest.raises(NotFound):
            call(me, "jobs_retry", {"job": job})
    assert call(me, "jobs_retry", {"job": ours.job}).id == ours.job
    for arguments in ({"kind": "collection"}, {"kind": "retention", "project": theirs.project}):
        with pytest.raises(Denied):
            call(me, "jobs_run", arguments)


def test_nobody_who_only_reads_sees_a_job(store: Store) -> None:
    mine = tenant(store, "apricot")
    root = Context(store=store, unrestricted=store, principal=ADA, grants=())
    assert call(root, "jobs", {}) == []
    with pytest.raises(ClewError):
        call(root, "jobs_retry", {"job": mine.job})
