"""Objects over HTTP: plain bytes in and out, ranges, refusals, and little memory however large they are."""

import asyncio
import io
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from clew.client import OpenSession, Plane
from clew.model.access import owner_of_everything
from clew.model.errors import Conflict, Denied, NotFound, Unavailable
from clew.remote import Remote
from clew.server.http import object_routes
from clew.server.http.request_body import Gone
from clew.service import Context, call
from clew.store import open_store
from clew.store.objects.pack import address
from server.running import Running, viewer
from support.fake_secrets import KINDS

VIDEO = bytes([0, 1, 2, 3]) + random.Random(4).randbytes(3_000_000)
TOKEN = KINDS["GITHUB_TOKEN"](random.Random(3))

Serve = Callable[..., Running]


@pytest.fixture
def session(client: httpx2.Client) -> str:
    return str(client.post("/v1/sessions", json={"project": "shop"}).json()["id"])


def put(client: httpx2.Client, session: str, name: str, data: bytes) -> dict[str, object]:
    answer = client.post(f"/v1/sessions/{session}/objects", params={"name": name}, content=data)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def refused(answer: httpx2.Response, status: int, code: str) -> str:
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    return str(answer.json()["detail"])


def test_an_object_is_put_listed_and_read(client: httpx2.Client, session: str) -> None:
    info = put(client, session, "video.mp4", VIDEO)
    assert info == {
        "digest": address(VIDEO).hex(), "size": len(VIDEO), "name": "video.mp4", "media_type": "video/mp4", "seq": 2,
    }  # fmt: skip
    at = f"/v1/sessions/{session}/objects"
    assert client.get(at).json() == [info]
    assert client.get(f"{at}/video.mp4/stat").json() == info
    for name in ("video.mp4", info["digest"]):
        answer = client.get(f"{at}/{name}")
        assert answer.content == VIDEO
        assert answer.headers["content-length"] == str(len(VIDEO))
        assert answer.headers["etag"] == f'"{info["digest"]}"'
    head = client.head(f"{at}/video.mp4")
    assert (head.status_code, head.headers["content-length"], head.content) == (200, str(len(VIDEO)), b"")
    assert client.get(f"{at}/video.mp4", headers={"If-None-Match": f'"{info["digest"]}"'}).status_code == 304


def test_a_browser_saves_an_object_and_shows_none(client: httpx2.Client, session: str) -> None:
    put(client, session, 'a"\r\n<b>é.html', b"<script>alert(1)</script>")
    [info] = client.get(f"/v1/sessions/{session}/objects").json()
    headers = client.get(f"/v1/sessions/{session}/objects/{info['digest']}").headers
    assert headers["content-type"] == "application/octet-stream"
    assert headers["content-disposition"] == "attachment; filename*=UTF-8''a%22%0D%0A%3Cb%3E%C3%A9.html"
    assert "sandbox" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("wanted", "first", "last"),
    [
        ("bytes=0-0", 0, 0),
        ("bytes=1000-2000", 1000, 2000),
        ("bytes=2097152-", 2_097_152, len(VIDEO) - 1),
        ("bytes=-7", len(VIDEO) - 7, len(VIDEO) - 1),
        ("bytes=2999999-99999999", 2_999_999, len(VIDEO) - 1),
        ("bytes=1048570-1048590", 1_048_570, 1_048_590),
    ],
)
def test_a_range_is_that_part(client: httpx2.Client, session: str, wanted: str, first: int, last: int) -> None:
    put(client, session, "video.mp4", VIDEO)
    answer = client.get(f"/v1/sessions/{session}/objects/video.mp4", headers={"Range": wanted})
    assert answer.status_code == 206
    assert answer.headers["content-range"] == f"bytes {first}-{last}/{len(VIDEO)}"
    assert answer.content == VIDEO[first : last + 1]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Range": f"bytes={len(VIDEO)}-"}, 416),
        ({"Range": "bytes=9-3"}, 200),
        ({"Range": "bytes=1-2,5-6"}, 200),
        ({"Range": "lines=1-2"}, 200),
        ({"Range": "bytes=0-0", "If-Range": '"another"'}, 200),
    ],
)
def test_what_is_no_range_is_the_whole_or_refused(
    client: httpx2.Client, session: str, headers: dict[str, str], status: int
) -> None:
    put(client, session, "video.mp4", VIDEO)
    answer = client.get(f"/v1/sessions/{session}/objects/video.mp4", headers=headers)
    assert answer.status_code == status
    assert status != 200 or answer.content == VIDEO


