"""Measures capturing a thousand Claude Code sessions, beside agentsview and SessionFS, and prints which bars are met.

Each program gets a home of its own with the same files, runs without a way out of the machine where the system allows
that, and without telemetry. Rounds are interleaved; only ratios of one round are compared.
"""

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import venv
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from transcripts import make

_HERE = Path(__file__).parent
_CLEW = str(Path(sys.executable).with_name("clew"))
_PEERS = {
    "agentsview": [["agentsview==0.46.1"]],
    # Its pins are newer than an index may offer: what it needs is installed first, without them.
    "sessionfs": [
        ["anyio", "certifi", "httpx", "jsonschema", "mcp<2", "pydantic", "pyyaml", "rich", "typer<1", "watchdog"],
        ["--no-deps", "sessionfs==0.26.0"],
    ],
}


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a program: how long, and the most memory it held."""

    seconds: float
    peak_mb: float


def install(name: str) -> Path:
    """The environment of a peer, made on first use."""
    folder = _HERE / ".peers" / name
    done = folder / "installed.txt"
    wanted = repr(_PEERS[name])
    if not done.exists() or done.read_text() != wanted:
        venv.create(folder, with_pip=True, clear=True)
        for packages in _PEERS[name]:
            pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
            subprocess.run([*pip, *packages], check=True, stdout=sys.stderr)
        done.write_text(wanted)
    return folder / "bin"


WARM_SECONDS = 4.0


def alone() -> list[str]:
    """What a command is run under so that it reaches nothing but this machine."""
    words = ["unshare", "-rn"]
    tried = shutil.which("unshare") and subprocess.run([*words, "true"], capture_output=True).returncode == 0
    return words if tried else []


def timed(argv: list[str], env: dict[str, str]) -> Run:
    """Run a command to its end; its own children count, too."""
    began = time.perf_counter()
    process = subprocess.Popen([*alone(), *argv], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE)  # fmt: skip
    said = process.stderr.read() if process.stderr else b""
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{argv[0]} failed ({process.returncode}): {said.decode(errors='replace')[-800:]}")
    return Run(seconds, used.ru_maxrss / 1024)


def size(folder: Path) -> float:
    """What a folder takes, in MB."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


class Memory:
    """The most memory that all processes with one HOME held together, sampled while the block runs."""

    def __init__(self, home: Path) -> None:
        self.peak_mb = 0.0
        self._mark = b"HOME=" + os.fsencode(home) + b"\0"
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._sample)

    def __enter__(self) -> "Memory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _sample(self) -> None:
        page = resource.getpagesize()
        while not self._stopping.wait(0.05):
            held = 0
            for process in Path("/proc").glob("[0-9]*"):
                # A process may end while it is looked at; those of others cannot be read.
                with suppress(OSError, IndexError):
                    if self._mark in (process / "environ").read_bytes():
                        held += int((process / "statm").read_text().split()[1]) * page
            self.peak_mb = max(self.peak_mb, held / 1e6)


