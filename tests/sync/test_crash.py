"""The one who pushes and the server are killed with SIGKILL at random moments: everything arrives once, in order."""

import os
import random
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from clew.model.access import owner_of_everything
from clew.service import Context, call
from clew.store import open_store
from clew.store.native_files.lookup import files_of
from clew.store.native_files.stored_bytes import load_bytes
from clew.store.objects import objects
from support import claude
from support.children import Child
from support.postgres import free_port
from sync.machines import Machine, images, sound, told

HERE = Path(__file__).parent
WHOM = ("pusher", "both", "server")
KILLS = int(os.environ.get("CLEW_PUSH_KILLS", len(WHOM)))


@pytest.fixture
def key(store_url: str) -> str:
    """The key of somebody who may do everything."""
    with open_store(store_url) as store:
        root = Context(
            store=store, unrestricted=store, principal="person:root", grants=(owner_of_everything("person:root"),)
        )
        call(root, "principal_add", {"principal": "person:ada"})
        call(root, "access_grant", {"who": "person:ada", "role": "admin"})
        return str(call(root, "key_create", {"principal": "person:ada"}).key)


def test_whoever_is_killed_everything_arrives_once_and_in_order(store_url: str, key: str, tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    port = free_port()
    served = (HERE / "served.py", store_url, port, tmp_path / "served")
    here = Machine(tmp_path / "here", url=f"http://127.0.0.1:{port}", key=key, project="app")
    ids = [here.open(project="app") for _ in range(4)]
    path = claude.transcript(tmp_path / "programs")
    with ExitStack() as stack:
        stack.callback(here.plane.close)
        server = _serving(stack, served)
        for number in range(KILLS):
            _work(here, ids, number)
            path.write_bytes(claude.lines(claude.story()[: 2 + 2 * number]))
            [report] = here.plane.capture([str(path)])
            with Child(HERE / "pusher.py", here.home) as pusher:
                pusher.hear("ready")
                pusher.tell("go")
                pusher.hear("began")
                time.sleep(chance.uniform(0.0, 0.15))  # Not waiting for anything: this is how long it may live.
                whom = WHOM[number % len(WHOM)]
                if whom != "pusher":
                    server.kill()
                if whom != "server":
                    pusher.kill()
                if whom != "pusher":
                    server = _serving(stack, served)
                if whom == "server":
                    pusher.hear("done")
        done = here.push()
        assert not done.refused, (seed, done.refused)
        assert here.push(again=True).events == 0
        server.kill()
        with open_store(store_url) as there:
            for id in [*ids, report.session, *_forks(here, ids)]:
                assert told(there, id) == here.told(id), f"seed {seed}"
            [file] = files_of(there, there.session(report.session))
            assert load_bytes(there, file) == path.read_bytes()
            sound(there)


def _serving(stack: ExitStack, served: tuple[object, ...]) -> Child:
    server = stack.enter_context(Child(*served))  # type: ignore[arg-type]
    server.hear("serving")
    return server


def _work(here: Machine, ids: list[str], number: int) -> None:
    for id in ids:
        here.say(id, *(f"{number}.{n} " + "said " * 2000 for n in range(20)))
        here.show(id, objects.save(here.store, images(number + 1)[number]))
    fork = here.plane.client.call("fork", session=ids[number % len(ids)], title=f"fork {number}").id
    here.say(fork, "and on")


def _forks(here: Machine, ids: list[str]) -> list[str]:
    return [child for id in ids for child, _ in here.store.children(here.store.session(id))]
