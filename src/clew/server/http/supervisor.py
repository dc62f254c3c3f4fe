"""Server processes on one socket: one that dies is replaced, and all end together.

The socket belongs to the supervisor, so connections that come while a process starts again wait in its queue. What a
dead process had acknowledged is in the store; a request that it had not answered is for its client to repeat.

uvicorn's own manager (`uvicorn.supervisors.Multiprocess`, read at 0.54) does not serve here: it makes `uvicorn.Server`
by name, so it cannot take ours, which has the time limits and ends the streams; its `join_all` waits for a hung process
without limit; its health check kills a process that is too busy to answer, and signals wait until it is over; it does
not pause before it restarts a process that died at once; and it has no hook for a death, which shared counts need.
"""

import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from clew.model.errors import InvalidInput

MOST_PROCESSES = 64
# How long running requests may take when a server is asked to end.
GRACE_SECONDS = 30
POLL_SECONDS = 0.2
# A process that dies sooner than this after its start is started again with a pause.
SHORT_LIFE_SECONDS = 5.0
PAUSE_SECONDS = 1.0
# How much longer than its requests a process may take to end.
CLOSING_SECONDS = 10.0
# The variable in which prometheus_client looks for the folder of the shared counts.
FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
# The variable that names the file in which the processes of a server count what each principal uses.
BUDGETS_VARIABLE = "CLEW_BUDGETS_FILE"
# In memory: a full disk would kill a process that writes to a file it has mapped.
MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108


class _Worker:
    """One of the processes, by its number."""

    def __init__(self, number: int, process: subprocess.Popen[bytes]) -> None:
        self.number = number
        self.process = process
        self.started = time.monotonic()


class Supervisor:
    """Runs a command once or several times on one socket."""

    def __init__(
        self, command: Sequence[str], listener: socket.socket, count: int, report: Callable[[str], None]
    ) -> None:
        """`command` gets `--fd` and the number of the socket; each of several gets `--worker` and its own number."""
        if count > MOST_PROCESSES:
            raise InvalidInput(f"{count} processes are more than {MOST_PROCESSES}; a few per processor are enough")
        self._command = command
        self._listener = listener
        self._count = count
        self._report = report
        self._ending = threading.Event()
        self._budgets = ""
        # The processes read from this pipe: it ends when the supervisor does, even if that is killed.
        self._reading, self._writing = os.pipe()

    def run(self) -> None:
        """Run until asked to end."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._ending.set())
        memory = MEMORY_FOLDER if os.access(MEMORY_FOLDER, os.W_OK) else None
        # Only this account can read a temporary folder.
        with tempfile.TemporaryDirectory(prefix="clew-metrics-", dir=memory) as folder:
            with tempfile.NamedTemporaryFile(prefix="clew-budgets-", dir=memory, delete=False) as file:
                self._budgets = file.name
            workers = [self._start(number, folder) for number in range(self._count)]
            while not self._ending.wait(POLL_SECONDS):
                workers = [self._alive(worker, folder) for worker in workers]
            self._end(workers)
            os.unlink(self._budgets)

    def _start(self, number: int, folder: str) -> _Worker:
        socket_number = self._listener.fileno()
        command = [*self._command, "--fd", str(socket_number)]
        environment = dict(os.environ)
        if self._count > 1:
            command += ["--worker", str(number)]
            environment |= {FOLDER_VARIABLE: folder, BUDGETS_VARIABLE: self._budgets}
        # In a session of its own: Ctrl-C is for this process, which then ends the others in good order.
        process = subprocess.Popen(
            command, env=environment, stdin=self._reading, pass_fds=[socket_number], start_new_session=True
        )
        return _Worker(number, process)

    def _alive(self, worker: _Worker, folder: str) -> _Worker:
        """The worker itself, or the one that replaces it."""
        if worker.process.poll() is None:
            return worker
        if self._count > 1:
            from clew.server.http.metrics import forget_worker

            forget_worker(worker.number, folder)
        self._report(f"process {worker.process.pid} ended with {worker.process.returncode}; another takes its place")
        if time.monotonic() - worker.started < SHORT_LIFE_SECONDS:
            self._ending.wait(PAUSE_SECONDS)
        return worker if self._ending.is_set() else self._start(worker.number, folder)

    def _end(self, workers: Sequence[_Worker]) -> None:
        self._listener.close()
        for worker in workers:
            if worker.process.poll() is None:
                worker.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + GRACE_SECONDS + CLOSING_SECONDS
        for worker in workers:
            try:
                worker.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()
        os.close(self._reading)
        os.close(self._writing)


def end_with_supervisor() -> None:
    """End this process in good order when the supervisor has gone without asking for that."""

    def wait() -> None:
        with suppress(OSError):
            while os.read(0, 1):
                continue
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="clew-supervised", daemon=True).start()
