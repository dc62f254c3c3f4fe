"""Operations over HTTP: arguments, results, pages, versions, refusals."""

import gzip
import re
import typing
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import msgspec
import pytest
import zstandard

from clew.model.errors import ClewError
from clew.server.http.endpoints import endpoints
from clew.server.http.problems import STATUS
from clew.service import call
from clew.service.access.credentials import KeyInfo
from clew.service.kernel.registry import load
from clew.service.kernel.results import to_json
from server.running import Running, viewer, writer

SAID = {"kind": "message_added", "role": "user", "text": "why does it lock?"}


def opened(client: httpx2.Client, **fields: object) -> str:
    answer = client.post("/v1/sessions", json=fields)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


def refused(answer: httpx2.Response, status: int, code: str) -> dict[str, object]:
    assert (answer.status_code, answer.json().get("code")) == (status, code), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == f"/errors/{code}"
    return dict(answer.json())


# Codes and routes -----------------------------------------------------------------------------------------------------


def test_every_error_code_has_a_status() -> None:
    def codes(root: type[ClewError]) -> set[str]:
        return {root.code}.union(*map(codes, root.__subclasses__()))

    assert codes(ClewError) == STATUS.keys()


def test_the_table_of_statuses_in_the_docs_is_that_of_the_code() -> None:
    page = (Path(__file__).parents[2] / "docs" / "server.md").read_text()
    rows = dict(re.findall(r"^\| (\d{3}) \| (.*) \|$", page, re.MULTILINE))
    told = {code: int(status) for status, cell in rows.items() for code in re.findall(r"`([a-z_]+)`", cell)}
    assert told == STATUS


def test_every_operation_with_a_route_is_served_and_no_other(client: httpx2.Client) -> None:
    described = client.get("/openapi.json").json()
    served = {one["operationId"] for path in described["paths"].values() for one in path.values()}
    of_their_own = {"stream", "stream_session", "object_open", "object_put", "workspace_open", "workspace_tar"}
    of_their_own.add("bundle_open")
    assert served == {operation.name for operation in load().values() if operation.route} | of_their_own
    assert not {"capture", "connect", "materialise"} & served


def test_answers_that_hold_a_secret_are_known() -> None:
    makes_keys = {
        endpoint.operation.name for endpoint in endpoints() if endpoint.result is KeyInfo and endpoint.method == "POST"
    }
    assert (
        makes_keys
        == {endpoint.operation.name for endpoint in endpoints() if endpoint.operation.shows_secret}
        > {"link"}
    )


def test_what_holds_only_numbers_is_not_searched_for_secrets() -> None:
    masked = {endpoint.operation.name: endpoint.is_masked for endpoint in endpoints()}
    assert not masked["append"]
    assert masked["show"]
    assert masked["events"]
    assert masked["search"]


# Results --------------------------------------------------------------------------------------------------------------


def test_an_answer_is_what_the_operation_gives(running: Running, client: httpx2.Client) -> None:
    id = opened(client, title="parity")
    client.post(f"/v1/sessions/{id}/events", json={"drafts": [SAID]}).raise_for_status()
    for path, name, arguments in (
        (f"/v1/sessions/{id}", "show", {"session": id}),
        (f"/v1/sessions/{id}/events", "events", {"session": id}),
        ("/v1/sessions", "sessions", {}),
        ("/v1/search?query=lock&flat=true", "search", {"query": "lock", "flat": True}),
        ("/v1/usage?by=model&by=day", "usage", {"by": ["model", "day"]}),
    ):
        assert client.get(path).content == to_json(call(running.owner, name, arguments))


def test_drafts_are_kept_as_they_were_sent(client: httpx2.Client) -> None:
    id = opened(client)
    verbatim = b'{"b": 1.0, "a":[ 1e2,"\\u00e9" ] }'
    body = b'{"drafts": [{"kind": "call_made", "call": "c", "tool": "t", "input": %b}]}' % verbatim
    made = client.post(f"/v1/sessions/{id}/events", content=body, headers={"Content-Type": "application/json"})
    assert made.json() == {"seqs": [2], "deduplicated": [], "head": 2, "exceeded": False}
    assert verbatim in client.get(f"/v1/sessions/{id}/events").content


