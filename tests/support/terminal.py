"""A program on a terminal of its own, as a person sees it: `Terminal(...).expect("text")`, `.send(keys)`."""

import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from fcntl import ioctl
from types import TracebackType

UP, DOWN, ENTER, ESCAPE = "\x1b[A", "\x1b[B", "\r", "\x1b"
PATIENCE_SECONDS = 60.0
CODES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[=>]|\r")


class Terminal:
    """A running program; what it has printed is in `raw`, and in `seen` without the codes for colours and places."""

    def __init__(self, words: Sequence[str], env: Mapping[str, str], *, columns: int = 100, rows: int = 30) -> None:
        self._main, side = pty.openpty()
        ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._process = subprocess.Popen(
            words, stdin=side, stdout=side, stderr=side, env={"TERM": "xterm", **env}, start_new_session=True,
            preexec_fn=lambda: ioctl(0, termios.TIOCSCTTY, 0),  # one thread runs here
        )  # fmt: skip
        os.close(side)
        self.seen = ""
        self.raw = ""
        self._told = 0

    def send(self, keys: str) -> None:
        os.write(self._main, keys.encode())

    def expect(self, text: str) -> str:
        """Wait until this text is printed after what was expected before; returns all that came up to it."""
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            found = self.seen.find(text, self._told)
            if found >= 0:
                came = self.seen[self._told : found + len(text)]
                self._told = found + len(text)
                return came
            assert time.monotonic() < end, f"{text!r} did not come; since then: {self.seen[self._told :]}"
            if not self._read():
                raise AssertionError(f"the program ended without {text!r}: {self.seen[self._told :]}")

    def end(self) -> int:
        """Read until the program ends; returns its exit code."""
        while self._read():
            pass
        return self._process.wait(PATIENCE_SECONDS)

    def _read(self) -> bool:
        try:
            if not select.select([self._main], [], [], PATIENCE_SECONDS)[0]:
                return False
            data = os.read(self._main, 65536)
        except OSError:
            return False  # Linux answers so when the program has closed its side.
        self.raw += data.decode(errors="replace")
        self.seen += CODES.sub("", data.decode(errors="replace"))
        return bool(data)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        os.close(self._main)
