"""What connecting adds to a session of a real client. `python bench/connect.py [--rounds N] [--only CLIENT ...]`.

The promise is at most 0.3 s of wall time at the median. Each client has two homes, one of them connected to clew, and
in each round makes a session in both: a prompt, a call of its shell tool and an answer, all from a scripted model. What
hooks and clew's MCP server take counts, also when they outlive the client; a capture does not, which runs beside it.
"""

import argparse
import contextlib
import ctypes
import fcntl
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from statistics import median
from typing import NamedTuple

_HERE = Path(__file__).resolve().parent
sys.path.append(str(_HERE.parent / "tests"))  # for the clients and their model; last, it must hide nothing

from clients.drivers import CLIENTS, Client, Place  # noqa: E402
from clients.model_server import ModelServer, scripted  # noqa: E402
from clients.wire import Answer, Call  # noqa: E402

BAR_S = 0.3
CLEW = Path(sys.executable).with_name("clew")
_PR_SET_CHILD_SUBREAPER = 36


class Spent(NamedTuple):
    """The seconds of one session."""

    wall: float
    cpu: float


class Home:
    """A home of a client in which it was run once, so that what it does only at first is done."""

    def __init__(self, client: Client, folder: Path, model: str, *, store: Path | None) -> None:
        self.client, self.place, self.store = client, Place(folder), store
        self.env = client.environment(self.place, model) | ({"CLEW_HOME": str(store)} if store else {})
        client.settle(self.place, model)
        if store:
            connect = [str(CLEW), "connect", client.runtime, "--yes"]
            subprocess.run(connect, env=self.env, check=True, capture_output=True)
        self.session()

    def session(self) -> Spent:
        """Make a session and wait for everything that it started."""
        call = Call(*self.client.call("echo one"))
        prompt = scripted("Please look.", Answer("I look.", (call,)), Answer("One."))
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        with (self.place.logs / "output").open("wb") as output:
            program = subprocess.Popen(
                self.client.fresh(prompt), cwd=self.place.cwd, env=self.env, stdin=subprocess.DEVNULL,
                stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
            code = program.wait(120)
        wall = time.perf_counter() - began
        _end_group(program.pid)
        if code:
            sys.exit(f"{self.client.runtime} ended with {code}; see {self.place.logs / 'output'}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return Spent(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def _end_group(group: int) -> None:
    """End what a client left in its group, and wait for all that it left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def measure(client: Client, folder: Path, rounds: int) -> bool:
    """Print what the sessions took; returns whether connecting added no more than it may."""
    store = folder / "store"
    (store / "spool").mkdir(parents=True)
    random = Random(rounds)
    taken: dict[str, list[Spent]] = {"alone": [], "connected": []}
    # As a running capture does, so that no capture starts.
    with (store / "spool/lock").open("w") as lock, ModelServer() as model:
        fcntl.flock(lock, fcntl.LOCK_EX)
        homes = {
            "alone": Home(client, folder / "alone", model.url, store=None),
            "connected": Home(client, folder / "connected", model.url, store=store),
        }
        for _ in range(rounds):
            for name in random.sample(list(homes), 2):
                taken[name].append(homes[name].session())
    if not (store / "hooks" / client.runtime).exists() and client.runtime != "codex":
        sys.exit(f"no hook of {client.runtime} ran: there is nothing to measure")
    walls, cpus = ([median(getattr(one, what) for one in taken[name]) for name in homes] for what in ("wall", "cpu"))
    added = walls[1] - walls[0]
    columns = [f"{alone:6.2f} s {connected:6.2f} s {connected - alone:+6.2f} s" for alone, connected in (walls, cpus)]
    verdict = "pass" if added <= BAR_S else "miss"
    print(f"{client.runtime:12} {client.version:9} {columns[0]}   {columns[1]}   {verdict}", flush=True)
    return added <= BAR_S


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what connecting adds to a session of a real client.")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--only", nargs="*", default=["gemini-cli", "opencode"], choices=list(CLIENTS))
    options = parser.parse_args()
    # What outlives a client becomes a child of this process, which waits for it and counts its processor time.
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        sys.exit("prctl failed: this needs Linux")
    print(f"Medians of {options.rounds} sessions; connecting may add {BAR_S} s of wall time")
    print(f"{'':22} {'wall: alone, connected, added':28}   user and system")
    with tempfile.TemporaryDirectory(prefix="connect-", ignore_cleanup_errors=True) as folder:
        within = [measure(CLIENTS[name], Path(folder) / name, options.rounds) for name in options.only]
    return int(not all(within))


if __name__ == "__main__":
    sys.exit(main())
