"""Two workers, one of them killed again and again: every job is done once in effect, and no view stays behind."""

import os
import random
import time
from collections import Counter

from clew.model.events import MessageAdded
from clew.model.session import Session
from clew.store import Store, open_store
from clew.store.jobs import add_job, list_jobs
from clew.store.log.feed import end_position
from clew.views.upkeep import Views
from crash.worker import PARTS
from store.crowd import PATIENCE_SECONDS
from store.words import opened, say
from support.children import Child

KILLS = int(os.environ.get("CLEW_WORKER_KILLS", "8"))
LEASE_MS = 1000
JOBS_PER_ROUND = 6


def start(url: str) -> Child:
    child = Child("worker.py", url, LEASE_MS)
    child.hear("ready")
    return child


def end(worker: Child) -> None:
    worker.__exit__(None, None, None)


def busy(store: Store, workers: list[Child], chance: random.Random, jobs: list[str]) -> Child:
    """A worker in the middle of a job; there are more jobs when all are done before one is seen."""
    end_at = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end_at:
        holders = {job.holder for job in list_jobs(store, state="running")}
        if found := [worker for worker in workers if f"worker:{worker._process.pid}" in holders]:
            return chance.choice(found)
        if not list_jobs(store, state="waiting", limit=1):
            jobs.append(add_job(store, "tally", project="tally", key=f"more {len(jobs)}"))
    open_jobs = [job for job in list_jobs(store, limit=1000) if job.state != "done"]
    raise AssertionError(f"no worker takes a job: {open_jobs}, {[worker.errors() for worker in workers]}")


def texts(store: Store, session: Session) -> list[str]:
    return [event.body.text for event in store.read(session) if isinstance(event.body, MessageAdded)]


def until(condition: object, what: str) -> float:
    """Wait, without taking the processor from the workers; returns how long it took."""
    assert callable(condition)
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < PATIENCE_SECONDS, what
        time.sleep(0.01)
    return time.monotonic() - began


def test_two_workers_that_are_killed_do_every_job_once_in_effect(store_url: str) -> None:
    seed = int(os.environ.get("CLEW_SEED", random.randrange(2**32)))
    print(f"seed {seed}")
    chance = random.Random(seed)
    jobs: list[str] = []
    behind: list[float] = []
    with open_store(store_url) as store:
        session, talk = opened(store, project="tally"), opened(store, project="talk")
        views = Views(store)
        workers = [start(store_url), start(store_url)]
        try:
            for round in range(KILLS):
                jobs += [
                    add_job(store, "tally", project="tally", key=f"{round}/{number}")
                    for number in range(JOBS_PER_ROUND)
                ]
                store.append(talk, [say(f"round {round}")])
                victim = busy(store, workers, chance, jobs)
                time.sleep(chance.uniform(0, 0.02))
                workers.remove(victim)
                end(victim)
                # The other worker alone brings the views up to where the log was at the kill.
                position = end_position(store)
                behind.append(
                    until(
                        lambda position=position: end_position(store) - views.lag() >= position, "a view stays behind"
                    )
                )
                workers.append(start(store_url))
            until(
                lambda: not list_jobs(store, state="waiting", limit=1000) + list_jobs(store, state="running"),
                "a job stays undone",
            )
        finally:
            for worker in workers:
                end(worker)
        states = Counter(job.state for job in list_jobs(store, limit=1000))
        assert states == {"done": len(jobs)}
        assert Counter(texts(store, session)) == Counter(f"{id} {part}" for id in jobs for part in PARTS)
        attempts = sum(job.attempts for job in list_jobs(store, limit=1000))
        assert attempts > len(jobs), "no worker was killed in the middle of a job"
        print(
            f"{len(jobs)} jobs, {attempts} attempts, {KILLS} kills; a view was behind for {max(behind):.2f} s at most"
        )
        views.close()
