"""Measures the HTTP server: appends of 32 clients beside a bare Starlette handler, and what idle listeners weigh.

The bare handler does one raw insert whose commit is shared by all who wait (WAL, synchronous=FULL), and nothing else:
no key, no rights, no session, no seq that is checked, no chain. Both servers run at the same time and are asked in
turn, a second each, so that a disturbance of the machine disturbs both. Only the ratio has a bar.
"""

import argparse
import asyncio
import json
import os
import queue
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

_HERE = Path(__file__).parent
# Nothing beside this file is needed here, and a file may be called like a module of Python.
sys.path = [place for place in sys.path if Path(place or ".").resolve() != _HERE.resolve()]
CLIENTS = 32
BAR = 0.60
LISTENERS = 2000
LISTENERS_MB = 200.0
BODY = "x" * 900


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=12, help="seconds that each server is asked for")
    parser.add_argument("--listeners", type=int, default=LISTENERS)
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a bar is missed")
    parser.add_argument("--work", type=Path, default=_HERE / ".work", metavar="DIR", help="where the SQLite files go")
    parser.add_argument("--serve", choices=("bare", "clew"), help=argparse.SUPPRESS)
    parser.add_argument("--fd", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        made = socket.socket(fileno=options.fd)
        bare(options.work, made) if options.serve == "bare" else serve_clew(options.work, made)
        return 0
    options.work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.work) as scratch:
        met = appends(Path(scratch), options.rounds)
    with tempfile.TemporaryDirectory(dir=options.work) as scratch:
        met &= listeners(Path(scratch), options.listeners)
    return 0 if met or not options.strict else 1


# The two servers ------------------------------------------------------------------------------------------------------


def bare(work: Path, made: socket.socket) -> None:
    """The bare handler: one writer thread inserts what waits, commits once, and answers the waiting requests."""
    import apsw
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    connection = apsw.Connection(str(work / "bare.db"))
    connection.execute("PRAGMA page_size=8192")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE event (session TEXT, seq INTEGER, body TEXT, PRIMARY KEY (session, seq))")
    waiting: queue.SimpleQueue[tuple[str, bytes, asyncio.Future[int]]] = queue.SimpleQueue()
    heads: dict[str, int] = {}

    def write() -> None:
        while True:
            batch = [waiting.get()]
            while not waiting.empty():
                batch.append(waiting.get())
            rows = []
            for session, body, _ in batch:
                heads[session] = heads.get(session, 0) + 1
                rows.append((session, heads[session], body.decode()))
            with connection:
                connection.executemany("INSERT INTO event VALUES (?, ?, ?)", rows)
            batch[0][2].get_loop().call_soon_threadsafe(
                answer_all, [(done, row[1]) for (_, _, done), row in zip(batch, rows, strict=True)]
            )

    def answer_all(batch: Sequence[tuple["asyncio.Future[int]", int]]) -> None:
        for done, seq in batch:
            done.set_result(seq)

    async def append(request: Request) -> Response:
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        waiting.put((request.path_params["session"], await request.body(), done))
        return Response(b'{"seq":%d}' % await done, media_type="application/json")

    threading.Thread(target=write, daemon=True).start()
    app = Starlette(routes=[Route("/v1/sessions/{session}/events", append, methods=["POST"])])
    config = uvicorn.Config(app, loop="uvloop", http="httptools", access_log=False, log_level="error", lifespan="off")
    uvicorn.Server(config).run(sockets=[made])


def serve_clew(work: Path, made: socket.socket) -> None:
    """What `clew serve` runs, with its log in a file."""
    from clew.server.http.application import Application
    from clew.server.http.json_log import JsonLog
    from clew.server.http.uvicorn_server import make_server
    from clew.server.options import Options
    from clew.service.access.authenticator import Authenticator
    from clew.store import open_store

    authenticator = Authenticator(open_store(f"sqlite:///{work / 'clew.db'}"), home=str(work))
    with open(work / "log", "a") as log:
        options = Options(rate=1_000_000, burst=1_000_000, streams=10_000)
        make_server(Application(authenticator, options, log=JsonLog(log))).run(sockets=[made])


