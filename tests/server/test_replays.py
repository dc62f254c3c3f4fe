"""The same request twice under one Idempotency-Key runs once."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx2
import msgspec
import pytest

from clew.model.errors import Conflict
from clew.model.events import Draft, MessageAdded
from clew.server.http import idempotency
from clew.server.http.problems import Refused
from clew.store.idempotency import read_answer
from clew.store.log.opening import Opening
from clew.store.log.plan import AlreadyAnswered, Appended, Request
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
    idempotency.finish(store, second, 200, b"{}")
    assert idempotency.claim(store, "person:a", "k", request) == idempotency.Replay(200, b"{}")


def test_what_a_dead_process_did_is_said_to_be_unknown(running: Running, client: httpx2.Client) -> None:
    """Its claim has no end; after a while nobody waits for one."""
    store = running.authenticator.store
    body = msgspec.json.encode({"title": "x"})
    request = idempotency.digest("POST", "/v1/sessions", b"", body, running.owner.rights)
    assert isinstance(idempotency.claim(store, "person:owner", "dead", request), idempotency.Claim)
    with store.database.write() as tx:
        tx.execute("UPDATE answered SET answer = zeroblob(24) WHERE key LIKE 'dead%'")
    headers = {"Idempotency-Key": "dead", "Content-Type": "application/json"}
    answer = client.post("/v1/sessions", content=body, headers=headers)
    assert answer.status_code == 409
    assert "unknown" in answer.json()["detail"]


# Appends: the answer is kept in the commit of the events ------------------------------------------------------------


def test_racing_appends_with_one_key_are_stored_once(serve: Serve) -> None:
    """On two servers of one log, whose queues know nothing of each other."""
    servers = [serve(), serve()]
    key = servers[0].key()
    clients = [servers[number % 2].client(key) for number in range(8)]
    id = clients[0].post("/v1/sessions", json={}).json()["id"]
    barrier = threading.Barrier(8)

    def ask(client: httpx2.Client) -> list[httpx2.Response]:
        answers = []
        for number in range(20):
            barrier.wait()
            body = {"drafts": [said(f"message {number}")]}
            answers.append(post(client, f"/v1/sessions/{id}/events", body, key=f"append-{number}"))
        return answers

    with ThreadPoolExecutor(8) as pool:
        by_client = list(pool.map(ask, clients))
    for answers in zip(*by_client, strict=True):
        assert [answer.status_code for answer in answers] == [200] * 8, answers[0].text
        assert len({answer.content for answer in answers}) == 1
        assert sum("idempotency-replayed" not in answer.headers for answer in answers) == 1
    texts = [event["text"] for event in clients[0].get(f"/v1/sessions/{id}/events").json()[1:]]
    assert texts == [f"message {number}" for number in range(20)]
    for client in clients:
        client.close()


def test_an_append_and_its_answer_are_one_commit(running: Running) -> None:
    store = running.authenticator.store
    session = store.open(Opening(project="p"), actor="person:a")

    def append(key: str, *, fails: bool = False) -> Request:
        def encode(appended: Appended) -> bytes:
            if fails:
                raise Conflict("the process died")
            return msgspec.json.encode(appended)

        request = store.prepare(session, [Draft(body=MessageAdded(role="user", text=key))], actor="person:a")
        request.receipt = idempotency.receipt(store, idempotency.Claim("person:a", key, 0, b"r" * 32), encode)
        return request

    died, first, again, other = append("a", fails=True), append("a"), append("a"), append("b")
    store.commit([died])
    assert store.head(session).head == 1
    assert read_answer(store, "person:a", "a\n0") is None
    store.commit([first])
    assert first.outcome().seqs == [2]
    store.commit([again, other])
    with pytest.raises(AlreadyAnswered):
        again.outcome()
    assert other.outcome().seqs == [3]
    assert idempotency.claim(store, "person:a", "a", b"r" * 32) == idempotency.Replay(
        200, msgspec.json.encode(first.outcome())
    )
    with pytest.raises(Refused, match="used for another request"):
        idempotency.claim(store, "person:a", "a", b"x" * 32)


def test_a_refused_append_is_answered_alike_again(running: Running, client: httpx2.Client) -> None:
    """Refused before the commit, by the commit, and after it: nothing more is ever stored under that key."""
    id = client.post("/v1/sessions", json={"budget_tokens": 10}).json()["id"]
    path = f"/v1/sessions/{id}/events"
    spent = {"kind": "usage_counted", "usage": {"input": 99}, "model": "m", "message": "1"}
    asked = {
        "invalid": {"drafts": [{"kind": "session_opened"}]},
        "stale": {"drafts": [said("late")], "expect": 77},
        "over": {"drafts": [spent]},
    }
    first = {key: post(client, path, body, key=key) for key, body in asked.items()}
    codes = {key: (answer.status_code, answer.json()["code"]) for key, answer in first.items()}
    assert codes == {"invalid": (400, "invalid_input"), "stale": (409, "stale_head"), "over": (409, "budget_exceeded")}
    head = running.authenticator.store.head(running.authenticator.store.session(id)).head
    client.post(f"/v1/sessions/{id}/budget", json={"unlimited": True}).raise_for_status()
    client.post(f"/v1/sessions/{id}/resume").raise_for_status()
    for key, body in asked.items():
        again = post(client, path, body, key=key)
        assert again.headers["idempotency-replayed"] == "true"
        assert again.content == first[key].content
    assert running.authenticator.store.head(running.authenticator.store.session(id)).head == head + 2
    assert post(client, path, {"drafts": [said("other")]}, key="stale").status_code == 422


def test_a_precondition_that_does_not_hold_is_repeated_too(client: httpx2.Client) -> None:
    id = client.post("/v1/sessions", json={}).json()["id"]
    headers = {"Idempotency-Key": "if", "If-Match": '"9"'}
    answers = [
        client.post(f"/v1/sessions/{id}/events", json={"drafts": [said("x")]}, headers=headers) for _ in range(2)
    ]
    assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(412, "stale_head")] * 2
    assert client.post(f"/v1/sessions/{id}/events", json={"drafts": []}, headers={"Idempotency-Key": "e"}).json() == {
        "seqs": [], "deduplicated": [], "head": 1, "exceeded": False,
    }  # fmt: skip


def said(text: str) -> dict[str, str]:
    return {"kind": "message_added", "role": "user", "text": text}


def post(client: httpx2.Client, path: str, body: object, *, key: str) -> httpx2.Response:
    return client.post(path, json=body, headers={"Idempotency-Key": key})
