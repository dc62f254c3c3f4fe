"""Tell the story of objects (object_story.py) on a store, and die at a step of it: `object_steps.py URL OBJECTS`.

Each line of standard input is a seed and a step. A process of its own is killed at that step, with SIGKILL; with the
step 0 it comes to the end and says how many steps there are. A step is a call to the system, to a database, or to S3.
"""

import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

from clew.store import open_store
from clew.store.log import erase  # noqa: F401  # Loaded once, for all that are killed.
from clew.store.objects import collection  # noqa: F401
from crash.object_story import tell

# Functions in C that change something, and those of Python through which everything goes to a database.
BUILTIN = {"write", "fsync", "replace", "unlink", "mkdir", "execute", "put", "delete", "get_range", "list"}
WRITTEN = {"run", "many", "append", "execute", "write", "remove"}


class Steps:
    """Counts the steps of this process, and kills it at one of them."""

    def __init__(self, at: int) -> None:
        self.count = 0
        self._at = at

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            is_step = argument.__name__ in BUILTIN
        else:
            is_step = event == "call" and frame.f_code.co_name in WRITTEN
        if is_step:
            self.count += 1
            if self.count == self._at:
                os.kill(os.getpid(), signal.SIGKILL)


def say(*words: object) -> None:
    text = (" ".join(map(str, words)) + "\n").encode()
    sys.setprofile(None)  # What is said is no step.
    os.write(1, text)
    sys.setprofile(STEPS)


STEPS: Steps | None = None


def live(url: str, objects_url: str, seed: str, at: int) -> None:
    global STEPS
    with open_store(url, objects=objects_url) as store:
        STEPS = Steps(at)
        threading.setprofile(STEPS)  # For the threads that write parts.
        sys.setprofile(STEPS)
        tell(store, seed, say)
        sys.setprofile(None)
    os.write(1, f"steps {STEPS.count}\n".encode())


def main(url: str, objects_url: str = "") -> None:
    os.write(1, b"ready\n")
    for line in sys.stdin:
        seed, at = line.split()
        child = os.fork()
        if child == 0:
            live(url, objects_url, seed, int(at))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        os.write(1, f"ended {seed} {code}\n".encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
