"""Flow: what is captured goes on to the server by itself, and a server that is away disturbs nobody."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from clew import app
from clew.cli.plane import LazyPlane
from clew.cli.pushing import pushes_if_wanted
from clew.consumers import push
from clew.consumers.push import Pushes
from clew.consumers.runner import Runner
from clew.service.replication.push import Pushed
from clew.store.log.sessions import keys_of
from server.running import Running
from sync.machines import Machine, texts

Start = Any
pytestmark = pytest.mark.parametrize("database", ["sqlite"])


class Heard:
    """What a flow says, to be waited for."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.pushed: list[Pushed] = []
        self._news = threading.Condition()

    def tell(self, text: str) -> None:
        with self._news:
            self.told.append(text)
            self._news.notify_all()

    def push(self, done: Pushed) -> None:
        with self._news:
            self.pushed.append(done)
            self._news.notify_all()

    def wait(self, until: Callable[[], bool]) -> None:
        with self._news:
            assert self._news.wait_for(until, 30), (self.told, self.pushed)


def test_a_failure_is_told_once_and_again_when_it_works(
    running: Running, machine: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seconds in (("FIRST_PAUSE", 0.02), ("LONGEST_PAUSE", 0.05), ("PATIENCE_SECONDS", 0.1)):
        monkeypatch.setattr(push, name, seconds)
    here: Machine = machine()
    id = here.open("one")
    heard = Heard()
    pushes = Pushes(here.context, here.home, pushed=heard.push, report=heard.tell)
    flowing = Runner(here.context.store, [pushes], print).start()
    heard.wait(lambda: bool(heard.pushed) and heard.pushed[0].events == 1)
    running.stop()
    here.say(id, "two")
    heard.wait(lambda: bool(heard.told))
    here.say(id, "three")
    running.start()
    heard.wait(lambda: len(heard.told) > 1 and sum(one.events for one in heard.pushed) == 3)
    flowing.stop()
    assert [text.partition(",")[0].partition(":")[0] for text in heard.told] == [
        "push to team fails", "push to team works again",
    ]  # fmt: skip
    assert texts(running.authenticator.store, id) == ["one", "two", "three"]


def test_capturing_has_what_is_shared_pushed_meanwhile(running: Running, machine: Start) -> None:
    here: Machine = machine()
    id = here.open("one")
    plane = LazyPlane(app.settings(store=f"sqlite:///{here.home / 'clew.db'}", home=here.home))
    server = running.authenticator.store
    runner = Runner(plane.client.context.store, pushes_if_wanted(plane), print).start()
    try:
        while not keys_of(server.database, [id]) or not texts(server, id):
            server.wait(after=server.last_position(), timeout=0.1)
    finally:
        runner.stop()
    plane.close()
    assert texts(server, id) == ["one"]
