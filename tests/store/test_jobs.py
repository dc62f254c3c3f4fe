"""Jobs: taken by one worker, fenced by the database's clock, tried again, parked, and visible."""

from functools import partial

import pytest

from clew.model.errors import LeaseLost, NotFound, WrongState
from clew.store import Store, open_store
from clew.store.jobs import (
    MOST_ATTEMPTS,
    TakenJob,
    add_job,
    fail_job,
    find_job,
    finish_job,
    forget_jobs,
    last_done,
    list_jobs,
    oldest_job,
    open_job,
    release_job,
    renew_job,
    retry_job,
    seconds_until_due,
    take_job,
)
from store.crowd import at_once
from store.rows import DAY_US, change

HOUR_US = 3_600_000_000


def take(store: Store, *, kind: str = "sweep", holder: str = "ada") -> TakenJob:
    job = take_job(store, [kind], holder=holder)
    assert job is not None
    return job


def state(store: Store, id: str) -> str:
    job = find_job(store, id)
    assert job is not None
    return job.state


def end_lease(store: Store) -> None:
    change(store, "UPDATE job SET lease_until = 1")


def set_clock_back(store: Store, *, hours: int) -> None:
    """Let the clock be this far behind every time in the table."""
    moved = ", ".join(f"{name} = {name} + {hours * HOUR_US}" for name in ("due_at", "lease_until", "made_at", "at"))
    change(store, f"UPDATE job SET {moved}")


def test_a_job_is_added_once_per_key(store: Store) -> None:
    first = add_job(store, "sweep", key="monday")
    assert add_job(store, "sweep", key="monday") == first
    others = [add_job(store, "sweep", key="tuesday"), add_job(store, "sweep", key="monday", project="demo")]
    assert len({first, *others}) == 3


def test_a_done_job_is_not_added_again(store: Store) -> None:
    id = add_job(store, "sweep", key="monday")
    finish_job(store, take(store), result='{"n":1}')
    assert add_job(store, "sweep", key="monday") == id
    assert take_job(store, ["sweep"], holder="ada") is None
    assert [(job.state, job.result) for job in list_jobs(store)] == [("done", '{"n":1}')]


def test_of_many_workers_one_gets_a_job(store: Store, store_url: str) -> None:
    add_job(store, "sweep", key="monday")
    with open_store(store_url) as elsewhere:
        stores = [store, elsewhere] * 4
        taken = at_once([partial(take_job, log, ["sweep"], holder=f"{number}") for number, log in enumerate(stores)])
    assert sum(isinstance(job, TakenJob) for job in taken) == 1
    assert taken.count(None) == 7


def test_jobs_are_taken_in_the_order_in_which_they_became_due(store: Store) -> None:
    for key in ("first", "second", "third"):
        add_job(store, "sweep", key=key)
        change(store, "UPDATE job SET due_at = due_at - 1000000")
    assert [take(store).key for _ in range(3)] == ["first", "second", "third"]


def test_a_kind_that_a_worker_does_not_know_is_left_alone(store: Store) -> None:
    id = add_job(store, "of a newer version", key="monday")
    assert take_job(store, ["sweep"], holder="ada") is None
    assert seconds_until_due(store, ["sweep"]) is None
    assert state(store, id) == "waiting"


# Fenced ---------------------------------------------------------------------------------------------------------------


def test_a_job_whose_lease_holds_is_not_taken(store: Store) -> None:
    add_job(store, "sweep", key="monday")
    take(store)
    assert take_job(store, ["sweep"], holder="bob") is None
    seconds = seconds_until_due(store, ["sweep"])
    assert seconds is not None
    assert 0 < seconds <= 60


@pytest.mark.parametrize(
    "end",
    [
        lambda store, job: finish_job(store, job, result="{}"),
        lambda store, job: fail_job(store, job, error="no", pause_us=0),
        lambda store, job: renew_job(store, job),
        lambda store, job: release_job(store, job),
    ],
    ids=["finish", "fail", "keep", "release"],
)  # fmt: skip
def test_a_worker_that_was_overtaken_changes_nothing(store: Store, end: object) -> None:
    id = add_job(store, "sweep", key="monday")
    first = take(store)
    end_lease(store)
    second = take(store, holder="bob")
    before = find_job(store, id)
    with pytest.raises(LeaseLost):
        end(store, first)  # type: ignore[operator]
    assert find_job(store, id) == before
    finish_job(store, second, result="{}")
    with pytest.raises(LeaseLost):
        finish_job(store, first, result="{}")


def test_a_worker_whose_job_nobody_took_may_still_finish_it(store: Store) -> None:
    id = add_job(store, "sweep", key="monday")
    job = take(store)
    end_lease(store)
    finish_job(store, job)
    assert state(store, id) == "done"


def test_a_kept_job_is_not_taken(store: Store) -> None:
    add_job(store, "sweep", key="monday")
    job = take(store)
    end_lease(store)
    renew_job(store, job)
    assert take_job(store, ["sweep"], holder="bob") is None


