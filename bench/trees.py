"""The trees that are compared, and the processes that run in them.

One environment serves all of them; PYTHONPATH says whose code runs.
"""

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

_HERE = Path(__file__).resolve().parent
ANSWER_S = 600.0
START_S = 60.0


class WorkerFailed(Exception):
    """A process inside a tree ended, or gave an unexpected answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """One of the compared trees, and the folder that is its own for now."""

    name: str
    source: Path
    folder: Path
    pycache: Path
    seed: int = 0

    @property
    def home(self) -> Path:
        return self.folder / "clew"

    @property
    def store(self) -> str:
        return f"sqlite:///{self.home / 'clew.db'}"

    def environment(self, **more: str) -> dict[str, str]:
        """The environment of its processes: nothing of the caller's but the way to programs."""
        return {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(self.folder),
            "CLEW_HOME": str(self.home),
            "PYTHONPATH": str(self.source),
            # Outside the trees: a measurement writes to none of them.
            "PYTHONPYCACHEPREFIX": str(self.pycache),
            # The same order in every set for all trees, and another one in each round.
            "PYTHONHASHSEED": str(self.seed),
            **more,
        }


class Worker:
    """A fresh process of `inside.py` in a tree. A request waits for its answer."""

    def __init__(self, tree: Tree, name: str, **options: Any) -> None:
        self._what = f"{name} in {tree.name}"
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # Closed with the worker.
        self._process = subprocess.Popen(
            [sys.executable, str(_HERE / "inside.py"), name, json.dumps(options)],
            env=tree.environment(), cwd=tree.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self._errors, text=True,
        )  # fmt: skip
        try:
            imported = Path(self._answer()["clew"])
            if not imported.is_relative_to(tree.source):
                raise WorkerFailed(f"{self._what} imported {imported} instead of {tree.source}")
        except BaseException:
            self.close()
            raise

    def ask(self, step: str, **arguments: Any) -> dict[str, Any]:
        """Run one step; returns its figures."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"step": step, **arguments}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout
        ready = select.select([self._process.stdout], [], [], ANSWER_S)[0]
        line = self._process.stdout.readline() if ready else ""
        if not line:
            self._errors.seek(0)
            raise WorkerFailed(f"{self._what} failed: {self._errors.read().decode(errors='replace')[-2000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._errors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Served:
    """`clew up` of a tree, on a free port."""

    def __init__(self, tree: Tree) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self._key_file = tree.home / "up.key"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "clew", "up", "--no-browser", "--no-capture", "--port", str(port)],
            env=tree.environment(), cwd=tree.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            self._wait(tree)
        except BaseException:
            self.close()
            raise

    @property
    def key(self) -> str:
        """What the server asks its person for; a tree from before there was such a secret asks for nothing."""
        return self._key_file.read_text().strip() if self._key_file.exists() else ""

    def _wait(self, tree: Tree) -> None:
        end = time.monotonic() + START_S
        while True:
            try:
                with urllib.request.urlopen(f"{self.url}/healthz", timeout=5):  # noqa: S310  # Our own address.
                    return
            except OSError as error:
                if self._process.poll() is not None or time.monotonic() > end:
                    raise WorkerFailed(f"`clew up` in {tree.name} did not start: {error}") from None
                time.sleep(0.05)

    def close(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def bytes_below(folder: Path) -> int:
    """What the files below a folder hold."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def empty(folder: Path) -> Path:
    """Make a folder, or empty the one that is there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
