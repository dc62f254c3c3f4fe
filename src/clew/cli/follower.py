"""A second process that takes what is being captured into the views, so that capturing need not wait for them."""

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# Less than this is taken in at once.
WORTH_BYTES = 8 * 1024 * 1024
STEP = 4000
PAUSE_SECONDS = 0.1


def is_worth_it(bytes_to_come: int) -> bool:
    return bytes_to_come >= WORTH_BYTES


@contextmanager
def following(plane: Any) -> Iterator[None]:
    """Have the views follow while the block runs, and finish after it on their own."""
    # Two processors are often one that pretends to be two: there the views come after.
    at_once = (os.cpu_count() or 1) > 2
    end = _start(plane) if at_once else -1
    try:
        yield
    finally:
        # When its standard input ends, it finishes; what it might leave is taken in by whoever reads next.
        os.close(end if at_once else _start(plane))


def _start(plane: Any) -> int:
    """Start a follower; returns the pipe that keeps it going."""
    import subprocess  # Here, because most runs have nothing to follow.

    chosen = plane.settings
    # By the environment and not as arguments, which everybody on the machine can read.
    settings = {"CLEW_HOME": str(chosen.home), "CLEW_STORE": chosen.store, "CLEW_PRINCIPAL": chosen.principal}
    reading, writing = os.pipe()
    follower = subprocess.Popen(
        [sys.executable, "-m", "clew", "follow"], env={**os.environ, **settings}, stdin=reading,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    follower.returncode = 0  # It is nobody's to wait for.
    os.close(reading)
    return writing


def follow(plane: Any) -> None:
    """Take in what comes, until standard input has ended and nothing is left; capturing goes first."""
    os.nice(10)
    ended = False
    while True:
        step = plane.call("views_step", limit=STEP)
        if ended and not step.left:
            return
        ended = ended or bool(select.select([sys.stdin], [], [], 0 if step.done else PAUSE_SECONDS)[0])