def test_the_secrets_of_a_text_are_masked_and_it_has_no_ranges(client: httpx2.Client, session: str) -> None:
    put(client, session, "log.txt", f"use {TOKEN} for it".encode())
    answer = client.get(f"/v1/sessions/{session}/objects/log.txt", headers={"Range": "bytes=4-20"})
    assert answer.status_code == 200
    assert TOKEN not in answer.text
    assert "etag" not in answer.headers
    put(client, session, "core.bin", VIDEO[:500] + TOKEN.encode())
    assert TOKEN not in refused(client.get(f"/v1/sessions/{session}/objects/core.bin"), 409, "conflict")


def test_a_download_that_meets_a_secret_later_breaks_off(client: httpx2.Client, session: str) -> None:
    put(client, session, "core.bin", VIDEO[:2_900_000] + f" {TOKEN} ".encode() + VIDEO[:4000])
    received = b""
    with (  # noqa: PT012
        pytest.raises(httpx2.TransportError),
        client.stream("GET", f"/v1/sessions/{session}/objects/core.bin") as answer,
    ):
        assert answer.status_code == 200
        for piece in answer.iter_bytes():
            received += piece
    assert VIDEO.startswith(received)


def test_refusals(running: Running, client: httpx2.Client, session: str) -> None:
    at = f"/v1/sessions/{session}/objects"
    assert "name" in refused(client.post(at, content=b"x"), 400, "invalid_input")
    refused(client.post(at, params={"name": "x", "color": "red"}, content=b"x"), 400, "invalid_input")
    refused(client.post(at, params={"name": "x", "lease": "y"}, content=b"x"), 400, "invalid_input")
    refused(client.get(f"{at}/nothing"), 404, "not_found")
    refused(client.get(f"{at}/nothing?x=1"), 400, "invalid_input")
    refused(client.post("/v1/sessions/zzzz/objects", params={"name": "x"}, content=VIDEO), 404, "not_found")
    refused(client.delete(f"{at}/nothing"), 405, "invalid_input")
    with running.client(running.key("person:bob", viewer("person:bob", project="shop"))) as bob:
        refused(bob.post(at, params={"name": "x"}, content=VIDEO), 403, "denied")
        put(client, session, "mine", b"x" * 10)
        assert bob.get(f"{at}/mine").content == b"x" * 10
    with running.client(running.key("person:eve", viewer("person:eve", project="elsewhere"))) as eve:
        told = {
            refused(eve.get(f"{at}/{name}"), 404, "not_found") for name in ("mine", "nothing", address(VIDEO).hex())
        }
        assert len(told) == 1, "whoever may not read the session learns nothing about its objects"
        refused(eve.post(at, params={"name": "x"}, content=b"x"), 404, "not_found")
    with running.client() as nobody:
        refused(nobody.get(f"{at}/mine"), 401, "unauthenticated")
        refused(nobody.post(at, params={"name": "x"}, content=b"x"), 401, "unauthenticated")


def test_an_upload_that_breaks_off_stores_nothing(running: Running, client: httpx2.Client, session: str) -> None:
    parts = urlsplit(running.address)
    with socket.create_connection((parts.hostname or "", parts.port or 0)) as line:
        line.sendall(
            f"POST /v1/sessions/{session}/objects?name=half HTTP/1.1\r\nHost: {parts.netloc}\r\n"
            f"Authorization: {client.headers['authorization']}\r\nContent-Length: 20000000\r\n\r\n".encode()
        )
        for _ in range(10):
            line.sendall(VIDEO[:1_000_000])
    routes = running.application._objects
    while routes._uploading:
        pass
    assert client.get(f"/v1/sessions/{session}/objects").json() == []