class Subject:
    """A program, its home with the corpus, and the command that captures the corpus."""

    def __init__(self, name: str, home: Path, corpus: Path) -> None:
        self.name, self.home = name, home
        self.data = home / "data"
        self.data.mkdir(parents=True)
        projects = home / ".claude" / "projects"
        projects.parent.mkdir()
        projects.symlink_to(corpus)
        path = f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"
        self.env = {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8"}
        if name == "clew":
            self.argv = [_CLEW, "capture"]
            self.env |= {"CLEW_HOME": str(self.data)}
        elif name == "agentsview":
            self.argv = [str(install(name) / "agentsview"), "sync"]
            self.env |= {"AGENTSVIEW_DATA_DIR": str(self.data), "AGENTSVIEW_TELEMETRY_ENABLED": "0",
                         "AGENTSVIEW_NO_DAEMON": "1", "CLAUDE_PROJECTS_DIR": str(corpus)}  # fmt: skip
        else:
            self.argv = [str(install(name) / "sfs"), "import", "--from", "claude-code"]
            self.env |= {"SFS_NO_TELEMETRY": "1"}
            self.data = home / ".sessionfs"
            self._pretend("claude", "codex", "gemini")

    def _pretend(self, *names: str) -> None:
        """Programs that do nothing, for one that looks whether they are installed."""
        (self.home / "bin").mkdir()
        for name in names:
            program = self.home / "bin" / name
            program.write_text("#!/bin/sh\nexit 0\n")
            program.chmod(0o755)

    def run(self) -> Run:
        return timed(self.argv, self.env)

    def warm(self) -> list[Run]:
        """Captures with nothing new. clew caches its report only when no file is younger than two seconds."""
        end = time.monotonic() + WARM_SECONDS
        runs = [self.run()]
        while time.monotonic() < end:
            runs.append(self.run())
        return runs

    def indexed(self) -> float:
        """How long the first search after a capture takes; the others index before they are done."""
        if self.name != "clew":
            return 0.0
        return timed([_CLEW, "search", "needle00000"], self.env).seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--no-peers", action="store_true", help="measure clew alone")
    parser.add_argument("--work", type=Path, default=_HERE / ".work", metavar="DIR")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    names = ["clew"] if options.no_peers else ["clew", *_PEERS]
    figures: dict[str, list[tuple[Run, Run, float, float]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory(dir=options.work) as scratch:
        corpus = Path(scratch) / "corpus"
        megabytes = make(corpus, options.sessions) / 1e6
        for round in range(options.rounds):
            for name in names:
                home = Path(scratch) / f"{name}{round}"
                subject = Subject(name, home, corpus)
                with Memory(home) as memory:
                    cold = subject.run()
                    indexed = subject.indexed()
                cold = Run(cold.seconds, max(cold.peak_mb, memory.peak_mb))
                warm = min(subject.warm(), key=lambda run: run.seconds)
                figures[name].append((cold, warm, size(subject.data), indexed))
                print(
                    f"{name}: cold {cold.seconds:.1f} s + {indexed:.1f} s, warm {warm.seconds:.2f} s", file=sys.stderr
                )
                shutil.rmtree(home)
    _print(figures, options.sessions, megabytes)
    return 0


def _print(figures: dict[str, list[tuple[Run, Run, float, float]]], sessions: int, megabytes: float) -> None:
    def median(name: str, what: int) -> float:
        values = [
            (cold.seconds, warm.seconds, cold.peak_mb, disk, cold.seconds + indexed)[what]
            for cold, warm, disk, indexed in figures[name]
        ]
        return statistics.median(values)

    table = Table(title=f"capturing {sessions} sessions, {sessions * 100} messages, {megabytes:.0f} MB")
    for column in ("program", "cold s", "warm s", "peak MB", "disk MB", "cold and searched s"):
        table.add_column(column, justify="left" if column == "program" else "right")
    for name in figures:
        table.add_row(name, *(f"{median(name, what):.2f}" for what in range(5)))
    console = Console(width=110)
    console.print(table)
    bars: list[tuple[str, float, str, bool | None]] = [
        ("peak memory of all processes under 150 MB", median("clew", 2), "MB", median("clew", 2) < 150),
        ("disk at most 1.2x the input", median("clew", 3) / megabytes, "x", median("clew", 3) <= 1.2 * megabytes),
        ("nothing new, at most 0.06 s", median("clew", 1), "s", median("clew", 1) <= 0.06),
    ]
    if "agentsview" in figures:
        faster, warm = median("agentsview", 0) / median("clew", 0), median("clew", 1) / median("agentsview", 1)
        searched = median("agentsview", 0) / median("clew", 4)
        bars += [
            ("cold, at least 8x faster than agentsview", faster, "x", faster >= 8),
            ("cold and searched, at least 8x faster than agentsview", searched, "x", searched >= 8),
            ("nothing new, at most half of agentsview's", warm, "x", warm <= 0.5),
            ("disk below agentsview's", median("clew", 3) / median("agentsview", 3), "x",
             median("clew", 3) < median("agentsview", 3)),
        ]  # fmt: skip
    if "sessionfs" in figures:
        faster = median("sessionfs", 0) / median("clew", 0)
        bars.append(("cold, at least 15x faster than SessionFS", faster, "x", faster >= 15))
    verdicts = Table()
    for column in ("bar", "measured", "met"):
        verdicts.add_column(column)
    for claim, value, unit, met in bars:
        verdicts.add_row(claim, f"{value:.2f} {unit}", {True: "yes", False: "NO", None: ""}[met])
    console.print(verdicts)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.exit(main())
