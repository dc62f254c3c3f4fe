"""What `compare.py` measures: a workload is prepared once for each tree, opened anew in each round, then run in steps.

A step runs in one tree and returns its figures by name: seconds for one operation, bytes, or a ratio. Less is better
for all of them.
"""

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Protocol

import psycopg
from commands import Commands, Run
from transcripts import session
from trees import Served, Tree, Worker, bytes_below, empty

Figures = dict[str, float]
Ask = Callable[[str], Figures]

HOOK_INPUT = {
    "transcript_path": "/home/me/app/s.jsonl",
    "cwd": "/home/me/app",
    "source": "startup",
    "session_id": "s-1",
    "tool_response": "x" * 10_000,
}
# A capture relies on what it remembered of a file once the file is older than this.
SETTLED_S = 2.5
COLD_LINES = 70


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How large the data is, and how often each thing is measured."""

    rounds: int
    more_rounds: int  # at the most, for what is unclear
    minutes: float  # after which nothing is measured again
    slices: int
    remote_slices: int  # for workloads on PostgreSQL
    long_slices: int  # for workloads of which one slice takes seconds
    depth: int
    window_s: float
    captured: int  # sessions of 100 messages
    searched: int
    facts: int
    worked: int  # events of the session that is exported, briefed and resumed
    served: int  # events of the session that is read over HTTP


FULL = Effort(
    rounds=5, more_rounds=5, minutes=17, slices=8, remote_slices=5, long_slices=2, window_s=0.2,
    depth=50_000, captured=120, searched=200, facts=400, worked=12_000, served=1_000,
)  # fmt: skip
QUICK = Effort(
    rounds=3, more_rounds=2, minutes=2.5, slices=4, remote_slices=3, long_slices=2, window_s=0.15,
    depth=10_000, captured=25, searched=50, facts=100, worked=2_000, served=500,
)  # fmt: skip


class Workload(Protocol):
    """Something to measure in every tree."""

    name: str
    steps: Mapping[str, str]
    """The steps, each with what it measures."""
    slices: int
    """How often the steps are run in a round."""
    warms_up: bool
    """Whether the first slice of each process does not count."""

    def prepare(self, tree: Tree) -> None: ...
    def open(self, tree: Tree) -> AbstractContextManager[Ask]: ...


def unit_of(figure: str) -> str:
    """What a figure is measured in."""
    if " : " in figure:
        return "x"
    return "bytes" if figure.endswith(("memory", "disk")) else "s"


def vacuum(store: str) -> None:
    """Do what PostgreSQL would do in the background, at a moment of its own: its plans depend on it."""
    if store.startswith("postgresql:"):
        with psycopg.connect(store, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")


class Log:
    """Appending and reading, with a process that keeps the store open."""

    steps: Mapping[str, str] = {
        "append": "append, one event",
        "batch": "append, batch of 100",
        "threads": "append, 8 threads",
        "read": "read a deep session",
        "tail": "tail, 1,000 events",
        "fork": "fork at depth",
    }
    warms_up = True

    def __init__(self, name: str, effort: Effort, database: Callable[[Tree], str], slices: int) -> None:
        self.name, self._effort, self._database = name, effort, database
        self.slices = slices
        self._made: dict[str, tuple[str, str]] = {}

    def prepare(self, tree: Tree) -> None:
        store = self._database(tree)
        with Worker(tree, "filling", store=store, home=str(tree.home)) as filling:
            self._made[tree.name] = store, str(filling.ask("deep", events=self._effort.depth)["session"])
        vacuum(store)

    @contextmanager
    def open(self, tree: Tree) -> Iterator[Ask]:
        store, deep = self._made[tree.name]
        options = {"session": deep, "events": self._effort.depth, "window": self._effort.window_s, "seed": tree.seed}
        with Worker(tree, "log", store=store, home=str(tree.home), **options) as worker:
            yield worker.ask


class Find:
    """Search, lists, usage and recall, over captured sessions."""

    steps: Mapping[str, str] = {
        "rare": "search, a rare word",
        "common": "search, two common words",
        "list": "sessions, 50 of them",
        "usage": "usage by day",
        "recall": "recall of 20 facts from 20 sessions",
    }
    warms_up = True

    def __init__(
        self, name: str, effort: Effort, commands: Commands, database: Callable[[Tree], str], slices: int
    ) -> None:
        self.name, self._effort, self._commands, self._database = name, effort, commands, database
        self.slices = slices
        self._stores: dict[str, str] = {}

    def prepare(self, tree: Tree) -> None:
        store = self._stores[tree.name] = self._database(tree)
        Corpus(self._effort.searched).write(tree.folder)
        self._commands.run(tree, ["-m", "clew", "capture"], CLEW_STORE=store)
        with Worker(tree, "filling", store=store, home=str(tree.home)) as filling:
            filling.ask("facts", events=self._effort.facts)
        vacuum(store)

    @contextmanager
    def open(self, tree: Tree) -> Iterator[Ask]:
        options = {"sessions": self._effort.searched, "seed": tree.seed}
        with Worker(tree, "find", store=self._stores[tree.name], home=str(tree.home), **options) as worker:
            yield worker.ask


class Start:
    """What a process costs that does one small thing."""

    name = "start"
    steps: Mapping[str, str] = {
        "version": "clew --version",
        "capture": "clew capture, nothing new",
        "hook": "clew.hook, a note",
        "first": "open the store, first list",
    }
    warms_up = True

    def __init__(self, effort: Effort, commands: Commands) -> None:
        self._effort, self._commands = effort, commands
        self.slices = effort.slices

    def prepare(self, tree: Tree) -> None:
        (tree.home / "spool").mkdir(parents=True)
        Corpus(self._effort.captured).write(tree.folder)
        # A store of its own for the list: opening a store may touch its files, and a capture would compare them again.
        self._commands.run(tree, ["-m", "clew", "capture"], CLEW_HOME=str(tree.folder / "listed"))
        for pause in (0.0, SETTLED_S, 0.0):
            time.sleep(pause)
            self._commands.run(tree, ["-m", "clew", "capture"])

    @contextmanager
    def open(self, tree: Tree) -> Iterator[Ask]:
        with (tree.home / "spool/lock").open("w") as lock:
            # As a running capture would: what is measured is what the agent waits for, not a capture beside it.
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield partial(self._step, tree)

    def _step(self, tree: Tree, step: str) -> Figures:
        if step == "first":
            home = tree.folder / "listed"
            return {self.steps[step]: min(self._first(tree, home) for _ in range(2))}
        argv = {
            "version": ["-m", "clew", "--version"],
            "capture": ["-m", "clew", "capture"],
            "hook": ["-m", "clew.hook", "Stop", "claude-code"],
        }[step]
        given = json.dumps(HOOK_INPUT) if step == "hook" else ""
        return {self.steps[step]: min(self._commands.run(tree, argv, stdin=given).seconds for _ in range(3))}

    def _first(self, tree: Tree, home: Path) -> float:
        with Worker(tree, "first", store=f"sqlite:///{home / 'clew.db'}", home=str(home)) as worker:
            return float(worker.ask("first")["seconds"])


class Capture:
    """The capture of a corpus into a new store, then of what a third of its sessions has grown by."""

    name = "capture"
    steps: Mapping[str, str] = {"capture": "cold, grown"}
    warms_up = False

    def __init__(self, effort: Effort, commands: Commands) -> None:
        self._commands = commands
        self._corpus = Corpus(effort.captured)
        self.slices = effort.long_slices

    def prepare(self, tree: Tree) -> None:
        self._capture(tree)  # Compiles what a capture imports.

    @contextmanager
    def open(self, tree: Tree) -> Iterator[Ask]:
        yield lambda _: self._capture(tree)

    def _capture(self, tree: Tree) -> Figures:
        empty(tree.folder)
        self._corpus.write(tree.folder, cold=True)
        os.sync()
        cold = self._commands.run(tree, ["-m", "clew", "capture"])
        self._corpus.grow(tree.folder)
        grown = self._commands.run(tree, ["-m", "clew", "capture"])
        return {
            "cold": cold.seconds,
            "cold, until views follow": cold.settled_seconds,
            "cold, peak memory": cold.peak_bytes,
            "grown": grown.seconds,
            "disk": bytes_below(tree.home),
        }


class HandOver:
    """Commands that read a whole session."""

    name = "hand over"
    steps: Mapping[str, str] = {
        "jsonl": "export as JSON lines",
        "markdown": "export as Markdown",
        "brief": "brief",
        "resume": "resume in Claude Code",
    }
    warms_up = False

    def __init__(self, effort: Effort, commands: Commands) -> None:
        self._effort, self._commands = effort, commands
        self.slices = effort.long_slices
        self._made: dict[str, str] = {}

    def prepare(self, tree: Tree) -> None:
        with Worker(tree, "filling", store=tree.store, home=str(tree.home)) as filling:
            self._made[tree.name] = str(filling.ask("work", events=self._effort.worked)["session"])
        for step in self.steps:
            self._step(tree, step)  # Compiles what the command imports.

    @contextmanager
    def open(self, tree: Tree) -> Iterator[Ask]:
        yield partial(self._step, tree)

    def _step(self, tree: Tree, step: str) -> Figures:
        id, out = self._made[tree.name], empty(tree.folder / "out")
        argv = {
            "jsonl": ["export", id, "--as", "jsonl", "--out", str(out / "session.jsonl")],
            "markdown": ["export", id, "--as", "markdown", "--out", str(out / "session.md")],
            "brief": ["brief", id],
            "resume": ["resume", id, "--in", "claude-code", "--print", "--cwd", str(out)],
        }[step]
        run: Run = self._commands.run(tree, ["-m", "clew", *argv])
        return {self.steps[step]: run.seconds, f"{self.steps[step]}, peak memory": run.peak_bytes}


class Http:
    """A server and its clients. Our own client is that of the tree; the bare ones are the same for all."""

    name = "http"
    steps: Mapping[str, str] = {
        "append": "append, 1 caller",
        "callers": "append, 8 callers",
        "read": "read a session",
    }
    warms_up = True

    def __init__(self, effort: Effort) -> None:
        self._effort = effort
        self.slices = effort.slices

    def prepare(self, tree: Tree) -> None:
        pass

    @contextmanager
    def open(self, tree: Tree) -> Iterator[Ask]:
        empty(tree.folder)
        options = {"window": self._effort.window_s, "events": self._effort.served, "seed": tree.seed}
        with Served(tree) as server:
            options |= {"url": server.url, "key": server.key}
            with Worker(tree, "http", home=str(tree.home), **options) as worker:
                yield worker.ask


class Corpus:
    """Made-up Claude Code sessions in a home; the same ones every time."""

    def __init__(self, sessions: int) -> None:
        random = Random(7)
        self._sessions = [session(random, number) for number in range(sessions)]

    def write(self, home: Path, *, cold: bool = False) -> None:
        """Write all of them; when `cold`, only the beginning of those that are to grow."""
        for number, (path, lines) in enumerate(self._files(home)):
            path.parent.mkdir(parents=True, exist_ok=True)
            kept = lines.splitlines(keepends=True)[:COLD_LINES] if cold and number % 3 == 0 else [lines]
            path.write_text("".join(kept))

    def grow(self, home: Path) -> None:
        """Append the rest to every third session."""
        for path, lines in list(self._files(home))[::3]:
            with path.open("a") as file:
                file.writelines(lines.splitlines(keepends=True)[COLD_LINES:])

    def _files(self, home: Path) -> Iterator[tuple[Path, str]]:
        for number, (id, lines) in enumerate(self._sessions):
            yield home / ".claude" / "projects" / f"-home-me-app{number % 20}" / f"{id}.jsonl", lines