def test_an_upload_that_nobody_waits_for_any_more_is_not_stored_as_if_it_were_whole() -> None:
    """The server stops while the bytes arrive: the thread that stores them must not take the end for their end."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    chunks = iter([VIDEO[:2_000_000]])

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": next(chunks), "more_body": True}

    body = object_routes._Body(receive, loop, 5.0)  # type: ignore[arg-type]
    pieces = iter(body)
    assert next(pieces) == VIDEO[:2_000_000]
    body.end()
    with pytest.raises(Gone):
        next(pieces)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_an_object_of_20_gb_is_refused_before_it_is_sent(running: Running, client: httpx2.Client, session: str) -> None:
    parts = urlsplit(running.address)
    with socket.create_connection((parts.hostname or "", parts.port or 0)) as line:
        line.sendall(
            f"POST /v1/sessions/{session}/objects?name=all HTTP/1.1\r\nHost: {parts.netloc}\r\n"
            f"Authorization: {client.headers['authorization']}\r\nContent-Length: {20 * 1024**3}\r\n\r\n".encode()
        )
        assert line.recv(1000).startswith(b"HTTP/1.1 413 ")


def test_more_uploads_at_once_than_may_be_are_refused(
    client: httpx2.Client, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_routes, "MOST_UPLOADS", 0)
    answer = client.post(f"/v1/sessions/{session}/objects", params={"name": "x"}, content=b"x")
    refused(answer, 429, "too_many_requests")


# The Python client ----------------------------------------------------------------------------------------------------


@pytest.fixture
def remote(running: Running) -> Iterator[Plane]:
    with Plane(Remote(running.address, running.key())) as plane:
        yield plane


def test_python_reads_and_writes_objects_of_a_server(remote: Plane) -> None:
    session: OpenSession = remote.session("t")
    info = session.put("video.mp4", io.BytesIO(VIDEO))
    assert session.objects == [session.stat("video.mp4")] == [info]
    with session.open("video.mp4") as stream:
        assert stream.read() == VIDEO
    assert session.put("notes.md", b"short").media_type == "text/markdown"
    assert session.open("notes.md").read() == b"short"
    with pytest.raises(NotFound):
        session.open("nothing")
    session.put("core.bin", VIDEO[:500] + TOKEN.encode())
    with pytest.raises(Conflict):
        session.open("core.bin")


def test_python_is_refused_over_http_as_it_would_be_here(running: Running, remote: Plane) -> None:
    session = remote.session("t", project="shop")
    bob = Remote(running.address, running.key("person:bob", viewer("person:bob", project="shop")))
    with Plane(bob), pytest.raises(Denied):
        OpenSession(bob, session.id).put("x", b"x")
    with pytest.raises(Unavailable):
        OpenSession(Remote("http://127.0.0.1:9"), session.id).put("x", b"x")


# Size -----------------------------------------------------------------------------------------------------------------

MB = 1024 * 1024
LARGE_MB = 120

CLIENT = """
import os, sys
from pathlib import Path
from clew.client import Plane
from clew.remote import Remote
plane = Plane(Remote(sys.argv[1], sys.argv[2]))
session = plane.session("t")
def pieces():
    for number in range(int(sys.argv[3])):
        yield number.to_bytes(4, "big") + bytes(4) + os.urandom(1024 * 1024 - 8)
def peak():
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
session.put("small.bin", b"x")
before = peak()
info = session.put("large.bin", pieces())
size = sum(len(piece) for piece in plane.client.open_object(session.id, "large.bin").pieces)
print(info.size, size, peak() - before)
"""


def test_a_large_object_is_in_the_memory_of_neither_side(tmp_path: Path) -> None:
    with Running(f"sqlite:///{tmp_path}/clew.db", str(tmp_path)) as running:
        key = running.key()
        Path("/proc/self/clear_refs").write_text("5")  # The peak begins anew.
        before = peak_mb()
        command = [sys.executable, "-c", CLIENT, running.address, key, str(LARGE_MB)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        sent, received, held_kb = map(int, done.stdout.split())
        assert sent == received == LARGE_MB * MB
        assert held_kb / 1024 < LARGE_MB / 3
        assert peak_mb() - before < LARGE_MB * 2 / 3


def peak_mb() -> float:
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024


def test_a_session_is_downloaded_as_a_bundle_and_not_with_a_secret(
    client: httpx2.Client, running: Running, session: str, tmp_path: Path
) -> None:
    put(client, session, "video.mp4", VIDEO)
    answer = client.get(f"/v1/sessions/{session}/bundle")
    assert (answer.status_code, answer.headers["x-content-type-options"]) == (200, "nosniff")
    assert f"attachment; filename*=UTF-8''{session}.clew.tar.zst" == answer.headers["content-disposition"]
    file = tmp_path / "bundle"
    file.write_bytes(answer.content)
    with closing(Remote(running.address, running.key())) as remote:
        assert len(b"".join(remote.read_bundle(session))) > len(VIDEO)
    with open_store(f"sqlite:///{tmp_path}/other.db") as store:
        context = Context(store=store, unrestricted=store, principal="a", grants=(owner_of_everything("a"),))
        done = call(context, "bundle_import", {"file": str(file)})
    assert (done.ids, done.objects) == ([session], 1)
    said = {"kind": "message_added", "role": "user", "text": TOKEN}
    client.post(f"/v1/sessions/{session}/events", json={"drafts": [said]}).raise_for_status()
    assert "holds secrets" in refused(client.get(f"/v1/sessions/{session}/bundle"), 409, "conflict")
    refused(client.get("/v1/sessions/nosuchsession/bundle"), 400, "invalid_input")