class Served:
    """A server in a process of its own."""

    def __init__(self, kind: str, work: Path) -> None:
        made = socket.socket()
        made.bind(("127.0.0.1", 0))
        made.listen(4096)
        made.set_inheritable(True)
        self.port: int = made.getsockname()[1]
        argv = [sys.executable, __file__, "--serve", kind, "--work", str(work), "--fd", str(made.fileno())]
        self.process = subprocess.Popen(argv, pass_fds=[made.fileno()])
        made.close()

    def megabytes(self) -> float:
        """What it holds in memory."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024

    def __enter__(self) -> "Served":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def new_key(work: Path) -> tuple[str, list[str]]:
    """A key, and a session for each client."""
    from clew.model.access import owner_of_everything
    from clew.service import call
    from clew.service.access.authenticator import OWNER, Authenticator
    from clew.store import open_store
    from clew.store.access.grants import add_grant
    from clew.store.access.principals import Principal, set_principal

    authenticator = Authenticator(open_store(f"sqlite:///{work / 'clew.db'}"), home=str(work))
    set_principal(authenticator.store, Principal(name=OWNER))
    add_grant(authenticator.store, owner_of_everything(OWNER), given_by="bench")
    key = authenticator.new_browser_key(OWNER)
    ids = [call(authenticator.authenticate(key), "open", {"title": str(number)}).id for number in range(CLIENTS)]
    authenticator.close()
    return key, ids


# Appending ------------------------------------------------------------------------------------------------------------


class Client(asyncio.Protocol):
    """Sends one request after the other over one connection, and notes how long each took."""

    def __init__(self, request: bytes, times: list[float]) -> None:
        self._request = request
        self._times = times
        self._received = b""
        self.going = False
        self.ended = asyncio.Event()

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def begin(self) -> None:
        self.going = True
        self.ended.clear()
        self._ask()

    def _ask(self) -> None:
        self._began = time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        if not found:
            return
        lower = head.lower()
        at = lower.index(b"content-length:") + 15
        length = int(lower[at : lower.find(b"\r\n", at) if b"\r\n" in lower[at:] else None])
        if len(body) < length:
            return
        if b" 200 " not in head[:16]:
            raise SystemExit(f"refused: {self._received[:500]!r}")
        self._received = b""
        self._times.append(time.perf_counter() - self._began)
        if self.going:
            self._ask()
        else:
            self.ended.set()


async def _connected(port: int, paths: list[str], headers: str, body: str, times: list[float]) -> list[Client]:
    loop = asyncio.get_running_loop()
    clients = []
    for path in paths:
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n{headers}"
        request = f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()
        _, client = await loop.create_connection(lambda request=request: Client(request, times), "127.0.0.1", port)
        clients.append(client)
    return clients


async def _run(clients: list[Client], seconds: float) -> float:
    """How long the clients were really asking."""
    began = time.perf_counter()
    for client in clients:
        client.begin()
    await asyncio.sleep(seconds)
    for client in clients:
        client.going = False
    for client in clients:
        await client.ended.wait()
    return time.perf_counter() - began


async def _race(
    bare_port: int, clew_port: int, key: str, ids: list[str], rounds: int
) -> dict[str, tuple[list[float], list[float]]]:
    body = json.dumps({"kind": "message_added", "role": "user", "text": BODY})
    paths = [f"/v1/sessions/{id}/events" for id in ids]
    times: dict[str, list[float]] = {"bare": [], "clew": []}
    crowds = {
        "bare": await _connected(bare_port, paths, "", body, times["bare"]),
        "clew": await _connected(
            clew_port, paths, f"Authorization: Bearer {key}\r\n", f'{{"drafts":[{body}]}}', times["clew"]
        ),
    }
    rates: dict[str, list[float]] = {"bare": [], "clew": []}
    for name, crowd in crowds.items():
        await _run(crowd, 1.0)
        times[name].clear()
    for number in range(rounds):
        for name in ("bare", "clew") if number % 2 else ("clew", "bare"):
            before = len(times[name])
            took = await _run(crowds[name], 1.0)
            rates[name].append((len(times[name]) - before) / took)
    return {name: (rates[name], times[name]) for name in rates}


def appends(work: Path, rounds: int) -> bool:
    import uvloop

    key, ids = new_key(work)
    with Served("bare", work) as other, Served("clew", work) as ours:
        _wait(other.port)
        _wait(ours.port)
        found = uvloop.run(_race(other.port, ours.port, key, ids, rounds))
    for name, (rates, times) in found.items():
        ordered = sorted(times)
        print(
            f"{name:>5}: {statistics.median(rates):7,.0f} appends/s (from {min(rates):,.0f} to {max(rates):,.0f}), "
            f"p50 {_at(ordered, 0.5):.1f} ms, p99 {_at(ordered, 0.99):.1f} ms"
        )
    pairs = [ours / other for ours, other in zip(found["clew"][0], found["bare"][0], strict=True)]
    ratio = statistics.median(pairs)
    _judge(
        f"HTTP append, {CLIENTS} clients, of a bare handler's rate", f"{ratio:.2f}", f"at least {BAR:.2f}", ratio >= BAR
    )
    return ratio >= BAR


def _at(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000


# Listening ------------------------------------------------------------------------------------------------------------


async def _listen(port: int, key: str, id: str, count: int) -> list[asyncio.StreamWriter]:
    request = f"GET /v1/sessions/{id}/stream HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {key}\r\n\r\n"
    opened = []
    for _ in range(count):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request.encode())
        await reader.readuntil(b"session_opened")
        opened.append(writer)
    return opened


def listeners(work: Path, count: int) -> bool:
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    key, ids = new_key(work)
    with Served("clew", work) as ours:
        _wait(ours.port)
        empty = ours.megabytes()

        async def measure() -> float:
            opened = await _listen(ours.port, key, ids[0], count)
            await asyncio.sleep(3)
            found = ours.megabytes()
            for writer in opened:
                writer.close()
            return found

        full = asyncio.run(measure())
    print(f"  memory of the server: {empty:.0f} MB alone, {full:.0f} MB with {count:,} idle listeners")
    met = full < LISTENERS_MB
    _judge(f"{count:,} idle listeners, memory of the server", f"{full:.0f} MB", f"under {LISTENERS_MB:.0f} MB", met)
    return met


def _judge(claim: str, found: str, bar: str, met: bool) -> None:
    print(f"{'pass' if met else 'MISS'}  {claim}: {found} ({bar})")


def _wait(port: int) -> None:
    """Until it answers anything at all."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with socket.create_connection(("127.0.0.1", port)) as probe:
            probe.sendall(b"GET /healthz HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
            if probe.recv(100):
                return
    raise SystemExit("the server did not start")


if __name__ == "__main__":
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    sys.exit(main())
