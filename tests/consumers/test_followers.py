"""Consumers that follow the log: views stay fresh, checkpoints are signed, and a worker ends cleanly."""

import signal
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest

from clew.consumers.checkpoints import Checkpoints
from clew.consumers.runner import Runner
from clew.consumers.views import FreshViews
from clew.model.ids import new_id
from clew.service import Context, call
from clew.store import Store, open_store
from clew.store.jobs import add_job, list_jobs
from clew.views.upkeep import Views
from store.crowd import await_
from store.words import opened, say
from support.children import environment


def test_views_are_fresh_before_anybody_reads_them(store: Store, context: Context) -> None:
    reader = Views(store)
    runner = Runner(store, [FreshViews(context)], print).start()
    try:
        session = opened(store)
        for number in range(3):
            store.append(session, [say(f"word {number}")])
            await_(lambda: reader.lag() == 0)
    finally:
        runner.stop()
        reader.close()


def test_a_checkpoint_is_signed_when_the_log_has_grown_and_not_otherwise(
    context: Context, tmp_path: Path, stopping: threading.Event
) -> None:
    context = msgspec.structs.replace(context, home=str(tmp_path))
    checkpoints = Checkpoints(context, every_seconds=0)
    assert checkpoints.run(stopping) is None
    opened(context.store)
    for _ in range(3):
        checkpoints.run(stopping)
    assert len(call(context, "audit_checkpoints", {}).checkpoints) == 1
    opened(context.store)
    # Another worker finds the log signed already.
    for consumer in (checkpoints, Checkpoints(context)):
        consumer.run(stopping)
    assert len(call(context, "audit_checkpoints", {}).checkpoints) == 2


def test_checkpoints_keep_their_distance(context: Context, tmp_path: Path, stopping: threading.Event) -> None:
    context = msgspec.structs.replace(context, home=str(tmp_path))
    checkpoints = Checkpoints(context, every_seconds=3600)
    opened(context.store)
    assert checkpoints.run(stopping) is None
    opened(context.store)
    seconds = checkpoints.run(stopping)
    assert seconds is not None
    assert 3500 < seconds <= 3600
    assert len(call(context, "audit_checkpoints", {}).checkpoints) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_worker_works_until_it_is_asked_to_end(store_url: str, tmp_path: Path, number: signal.Signals) -> None:
    variables = {**environment(), "CLEW_STORE": store_url, "CLEW_HOME": str(tmp_path / "home")}
    with open_store(store_url) as store:
        with subprocess.Popen(
            [sys.executable, "-m", "clew", "worker"], env=variables, stderr=subprocess.PIPE, text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        ) as process:  # fmt: skip
            try:
                assert process.stderr is not None
                assert process.stderr.readline() == "working; stop with Ctrl-C\n"
                add_job(store, "collection", key="by hand")
                await_(lambda: "by hand" in {job.key for job in list_jobs(store, state="done")})
                process.send_signal(number)
                assert process.wait(60) == 0
                assert process.stderr.read() == ""
            finally:
                process.kill()
        assert not list_jobs(store, state="running")


def test_a_worker_ends_when_a_newer_program_has_migrated_its_store(store_url: str, tmp_path: Path) -> None:
    variables = {**environment(), "CLEW_STORE": store_url, "CLEW_HOME": str(tmp_path / "home")}
    with (
        open_store(store_url) as store,
        subprocess.Popen(
            [sys.executable, "-m", "clew", "worker"], env=variables, stderr=subprocess.PIPE, text=True
        ) as process,
    ):
        try:
            assert process.stderr is not None
            assert process.stderr.readline() == "working; stop with Ctrl-C\n"
            await_(lambda: bool(list_jobs(store, state="done")))
            with store.database.write() as tx:
                tx.connection.execute("INSERT INTO clew_schema (version, at) VALUES (999, 0)")  # type: ignore[attr-defined]
                # It has a job for every worker.
                tx.run("job_add", id=new_id(), kind="collection", project="", key="x", arguments="{}")
                tx.run("jobs_changed")
            assert process.wait(60) == 9
            assert "restart it with the newer clew" in process.stderr.read()
        finally:
            process.kill()
        assert [job.state for job in list_jobs(store) if job.key == "x"] == ["waiting"]


def test_a_worker_once_does_what_is_due(store_url: str, tmp_path: Path) -> None:
    variables = {**environment(), "CLEW_STORE": store_url, "CLEW_HOME": str(tmp_path / "home")}
    with open_store(store_url) as store:
        opened(store)
        done = subprocess.run(
            [sys.executable, "-m", "clew", "worker", "--once"],
            env=variables,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == ""
        assert {(job.kind, job.state) for job in list_jobs(store)} >= {("collection", "done")}
        views = Views(store)
        assert views.lag() == 0
        views.close()