def test_drafts_may_come_as_lines(client: httpx2.Client) -> None:
    id = opened(client)
    lines = b"\n".join([msgspec.json.encode(SAID), b"", msgspec.json.encode({**SAID, "source": "two"}), b""])
    headers = {"Content-Type": "application/x-ndjson"}
    made = client.post(f"/v1/sessions/{id}/events?expect=1", content=lines, headers=headers)
    assert made.json()["seqs"] == [2, 3]
    again = client.post(f"/v1/sessions/{id}/events?expect=1", content=lines, headers=headers)
    refused(again, 409, "stale_head")


@pytest.mark.parametrize("packing", ["gzip", "zstd"])
def test_bodies_and_answers_may_be_packed(client: httpx2.Client, packing: str) -> None:
    id = opened(client)
    body = msgspec.json.encode({"drafts": [{**SAID, "text": "long " * 1000}]})
    packed = gzip.compress(body) if packing == "gzip" else zstandard.compress(body)
    headers = {"Content-Type": "application/json", "Content-Encoding": packing}
    client.post(f"/v1/sessions/{id}/events", content=packed, headers=headers).raise_for_status()
    with client.stream("GET", f"/v1/sessions/{id}/events", headers={"Accept-Encoding": packing}) as answer:
        raw = b"".join(answer.iter_raw())
    assert answer.headers["content-encoding"] == packing
    unpacked = gzip.decompress(raw) if packing == "gzip" else zstandard.decompress(raw)
    assert len(raw) < 1000 < len(unpacked)
    assert msgspec.json.decode(unpacked)[1]["text"] == "long " * 1000


# Pages ----------------------------------------------------------------------------------------------------------------


def walked(client: httpx2.Client, path: str) -> list[list[typing.Any]]:
    pages = []
    while path:
        answer = client.get(path)
        pages.append(answer.json())
        path = str(answer.links["next"]["url"]) if "next" in answer.links else ""
    return pages


def test_lists_go_on_where_the_page_before_ended(client: httpx2.Client) -> None:
    ids = [opened(client, project="many", title=f"a & b {number}") for number in range(5)]
    pages = walked(client, "/v1/sessions?project=many&limit=2")
    assert [one["id"] for page in pages for one in page] == ids[::-1]
    assert [len(page) for page in pages] == [2, 2, 1]
    client.post(f"/v1/sessions/{ids[0]}/events", json={"drafts": [SAID] * 4}).raise_for_status()
    events = walked(client, f"/v1/sessions/{ids[0]}/events?limit=2")
    assert [one["seq"] for page in events for one in page] == [1, 2, 3, 4, 5]
    tail = walked(client, "/v1/events?project=many&limit=3")
    assert len([one for page in tail for one in page]) == 9


def test_a_stolen_cursor_shows_nothing_to_somebody_else(running: Running, client: httpx2.Client) -> None:
    """A cursor only names a place; what is beyond it is decided for whoever asks."""
    ids = [opened(client, project="hidden") for _ in range(3)]
    client.post(f"/v1/sessions/{ids[0]}/events", json={"drafts": [SAID]}).raise_for_status()
    own = opened(client, project="theirs")
    grants = [viewer("person:eve", project="theirs")]
    stolen = [
        str(client.get(path).links["next"]["url"])
        for path in ("/v1/sessions?project=hidden&limit=1", "/v1/events?project=hidden&limit=1")
    ]
    found = client.get("/v1/search?query=lock&flat=true&limit=1").json()["next"]
    with running.client(running.key("person:eve", *grants)) as eve:
        assert [session["id"] for session in eve.get("/v1/sessions").json()] == [own]
        for path in stolen:
            refused(eve.get(path), 404, "not_found")
        assert eve.get("/v1/events?after=0").json()[0]["session"] == own
        assert {event["session"] for event in eve.get("/v1/events").json()} == {own}
        refused(eve.get(f"/v1/sessions?before={ids[2]}"), 404, "not_found")
        assert eve.get(f"/v1/search?query=lock&flat=true&after={found}").json()["hits"] == []


# Versions -------------------------------------------------------------------------------------------------------------


