"""What a server takes and what it does not: sizes, times, rates, and its own end."""

import gzip
import resource
import socket
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx2
import msgspec
import pytest
import zstandard

from clew.server.http import uvicorn_server as served
from clew.service import call
from server.running import Running, listening

Serve = Callable[..., Running]
SAID = {"kind": "message_added", "role": "user", "text": "hello"}


@pytest.fixture(params=["sqlite"])
def database(request: pytest.FixtureRequest) -> str:
    """Limits come before any database."""
    return str(request.param)


def spoken(running: Running, text: bytes, *, until: bytes = b"", seconds: float = 20.0) -> bytes:
    """What comes back for bytes sent as they are."""
    host, port = running.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=seconds) as connection:
        connection.sendall(text)
        found = b""
        while chunk := connection.recv(65536):
            found += chunk
            if until and until in found:
                break
    return found


def test_a_body_beyond_the_limit_is_refused_however_it_is_sent(serve: Serve) -> None:
    running = serve(most_bytes=10_000)
    key = running.key()
    big = msgspec.json.encode({"title": "x" * 20_000})
    json = {"Content-Type": "application/json"}

    def pieces() -> Iterator[bytes]:
        yield from (big[at : at + 1000] for at in range(0, len(big), 1000))

    with running.client(key) as client:
        for content, headers in (
            (big, json),
            (pieces(), json),
            (gzip.compress(big), {**json, "Content-Encoding": "gzip"}),
            (zstandard.compress(big), {**json, "Content-Encoding": "zstd"}),
            (zlib.compress(bytes(10_000_000), wbits=31), {**json, "Content-Encoding": "gzip"}),
        ):
            answer = client.post("/v1/sessions", content=content, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (413, "too_large"), headers
            assert answer.json()["limit"] == 10_000
        assert client.get("/v1/sessions").json() == []
    claimed = (
        b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %b\r\nContent-Length: 99999999999\r\n\r\n"
    )
    assert b" 413 " in spoken(running, claimed % key.encode())
    # Whoever has no key is not even read.
    assert b" 401 " in spoken(running, claimed.replace(b"Authorization", b"X") % b"", until=b"}")


def test_whoever_talks_too_slowly_is_cut_off(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "HEADER_SECONDS", 0.5)
    running = serve(body_seconds=0.3)
    key = running.key().encode()
    slow = b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %b\r\nContent-Length: 20\r\n\r\n{" % key
    assert b" 408 " in spoken(running, slow)
    assert spoken(running, b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ") == b""
    assert spoken(running, b"") == b""
    with running.client() as client:
        assert client.get("/healthz").status_code == 200


def test_a_header_without_end_is_refused(serve: Serve) -> None:
    running = serve()
    host, port = running.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: ")
        sent = 0
        try:
            while sent < 50_000_000:
                sent += connection.send(b"x" * 65536)
        except OSError:
            pass  # It hung up.
    assert sent < 20_000_000


def test_bytes_that_are_no_request_are_refused(serve: Serve) -> None:
    running = serve()
    for text in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nBad Header: 1\r\n\r\n",
        # Two ends for one body: what a proxy and this server could take for different requests.
        b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    ):
        assert b" 400 " in spoken(running, text, until=b"\r\n\r\n"), text
    with running.client() as client:
        assert client.get("/healthz").json() == {"healthy": True}


def test_a_header_that_decides_something_comes_once(serve: Serve) -> None:
    running = serve(hosts=("127.0.0.1",))
    key = running.key()
    ours, theirs = b"Host: 127.0.0.1\r\n", b"Host: evil.example\r\n"
    key_header = b"Authorization: Bearer %b\r\n" % key.encode()
    for pair in (
        ours + theirs, theirs + ours, ours + ours, ours + key_header * 2,
        ours + key_header + b"Origin: http://127.0.0.1\r\nOrigin: https://evil.example\r\n",
        ours + key_header + b"hOsT: 127.0.0.1\r\n",
    ):  # fmt: skip
        answer = spoken(running, b"GET /v1/me HTTP/1.1\r\n%b\r\n" % pair, until=b"}")
        assert b" 400 " in answer, pair
        assert b"there twice" in answer, pair
    assert b" 200 " in spoken(running, b"GET /v1/me HTTP/1.1\r\n%b%b\r\n" % (ours, key_header), until=b"}")


def test_a_key_that_asks_too_often_is_asked_to_slow_down(serve: Serve) -> None:
    running = serve(rate=1, burst=5)
    with running.client(running.key()) as busy, running.client(running.key("person:calm")) as calm:
        answers = [busy.get("/v1/me") for _ in range(12)]
        refused = [answer for answer in answers if answer.status_code == 429]
        assert 6 <= len(refused) <= 7
        assert refused[0].json()["code"] == "too_many_requests"
        assert int(refused[0].headers["retry-after"]) >= 1
        assert calm.get("/v1/me").status_code == 200


LIMITED = """
import resource
from clew.server.http import uvicorn_server
uvicorn_server.raise_descriptor_limit()
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], uvicorn_server.most_connections())
"""


@pytest.mark.parametrize(("soft", "hard", "raised"), [(64, 1024, 1024), (64, 64, 64)])
def test_a_server_opens_as_many_files_as_it_may_and_keeps_some_for_its_store(soft: int, hard: int, raised: int) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    done = subprocess.run([sys.executable, "-c", LIMITED], preexec_fn=limit, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(raised), str(max(8, raised - served.OTHER_DESCRIPTORS))]


HELD = """
from clew.server.http import uvicorn_server
uvicorn_server.return_free_memory()
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
before = resident()
answer = b"x" * 30_000_000
del answer
answers, kept = [], []
for _ in range(400):
    answers.append(b"x" * 500_000)
    kept.append(b"y" * 1000)
answers.clear()
print((resident() - before) // 1_000_000)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux says how much memory a process has")
def test_a_server_gives_back_the_memory_of_answers_that_were_sent() -> None:
    """By itself the C library keeps 19 MB of these, and of the answers of a busy minute in forty threads far more."""
    done = subprocess.run([sys.executable, "-c", HELD], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 10


def test_a_server_without_descriptors_closes_the_connection_that_was_idle_for_longest(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections of one client do not keep the next client out, and none of those that work is closed."""
    monkeypatch.setattr(served, "most_connections", lambda: 10)
    running = serve()
    key = running.key()
    host, port = running.address.removeprefix("http://").split(":")
    with listening(running, "/v1/stream", key) as stream:
        stream.wait_until_open()
        idle = [socket.create_connection((host, int(port)), timeout=20) for _ in range(30)]
        with running.client(key) as client:
            id = client.post("/v1/sessions", json={}).json()["id"]
            assert client.get(f"/v1/sessions/{id}").status_code == 200
        assert stream.wait(1)[0]["kind"] == "session_opened"
        assert stream.broken == 1
        closed = 0
        for connection in idle:
            connection.settimeout(0.2)
            with connection, suppress(TimeoutError):
                closed += connection.recv(1) == b""
        assert closed >= 20


def test_the_end_of_a_server_loses_nothing(serve: Serve) -> None:
    """What runs is answered, streams end where they are, and what was acknowledged is there."""
    running = serve()
    key = running.key()
    id = call(running.owner, "open", {}).id
    acknowledged: list[int] = []
    stopping = threading.Event()

    def write() -> None:
        with running.client(key) as client:
            while True:
                try:
                    answer = client.post(f"/v1/sessions/{id}/events", json={"drafts": [SAID]})
                    assert answer.status_code == 200, answer.text
                    acknowledged.extend(answer.json()["seqs"])
                except httpx2.TransportError:
                    assert stopping.is_set()
                    return

    writers = [threading.Thread(target=write) for _ in range(4)]
    with listening(running, f"/v1/sessions/{id}/stream", key) as listener:
        listener.wait(1)
        for one in writers:
            one.start()
        listener.wait(40)
        stopping.set()
        running.stop()
        for one in writers:
            one.join()
        running.start()
        call(running.owner, "append", {"session": id, "drafts": [SAID]})
        events = call(running.owner, "events", {"session": id})
        listener.wait(len(events))
        assert listener.broken == 1  # The one that is open now: the one before ended, it was not cut off.
        listener.end()
        assert {event.seq for event in events} >= set(acknowledged)
        assert len(set(acknowledged)) == len(acknowledged)
        call(running.owner, "append", {"session": id, "drafts": [SAID]})
