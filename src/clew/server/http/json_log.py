"""The server's own log: JSON lines on standard error, without bodies, queries, tokens or the texts of exceptions."""

import logging
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any, TextIO

import msgspec

from clew.model.errors import ClewError
from clew.server.http.exchange import Exchange

_encode = msgspec.json.Encoder(enc_hook=str).encode
BUFFER_SECONDS = 0.2


class JsonLog:
    """Writes the log. Lines of requests wait in a buffer for a moment, because each write is a system call."""

    def __init__(self, to: TextIO | None = None, *, requests: bool = True) -> None:
        self._to = to or sys.stderr
        self._requests = requests
        self._lock = threading.Lock()
        self._buffered: list[bytes] = []
        self._written = 0.0

    def write_request(self, exchange: Exchange) -> None:
        if not self._requests:
            return
        self._buffered.append(_encode(exchange.line()))
        if exchange.status >= 500 or time.monotonic() - self._written > BUFFER_SECONDS:
            self.flush()

    def write(self, event: str, *, level: str = "info", **fields: Any) -> None:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self._buffered.append(_encode({"at": at, "level": level, "event": event, **fields}))
        self.flush()

    def write_failure(self, request: str, error: Exception) -> None:
        """Write an error that the response does not describe: the text of our own errors, the stack of all others."""
        if isinstance(error, ClewError):
            self.write("failure", level="error", request=request, code=error.code, message=str(error))
            return
        steps = [
            f"{Path(step.filename).name}:{step.lineno} {step.name}"
            for step in traceback.extract_tb(error.__traceback__)
        ]
        self.write("failure", level="error", request=request, error=type(error).__name__, steps=steps[-12:])

    def flush(self) -> None:
        with self._lock:
            lines, self._buffered = self._buffered, []
            self._written = time.monotonic()
            if lines:
                self._to.write(b"\n".join([*lines, b""]).decode())
                self._to.flush()

    def capture_loggers(self, *names: str) -> None:
        """Write what these loggers of libraries log, from warnings on."""
        for name in names:
            logger = logging.getLogger(name)
            logger.handlers = [_LibraryLines(self)]
            logger.propagate = False
            logger.setLevel(logging.WARNING)


class _LibraryLines(logging.Handler):
    def __init__(self, log: JsonLog) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        # The template alone: its arguments may hold anything that a client sent.
        kind = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else ""
        self._log.write(
            "library", level=record.levelname.lower(), logger=record.name, message=str(record.msg)[:200], error=kind
        )
