"""The worker beside a server: a process of its own, so that background work takes no time from requests."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clew import app

# A dead worker is restarted after a pause; the pause grows while workers die soon after their start.
PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 5.0, 320.0
SHORT_LIFE_SECONDS = 60.0
ENDING_SECONDS = 15.0


@contextmanager
def worker_beside(settings: "app.Settings", *options: str) -> Iterator[None]:
    """Run a worker while the block runs; one that dies is replaced."""
    # The environment carries the store: every account on the machine can read the arguments of a process.
    variables = {"CLEW_HOME": str(settings.home), "CLEW_STORE": settings.store, "CLEW_PRINCIPAL": settings.principal}
    # A worker ends when its standard input does, so it never outlives this process, however that ends.
    reading, writing = os.pipe()
    ending = threading.Event()
    running: list[subprocess.Popen[bytes]] = []

    def keep_running() -> None:
        pause = PAUSE_SECONDS
        while not ending.is_set():
            began = time.monotonic()
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "clew", "worker", "--beside", *options], env={**os.environ, **variables},
                stdin=reading, stdout=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            running[:] = [process]
            process.wait()
            if time.monotonic() - began > SHORT_LIFE_SECONDS:
                pause = PAUSE_SECONDS
            ending.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    keeper = threading.Thread(target=keep_running, name="clew-worker", daemon=True)
    keeper.start()
    try:
        yield
    finally:
        ending.set()
        os.close(writing)
        keeper.join(ENDING_SECONDS)
        with suppress(ProcessLookupError):
            for process in running if keeper.is_alive() else ():
                process.kill()
        os.close(reading)