# Tried again ----------------------------------------------------------------------------------------------------------


def test_a_failed_job_waits_before_it_is_tried_again(store: Store) -> None:
    id = add_job(store, "sweep", key="monday")
    assert not fail_job(store, take(store), error="the disk is away", pause_us=HOUR_US)
    found = find_job(store, id)
    assert found is not None
    assert (found.state, found.attempts, found.error) == ("waiting", 1, "the disk is away")
    assert take_job(store, ["sweep"], holder="ada") is None


def test_a_job_that_always_fails_is_parked_and_can_be_retried(store: Store) -> None:
    id = add_job(store, "sweep", key="monday")
    parked = [fail_job(store, take(store), error="never", pause_us=0) for _ in range(MOST_ATTEMPTS)]
    assert parked == [False] * (MOST_ATTEMPTS - 1) + [True]
    assert take_job(store, ["sweep"], holder="ada") is None
    assert [job.id for job in list_jobs(store, state="parked")] == [id]
    assert retry_job(store, id).state == "waiting"
    assert take(store).attempts == 1


def test_a_job_that_ends_its_workers_is_parked_too(store: Store) -> None:
    id = add_job(store, "sweep", key="monday")
    for _ in range(MOST_ATTEMPTS):
        take(store)
        end_lease(store)
    assert take_job(store, ["sweep"], holder="ada") is None
    found = find_job(store, id)
    assert found is not None
    assert found.state == "parked"
    assert "ended or hung" in found.error


def test_a_job_that_was_given_back_has_all_its_attempts(store: Store) -> None:
    add_job(store, "sweep", key="monday")
    release_job(store, take(store))
    assert take(store).attempts == 1


def test_a_done_job_and_one_that_runs_are_not_retried(store: Store) -> None:
    id = add_job(store, "sweep", key="monday")
    job = take(store)
    with pytest.raises(WrongState):
        retry_job(store, id)
    finish_job(store, job)
    with pytest.raises(WrongState):
        retry_job(store, id)
    with pytest.raises(NotFound):
        retry_job(store, "nosuchjob")


# Clocks ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hours", [1, 24 * 365])
def test_a_clock_that_is_set_back_stalls_no_job(store: Store, hours: int) -> None:
    add_job(store, "sweep", key="waits")
    fail_job(store, take(store), error="no", pause_us=HOUR_US)
    add_job(store, "sweep", key="runs")
    take(store, holder="a worker that has died")
    set_clock_back(store, hours=hours)
    assert seconds_until_due(store, ["sweep"]) == 0
    assert {take(store).key, take(store).key} == {"waits", "runs"}
    assert take_job(store, ["sweep"], holder="ada") is None


# Looked at, and forgotten ---------------------------------------------------------------------------------------------


def test_jobs_are_listed_newest_first_by_kind_state_and_project(store: Store) -> None:
    for number, (kind, project) in enumerate([("sweep", ""), ("sweep", "demo"), ("count", "demo")]):
        add_job(store, kind, key="x", project=project)
        change(
            store, f"UPDATE job SET made_at = made_at + {number * 1000} WHERE kind = '{kind}' AND project = '{project}'"
        )
    finish_job(store, take(store, kind="count"))
    assert [job.kind for job in list_jobs(store)] == ["count", "sweep", "sweep"]
    assert [job.project for job in list_jobs(store, kind="sweep")] == ["demo", ""]
    assert [job.kind for job in list_jobs(store, state="done")] == ["count"]
    assert [job.kind for job in list_jobs(store, projects=["demo"])] == ["count", "sweep"]
    assert list_jobs(store, projects=[]) == []
    assert len(list_jobs(store, limit=2)) == 2


def test_the_job_of_a_kind_that_is_open_is_found(store: Store) -> None:
    assert open_job(store, "sweep") == ""
    id = add_job(store, "sweep", key="x")
    assert open_job(store, "sweep") == id
    assert open_job(store, "sweep", "demo") == ""
    finish_job(store, take(store))
    assert open_job(store, "sweep") == ""


def test_old_done_jobs_are_forgotten_but_the_last_of_each_kind(store: Store) -> None:
    for number in range(3):
        add_job(store, "sweep", key=str(number))
        finish_job(store, take(store))
        change(store, f"UPDATE job SET at = at + {number} WHERE key = '{number}'")
    parked = add_job(store, "count", key="x")
    change(store, f"UPDATE job SET made_at = made_at - {40 * DAY_US}, at = at - {40 * DAY_US}")
    change(store, f"UPDATE job SET state = 'parked' WHERE id = '{parked}'")
    oldest = min(job.made_at for job in list_jobs(store, state="done"))
    assert oldest_job(store, age_us=30 * DAY_US) == oldest
    assert forget_jobs(store, age_us=30 * DAY_US) == 2
    assert oldest_job(store, age_us=30 * DAY_US) is None
    assert sorted(job.key for job in list_jobs(store)) == ["2", "x"]
    assert list(last_done(store)) == [("sweep", "")]
