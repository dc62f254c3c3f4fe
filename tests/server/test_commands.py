"""`clew up` and `clew serve`, as a person starts them."""

import os
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2

from support.postgres import Server

CLAUDE = '{"type":"user","uuid":"%s","sessionId":"%s","timestamp":"2026-10-05T10:00:00Z","cwd":"/w","message":{"role":"user","content":"hello there"}}\n'  # noqa: E501


@contextmanager
def command(home: Path, *arguments: str, store: str = "") -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A running command, and the lines it prints."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "CLEW_HOME": str(home / "clew"), "CLEW_STORE": store}
    process = subprocess.Popen(
        [sys.executable, "-m", "clew", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lines: list[str] = []
    assert process.stdout is not None
    reading = threading.Thread(target=lambda: lines.extend(process.stdout or ()), daemon=True)
    reading.start()
    try:
        yield process, lines
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, lines
        reading.join()
        process.stdout.close()


def until(found: object, lines: list[str], pattern: str) -> re.Match[str]:
    """The first line that fits."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for line in list(lines):
            if match := re.search(pattern, line):
                return match
        time.sleep(0.02)
    raise AssertionError(f"no line with {pattern}: {lines}")


def answered(client: httpx2.Client, path: str, text: str) -> str:
    """What a page says, as soon as it says this."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            answer = client.get(path)
            if text in answer.text:
                return answer.text
        except httpx2.TransportError:
            pass
        time.sleep(0.05)
    raise AssertionError(f"{path} never said {text}")


def test_clew_up_shows_what_is_captured_meanwhile(tmp_path: Path) -> None:
    folder = tmp_path / ".claude" / "projects" / "w"
    folder.mkdir(parents=True)
    (folder / "11111111-1111-4111-8111-111111111111.jsonl").write_text(
        CLAUDE % ("u1", "11111111-1111-4111-8111-111111111111")
    )
    with socket.create_server(("127.0.0.1", 0)), command(tmp_path, "up", "--no-browser") as (process, lines):
        link = until(process, lines, r"open (http://127\.0\.0\.1:\d+)/login#(clew_up_\S+) in your browser")
        place, secret = link[1], link[2]
        with httpx2.Client(base_url=place) as client:
            answered(client, "/healthz", "healthy")
            assert client.get("/v1/sessions").status_code == 401
            assert client.post("/login", json={"token": secret}, headers={"Origin": place}).status_code == 200
            answered(client, "/", "hello there")
            new = "22222222-2222-4222-8222-222222222222"
            (folder / f"{new}.jsonl").write_text((CLAUDE % ("u2", new)).replace("hello there", "and another"))
            answered(client, "/", "and another")
            page = answered(client, "/docs", "API")
            assert "clew" in page
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    assert not any("Traceback" in line for line in lines), lines


def test_the_demo_is_a_full_store_that_is_gone_with_it(tmp_path: Path) -> None:
    with command(tmp_path, "demo", "--no-browser", store="sqlite:////nowhere/of/mine") as (process, lines):
        link = until(process, lines, r"open (http://127\.0\.0\.1:\d+)/login#(clew_up_\S+) in your browser")
        with httpx2.Client(base_url=link[1]) as client:
            answered(client, "/healthz", "healthy")
            assert client.post("/login", json={"token": link[2]}, headers={"Origin": link[1]}).status_code == 200
            assert "Why does the lock test fail" in client.get("/").text
            sessions = client.get("/v1/sessions", params={"limit": 500}).json()
            # A fork that nobody has gone on with runs in no program.
            assert len({session["runtime"] for session in sessions} - {""}) == 7
            assert {"waiting", "active", "idle", "paused", "closed"} <= {session["status"] for session in sessions}
            assert any(session.get("parent") for session in sessions)
            assert any(session.get("errors") for session in sessions)
            assert any(session.get("budget") for session in sessions)
    assert not list(tmp_path.rglob("*.db"))


def test_a_taken_port_is_said_or_the_next_is_used(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [sys.executable, "-m", "clew", "up", "--port", port, "--no-browser"],
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)}, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 6
    assert f"port {port}" in done.stderr


def test_several_processes_serve_one_team(tmp_path: Path, postgres: Server) -> None:
    """One of them is killed: another takes its place, and the others answer meanwhile."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = ("serve", "--port", str(port), "--processes", "2")
    with command(tmp_path, *options, store=postgres.new_database()) as (process, lines):
        link = until(process, lines, r"/login#(clew_link_\S+)")[1]
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as browser:
            answered(browser, "/healthz", "healthy")
            assert browser.post("/login", json={"token": link}).status_code == 200
            origin = {"Origin": f"http://127.0.0.1:{port}"}
            key = browser.post("/v1/keys", json={"label": "mine"}, headers=origin).json()["key"]
            assert browser.post("/login", json={"token": link, "replace": True}).status_code == 401
        workers = children(process)
        assert len(workers) == 2
        counts = Path(environment_of(workers[0])["PROMETHEUS_MULTIPROC_DIR"])
        assert stat.S_IMODE(counts.stat().st_mode) == 0o700
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {key}"}) as client:
            id = client.post("/v1/sessions", json={}).json()["id"]
            os.kill(int(workers[0]), signal.SIGKILL)
            sent = 0
            draft = {"kind": "message_added", "role": "user", "text": "hi"}
            while sent < 40 or not any("takes its place" in line for line in lines):
                try:
                    drafts = [{**draft, "source": str(sent)}]
                    client.post(f"/v1/sessions/{id}/events", json={"drafts": drafts}).raise_for_status()
                    sent += 1
                except httpx2.TransportError:
                    pass  # The one that was killed held this connection.
            assert len(client.get(f"/v1/sessions/{id}/events").json()) == sent + 1
            with ExitStack() as streams:
                for _ in range(3):
                    streams.enter_context(client.stream("GET", f"/v1/sessions/{id}/stream"))
                route = "/v1/sessions/{session}/events"
                answered(client, "/metrics", f'{{method="POST",route="{route}",status="200"}} {sent}.0')
                answered(client, "/metrics", "\nclew_listeners 3.0\n")
                for worker in children(process):
                    os.kill(int(worker), signal.SIGKILL)
                # Their open streams are gone; what they have answered still counts.
                answered(client, "/metrics", "\nclew_listeners 0.0\n")
                answered(client, "/metrics", f'{{method="POST",route="{route}",status="200"}} {sent}.0')
                assert len(list(counts.iterdir())) <= 6, "each worker has a file for each type, however often it died"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert not counts.exists()
    assert not any(key in line for line in lines)


def test_a_server_process_that_dies_is_replaced_and_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    """The one process of a SQLite server is killed under load, several times."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    with command(tmp_path, "serve", "--port", str(port)) as (process, lines):
        link = until(process, lines, r"/login#(clew_link_\S+)")[1]
        with httpx2.Client(base_url=address, timeout=30) as browser:
            assert browser.post("/login", json={"token": link}, headers={"Origin": address}).status_code == 200
            key = browser.post("/v1/keys", json={"label": "mine"}, headers={"Origin": address}).json()["key"]
        with httpx2.Client(base_url=address, headers={"Authorization": f"Bearer {key}"}, timeout=30) as client:
            id = client.post("/v1/sessions", json={}).json()["id"]
            acknowledged: list[str] = []
            for kill in range(3):
                sent = 0
                while sent < 20 or sum("takes its place" in line for line in lines) <= kill:
                    if sent == 10:
                        os.kill(int(children(process)[0]), signal.SIGKILL)
                    source = f"{kill}-{sent}"
                    draft = {"kind": "message_added", "role": "user", "text": source, "source": source}
                    sent += 1
                    try:
                        client.post(f"/v1/sessions/{id}/events", json={"drafts": [draft]}).raise_for_status()
                        acknowledged.append(source)
                    except httpx2.TransportError:
                        pass  # It was killed before it answered.
            stored = [event["source"] for event in client.get(f"/v1/sessions/{id}/events?limit=1000").json()[1:]]
    assert set(acknowledged) <= set(stored)
    assert len(set(stored)) == len(stored)


def test_a_server_process_ends_with_a_supervisor_that_was_killed(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    words = [sys.executable, "-m", "clew", "serve", "--port", str(port)]
    with httpx2.Client(base_url=f"http://127.0.0.1:{port}") as client:
        for _ in range(2):
            process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)
            answered(client, "/healthz", "healthy")
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.read()  # The worker holds the other end of this pipe, so it has ended when this returns.
            process.stdout.close()


def children(process: subprocess.Popen[str]) -> list[str]:
    return Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()


def environment_of(process: str) -> dict[str, str]:
    words = Path(f"/proc/{process}/environ").read_text().split("\0")
    return dict(word.split("=", 1) for word in words if word)


def test_sqlite_serves_one_process(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "clew", "serve", "--processes", "2"],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "PostgreSQL" in done.stderr