def test_a_session_has_a_version_that_an_append_can_ask_for(client: httpx2.Client) -> None:
    id = opened(client)
    tag = client.get(f"/v1/sessions/{id}").headers["etag"]
    assert tag.startswith('"1')
    assert client.get(f"/v1/sessions/{id}", headers={"If-None-Match": tag}).status_code == 304
    path = f"/v1/sessions/{id}/events"
    assert client.post(path, json={"drafts": [SAID]}, headers={"If-Match": tag}).json()["seqs"] == [2]
    late = refused(client.post(path, json={"drafts": [SAID]}, headers={"If-Match": tag}), 412, "stale_head")
    assert late["head"] == 2
    assert client.get(f"/v1/sessions/{id}", headers={"If-None-Match": tag}).status_code == 200
    assert client.post(path, json={"drafts": [SAID]}, headers={"If-Match": '"2"'}).json()["seqs"] == [3]
    both = client.post(path, json={"drafts": [SAID], "expect": 9}, headers={"If-Match": '"3"'})
    refused(both, 400, "invalid_input")
    refused(client.post(path, json={"drafts": []}, headers={"If-Match": "three"}), 400, "invalid_input")


def test_a_changed_lease_is_another_version(client: httpx2.Client) -> None:
    id = opened(client)
    tag = client.get(f"/v1/sessions/{id}").headers["etag"]
    client.post(f"/v1/sessions/{id}/lease", json={}).raise_for_status()
    assert client.get(f"/v1/sessions/{id}", headers={"If-None-Match": tag}).status_code == 200


def test_a_budget_that_is_exceeded_is_told_with_what_was_stored(client: httpx2.Client) -> None:
    id = opened(client, budget_tokens=10)
    ended = {"kind": "turn_ended", "usage": {"input": 8, "output": 8}}
    answer = client.post(f"/v1/sessions/{id}/events", json={"drafts": [ended]})
    problem = refused(answer, 409, "budget_exceeded")
    assert (problem["seqs"], problem["spent_tokens"]) == ([2], 16)
    assert [session["kind"] for session in client.get(f"/v1/sessions/{id}/events").json()][1:] == [
        "turn_ended", "budget_exceeded", "session_paused",
    ]  # fmt: skip
    refused(client.post(f"/v1/sessions/{id}/events", json={"drafts": [SAID]}), 409, "wrong_state")


def test_many_appends_at_once_are_told_apart(client: httpx2.Client) -> None:
    """Rounds hold good and bad ones, of several sessions and of one; each gets its own answer."""
    ids = [opened(client) for _ in range(3)]

    def ask(number: int) -> tuple[int, int]:
        drafts = [{**SAID, "source": f"s{number % 30}"}] if number % 5 else [{"kind": "nonsense"}]
        answer = client.post(f"/v1/sessions/{ids[number % 3]}/events", json={"drafts": drafts})
        return number, answer.status_code

    with ThreadPoolExecutor(16) as pool:
        answers = dict(pool.map(ask, range(60)))
    assert {number for number, status in answers.items() if status == 400} == {*range(0, 60, 5)}
    assert {*answers.values()} == {200, 400}
    for id in ids:
        events = client.get(f"/v1/sessions/{id}/events").json()
        assert [event["seq"] for event in events] == [*range(1, 10)]


# Refusals -------------------------------------------------------------------------------------------------------------


def test_what_is_not_known_is_refused(client: httpx2.Client) -> None:
    id = opened(client)
    json = {"Content-Type": "application/json"}
    for answer in (
        client.get("/v1/sessions?limt=5"),
        client.get("/v1/sessions?limit=5&limit=6"),
        client.get("/v1/sessions?limit=five"),
        client.get("/v1/sessions?limit=0"),
        client.get("/v1/sessions?limit=99999999999999999999999"),
        client.get("/v1/sessions?failed=maybe"),
        client.get("/v1/sessions?state=asleep"),
        client.get("/v1/sessions?%ff=1"),
        client.get("/v1/sessions?limit"),
        client.get("/v1/search?after=1;2&query=a"),
        client.post("/v1/sessions", json={"titel": "typo"}),
        client.post("/v1/sessions", json=["a list"]),
        client.post("/v1/sessions", json={"title": 5}),
        client.post("/v1/sessions", content=b"{", headers=json),
        client.post("/v1/sessions", content=b'{"title": "\xff"}', headers=json),
        client.post("/v1/sessions", content=b"[" * 100_000, headers=json),
        client.post("/v1/sessions", content=b'{"metadata":' + b'{"a":' * 50_000, headers=json),
        client.post("/v1/sessions", json={"title": "a\0b"}),
        client.post(f"/v1/sessions/{id}/pause", json={"session": "another"}),
        client.post(f"/v1/sessions/{id}/events", json={"drafts": ["text"]}),
        client.post(f"/v1/sessions/{id}/events", json={"drafts": {}}),
        client.post(f"/v1/sessions/{id}/events", json={"drafts": [{"kind": "session_closed"}]}),
        client.post(f"/v1/sessions/{id}/events", json={"drafts": [SAID], "lease": 2**63}),
        client.post(f"/v1/sessions/{id}/events", content=b'{"drafts":[{"kind":"a.b","x":"\xff"}]}', headers=json),
        client.post("/v1/sessions", content=b"not packed", headers={**json, "Content-Encoding": "gzip"}),
        client.get("/v1/sessions/!!!"),
    ):
        refused(answer, 400, "invalid_input")
    refused(client.post("/v1/sessions", data={"title": "form"}), 415, "invalid_input")
    refused(client.post("/v1/sessions", content=b"x", headers={**json, "Content-Encoding": "br"}), 415, "invalid_input")
    assert client.get(f"/v1/sessions/{id}").json()["session"]["head"] == 1


