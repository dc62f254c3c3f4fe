"""Runs `clew` again and again, each time in a process of its own, and kills it where it is told to.

A line of standard input is one run: `{"arguments": [...]}`, with `"after_calls": N` to be killed by SIGKILL when the
N-th call of a database driver's `execute` has returned, or with `"after_seconds": S` to be killed from outside. The
answer is a line: `ended killed SECONDS` or `ended EXIT-CODE SECONDS`.

Each run is a fork of this process, which has loaded what it needs by running the command that it was started with: no
run has to wait for Python.
"""

import json
import os
import signal
import sys
import time
from types import FrameType
from typing import Any

from clew.cli import main


def run(arguments: list[str]) -> int:
    """Run `clew` with these arguments; what it prints goes to standard error."""
    os.dup2(2, 1)
    sys.argv = ["clew", *arguments]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0


def kill_after(calls: int) -> None:
    """Kill this process when so many calls of `execute` have returned, be it written in C or in Python."""
    left, depth = calls, 0

    def watch(frame: FrameType, event: str, value: Any) -> None:
        nonlocal left, depth
        name = value.__name__ if event.startswith("c_") else frame.f_code.co_name
        if name != "execute":
            return
        # One that calls another is one statement.
        depth += 1 if event.endswith("call") else -1
        if not depth:
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(watch)


def carry_out(order: dict[str, Any]) -> str:
    """Carry out one order; returns how the run ended."""
    began = time.monotonic()
    child = os.fork()
    if not child:
        code = 70
        try:
            if "after_calls" in order:
                kill_after(order["after_calls"])
            code = run(order["arguments"])
        finally:
            sys.setprofile(None)
            os._exit(code)
    if "after_seconds" in order:
        time.sleep(order["after_seconds"])
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    end = "killed" if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    return f"ended {end} {time.monotonic() - began:.4f}"


def warm_up(arguments: list[str]) -> None:
    """Load what a run needs, in this process."""
    standard_output = os.dup(1)
    code = run(arguments)
    os.dup2(standard_output, 1)
    if code:
        raise SystemExit(code)


warm_up(sys.argv[1:])
print("ready", flush=True)
for line in sys.stdin:
    print(carry_out(json.loads(line)), flush=True)
