"""Measures what one hostile key can do to another tenant: the tenant's p99 beside its quiet value, and the memory.

The tenant appends, reads and lists, one request after the other. The hostile key does one bad thing at a time, as much
of it as it can. Quiet and hostile seconds alternate, so that a disturbance of the machine disturbs both; what counts
is the median of the ratios. The hostile clients yield the processor, as if they ran on a machine of their own.
"""

import argparse
import http.client
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_HERE = Path(__file__).parent
# Nothing beside this file is needed here, and a file may be called like a module of Python.
sys.path = [place for place in sys.path if Path(place or ".").resolve() != _HERE.resolve()]
BAR = 2.0
MEMORY_MB = 300.0
STREAMS = 997
CLIENTS = 16
PACE_SECONDS = 1 / 300
BAIT = "password=A1b2C3d4E5f6;"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=4, help="how often each kind of attack is made")
    parser.add_argument("--seconds", type=float, default=4.0, help="how long a round lasts")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a bar is missed")
    parser.add_argument("--serve", type=int, metavar="FD", help=argparse.SUPPRESS)
    parser.add_argument("--attack", choices=ATTACKS, help=argparse.SUPPRESS)
    parser.add_argument("--target", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        serve(options.serve)
    elif options.attack:
        os.nice(19)
        ATTACKS[options.attack](json.loads(options.target))
    else:
        with tempfile.TemporaryDirectory() as folder:
            met = measure(Path(folder), options.rounds, options.seconds)
        return 0 if met or not options.strict else 1
    return 0


# The server -----------------------------------------------------------------------------------------------------------


def serve(fd: int) -> None:
    """What `clew serve` runs."""
    from clew.mcp.server import http_app
    from clew.server.http.application import Application
    from clew.server.http.json_log import JsonLog
    from clew.server.http.uvicorn_server import make_server
    from clew.server.http.uvicorn_server import serve as serve_alone
    from clew.server.options import Options
    from clew.service.access.authenticator import Authenticator
    from clew.store import open_store

    home = os.environ["CLEW_HOME"]
    authenticator = Authenticator(open_store(f"sqlite:///{home}/clew.db"), home=home)
    with open(os.devnull, "w") as log:
        application = Application(authenticator, Options(), log=JsonLog(log), mcp=http_app)
        serve_alone(make_server(application), socket.socket(fileno=fd))


def prepare(home: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The tenant and the hostile one: a key and a session each; the hostile session is large."""
    from clew.model.access import ROLES, Grant, owner_of_everything
    from clew.service import Context, call
    from clew.store import open_store

    people = []
    with open_store(f"sqlite:///{home}/clew.db") as store:
        who = "person:owner"
        owner = Context(
            store=store, unrestricted=store, principal=who, grants=(owner_of_everything(who),), home=str(home)
        )
        call(owner, "principal_add", {"principal": who})
        for name in ("tenant", "hostile"):
            call(owner, "principal_add", {"principal": f"person:{name}"})
            grant = Grant(principal=f"person:{name}", rights=ROLES["writer"], project=name)
            call(owner, "access_grant", {"who": grant.principal, "role": "writer", "project": name})
            session = call(owner, "open", {"project": name, "title": name}).id
            key = call(owner, "key_create", {"principal": f"person:{name}"}).key
            people.append({"key": key, "session": session})
        chance = random.Random(1)  # Text for a benchmark.
        for number in range(28):
            text = BAIT * 20_000 if number % 2 else chance.randbytes(220_000).hex()
            draft = {"kind": "message_added", "role": "user", "text": text}
            call(owner, "append", {"session": people[1]["session"], "drafts": [draft]})
        for _ in range(300):
            draft = {"kind": "message_added", "role": "user", "text": "the tenant works " * 40}
            call(owner, "append", {"session": people[0]["session"], "drafts": [draft]})
    return people[0], people[1]


# The attacks ----------------------------------------------------------------------------------------------------------


def _many(attack: Callable[[dict[str, str]], None], target: dict[str, str], clients: int = CLIENTS) -> None:
    def run() -> None:
        while True:
            with suppress(OSError, http.client.HTTPException):
                attack(target)

    for _ in range(clients):
        threading.Thread(target=run, daemon=True).start()
    sys.stdin.read()
    os._exit(0)


def _connect(target: dict[str, str]) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(target["port"])), timeout=30)


def _request(target: dict[str, str], path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {target['key']}\r\n\r\n".encode()


def large_answers(target: dict[str, str]) -> None:
    """Ask for everything, and read it."""

    def ask(target: dict[str, str]) -> None:
        with _connect(target) as connection:
            connection.sendall(_request(target, f"/v1/sessions/{target['session']}/events?limit=26"))
            while connection.recv(1 << 20):
                pass

    _many(ask, target)


def unread_answers(target: dict[str, str]) -> None:
    """Ask for everything, and read nothing."""
    held: list[socket.socket] = []

    def ask(target: dict[str, str]) -> None:
        connection = _connect(target)
        held.append(connection)
        connection.sendall(_request(target, f"/v1/sessions/{target['session']}/events?limit=26"))
        time.sleep(0.05)

    _many(ask, target)


def streams(target: dict[str, str]) -> None:
    """Open 997 streams, and read none of them."""
    held: list[socket.socket] = []

    def ask(target: dict[str, str]) -> None:
        if len(held) >= STREAMS:
            time.sleep(1)
            return
        connection = _connect(target)
        connection.sendall(_request(target, f"/v1/sessions/{target['session']}/stream?after=0"))
        held.append(connection)

    _many(ask, target, 4)


def bait(target: dict[str, str]) -> None:
    """Ask for what takes long to mask, and search with patterns of words that are everywhere."""

    def ask(target: dict[str, str]) -> None:
        for path in (
            f"/v1/sessions/{target['session']}/events?after=2&limit=1",
            "/v1/search?query=" + "%20".join(["p*", "a*", "password*"] * 5),
        ):
            with _connect(target) as connection:
                connection.sendall(_request(target, path))
                connection.recv(65536)

    _many(ask, target)


def tools(target: dict[str, str]) -> None:
    """Ask as an llm would, over MCP: transcripts that take long to mask, and searches."""

    def ask(target: dict[str, str]) -> None:
        for tool, arguments in (
            ("read_session", {"session_id": target["session"]}), ("search_sessions", {"query": "p* OR a*"}),
        ):  # fmt: skip
            asked = {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tools/call",
                "params": {"name": tool, "arguments": arguments},
            }
            body = json.dumps(asked).encode()
            with _connect(target) as connection:
                connection.sendall(
                    b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\n"
                    b"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\n"
                    b"Authorization: Bearer %b\r\nContent-Length: %d\r\n\r\n%b"
                    % (target["key"].encode(), len(body), body)
                )
                while connection.recv(1 << 16):
                    pass

    _many(ask, target)


def abandoned(target: dict[str, str]) -> None:
    """Ask for everything, and go away when the server has begun; more often than a principal may ask."""

    def ask(target: dict[str, str]) -> None:
        with _connect(target) as connection:
            connection.sendall(_request(target, f"/v1/sessions/{target['session']}/events?limit=26"))
            time.sleep(0.02)

    _many(ask, target)


ATTACKS = {
    "large-answers": large_answers,
    "unread-answers": unread_answers,
    "streams": streams,
    "bait": bait,
    "abandoned": abandoned,
    "tools": tools,
}


# The tenant -----------------------------------------------------------------------------------------------------------


def work(tenant: dict[str, str], seconds: float) -> list[float]:
    """How long each request of the tenant took, in milliseconds; 300 a second at the most."""
    client = http.client.HTTPConnection("127.0.0.1", int(tenant["port"]), timeout=60)
    headers = {"Authorization": f"Bearer {tenant['key']}", "Content-Type": "application/json"}
    path = f"/v1/sessions/{tenant['session']}/events"
    body = json.dumps({"drafts": [{"kind": "message_added", "role": "user", "text": "the tenant works " * 40}]})
    times = []
    began = 0.0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for method, where, sent in (
            ("POST", path, body), ("GET", f"{path}?after=100&limit=20", None), ("GET", "/v1/sessions?limit=20", None)
        ):  # fmt: skip
            time.sleep(max(0.0, PACE_SECONDS - (time.perf_counter() - began)))
            began = time.perf_counter()
            client.request(method, where, sent, headers)
            answer = client.getresponse()
            answer.read()
            times.append((time.perf_counter() - began) * 1000)
            if answer.status != 200:
                raise SystemExit(f"the tenant was answered with {answer.status}")
    client.close()
    return times


def p99(times: list[float]) -> float:
    return sorted(times)[int(len(times) * 0.99)]


def memory_mb(process: int) -> float:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def measure(home: Path, rounds: int, seconds: float) -> bool:
    tenant, hostile = prepare(home)
    listener = socket.create_server(("127.0.0.1", 0))
    port = str(listener.getsockname()[1])
    tenant["port"] = hostile["port"] = port
    server = subprocess.Popen(
        [sys.executable, __file__, "--serve", str(listener.fileno())], env={**os.environ, "CLEW_HOME": str(home)},
        pass_fds=[listener.fileno()],
    )  # fmt: skip
    try:
        work(tenant, 2.0)
        pairs: dict[str, list[tuple[float, float]]] = {name: [] for name in ATTACKS}
        peaks = dict.fromkeys(ATTACKS, 0.0)
        at_rest = memory_mb(server.pid)
        for _ in range(rounds):
            for name in ATTACKS:
                quiet = work(tenant, seconds / 2)
                attacked = _attacked(name, hostile, tenant, seconds, server.pid, peaks)
                quiet += work(tenant, seconds / 2)
                pairs[name].append((p99(quiet), p99(attacked)))
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)
    print(f"medians of {rounds} rounds; {at_rest:.0f} MB at rest")
    print(f"{'attack':>16}  {'p99 quiet':>9}  {'attacked':>9}  {'ratio':>6}  {'most memory':>11}")
    met = True
    for name, measured in pairs.items():
        calm, hostile_, ratio = (
            statistics.median(each)
            for each in zip(*((before, during, during / before) for before, during in measured), strict=True)
        )
        met &= ratio <= BAR and peaks[name] <= MEMORY_MB
        print(f"{name:>16}  {calm:6.1f} ms  {hostile_:6.1f} ms  {ratio:5.2f}x  {peaks[name]:8.0f} MB")
    print(f"p99 at most {BAR:g}x the quiet one, memory under {MEMORY_MB:g} MB: {'met' if met else 'MISSED'}")
    return met


def _attacked(
    name: str, hostile: dict[str, str], tenant: dict[str, str], seconds: float, server: int, peaks: dict[str, float]
) -> list[float]:
    attacker = subprocess.Popen(
        [sys.executable, __file__, "--attack", name, "--target", json.dumps(hostile)], stdin=subprocess.PIPE
    )
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.05):
            peaks[name] = max(peaks[name], memory_mb(server))

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        time.sleep(1.0)
        return work(tenant, seconds)
    finally:
        ended.set()
        watching.join()
        attacker.kill()
        attacker.wait()


if __name__ == "__main__":
    sys.exit(main())
