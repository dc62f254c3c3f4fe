"""Retention by itself: daily where a policy says so, recorded, and missed by doctor when it does not run."""

import threading
from pathlib import Path

import msgspec
import pytest

from clew import app, doctor
from clew.consumers.jobs import Jobs
from clew.doctor import Finding
from clew.model.events import Draft, MessageAdded
from clew.model.retention import Policy
from clew.model.session import Session
from clew.service import Context, call
from clew.service.jobs.retention import retention
from clew.store import Store
from clew.store.idempotency import StoredAnswer, add_answer
from clew.store.jobs import MOST_ATTEMPTS, TakenJob, add_job, fail_job, finish_job, list_jobs, take_job
from clew.store.log.retention import set_policy
from store.rows import DAY_US, change
from store.words import messages, opened, say


@pytest.fixture
def old(store: Store) -> Session:
    """A session that was said 400 days ago, in a project that keeps 30 days."""
    session = opened(store)
    said_at = store.now() - 400 * DAY_US
    store.append(session, [Draft(body=MessageAdded(role="user", text="long ago"), said_at=said_at)])
    set_policy(store, Policy(project="demo", keep_days=30))
    return session


class AgainTask:
    """A task that was broken off before: its job has an attempt behind it."""

    attempts = 2

    def __init__(self, id: str) -> None:
        self.id, self.project = id, "demo"

    def renew(self, seconds: float = 0.0) -> None:
        return


def records(context: Context) -> list[dict[str, object]]:
    page = call(context, "audit_log", {"operation": "retention"})
    return [msgspec.json.decode(entry.arguments) for entry in page.entries]


def test_it_prunes_once_a_day_and_records_how_much_and_why(
    context: Context, old: Session, stopping: threading.Event
) -> None:
    for _ in range(2):
        Jobs(context, print).run(stopping)
    assert messages(list(context.store.read(old))) == ["pruned"]
    [job] = call(context, "jobs", {"kind": "retention"})
    expected = {"sessions": 1, "bodies": 1, "kept_for_forks": 0, "policies": ["demo: conversations 30 days"]}
    assert (job.project, job.state, job.result) == ("demo", "done", expected)
    assert records(context) == [expected]
    call(context, "jobs_run", {"kind": "retention"})
    Jobs(context, print).run(stopping)
    assert records(context) == [expected | {"sessions": 0, "bodies": 0}, expected]


def test_without_a_policy_there_is_no_job(context: Context, stopping: threading.Event) -> None:
    store = context.store
    opened(store)
    set_policy(store, Policy(project="demo", hold=True))
    Jobs(context, print).run(stopping)
    assert list_jobs(store, kind="retention") == []


def test_a_run_that_is_done_again_after_a_crash_is_recorded_once(context: Context, old: Session) -> None:
    for _ in range(2):
        retention(context, AgainTask("job1"))
    assert [record["bodies"] for record in records(context)] == [1]


# Doctor ---------------------------------------------------------------------------------------------------------------


def taken(store: Store, kind: str) -> TakenJob:
    add_job(store, kind, key="x")
    job = take_job(store, [kind], holder="ada")
    assert job is not None
    return job


def ailments(store_url: str, home: Path) -> list[Finding]:
    findings = doctor.diagnose(app.settings(store=store_url, home=home))
    return [finding for finding in findings if finding.what == "jobs" and not finding.ok]


def test_doctor_says_what_has_not_run_and_how_to_run_it(
    store_url: str, store: Store, context: Context, tmp_path: Path, stopping: threading.Event
) -> None:
    session = opened(store)
    store.append(session, [say()])
    set_policy(store, Policy(project="demo", keep_days=30))
    assert ailments(store_url, tmp_path) == []
    change(store, f"UPDATE session SET opened_at = opened_at - {5 * DAY_US}")
    # Of an old store, a policy that is new is not late.
    never = ["collection has never run", "thinning has never run"]
    assert [finding.found for finding in ailments(store_url, tmp_path)] == never
    change(store, f"UPDATE policy SET at = at - {4 * DAY_US}")
    late = ailments(store_url, tmp_path)
    assert sorted(finding.found for finding in late) == sorted([*never, "retention of demo has never run"])
    assert all("clew worker" in finding.advice for finding in late)
    Jobs(context, print).run(stopping)
    assert ailments(store_url, tmp_path) == []
    change(store, f"UPDATE job SET at = at - {4 * DAY_US} WHERE kind = 'retention'")
    assert [finding.found for finding in ailments(store_url, tmp_path)] == [
        "retention of demo has not run for 4.0 days"
    ]


def test_what_was_not_wanted_for_long_is_not_late_when_it_is_wanted(
    store_url: str, store: Store, tmp_path: Path
) -> None:
    """Tidying ran 90 days ago, and nothing was there to tidy until half an hour ago."""
    finish_job(store, taken(store, "tidying"))
    change(store, f"UPDATE job SET made_at = made_at - {90 * DAY_US}, at = at - {90 * DAY_US}")
    half_an_hour = DAY_US // 48
    for late, findings in ((half_an_hour, []), (6 * half_an_hour + 1, ["tidying has not run for 0.1 days"])):
        change(store, "DELETE FROM answered")
        add_answer(store, "person:ada", f"key {late}", StoredAnswer(b"", 200, b""))
        change(store, f"UPDATE answered SET at = at - {DAY_US + late}")
        assert [finding.found for finding in ailments(store_url, tmp_path)] == findings


def test_doctor_says_when_what_happened_since_the_last_checkpoint_is_not_signed(
    store_url: str, store: Store, context: Context, tmp_path: Path
) -> None:
    def findings() -> list[tuple[bool, str]]:
        found = doctor.diagnose(app.settings(store=store_url, home=tmp_path))
        return [(finding.ok, finding.found) for finding in found if finding.what == "checkpoints"]

    session = opened(store)
    assert findings() == []
    call(msgspec.structs.replace(context, home=str(tmp_path)), "audit_checkpoint", {})
    assert findings() == [(True, "the newest one covers the log")]
    store.append(session, [say()])
    assert findings() == [(True, "the newest one does not cover the last 0.0 days")]
    change(store, f"UPDATE event SET at = at - {4 * DAY_US} WHERE seq = 2")
    assert findings() == [(False, "the newest one does not cover the last 4.0 days")]


def test_doctor_says_which_job_is_parked_until_one_of_its_kind_is_done(
    store_url: str, store: Store, context: Context, tmp_path: Path, stopping: threading.Event
) -> None:
    id = add_job(store, "collection", key="x")
    for _ in range(MOST_ATTEMPTS):
        fail_job(store, taken(store, "collection"), error="the shelf is away", pause_us=0)
    [finding] = ailments(store_url, tmp_path)
    assert "the shelf is away" in finding.found
    assert f"clew jobs retry {id}" in finding.advice
    Jobs(context, print).run(stopping)
    assert ailments(store_url, tmp_path) == []
