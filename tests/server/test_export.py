"""An export over HTTP is sent while it is made; what refuses it comes before the first byte."""

import base64
import random
import re
import socket

import httpx2
import msgspec
import pytest
import zstandard

from clew.model.events import Draft, MessageAdded, ThinkingPart
from clew.service import call
from clew.service.handover.own_forms import Form
from clew.service.kernel.results import to_json
from server.running import Running
from server.test_operations import opened, refused

TOKEN = "ghp_" + "".join(random.Random(5).choices("abcdefghijkmnopqrstuvwxyzABCDEFGH123456789", k=36))
MEGABYTES = 3


@pytest.fixture(scope="module")
def large(running: Running, client: httpx2.Client) -> str:
    """A session that is longer than the beginning of an answer, with a secret near its end."""
    id = opened(client, title="large")
    context = running.authenticator.owner_context()
    words = random.Random(1).randbytes(50_000).hex(" ")
    texts = [f"{number} {words}" for number in range(MEGABYTES * 7)] + [f"export GITHUB_TOKEN={TOKEN}\n"]
    drafts = [Draft(body=MessageAdded(role="user", text=text)) for text in texts]
    context.store.append(context.store.session(id), drafts, actor="person:ada")
    return id


@pytest.mark.parametrize("accepted", ["identity", "gzip", "zstd"])
def test_a_long_export_is_sent_in_pieces_without_its_secrets(
    running: Running, client: httpx2.Client, large: str, accepted: str
) -> None:
    answer = client.get(f"/v1/sessions/{large}/export?form=jsonl", headers={"Accept-Encoding": accepted})
    assert (answer.status_code, answer.headers.get("content-length")) == (200, None)
    assert answer.headers["transfer-encoding"] == "chunked"
    assert answer.headers.get("content-encoding", "identity") == accepted
    content = answer.content
    if accepted == "zstd":  # The client does not know it.
        content = zstandard.ZstdDecompressor().decompressobj().decompress(content)
    [file] = msgspec.json.decode(content)
    data = base64.b64decode(file["data"])
    assert (len(data) > MEGABYTES * 1_000_000, TOKEN.encode() in data) == (True, False)
    assert sum(file["masked"].values()) == 1


@pytest.mark.parametrize("form", [form for form in Form if form != Form.NATIVE])
def test_the_pieces_are_the_json_of_the_result(running: Running, client: httpx2.Client, form: Form) -> None:
    id = opened(client, title="a short one")
    drafts = [{"kind": "message_added", "role": "user", "text": text} for text in ("hello", "again")]
    assert client.post(f"/v1/sessions/{id}/events", json={"drafts": drafts}).status_code == 200
    answer = client.get(f"/v1/sessions/{id}/export?form={form}", headers={"Accept-Encoding": "identity"})
    result = call(running.authenticator.owner_context(), "export", {"session": id, "form": form})
    # Some forms hold the time of the export.
    texts = [re.sub(rb'"data":"[^"]*"', b"", text) for text in (answer.content, to_json(result))]
    assert texts[0] == texts[1]
    assert len(base64.b64decode(answer.json()[0]["data"])) == len(result[0].data)
    assert int(answer.headers["content-length"]) == len(answer.content)


def test_what_refuses_an_export_is_a_problem(running: Running, client: httpx2.Client) -> None:
    id = opened(client, title="refused")
    context = running.authenticator.owner_context()
    body = MessageAdded(role="assistant", parts=(ThinkingPart(text="hm", signature="s"),))
    context.store.append(context.store.session(id), [Draft(body=body)], actor="person:ada")
    refused(client.get(f"/v1/sessions/{id}/export?form=native"), 404, "not_found")
    refused(client.get(f"/v1/sessions/{id}/export?form=pdf"), 400, "invalid_input")


def test_exact_bytes_leave_the_machine_without_secrets(client: httpx2.Client, large: str) -> None:
    [file] = client.get(f"/v1/sessions/{large}/export?form=jsonl&secrets=true").json()
    assert TOKEN.encode() not in base64.b64decode(file["data"])


def test_the_server_serves_on_when_a_client_goes_away_in_the_middle(
    running: Running, client: httpx2.Client, large: str
) -> None:
    with client.stream("GET", f"/v1/sessions/{large}/export?form=jsonl") as answer:
        assert next(answer.iter_raw())
    head = client.head(f"/v1/sessions/{large}/export?form=jsonl")
    assert (head.status_code, head.content) == (200, b"")
    assert client.get(f"/v1/sessions/{large}").status_code == 200


def test_a_socket_that_stops_reading_holds_up_nobody(running: Running, client: httpx2.Client, large: str) -> None:
    host, port = running.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lines = [f"GET /v1/sessions/{large}/export?form=jsonl HTTP/1.1", f"Host: {host}"]
        lines += [f"Authorization: {client.headers['authorization']}", "", ""]
        slow.sendall("\r\n".join(lines).encode())
        assert slow.recv(10).startswith(b"HTTP/1.1 2")
        assert client.get(f"/v1/sessions/{large}").status_code == 200
