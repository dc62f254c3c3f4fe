"""The first example of docs/python.md, killed with SIGKILL again and again: every step is in the log once."""

import os
import random
import re
import subprocess
import sys
from pathlib import Path

import clew
from clew.client import Plane

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python.md"
KILLS = int(os.environ.get("CLEW_LOOP_KILLS", "8"))
SQUARES = 5
# session_opened, the prompt, a call and its return for every square, session_closed.
EVENTS = 3 + 2 * SQUARES


def example() -> str:
    found = re.search(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def head(plane: Plane) -> int:
    return max((plane.get(line.id).head for line in plane.sessions(agent="adder")), default=0)


def start(home: Path) -> "subprocess.Popen[bytes]":
    env = {name: value for name, value in os.environ.items() if not name.startswith("CLEW_")}
    return subprocess.Popen(
        [sys.executable, "-c", example()], env={**env, "CLEW_HOME": str(home)}, stdout=subprocess.DEVNULL
    )  # fmt: skip


def kill_on_the_way(home: Path, plane: Plane, chance: random.Random) -> bool:
    """Start the agent, kill it once it has appended a few events; whether it was killed before it was done."""
    wanted = head(plane) + chance.randint(0, 3)
    agent = start(home)
    while agent.poll() is None and head(plane) < wanted:
        pass
    agent.kill()
    return agent.wait() != 0


def test_an_agent_that_is_killed_again_and_again_does_every_step_once(tmp_path: Path) -> None:
    chance = random.Random(f"{KILLS}")
    with clew.connect(home=tmp_path / "home") as plane:
        killed = 0
        for _ in range(KILLS):
            killed += kill_on_the_way(tmp_path / "home", plane, chance)
            if head(plane) == EVENTS:
                break
        assert killed
        if head(plane) < EVENTS:
            assert start(tmp_path / "home").wait(60) == 0
        [line] = plane.sessions(agent="adder")
        s = plane.get(line.id)
        calls = ["call_made", "call_returned"] * SQUARES
        assert [event.kind for event in s.events()] == ["session_opened", "message_added", *calls, "session_closed"]
        made, returned = ([event.body for event in s.events() if event.kind == kind] for kind in calls[:2])
        assert [bytes(body.input) for body in made] == [b'{"n":%d}' % n for n in range(SQUARES)]
        assert [(body.call, bytes(body.output)) for body in returned] == [
            (body.call, b"%d" % n**2) for n, body in enumerate(made)
        ]
        assert s.events()[-1].body.summary == "the sum is 30"
