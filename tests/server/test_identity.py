"""Who asks: keys that are good and keys that are not, browsers, and a server on one's own machine."""

import asyncio
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import httpx2
import pytest

from clew.server.http.uvicorn_server import OwnProtocol, _is_from
from clew.server.login.own_secret import own_secret
from clew.server.options import LOOPBACK_NAMES
from clew.service import call
from clew.service.access.key_text import new_token
from clew.store.access.credentials import end_credential, list_credentials
from server.running import OWNER, Running, viewer, writer

Serve = Callable[..., Running]
OTHER_ACCOUNT = 65534


def code(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """What `clew up` serves."""
    home = tmp_path_factory.mktemp("own")
    with Running(
        f"sqlite:///{home / 'clew.db'}", str(home), own_secret=new_token("up").text, hosts=LOOPBACK_NAMES
    ) as running:
        yield running


# Keys -----------------------------------------------------------------------------------------------------------------


def test_without_a_good_key_nobody_comes_in(running: Running) -> None:
    good = running.key()
    ended = running.key("person:old", viewer("person:old", project="p"))
    [key] = list_credentials(running.authenticator.store, "person:old")
    end_credential(running.authenticator.store, key.id, running.authenticator.store.now())
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
    [found] = list_credentials(running.authenticator.store, "person:kim")
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
    assert running.owner  # Whoever looks first makes the owner.
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


def test_a_link_does_not_replace_a_login_unseen(running: Running) -> None:
    ann = running.key("person:ann", viewer("person:ann", project="p"))
    link = running.authenticator.new_login_secret(OWNER, given_by=OWNER)
    with running.client() as browser:
        assert browser.post("/login", json={"token": ann}).status_code == 200
        refused = browser.post("/login", json={"token": link})
        assert code(refused) == (409, "conflict")
        assert "person:ann" in refused.json()["detail"]
        assert "set-cookie" not in refused.headers
        assert browser.get("/v1/me").json()["principal"] == "person:ann"
        assert browser.post("/login", json={"token": link, "replace": True}).status_code == 200
        assert browser.get("/v1/me").json()["principal"] == OWNER


def test_a_form_of_another_site_that_posts_without_an_origin_changes_nothing(running: Running, own: Running) -> None:
    """Some browsers leave the Origin out; they say that a page of another site sends the form, or nothing at all."""
    assert running.owner
    with running.client() as browser, own.own_browser() as mine:
        browser.post("/login", json={"token": running.authenticator.new_login_secret(OWNER, given_by=OWNER)})
        del mine.headers["Origin"]
        for client, server in ((browser, running), (mine, own)):
            id = call(server.owner, "open", {"title": "t"}).id
            form = {"Content-Type": "application/x-www-form-urlencoded"}
            for more in ({}, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, {"Origin": "null"}):
                answer = client.post(f"/v1/sessions/{id}/pause", headers={**form, **more})
                assert code(answer) == (403, "denied"), more
                assert code(client.post("/logout", headers={**form, **more})) == (403, "denied")
            link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
            assert client.get("/", headers=link).status_code == 200


def test_no_page_of_another_site_embeds_an_answer_or_keeps_a_window(running: Running) -> None:
    with running.client(running.key()) as client:
        for path in ("/", "/v1/me", "/login", "/assets/clew.js", "/healthz", "/nothing"):
            assert client.get(path).headers["cross-origin-resource-policy"] == "same-origin", path
        assert client.get("/login").headers["cross-origin-opener-policy"] == "same-origin"


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


def test_ones_own_server_knows_the_browser_of_its_person(own: Running) -> None:
    """The link's secret opens it, as a login and as a key; without it nothing that is stored is shown or changed."""
    secret = own.application.options.own_secret
    with own.client() as browser:
        for path in ("/", "/sessions/x"):
            assert browser.get(path).headers["location"] == "/login"
        for path in ("/v1/sessions", "/v1/stream", "/metrics"):
            assert code(browser.get(path)) == (401, "unauthenticated"), path
        assert code(browser.post("/v1/sessions", json={})) == (401, "unauthenticated")
        for wrong in ("", secret[:-1], own.key(), secret.replace("clew_up", "clew_person")):
            assert code(browser.post("/login", json={"token": wrong})) == (401, "unauthenticated")
        answer = browser.post("/login", json={"token": secret}, headers={"Origin": own.address})
        assert answer.status_code == 200
        assert "HttpOnly" in answer.headers["set-cookie"]
        assert browser.get("/").status_code == 200
        origin = {"Origin": own.address}
        assert browser.post("/v1/sessions", json={"title": "mine"}, headers=origin).status_code == 200
        assert code(browser.post("/v1/sessions", json={"title": "mine"})) == (403, "denied")
    with own.client(secret) as program:
        assert program.get("/v1/sessions").status_code == 200
    assert secret not in own.log.getvalue()


def test_the_secret_of_ones_own_server_is_made_again_if_others_could_know_it(tmp_path: Path) -> None:
    first = own_secret(tmp_path / "home")
    assert own_secret(tmp_path / "home") == first
    path = tmp_path / "home" / "up.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    second = own_secret(tmp_path / "home")
    assert second != first
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    if os.geteuid() == 0:
        os.chown(path, OTHER_ACCOUNT, OTHER_ACCOUNT)
        assert own_secret(tmp_path / "home") not in (first, second)


def test_a_page_of_another_site_cannot_reach_ones_own_machine(own: Running) -> None:
    """Neither under a name that it made point here, nor by asking from its own."""
    with own.own_browser() as client:
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
            headers = {"Host": host, "Origin": f"http://{host}"}
            assert client.get("/v1/sessions", headers=headers).status_code == 200
        assert client.post("/v1/sessions", json={}, headers={"Origin": own.address}).status_code == 200
        simple = client.post("/v1/sessions", content=b'{"title":"forged"}', headers={"Content-Type": "text/plain"})
        assert simple.status_code == 415


def test_a_host_with_anything_behind_its_port_is_another_host(own: Running) -> None:
    secret, port = own.application.options.own_secret, own.address.rpartition(":")[2]
    with own.client(secret) as client:
        assert client.get("/v1/sessions", headers={"Host": f"127.0.0.1:{port}"}).status_code == 200
        for host in (f"127.0.0.1:{port}@evil.example", f"localhost:{port}.evil.example", "[::1]:x", "127.0.0.1:1:1"):
            assert client.get("/v1/sessions", headers={"Host": host}).status_code == 403, host


def test_other_accounts_of_the_machine_are_told_apart() -> None:
    """Linux says whose program is at the other end of a connection; of a closed socket it does not."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        client = socket.create_connection(made.getsockname())
        here, _ = made.accept()
        ends = (here.getpeername(), here.getsockname())
        assert OwnProtocol.allowed_accounts == {os.geteuid()}
        assert _is_from(OwnProtocol.allowed_accounts, *ends)
        assert not _is_from(frozenset({987654}), *ends)
        client.close()
        assert not _is_from(OwnProtocol.allowed_accounts | {0}, *ends)
        here.close()


# What another account of the machine sends: a whole request, and then it either waits or closes its socket at once.
INTRUDER = """
import os, socket, sys
port, waits, secret, id, account = int(sys.argv[1]), sys.argv[2] == "waits", sys.argv[3], sys.argv[4], int(sys.argv[5])
"".encode("idna")  # Loaded while the files of Python can still be read.
os.setgroups([])
os.setgid(account)
os.setuid(account)
for method, path, body in (
    ("POST", "/v1/sessions", b'{"title":"forged"}'), ("DELETE", f"/v1/sessions/{id}", b""), ("GET", "/v1/sessions", b"")
) * 10:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        head = f"{method} {path} HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\nContent-Type: application/json\\r\\n"
        if secret:
            head += f"Authorization: Bearer {secret}\\r\\n"
        connection.sendall(head.encode() + b"Content-Length: %d\\r\\n\\r\\n" % len(body) + body)
        if waits:
            try:
                answer = b""
                while b"}" not in answer and (chunk := connection.recv(65536)):
                    answer += chunk
            except OSError:
                pass
            print(answer)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a program under another account")
@pytest.mark.parametrize("knows_secret", [False, True], ids=["without the secret", "with the secret"])
def test_another_account_of_the_machine_can_do_nothing(own: Running, knows_secret: bool) -> None:
    """Neither when it waits for answers, nor when it closes each socket before the server looks whose it is."""
    secret = own.application.options.own_secret if knows_secret else ""
    with own.own_browser() as browser:
        id = browser.post("/v1/sessions", json={"title": "mine"}).json()["id"]
        for manner in ("waits", "closes"):
            words = [own.address.rpartition(":")[2], manner, secret, id, str(OTHER_ACCOUNT)]
            with own.busy() if manner == "closes" else nullcontext():
                done = subprocess.run(
                    [sys.executable, "-c", INTRUDER, *words], capture_output=True, text=True, check=False
                )
            assert done.returncode == 0, done.stderr
            assert "forged" not in done.stdout
            assert "mine" not in done.stdout
        assert browser.get(f"/v1/sessions/{id}").json()["session"]["title"] == "mine"
        titles = [line["title"] for line in browser.get("/v1/sessions").json()]
    assert "forged" not in titles


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
