"""Who asks: keys that are good and keys that are not, browsers, and a server on one's own machine."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from clew.server.http.uvicorn_server import OwnProtocol, _is_from
from clew.server.options import LOOPBACK_NAMES
from clew.service import call
from clew.store.access.api_keys import expire_api_key, list_api_keys
from server.running import OWNER, Running, viewer, writer

Serve = Callable[..., Running]


def code(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """What `clew up` serves."""
    home = tmp_path_factory.mktemp("own")
    with Running(f"sqlite:///{home / 'clew.db'}", str(home), is_own=True, hosts=LOOPBACK_NAMES) as running:
        yield running


# Keys -----------------------------------------------------------------------------------------------------------------


def test_without_a_good_key_nobody_comes_in(running: Running) -> None:
    good = running.key()
    ended = running.key("person:old", viewer("person:old", project="p"))
    [key] = list_api_keys(running.authenticator.store, "person:old")
    expire_api_key(running.authenticator.store, key.id, running.authenticator.store.now())
    unknown = good.replace(good.split("_")[2], "0" * 12)
    for header in (
        None, "", "Bearer", "Basic b3duZXI6", f"Bearer {good[:-1]}", f"Bearer {good}x", f"Bearer {unknown}",
        f"Bearer {ended}", "Bearer clew_person_x_y_z", "Bearer eyJhbGciOiJub25lIn0.e30.", f"Bearer {'x' * 20_000}",
    ):  # fmt: skip
        with running.client() as client:
            answer = client.get("/v1/sessions", headers={"Authorization": header} if header is not None else {})
            assert code(answer) == (401, "unauthenticated"), header
            assert answer.headers["www-authenticate"].startswith("Bearer")
            assert good not in answer.text
    login = running.authenticator.new_login_secret(OWNER, given_by=OWNER)
    with running.client(login) as client:
        assert code(client.get("/v1/sessions")) == (401, "unauthenticated")
    with running.client() as client:
        # A key in an address would be in every log on the way.
        assert code(client.get(f"/v1/sessions?key={good}")) == (401, "unauthenticated")


def test_a_key_is_good_for_its_scopes_and_no_more(running: Running) -> None:
    mine = call(running.owner, "open", {"project": "p"}).id
    reading = running.key("person:ann", writer("person:ann", project="p"), scopes=["see", "read"])
    bound = running.key("person:ben", writer("person:ben"), project="q")
    with running.client(reading) as client:
        assert client.get(f"/v1/sessions/{mine}").status_code == 200
        assert code(client.post(f"/v1/sessions/{mine}/pause")) == (403, "denied")
        assert code(client.delete(f"/v1/sessions/{mine}")) == (403, "denied")
    with running.client(bound) as client:
        assert code(client.get(f"/v1/sessions/{mine}")) == (404, "not_found")
        assert code(client.post("/v1/sessions", json={"project": "p"})) == (403, "denied")
        assert client.post("/v1/sessions", json={"project": "q"}).status_code == 200


def test_a_revoked_key_is_refused_within_a_second(running: Running) -> None:
    key = running.key("person:kim", viewer("person:kim", project="p"))
    [found] = list_api_keys(running.authenticator.store, "person:kim")
    with running.client(key) as client, running.client(running.key()) as owner:
        assert client.get("/v1/sessions").status_code == 200
        assert owner.delete(f"/v1/keys/{found.id}").status_code == 200

        async def until_refused() -> None:
            async with asyncio.timeout(5):
                while client.get("/v1/sessions").status_code != 401:
                    await asyncio.sleep(0.02)

        asyncio.run(until_refused())


def test_a_clock_that_is_wrong_here_changes_nothing(serve: Serve) -> None:
    """Whether a key has ended is decided by the database's clock, and requests carry no time of their own."""
    running = serve()
    with running.client(running.key()) as client:
        for date in ("Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 31 Dec 2199 23:59:59 GMT", "yesterday"):
            assert client.get("/v1/sessions", headers={"Date": date}).status_code == 200
        id = client.post("/v1/sessions", json={}).json()["id"]
        for said_at in (0, -(2**62), 2**62):
            draft = {"kind": "message_added", "role": "user", "text": "t", "said_at": said_at}
            assert client.post(f"/v1/sessions/{id}/events", json={"drafts": [draft]}).status_code == 200
        assert [one["seq"] for one in client.get(f"/v1/sessions/{id}/events").json()] == [1, 2, 3, 4]
        assert client.get("/v1/sessions").status_code == 200
        assert client.get(f"/sessions/{id}").status_code == 200


# Browsers -------------------------------------------------------------------------------------------------------------


def test_a_link_is_good_for_one_login(running: Running) -> None:
    link = running.authenticator.new_login_secret(OWNER, given_by=OWNER)
    with running.client() as browser:
        assert "/login" in browser.get("/").headers["location"]
        page = browser.get("/login")
        assert page.status_code == 200
        answer = browser.post("/login", json={"token": link})
        assert answer.status_code == 200
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Lax" in cookie
        assert link not in cookie
        assert browser.get("/").status_code == 200
        assert browser.get("/v1/sessions").status_code == 200
    with running.client() as other:
        assert code(other.post("/login", json={"token": link})) == (401, "unauthenticated")
        assert code(other.post("/login", json={"token": "nonsense"})) == (401, "unauthenticated")
        assert code(other.post("/login", json={})) == (400, "invalid_input")
        assert other.post("/login", json={"token": "x" * 10_000}).status_code == 413
    assert link not in running.log.getvalue()