def test_addresses_that_are_none(client: httpx2.Client) -> None:
    id = opened(client)
    for path in ("/v1", "/v1/", "/v1/nothing", f"/v1/sessions/{id}/", "/v1//sessions", "/v1/sessions/..%2f..%2fetc",
                 f"/v1/sessions/{id}/../{id}%00", "/V1/sessions", "/..%2f..%2fetc%2fpasswd", "/assets/..%2fpages.py",
                 "/assets/%2e%2e/pages.py", "/.env"):  # fmt: skip
        answer = client.request("GET", f"{client.base_url}{path}".replace("//v1", "/v1"))
        assert answer.status_code in (400, 404), path
        assert "root:" not in answer.text
    refused(client.delete("/v1/sessions"), 405, "invalid_input")
    assert client.delete("/v1/sessions").headers["allow"] == "GET, HEAD, POST"
    refused(client.post("/docs"), 405, "invalid_input")
    refused(client.get("/nothing"), 404, "not_found")


def test_a_session_out_of_reach_is_answered_like_one_that_is_not_there(running: Running, client: httpx2.Client) -> None:
    id = opened(client, project="shut")
    with running.client(running.key("person:bo", writer("person:bo", project="open"))) as bo:
        for method, path in (("GET", ""), ("GET", "/events"), ("GET", "/stream"), ("GET", "/export"),
                             ("POST", "/pause"), ("DELETE", "")):  # fmt: skip
            there = bo.request(method, f"/v1/sessions/{id}{path}")
            absent = bo.request(method, f"/v1/sessions/{'z' * 20}{path}")
            refused(there, 404, "not_found")
            there_said, absent_said = (
                {**one.json(), "request": "", "detail": one.json()["detail"].replace(name, "ID"), "session": ""}
                for one, name in ((there, id), (absent, "z" * 20))
            )
            assert there_said == absent_said


def test_nothing_a_caller_sends_becomes_a_header(client: httpx2.Client) -> None:
    evil = "a\r\nSet-Cookie: x=1"
    id = opened(client, title=evil, project="crlf\r\nX: 1")
    answer = client.get("/v1/sessions", params={"project": "crlf\r\nX: 1", "limit": 1})
    assert answer.json()[0]["id"] == id
    assert "x" not in answer.headers
    assert "set-cookie" not in answer.headers
    assert "\r" not in answer.headers["link"]
    tagged = client.get("/healthz", headers={"X-Request-Id": "not an id; " + "x" * 100})
    assert tagged.headers["x-request-id"] != "not an id; " + "x" * 100
    assert client.get("/healthz", headers={"X-Request-Id": "abc-1"}).headers["x-request-id"] == "abc-1"


def test_an_unexpected_failure_says_nothing_but_its_number(running: Running, client: httpx2.Client) -> None:
    id = opened(client)
    with running.authenticator.store.database.write() as tx:
        tx.execute(
            "UPDATE event SET body = 'not json hunter2' WHERE session = (SELECT key FROM session WHERE id = ?)", [id]
        )
    answer = client.get(f"/v1/sessions/{id}/events")
    problem = refused(answer, 500, "damaged")
    assert id not in answer.text
    assert "the log of the server says" in str(problem["detail"])
    assert any(line["event"] == "failure" and line["request"] == problem["request"] for line in running.lines())
