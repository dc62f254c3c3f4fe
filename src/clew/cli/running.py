"""The `clew up` that runs on this machine: find it, start one in the background, stop it.

`clew up` keeps a lock on a file in the home while it runs, and writes there how it can be reached. The lock ends with
the process, however that ends, so a file without a lock is ignored.
"""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from clew import app
from clew.model.errors import Unavailable

NAME, LOG = "up.json", "up.log"
START_SECONDS = 60.0
STOP_SECONDS = 45.0
POLL_SECONDS = 0.05
TRIES = 20
LONGEST_SHOWN = 600


class RunningServer(msgspec.Struct, frozen=True):
    """A `clew up`: its process, its address, and the link that opens it in a browser."""

    pid: int
    url: str
    link: str


def running_server(home: Path) -> RunningServer | None:
    """The `clew up` of this home, if there is one and it listens."""
    try:
        with open(home / NAME, "rb") as file:
            if not _is_locked(file.fileno()):
                return None
            return msgspec.json.decode(file.read(), type=RunningServer)
    except (OSError, msgspec.DecodeError):
        return None


@contextmanager
def announced(home: Path, url: str, link: str) -> Iterator[None]:
    """Say that this process is the `clew up` of the home while the block runs."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(os.open(home / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b") as file:
        _lock(file.fileno())
        file.write(msgspec.json.encode(RunningServer(os.getpid(), url, link)))
        file.truncate()
        file.flush()
        try:
            yield
        finally:
            os.ftruncate(file.fileno(), 0)


def start(settings: app.Settings, *options: str) -> RunningServer:
    """Start `clew up` in a process of its own that stays, and return when it listens."""
    # The environment carries the store: every account on the machine can read the arguments of a process.
    variables = {"CLEW_HOME": str(settings.home), "CLEW_STORE": settings.store, "CLEW_PRINCIPAL": settings.principal}
    settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = settings.home / LOG
    with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "clew", "up", "--no-browser", *options], env={**os.environ, **variables},
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, cwd="/",
        )  # fmt: skip
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        server = running_server(settings.home)
        if server is not None:
            process.returncode = 0  # Nobody waits for the process; without this, Popen warns that it still runs.
            return server
        if process.poll() is not None:
            break
        time.sleep(POLL_SECONDS)
    output_text = log.read_text(errors="replace").strip()[-LONGEST_SHOWN:].removeprefix("error: ")
    if process.poll() is None:
        process.terminate()
    raise Unavailable(output_text or f"`clew up` did not start; {log} may say why")


def stop(home: Path) -> RunningServer | None:
    """Stop the `clew up` of this home; None if none runs. Returns when it has ended."""
    server = running_server(home)
    if server is None:
        return None
    os.kill(server.pid, signal.SIGTERM)
    end = time.monotonic() + STOP_SECONDS
    while running_server(home) is not None:
        if time.monotonic() > end:
            raise Unavailable(f"process {server.pid} does not end; stop it with: kill -9 {server.pid}")
        time.sleep(POLL_SECONDS)
    return server


def _lock(descriptor: int) -> None:
    # A process that checks for the lock holds it for a moment.
    for _ in range(TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError:
            time.sleep(POLL_SECONDS)
    raise Unavailable("another `clew up` has just started for the same home; `clew down` stops it")


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False