def test_a_cookie_changes_nothing_for_a_page_of_another_site(running: Running) -> None:
    with running.client() as browser:
        browser.post("/login", json={"token": running.authenticator.new_login_secret(OWNER, given_by=OWNER)})
        for headers in (
            {}, {"Origin": "https://evil.example"}, {"Origin": "null"},
            {"Origin": running.address, "Sec-Fetch-Site": "cross-site"},
        ):  # fmt: skip
            answer = browser.post("/v1/sessions", json={"title": "forged"}, headers=headers)
            assert code(answer) == (403, "denied"), headers
        assert (
            browser.post("/v1/sessions", json={"title": "mine"}, headers={"Origin": running.address}).status_code == 200
        )
        assert browser.post("/logout", headers={"Origin": "https://evil.example"}).status_code == 403
        out = browser.post("/logout", headers={"Origin": running.address})
        assert (out.status_code, "Max-Age=0" in out.headers["set-cookie"]) == (303, True)


def test_behind_tls_the_cookie_is_for_tls_alone(tmp_path: Path) -> None:
    tls = {"public_url": "https://clew.example", "hosts": ("clew.example", "127.0.0.1")}
    with Running(f"sqlite:///{tmp_path / 'clew.db'}", str(tmp_path), **tls) as running, running.client() as browser:
        running.key()
        link = running.authenticator.new_login_secret(OWNER, given_by=OWNER)
        answer = browser.post("/login", json={"token": link}, headers={"Origin": "https://clew.example"})
        assert answer.headers["set-cookie"].startswith("__Host-clew=")
        assert "Secure" in answer.headers["set-cookie"]


def test_a_shared_link_opens_one_session_in_a_browser(running: Running) -> None:
    id, other = (call(running.owner, "open", {"title": title}).id for title in ("shared with you", "not this one"))
    link = call(running.owner, "link", {"session": id}).key
    with running.client() as browser:
        assert browser.post("/login", json={"token": link}).status_code == 200
        assert "shared with you" in browser.get("/").text
        assert browser.get(f"/sessions/{id}").status_code == 200
        assert browser.get(f"/sessions/{other}").status_code == 404
        answer = browser.post(f"/v1/sessions/{id}/pause", headers={"Origin": running.address})
        assert code(answer) == (403, "denied")


# One's own machine ----------------------------------------------------------------------------------------------------


def test_on_ones_own_machine_no_login_is_needed(own: Running) -> None:
    with own.client() as client:
        assert client.get("/").status_code == 200
        assert client.post("/v1/sessions", json={"title": "mine"}).status_code == 200


def test_a_page_of_another_site_cannot_reach_ones_own_machine(own: Running) -> None:
    """Neither under a name that it made point here, nor by asking from its own."""
    with own.client() as client:
        port = own.address.rpartition(":")[2]
        for headers in (
            {"Host": f"evil.example:{port}"}, {"Host": "evil.example"}, {"Host": f"127.0.0.1.evil.example:{port}"},
            {"Host": ""}, {"Origin": "https://evil.example"}, {"Origin": f"http://evil.example:{port}"},
            {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        ):  # fmt: skip
            for path in ("/v1/sessions", "/"):
                assert client.get(path, headers=headers).status_code == 403, headers
            assert client.post("/v1/sessions", json={}, headers=headers).status_code == 403, headers
        for host in (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}"):
            assert client.get("/v1/sessions", headers={"Host": host}).status_code == 200
        assert client.post("/v1/sessions", json={}, headers={"Origin": own.address}).status_code == 200
        simple = client.post("/v1/sessions", content=b'{"title":"forged"}', headers={"Content-Type": "text/plain"})
        assert simple.status_code == 415


def test_other_accounts_of_the_machine_are_told_apart() -> None:
    """Linux says whose program is at the other end of a connection."""
    with socket.create_server(("127.0.0.1", 0)) as made, socket.create_connection(made.getsockname()) as client:
        here, _ = made.accept()
        ends = (here.getpeername(), here.getsockname())
        here.close()
        assert OwnProtocol.allowed_accounts is not None
        assert _is_from(OwnProtocol.allowed_accounts, *ends) == Path("/proc/net/tcp").exists()
        assert not _is_from(frozenset({987654}), *ends)
        assert client


def test_the_rights_of_a_key_are_ruled_on_for_metrics(running: Running) -> None:
    auditor = running.key("service:prometheus", viewer("service:prometheus"))
    with running.client(auditor) as client:
        far = {"Host": "clew.example", "X-Forwarded-For": "192.0.2.1"}
        assert code(client.get("/metrics", headers=far)) == (403, "denied")
        assert client.get("/metrics").status_code == 200
    with running.client() as nobody:
        assert code(nobody.get("/metrics", headers={"Host": "clew.example"})) == (401, "unauthenticated")
        assert code(nobody.get("/metrics", headers={"X-Forwarded-For": "192.0.2.1"})) == (401, "unauthenticated")
    with running.client(running.key()) as owner:
        assert owner.get("/metrics", headers={"Host": "clew.example"}).status_code == 200
