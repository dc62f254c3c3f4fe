"""The benchmark's side of peers.py: makes the peers' environment, starts the one process and talks with it."""

import json
import subprocess
import sys
import venv
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

Operation = Literal["append", "load"]

_HERE = Path(__file__).parent
_ENVIRONMENT = _HERE / ".peers"
_PINS = _HERE / "peers.txt"


class PeerFailed(Exception):
    """A peer could not be installed, or could not do what it was asked to."""


def install() -> Path:
    """Make the environment if the pins changed since it was made, and return its Python."""
    python = _ENVIRONMENT / "bin" / "python"
    installed = _ENVIRONMENT / "installed.txt"
    pins = f"{sys.version}\n{_PINS.read_text()}"
    if installed.exists() and installed.read_text() == pins:
        return python
    venv.create(_ENVIRONMENT, with_pip=True, clear=True)
    pip = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--requirement", str(_PINS)]
    if subprocess.run(pip, stdout=sys.stderr).returncode != 0:
        raise PeerFailed("the peers could not be installed; run with --no-peers to measure without them")
    installed.write_text(pins)
    return python


class PeerProcess:
    """The running peers. A request waits for its answer, so that only one thing is measured at a time."""

    def __init__(self, python: Path) -> None:
        self._process = subprocess.Popen(
            [python, _HERE / "peers.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def setup(self, peer: str, *, where: str, depth: int) -> None:
        """Prepare a peer with sessions of `depth` messages."""
        self._ask(peer=peer, op="setup", where=where, depth=depth)

    def timed(self, peer: str, op: Operation, depth: int) -> float:
        """Append one message, or load all; return the seconds it took in the peer."""
        answer = self._ask(peer=peer, op=op)
        if op == "load" and answer["result"] != depth:
            raise PeerFailed(f"{peer} loaded {answer['result']} messages instead of {depth}")
        return float(answer["seconds"])

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        answer = json.loads(line) if line else {"error": "the peer process has ended"}
        if "error" in answer:
            raise PeerFailed(f"{request['peer']} could not {request['op']}: {answer['error']}")
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
