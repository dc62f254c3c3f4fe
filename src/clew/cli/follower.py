"""A second process that updates the views during a capture, so that the capture does not wait for them."""

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# A smaller capture updates the views itself.
WORTH_BYTES = 8 * 1024 * 1024
STEP = 4000
PAUSE_SECONDS = 0.1


def is_worth_it(bytes_to_come: int) -> bool:
    return bytes_to_come >= WORTH_BYTES


@contextmanager
def following(plane: Any) -> Iterator[None]:
    """Update the views in another process while the block runs; that process finishes on its own."""
    # On a single processor the update would only slow the capture down; it starts after the block.
    at_once = len(os.sched_getaffinity(0)) > 1 if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1) > 1
    end = _start(plane) if at_once else -1
    try:
        yield
    finally:
        # The process finishes when its standard input ends. The next reader of a view takes in the rest.
        os.close(end if at_once else _start(plane))


def _start(plane: Any) -> int:
    """Start the process; it runs until the caller closes the pipe that this returns."""
    import subprocess  # Imported late, because few commands start a process.

    settings = plane.settings
    # The environment carries the store: every account on the machine can read the arguments of a process.
    variables = {"CLEW_HOME": str(settings.home), "CLEW_STORE": settings.store, "CLEW_PRINCIPAL": settings.principal}
    reading, writing = os.pipe()
    follower = subprocess.Popen(
        [sys.executable, "-m", "clew", "follow"], env={**os.environ, **variables}, stdin=reading,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    follower.returncode = 0  # No code waits for the process; without this, Popen warns that it still runs.
    os.close(reading)
    return writing


def follow(plane: Any) -> None:
    """Update the views until standard input has ended and no event is left."""
    ended = False
    while True:
        step = plane.call("views_step", limit=STEP)
        if ended and not step.left:
            return
        ended = ended or bool(select.select([sys.stdin], [], [], 0 if step.done else PAUSE_SECONDS)[0])
