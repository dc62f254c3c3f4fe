"""The server of one person in a process of its own, on stores that are made once and kept below bench/.work."""

import hashlib
import http.client
import json
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

_HERE = Path(__file__).resolve().parent
SECRET = "the secret of the browser that measures"  # noqa: S105  # of a store that is made up
COOKIE = f"clew-{hashlib.sha256(SECRET.encode()).hexdigest()[:12]}"

Note = Callable[[str], None]


class Long(NamedTuple):
    """The sessions of the store with long sessions, by the number of their events."""

    sessions: dict[int, str]
    live: str


def large_store(work: Path, sessions: int, note: Note) -> Path:
    """A store with so many sessions of ten events; made on first use."""
    from large import fill

    def make(url: str) -> dict[str, Any]:
        from clew.store import open_store

        with open_store(url) as store:
            fill(store, sessions, progress=lambda done: note(f"written {done:,} of {sessions:,} sessions"))
        return {}

    folder, _ = _kept(work, f"web-large-{sessions}", make, note)
    return folder


def long_store(work: Path, events: tuple[int, ...], note: Note) -> tuple[Path, Long]:
    """A store with a session of each of these numbers of events, and a short one that grows; made on first use."""
    from transcript import filled

    def make(url: str) -> dict[str, Any]:
        from clew.store import open_store

        with open_store(url) as store:
            made = {}
            for count in events:
                note(f"writing a session of {count:,} events")
                made[str(count)] = filled(store, count)
            return {"sessions": made, "live": filled(store, 200)}

    folder, known = _kept(work, "web-long-" + "-".join(map(str, events)), make, note)
    return folder, Long({int(count): id for count, id in known["sessions"].items()}, known["live"])


def _kept(work: Path, name: str, make: Callable[[str], dict[str, Any]], note: Note) -> tuple[Path, dict[str, Any]]:
    """The folder of a store, and what is known about it. What was begun and not finished is made again."""
    import clew

    folder = work / name
    done = folder / "made.json"
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        known = make(f"sqlite:///{folder / 'clew.db'}")
        done.write_text(json.dumps(known))
    with clew.connect(f"sqlite:///{folder / 'clew.db'}") as plane:
        left = 1
        while left:
            left = plane.client.call("views_step", limit=20_000).left
            note(f"{left:,} events to index")
    return folder, json.loads(done.read_text())


class Served:
    """clew serving a store, as `clew up` does."""

    def __init__(self, folder: Path) -> None:
        made = socket.socket()
        made.bind(("127.0.0.1", 0))
        made.listen(1024)
        made.set_inheritable(True)
        self.address = f"http://127.0.0.1:{made.getsockname()[1]}"
        argv = [sys.executable, __file__, str(folder), str(made.fileno())]
        self._process = subprocess.Popen(argv, pass_fds=[made.fileno()])
        made.close()
        self._connection = http.client.HTTPConnection(urlsplit(self.address).netloc, timeout=600)
        self.get("/healthz")

    def get(self, path: str, **headers: str) -> bytes:
        return self._ask("GET", path, b"", headers)

    def append(self, session: str, text: str) -> float:
        """Append a message; returns the time, in seconds, when the answer was there."""
        body = json.dumps({"drafts": [{"kind": "message_added", "role": "user", "text": text}]}).encode()
        self._ask("POST", f"/v1/sessions/{session}/events", body, {"Content-Type": "application/json"})
        return time.time()

    def _ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> bytes:
        about = {"Cookie": f"{COOKIE}={SECRET}", "Origin": self.address, **headers}
        self._connection.request(method, path, body or None, about)
        answer = self._connection.getresponse()
        data = answer.read()
        if answer.status >= 300:
            sys.exit(f"{method} {path} was answered {answer.status}: {data[:300].decode(errors='replace')}")
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._process.send_signal(signal.SIGTERM)
        self._process.wait()


def _serve(folder: Path, fd: int) -> None:
    from clew.server.http.application import Application
    from clew.server.http.json_log import JsonLog
    from clew.server.http.uvicorn_server import make_server
    from clew.server.options import Options
    from clew.service.access.authenticator import Authenticator
    from clew.store import open_store

    authenticator = Authenticator(open_store(f"sqlite:///{folder / 'clew.db'}"), home=str(folder))
    with open(folder / "log", "w") as log:
        options = Options(own_secret=SECRET, rate=1_000_000, burst=1_000_000)
        application = Application(authenticator, options, log=JsonLog(log))
        make_server(application).run(sockets=[socket.socket(fileno=fd)])


if __name__ == "__main__":
    # Nothing beside this file is needed here, and a file may be called like a module of Python.
    sys.path = [place for place in sys.path if Path(place or ".").resolve() != _HERE]
    _serve(Path(sys.argv[1]), int(sys.argv[2]))
