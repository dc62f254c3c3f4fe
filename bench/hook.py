"""What a hook costs an agent: the forwarder from start to end, against a bare Python. `python bench/hook.py [RUNS]`.

The promise is a p95 of 60 ms. The two take turns, so that a busy machine is busy for both.
"""

import fcntl
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from clew import hook

SAID = {
    "transcript_path": "/home/me/app/s.jsonl",
    "cwd": "/home/me/app",
    "source": "startup",
    "tool_response": "x" * 10_000,
}


def milliseconds(command: list[str], said: bytes, home: Path) -> float:
    began = time.perf_counter()
    subprocess.run(
        command, input=said, env={**os.environ, "CLEW_HOME": str(home)}, stdout=subprocess.DEVNULL, check=True
    )
    return (time.perf_counter() - began) * 1000


def main(runs: int) -> None:
    programs = {
        "bare python": [sys.executable, "-c", "pass"],
        "a note": [*hook.command(), "Stop", "claude-code"],
        "a brief": [*hook.command(), "SessionStart", "claude-code"],
        "a note, by -m": [sys.executable, "-m", "clew.hook", "Stop", "claude-code"],
    }
    times: dict[str, list[float]] = {name: [] for name in programs}
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
    for name, taken in times.items():
        taken.sort()
        print(f"{name:15} p50 {taken[len(taken) // 2]:6.1f} ms   p95 {taken[int(len(taken) * 0.95)]:6.1f} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
