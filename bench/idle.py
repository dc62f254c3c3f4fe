"""Measures what clew costs when nothing happens: bytes read and written, processor time, changed files, per hour."""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from transcripts import make

_HERE = Path(__file__).parent
# Each way of waiting, and the beginning of the line that it prints when it waits.
COMMANDS = {
    "capture": (["capture", "--watch"], "watching"),
    "worker": (["worker", "--capture"], "working"),
    "worker alone": (["worker"], "working"),
}


def io(pid: int) -> dict[str, int]:
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return {name: int(value) for name, value in (line.split(": ") for line in lines)}


def seconds(pid: int) -> float:
    """The processor time of a process, to the nanosecond, over all its threads."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def state(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


def measure(home: Path, arguments: Sequence[str], ready: str, *, minutes: float, store: str) -> bool:
    """Run a command for so long with nothing to do; returns whether it wrote nothing."""
    env = {"HOME": str(home), "CLEW_HOME": str(home / "clew"), "PATH": os.environ["PATH"]}
    env |= {"CLEW_STORE": store} if store else {}
    clew = [sys.executable, "-m", "clew"]
    # What is there is captured and counted in the views before, so that nothing is left to do.
    for words in (["capture"], ["worker", "--once"]):
        subprocess.run([*clew, *words], env=env, stdout=subprocess.DEVNULL, check=True)
    process = subprocess.Popen(
        [*clew, *arguments], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        for line in process.stderr or ():
            if line.startswith(ready):
                break
        time.sleep(20)  # The work after the start is done by then.
        before, spent, files = io(process.pid), seconds(process.pid), state(home / "clew")
        time.sleep(minutes * 60)
        after, now = io(process.pid), seconds(process.pid)
        changed = [path for path, seen in state(home / "clew").items() if files.get(path) != seen]
    finally:
        process.terminate()
        process.wait()
    print(f"clew {' '.join(arguments)}: {minutes:g} minutes with nothing new, extrapolated to an hour")
    for name in ("rchar", "wchar", "read_bytes", "write_bytes"):
        print(f"  {name:<12} {(after[name] - before[name]) / minutes * 60:,.0f}")
    print(f"  {'cpu':<12} {(now - spent) / minutes * 60:.2f} s, {(now - spent) / minutes / 60:.3%} of a core")
    print(f"  files changed: {len(changed)}")
    # A reader's mark in SQLite's shared memory counts as a written page, though nothing goes to the disk.
    return after["wchar"] == before["wchar"] and not changed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--commands", nargs="+", choices=COMMANDS, default=list(COMMANDS))
    parser.add_argument("--store", default="", metavar="URL", help="a PostgreSQL store instead of SQLite")
    parser.add_argument("--work", type=Path, default=_HERE / ".work", metavar="DIR")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.work) as scratch:
        home = Path(scratch)
        make(home / ".claude" / "projects", options.sessions)
        idle = [
            measure(home, *COMMANDS[name], minutes=options.minutes, store=options.store) for name in options.commands
        ]
    return 0 if all(idle) else 1


if __name__ == "__main__":
    sys.exit(main())
