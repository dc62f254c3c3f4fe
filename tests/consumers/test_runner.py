"""The runner: commits and clocks start consumers, failures do not stop it, and an idle one writes nothing."""

import threading
from collections.abc import Callable
from pathlib import Path

from clew.consumers.jobs import Jobs
from clew.consumers.runner import Runner
from clew.model.errors import Unavailable
from clew.service import Context
from clew.store import Store, open_store
from clew.store.jobs import add_job, list_jobs
from consumers.conftest import kind
from consumers.test_jobs import Counted, Reports
from store.crowd import await_
from store.words import opened, say

PATIENCE_SECONDS = 60.0


class Follower:
    """Counts its runs, and the events it sees."""

    rest_seconds = 0.0

    def __init__(self, store: Store, name: str = "follower", run: Callable[[], float | None] = lambda: None) -> None:
        self.name = name
        self.seen = -1
        self.runs = 0
        self._store = store
        self._run = run

    def run(self, stopping: threading.Event) -> float | None:
        self.runs += 1
        self.seen = self._store.last_position()
        return self._run()


def test_a_consumer_follows_the_commits_of_every_process(store: Store, store_url: str) -> None:
    follower = Follower(store)
    runner = Runner(store, [follower], print).start()
    try:
        with open_store(store_url) as elsewhere:
            session = opened(elsewhere)
            for log in (store, elsewhere, elsewhere, store):
                log.append(session, [say()])
                await_(lambda: follower.seen == store.last_position())
    finally:
        runner.stop()


def test_a_job_that_another_process_adds_is_taken_at_once(store: Store, store_url: str, context: Context) -> None:
    sweep = Counted()
    runner = Runner(store, [Jobs(context, print, kinds=kind("sweep", sweep))], print).start()
    try:
        with open_store(store_url) as elsewhere:
            for number in range(3):
                add_job(elsewhere, "sweep", key=str(number))
                await_(lambda number=number: len(sweep.runs) == number + 1)  # type: ignore[misc]
    finally:
        runner.stop()


def test_a_consumer_is_run_again_when_the_time_comes_that_it_asked_for(store: Store) -> None:
    follower = Follower(store, run=lambda: 0.01)
    runner = Runner(store, [follower], print).start()
    await_(lambda: follower.runs > 5)
    runner.stop()
    runs = follower.runs
    assert not threading.Event().wait(0.05)
    assert follower.runs == runs


def test_a_consumer_that_fails_is_told_once_tried_again_and_holds_up_no_other(store: Store) -> None:
    reports = Reports()
    errors = [Unavailable("the shelf is away")] * 2

    def fail_twice() -> float | None:
        if errors:
            raise errors.pop()
        return None

    failing, other = Follower(store, "failing", fail_twice), Follower(store, "other")
    runner = Runner(store, [failing, other], reports).start()
    try:
        await_(lambda: len(reports.lines) == 2)
        assert other.runs > 0
    finally:
        runner.stop()
    assert reports.lines == ["failing fails, and is retried: the shelf is away", "failing works again"]


def test_a_runner_stops_at_once_while_nothing_happens(store: Store) -> None:
    follower = Follower(store)
    runner = Runner(store, [follower], print).start()
    await_(lambda: follower.runs > 0)
    runner.stop()
    assert not [thread for thread in threading.enumerate() if thread.name in ("clew-runner", "clew-follower")]


def test_once_does_what_is_due_and_returns(store: Store, context: Context) -> None:
    sweep = Counted()
    for number in range(3):
        add_job(store, "sweep", key=str(number))
    Runner(store, [Jobs(context, print, kinds=kind("sweep", sweep))], print).once()
    assert [job.state for job in list_jobs(store)] == ["done"] * 3


def test_a_worker_with_nothing_to_do_writes_nothing(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path / 'clew.db'}") as store:
        opened(store)
        context = Context(store=store, unrestricted=store, principal="person:ada", grants=())
        Runner(store, [Jobs(context, print)], print).once()
        before = written(tmp_path)
        follower = Follower(store, run=lambda: 0.01)
        runner = Runner(store, [Jobs(context, print), follower], print).start()
        await_(lambda: follower.runs > 20)
        runner.stop()
        assert written(tmp_path) == before


def written(folder: Path) -> dict[str, tuple[int, int]]:
    """The size and the time of each file."""
    return {path.name: (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}
