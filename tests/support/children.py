"""Scripts in processes of their own, which a test can talk to, stop and kill.

Whatever happens in the test, a child does not outlive its `with` block.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import clew

TESTS = Path(__file__).resolve().parents[1]
SCRIPTS = TESTS / "crash"
# Far beyond what anything here takes, so that a hanging child ends the test and not the day.
PATIENCE_SECONDS = 60.0


class Child:
    """A script of tests/crash. It hears lines on its standard input and answers with lines that start with a word."""

    def __init__(self, script: str, *arguments: object, under: Sequence[str] = ()) -> None:
        """Start the script, with `under` (strace and the like) before it on the command line."""
        self.lines: list[str] = []
        self._heard = 0
        self._ended = False
        self._news = threading.Condition()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the child
        self._process = subprocess.Popen(
            [*under, sys.executable, SCRIPTS / script, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment(),
            start_new_session=True,  # A group of its own, so that strace and what it runs are killed together.
        )
        # Always listening, so that no child ever waits for us to read.
        self._ear = threading.Thread(target=self._listen, daemon=True)
        self._ear.start()

    def tell(self, *words: object) -> None:
        """Send a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(map(str, words)).encode() + b"\n")
        self._process.stdin.flush()

    def hear(self, word: str) -> list[str]:
        """The rest of the next line that starts with this word, as words; waits for it."""
        end = time.monotonic() + PATIENCE_SECONDS
        with self._news:
            while True:
                while self._heard < len(self.lines):
                    first, *rest = self.lines[self._heard].split()
                    self._heard += 1
                    if first == word:
                        return rest
                if self._ended or not self._news.wait(end - time.monotonic()):
                    break
        raise AssertionError(f"the child did not say {word!r}; it said {self.lines[-5:]} and {self.errors()!r}")

    def heard(self, word: str) -> list[list[str]]:
        """The rest of every line so far that starts with this word."""
        with self._news:
            return [rest for first, *rest in map(str.split, self.lines) if first == word]

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the child and to whatever runs it."""
        os.killpg(self._process.pid, number)

    def stop(self) -> None:
        """Stop the child where it is, and wait until it stands still."""
        self.signal(signal.SIGSTOP)
        found = os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        assert found is not None
        assert found.si_code == os.CLD_STOPPED, f"the child has ended: {self.errors()}"

    def kill(self) -> None:
        """Kill the child with SIGKILL; afterwards `lines` is all it ever said."""
        if self._process.returncode is None:
            self.signal(signal.SIGKILL)
            self._process.wait()
        self._ear.join()

    def finish(self) -> None:
        """Let the child come to its end, which has to be a good one."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        code = self._process.wait(PATIENCE_SECONDS)
        self._ear.join()
        assert code == 0, f"the child ended with {code}: {self.errors()}"

    def errors(self) -> str:
        """What the child wrote to its standard error."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")[-4000:]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            try:
                if stream is not None:
                    stream.close()
            except BrokenPipeError:
                pass  # A line that the child did not live to hear.

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._news:
                self.lines.append(line.decode().rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()


def environment() -> dict[str, str]:
    """The environment in which a child finds the same clew as we do, and `support`."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(clew.__file__).parents[1]), str(TESTS)])}
