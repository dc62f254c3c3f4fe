"""The same request twice under one Idempotency-Key runs once."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx2
import msgspec

from clew.server.http import idempotency
from clew.server.http.operations import rights_of
from server.running import Running

Serve = Callable[..., Running]


def test_racing_requests_with_one_key_run_once(serve: Serve) -> None:
    """On two servers of one log, as a proxy that tries again would send them."""
    servers = [serve(), serve()]
    key = servers[0].key()
    barrier = threading.Barrier(8)
    clients = [servers[number % 2].client(key) for number in range(8)]

    def ask(client: httpx2.Client) -> httpx2.Response:
        barrier.wait()
        return client.post("/v1/sessions", json={"title": "once"}, headers={"Idempotency-Key": "k1"})

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, clients))
    assert [answer.status_code for answer in answers] == [200] * 8, answers[0].text
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert sum("idempotency-replayed" not in answer.headers for answer in answers) == 1
    assert len(clients[0].get("/v1/sessions").json()) == 1
    for client in clients:
        client.close()


def test_a_key_is_for_one_request_of_one_caller(running: Running, client: httpx2.Client) -> None:
    def post(asking: httpx2.Client, title: str) -> httpx2.Response:
        return asking.post("/v1/sessions", json={"title": title}, headers={"Idempotency-Key": "mine"})

    first, again, other = post(client, "a"), post(client, "a"), post(client, "b")
    assert first.content == again.content
    assert (other.status_code, other.json()["code"]) == (422, "conflict")
    with running.client(running.key("person:zoe")) as zoe:
        assert post(zoe, "a").status_code == 403
    bad = client.post("/v1/sessions", json={}, headers={"Idempotency-Key": "x" * 300})
    assert (bad.status_code, bad.json()["code"]) == (400, "invalid_input")


def test_a_refusal_is_repeated_too(client: httpx2.Client) -> None:
    id = client.post("/v1/sessions", json={}).json()["id"]
    client.post(f"/v1/sessions/{id}/pause").raise_for_status()

    def pause() -> httpx2.Response:
        return client.post(f"/v1/sessions/{id}/pause", headers={"Idempotency-Key": "pause"})

    assert (pause().status_code, pause().json()["code"]) == (409, "wrong_state")
    client.post(f"/v1/sessions/{id}/resume").raise_for_status()
    assert pause().json()["code"] == "wrong_state"


def test_a_secret_is_never_kept_for_a_second_answer(running: Running, client: httpx2.Client) -> None:
    def create() -> httpx2.Response:
        return client.post("/v1/keys", json={"label": "once"}, headers={"Idempotency-Key": "new-key"})

    made, again = create(), create()
    assert made.json()["key"].startswith("clew_person_")
    assert (again.status_code, again.json()["code"]) == (409, "conflict")
    assert "clew_person_" not in again.text
    with running.authenticator.store.database.read() as tx:
        kept = tx.execute("SELECT answer FROM answered").fetchall()
    assert made.json()["key"] not in str(kept)


def test_an_attempt_that_came_to_nothing_may_be_made_again(running: Running) -> None:
    store, request = running.authenticator.store, b"r" * 32
    first = idempotency.claim(store, "person:a", "k", request)
    assert isinstance(first, idempotency.Claim)
    idempotency.release(store, first)
    second = idempotency.claim(store, "person:a", "k", request)
    assert isinstance(second, idempotency.Claim)
    idempotency.keep(store, second, 200, b"{}")
    assert idempotency.claim(store, "person:a", "k", request) == idempotency.Replay(200, b"{}")


def test_what_a_dead_process_did_is_said_to_be_unknown(running: Running, client: httpx2.Client) -> None:
    """Its claim has no end; after a while nobody waits for one."""
    store = running.authenticator.store
    body = msgspec.json.encode({"title": "x"})
    request = idempotency.digest("POST", "/v1/sessions", b"", body, rights_of(running.owner))
    assert isinstance(idempotency.claim(store, "person:owner", "dead", request), idempotency.Claim)
    with store.database.write() as tx:
        tx.execute("UPDATE answered SET answer = zeroblob(24) WHERE key LIKE 'dead%'")
    headers = {"Idempotency-Key": "dead", "Content-Type": "application/json"}
    answer = client.post("/v1/sessions", content=body, headers=headers)
    assert answer.status_code == 409
    assert "unknown" in answer.json()["detail"]
