"""Watches with nothing new to see, and tells what that cost: bytes read and written, processor time, changed files."""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from transcripts import make

_HERE = Path(__file__).parent


def io(pid: int) -> dict[str, int]:
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return {name: int(value) for name, value in (line.split(": ") for line in lines)}


def seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def state(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--work", type=Path, default=_HERE / ".work", metavar="DIR")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.work) as scratch:
        home = Path(scratch)
        make(home / ".claude" / "projects", options.sessions)
        env = {"HOME": str(home), "CLEW_HOME": str(home / "clew"), "PATH": os.environ["PATH"]}
        argv = [sys.executable, "-m", "clew", "capture", "--watch"]
        process = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for line in process.stderr or ():
            if line.startswith("watching"):
                break
        time.sleep(10)  # Whatever follows a capture is done by then.
        before, spent, files = io(process.pid), seconds(process.pid), state(home / "clew")
        time.sleep(options.minutes * 60)
        after, now = io(process.pid), seconds(process.pid)
        changed = [path for path, seen in state(home / "clew").items() if files.get(path) != seen]
        process.terminate()
        process.wait()
    print(f"{options.minutes:g} minutes of watching {options.sessions} sessions with nothing new:")
    for name in ("rchar", "wchar", "read_bytes", "write_bytes"):
        print(f"  {name:<12} {after[name] - before[name]:,}")
    print(f"  {'cpu':<12} {now - spent:.2f} s")
    print(f"  files changed: {len(changed)}")
    idle = after["wchar"] == before["wchar"] and after["read_bytes"] == before["read_bytes"] and not changed
    return 0 if idle else 1


if __name__ == "__main__":
    sys.exit(main())
