"""What a hook costs an agent: the forwarder from start to end, against a bare Python. `python bench/hook.py [RUNS]`.

The promise is at most 15 ms more at the median, and a p95 of 60 ms. The two take turns, so that a busy machine is busy
for both. The processor time says most where other work makes everything wait.
"""

import fcntl
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from clew import hook

SAID = {
    "transcript_path": "/home/me/app/s.jsonl",
    "cwd": "/home/me/app",
    "source": "startup",
    "tool_response": "x" * 10_000,
}


def milliseconds(command: list[str], said: bytes, home: Path) -> tuple[float, float]:
    """How long a command runs, and its processor time."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        command, input=said, env={**os.environ, "CLEW_HOME": str(home)}, stdout=subprocess.DEVNULL, check=True
    )
    taken, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return taken * 1000, (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def main(runs: int) -> None:
    programs = {
        "bare python": [sys.executable, "-c", "pass"],
        "a note": [*hook.command(), "Stop", "claude-code"],
        "a brief": [*hook.command(), "SessionStart", "claude-code"],
        "a note, by -m": [sys.executable, "-m", "clew.hook", "Stop", "claude-code"],
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in programs}
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "briefs").mkdir()
        (home / "briefs" / hook.brief_name("/home/me/app")).write_text("Go on.\n")
        (home / "spool").mkdir()
        with (home / "spool/lock").open("w") as lock:
            # As a running capture would: what is measured is what the agent waits for, not a capture beside it.
            fcntl.flock(lock, fcntl.LOCK_EX)
            for number in range(runs):
                said = json.dumps({**SAID, "session_id": f"s-{number}"}).encode()
                for name, command in programs.items():
                    times[name].append(milliseconds(command, said, home))
    bare = median(wall for wall, _ in times["bare python"])
    for name, taken in times.items():
        walls = sorted(wall for wall, _ in taken)
        p50, p95 = median(walls), walls[int(len(walls) * 0.95)]
        cpu = median(cpu for _, cpu in taken)
        print(f"{name:15} p50 {p50:6.1f} ms ({p50 - bare:+5.1f})   p95 {p95:6.1f} ms   processor {cpu:5.1f} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
