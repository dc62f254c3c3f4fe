"""The server that is attacked, in a process of its own: `python serving.py URL HOME FD [HOLE]`.

A hole is made in this process, before anything is served, by replacing one function of clew.
"""

import os
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

TESTS = Path(__file__).parents[1]


class Serving:
    """A server on a free port, whose process ends with the block."""

    def __init__(self, url: str, home: str, hole: str = "") -> None:
        self._words = (url, home, hole)

    def __enter__(self) -> Self:
        with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:
            self.port = int(listener.getsockname()[1])
            url, home, hole = self._words
            command = [sys.executable, "-m", "attack.serving", url, home, str(listener.fileno()), hole]
            path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
            self._process = subprocess.Popen(
                command, pass_fds=[listener.fileno()], env={**os.environ, "PYTHONPATH": path}
            )
        return self

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(60)


def serve(url: str, home: str, fd: int, hole: str) -> None:
    from attack.holes import HOLES
    from clew.mcp.server import http_app
    from clew.server.http.application import Application
    from clew.server.http.json_log import JsonLog
    from clew.server.http.uvicorn_server import make_server
    from clew.server.http.uvicorn_server import serve as serve_alone
    from clew.server.options import Options
    from clew.service.access.authenticator import Authenticator
    from clew.service.kernel.registry import load
    from clew.store import open_store

    load()
    if hole:
        HOLES[hole]()
    # Limits on how much somebody may ask have tests of their own; here they would only hide answers.
    options = Options(
        hosts=("127.0.0.1", "localhost"), rate=1e9, burst=1e9, body_seconds=0.5, heartbeat_seconds=0.1,
        recheck_seconds=0.2,
    )  # fmt: skip
    with open(os.devnull, "w") as log:
        application = Application(
            Authenticator(open_store(url), home=home), options, log=JsonLog(log),
            mcp=lambda contexts: http_app(contexts, hosts=options.hosts),
        )  # fmt: skip
        serve_alone(make_server(application), socket.socket(fileno=fd))


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
