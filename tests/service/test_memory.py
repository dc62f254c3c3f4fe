"""Who exports, briefs or resumes a session holds little of it: a session ten times as long takes hardly more memory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import clew
from clew.client import Plane
from clew.model.events import CallMade, CallReturned, Draft, MessageAdded, RuntimeAttached
from clew.runtimes.contract import raw

MEGABYTE = 1024 * 1024
SMALL_MB, LARGE_MB = 4, 40
# How much more a session that is 36 MB longer may take. Held whole, it took more than 36.
MORE_MB = 14
READINGS = {
    "jsonl": "export {id} --as jsonl --out {out}",
    "markdown": "export {id} --as markdown --out {out}",
    "html": "export {id} --as html --out {out}",
    "atif": "export {id} --as atif --out {out}",
    "copilot": "export {id} --as copilot --out {out}",
    "brief": "brief {id}",
    "diff": "diff {id} {other}",
    "resume": "resume {id} --in codex --print --cwd /",
}
# The words are all different, so that no part of a text is held only once.
TEXT = "\n".join(" ".join(f"{chr(97 + line * word % 23)}{line}{word}" for word in range(9)) for line in range(2_000))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("memory")


@pytest.fixture(scope="module")
def sessions(home: Path) -> tuple[str, str]:
    """A small session and a large one."""
    with clew.connect(home=home, principal="person:ada") as plane:
        return _made(plane, SMALL_MB), _made(plane, LARGE_MB)


def _made(plane: Plane, megabytes: int) -> str:
    session = plane.session(title=f"{megabytes} MB")
    session.append(Draft(body=RuntimeAttached(runtime="claude-code", native=session.id, cwd="/srv/app")))
    output = TEXT[: 80 * 1024]
    for turn in range(megabytes * MEGABYTE // (len(output) + 4_000)):
        session.append(
            MessageAdded(role="user", text=TEXT[turn : turn + 2_000]),
            MessageAdded(role="assistant", text=TEXT[turn : turn + 2_000], message=f"m{turn}"),
            CallMade(call=f"c{turn}", tool="Bash", input=raw({"command": "make"}), message=f"m{turn}"),
            CallReturned(call=f"c{turn}", output=raw(f"{turn} {output}")),
        )
    return session.id


@pytest.mark.parametrize("reading", READINGS)
def test_a_session_ten_times_as_long_takes_hardly_more_memory(
    home: Path, sessions: tuple[str, str], tmp_path: Path, reading: str
) -> None:
    with clew.connect(home=home, principal="person:ada") as plane:
        empty = plane.session(title="empty").id
    small, large = (
        _peak_mb(home, READINGS[reading].format(id=id, other=empty, out=tmp_path / f"{number}.out").split())
        for number, id in enumerate(sessions)
    )
    assert large - small < MORE_MB, f"{small:.0f} MB for {SMALL_MB} MB, {large:.0f} MB for {LARGE_MB} MB"


def test_a_server_sends_a_session_ten_times_as_long_with_hardly_more_memory(
    home: Path, sessions: tuple[str, str]
) -> None:
    small, large = (_peak_mb(home, [id], script=f"{PEAK}\n{SENT}") for id in sessions)
    assert large - small < MORE_MB, f"{small:.0f} MB for {SMALL_MB} MB, {large:.0f} MB for {LARGE_MB} MB"


# The process tells its own peak: what the system tells the parent counts the parent's memory before the exec.
PEAK = """
import atexit, pathlib, runpy, sys
peak = pathlib.Path(sys.argv.pop(1))
status = pathlib.Path("/proc/self/status")
atexit.register(lambda: peak.write_text(status.read_text().split("VmHWM:")[1].split()[0]))
"""
COMMAND = 'runpy.run_module("clew", run_name="__main__", alter_sys=True)'
# What a server does with an export; what it has sent is gone.
SENT = """
import clew
from clew.service.kernel.call import prepare_call, run_in_pieces
with clew.connect() as plane:
    prepared = prepare_call(plane.client.context, "export", {"session": sys.argv[1], "form": "jsonl"})
    assert sum(map(len, run_in_pieces(prepared))) > 1000
"""


def _peak_mb(home: Path, arguments: list[str], *, script: str = f"{PEAK}\n{COMMAND}") -> float:
    """The most memory that a `clew` command took."""
    env = {"HOME": str(home), "CLEW_HOME": str(home), "CLEW_PRINCIPAL": "person:ada", "PATH": os.environ["PATH"]}
    env |= {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    peak = home / "peak"
    command = [sys.executable, "-c", script, str(peak), *arguments]
    done = subprocess.run(command, env=env, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return int(peak.read_text()) / 1024
