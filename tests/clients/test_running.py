"""A session goes on in a folder in which the same program is at work: each keeps to its own session."""

import json
import os
import shutil
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from clients.clew_cli import Clew
from clients.drivers import CLIENTS, Place, Ran, run
from clients.model_server import ModelServer, scripted
from clients.sources import DONE_THREE, Source, third_prompt
from clients.wire import Answer, Call

pytestmark = pytest.mark.clients
CAME = "You cāme 🧭."


@pytest.mark.parametrize("target", ["claude-code", "codex", "opencode", "gemini-cli"])
def test_a_session_goes_on_beside_a_running_client(
    target: str, sources: Callable[[str], Source], tmp_path: Path
) -> None:
    source = sources("claude-code")
    if not source.session:
        source.capture()
    shutil.copytree(source.clew.store, tmp_path / "store")
    clew, client, place = Clew(tmp_path / "store"), CLIENTS[target], Place(tmp_path)
    # Some clients read nothing outside of their directory.
    gate, logs = place.cwd / "gate", tmp_path / "logs of the running one"
    os.mkfifo(gate)
    logs.mkdir()
    waits = scripted("Wait for me.", Answer("I wait.", (Call(*client.call("cat gate")),)), Answer(CAME))
    with ModelServer() as model, ThreadPoolExecutor(1) as threads:
        client.settle(place, model.url)
        environment = client.environment(place, model.url)
        running = threads.submit(run, client.fresh(waits), cwd=place.cwd, env=environment, logs=logs)
        held = _opened(gate, running)
        try:
            resumed = clew.resume_in(source.session, target, cwd=place.cwd, env=environment)
            prompt = third_prompt(client)
            for command in (*resumed.prepare, client.headless(resumed.command, prompt)):
                client.run(place, model.url, command, more=resumed.env).checked()
        finally:
            os.close(held)
        running.result().checked()
        assert len(model.told(prompt)) > 0
    others = {report.session for report in clew.capture(place.home)} - {resumed.session}
    assert len(others) == 1
    for session, has, lacks in ((resumed.session, DONE_THREE, CAME), (others.pop(), CAME, DONE_THREE)):
        said = json.dumps(clew.conversation(session), ensure_ascii=False)
        assert has in said
        assert lacks not in said


def _opened(gate: Path, running: "Future[Ran]") -> int:
    """The pipe, as soon as the client reads it."""
    while not running.done():
        try:
            return os.open(gate, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # Nobody reads it yet.
            time.sleep(0.05)
    raise AssertionError(running.result())
