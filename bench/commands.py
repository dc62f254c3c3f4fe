"""Commands that run in the trees, started by a small process of its own.

A child's peak memory begins with that of the process that starts it, so that one has to be small. It also adopts what a
command leaves running: the next command starts when that has ended, whichever tree it belongs to.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from trees import Tree

_PR_SET_CHILD_SUBREAPER = 36


class CommandFailed(Exception):
    """A command ended with a status other than 0."""


class Run(NamedTuple):
    """One command: how long it took, the most memory it held, and when the last process that it left behind ended."""

    seconds: float
    peak_bytes: float
    settled_seconds: float


class Commands:
    """The process that starts the commands. They run one after the other."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-E", __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, tree: "Tree", argv: Sequence[str], *, stdin: str = "", **environment: str) -> Run:
        """Run `python ARGV` in a tree."""
        assert self._process.stdin and self._process.stdout
        request = {
            "argv": [sys.executable, *argv], "env": tree.environment(**environment), "cwd": str(tree.folder),
            "stdin": stdin,
        }  # fmt: skip
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if answer["status"]:
            raise CommandFailed(f"{' '.join(argv)} in {tree.name} failed: {answer['errors'][-2000:]}")
        return Run(answer["seconds"], answer["peak_bytes"], answer["settled_seconds"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


# The process itself ---------------------------------------------------------------------------------------------------


def serve() -> None:
    """Run the commands that come on standard input."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for line in sys.stdin:
        request = json.loads(line)
        with tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as given:
            given.write(request["stdin"].encode())
            given.seek(0)
            began = time.perf_counter()
            process = subprocess.Popen(
                request["argv"], env=request["env"], cwd=request["cwd"], stdin=given, stdout=subprocess.DEVNULL,
                stderr=errors,
            )  # fmt: skip
            _, status, used = os.wait4(process.pid, 0)
            taken = time.perf_counter() - began
            process.returncode = os.waitstatus_to_exitcode(status)
            _wait_for_orphans()
            settled = time.perf_counter() - began
            errors.seek(0)
            answer = {
                "status": process.returncode, "seconds": taken, "settled_seconds": settled,
                "peak_bytes": used.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
                "errors": errors.read().decode(errors="replace"),
            }  # fmt: skip
        print(json.dumps(answer), flush=True)


def _wait_for_orphans() -> None:
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


if __name__ == "__main__":
    serve()
