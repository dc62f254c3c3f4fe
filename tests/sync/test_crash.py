"""The one who pushes and the server are killed with SIGKILL at random moments: everything arrives once, in order."""

import os
import random
import time
from pathlib import Path

import pytest

from clew.model.access import owner_of_everything
from clew.service import Context, call
from clew.store import open_store
from clew.store.originals import load, originals
from support import claude
from support.children import Child
from support.postgres import free_port
from sync.machines import Machine, images, sound, told

HERE = Path(__file__).parent
# One of each kind: the one who pushes, both at once, the one who pushes, the server.
KILLS = int(os.environ.get("CLEW_PUSH_KILLS", "4"))


@pytest.fixture
def key(store_url: str) -> str:
    """The key of somebody who may do everything."""
    with open_store(store_url) as store:
        root = Context(store=store, principal="person:root", grants=(owner_of_everything("person:root"),))
        call(root, "principal_add", {"principal": "person:ada"})
        call(root, "access_grant", {"who": "person:ada", "role": "admin"})
        return str(call(root, "key_create", {"principal": "person:ada"}).key)


def test_whoever_is_killed_everything_arrives_once_and_in_order(store_url: str, key: str, tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    port = free_port()
    served = (HERE / "served.py", store_url, port, tmp_path / "served")
    here = Machine(tmp_path / "here", url=f"http://127.0.0.1:{port}", key=key, project="home-me-app")
    ids = [here.open(project="home-me-app") for _ in range(4)]
    path = claude.transcript(tmp_path / "programs")
    server = Child(*served)
    server.hear("serving")
    killed = []
    for number in range(KILLS):
        _work(here, ids, number)
        path.write_bytes(claude.lines(claude.story()[: 2 + 2 * number]))
        [report] = here.plane.capture([str(path)])
        with Child(HERE / "pusher.py", here.home) as pusher:
            pusher.hear("ready")
            pusher.tell("go")
            pusher.hear("began")
            time.sleep(chance.uniform(0.0, 0.15))  # Not waiting for anything: this is how long it may live.
            if number % 2:
                with server:
                    server.kill()
                if number % 4 == 1:
                    pusher.kill()  # Both at once: what was under way is lost, and nobody may believe otherwise.
                server = Child(*served)
                server.hear("serving")
                if number % 4 == 3:
                    pusher.hear("done")
                killed.append("server")
            else:
                pusher.kill()
                killed.append("pusher" if not pusher.heard("done") else "nobody")
    with server:
        done = here.push()
        assert not done.refused, (seed, done.refused)
        assert here.push(again=True).events == 0
    assert {"server", "pusher"} <= set(killed), f"nobody was hit: {killed}, seed {seed}"
    with open_store(store_url) as there:
        for id in [*ids, report.session, *_forks(here, ids)]:
            assert told(there, id) == here.told(id), f"seed {seed}"
        [file] = originals(there, there.session(report.session))
        assert load(there, file) == path.read_bytes()
        sound(there)
    here.plane.close()


def _work(here: Machine, ids: list[str], number: int) -> None:
    for id in ids:
        here.say(id, *(f"{number}.{n} " + "said " * 2000 for n in range(20)))
        here.show(id, here.store.save_blob(images(number + 1)[number]))
    fork = here.plane.client.call("fork", session=ids[number % len(ids)], title=f"fork {number}").id
    here.say(fork, "and on")


def _forks(here: Machine, ids: list[str]) -> list[str]:
    return [child for id in ids for child, _ in here.store.children(here.store.session(id))]
