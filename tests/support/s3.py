"""A real S3-compatible server, in a process of its own on a free port of 127.0.0.1."""

import subprocess
import sys
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import TracebackType
from typing import Self

from support.postgres import free_port

# Runs the server until it is told to stop, or until the test process is gone, however it ended.
GUARD = '"$@" & read _; kill $!'
PATIENCE_SECONDS = 60


class S3:
    """The server, started by `with`. It forgets everything when it stops."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._buckets = 0
        self._process: subprocess.Popen[bytes] | None = None

    def environment(self) -> dict[str, str]:
        """What a program needs to use it."""
        return {
            "AWS_ENDPOINT_URL": self.url, "AWS_ACCESS_KEY_ID": "ada", "AWS_SECRET_ACCESS_KEY": "hunter2hunter2",
            "AWS_REGION": "us-east-1",
        }  # fmt: skip

    def new_bucket(self, name: str = "") -> str:
        """The URL of a new bucket."""
        self._buckets += 1
        name = name or f"bucket-{self._buckets}"
        assert self._status("PUT", f"/{name}") == 200
        return f"s3://{name}/clew"

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        program = [str(Path(sys.executable).with_name("moto_server")), "--host", "127.0.0.1", "--port", str(self.port)]
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", GUARD, "guard", *program], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        end = time.monotonic() + PATIENCE_SECONDS
        while not self._answers():
            if time.monotonic() > end or self._process.poll() is not None:
                raise AssertionError("the S3 server did not start")
            time.sleep(0.05)  # Nothing tells when it listens; asking is the only way to know.

    def stop(self) -> None:
        if self._process is not None:
            self._process.communicate(b"\n")
            self._process = None
            while self._answers():
                time.sleep(0.05)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _answers(self) -> bool:
        try:
            return bool(self._status("GET", "/"))
        except (OSError, HTTPException):
            return False

    def _status(self, method: str, path: str) -> int:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path)
            return connection.getresponse().status
        finally:
            connection.close()
