"""What an operator sees: health, counts and a log, without a word of what was asked or stored."""

import os
import re
import subprocess
import sys
from pathlib import Path

import httpx2
import msgspec
import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from clew.server.http.tracing import Traces
from server.running import Running

SECRET = "do-not-tell-8c1f"


def asked(running: Running, client: httpx2.Client) -> str:
    """Ask in every way that carries something private; returns the key."""
    id = client.post("/v1/sessions", json={"title": SECRET, "project": SECRET}).json()["id"]
    draft = {"kind": "message_added", "role": "user", "text": SECRET}
    client.post(f"/v1/sessions/{id}/events", json={"drafts": [draft]}, headers={"Idempotency-Key": SECRET})
    client.post(f"/v1/sessions/{id}/events", json={"drafts": [{"kind": SECRET}]})
    private = ("/", "/v1/", "/v1/sessions/", "/?q=", "/v1/search?query=", "/v1/sessions?project=not-")
    for path in (f"/v1/sessions/{id}", f"/sessions/{id}", *(f"{one}{SECRET}" for one in private)):
        client.get(path)
    client.get("/v1/sessions", headers={"Authorization": f"Bearer {SECRET}"})
    return str(id)


def test_the_log_tells_of_requests_and_nothing_private(running: Running, client: httpx2.Client) -> None:
    id = asked(running, client)
    text = running.log.getvalue() + msgspec.json.encode(running.lines()).decode()
    assert SECRET not in text
    assert id not in text
    assert "clew_person_" not in text
    lines = [line for line in running.lines() if line["event"] == "request"]
    for line in lines:
        assert line.keys() >= {"at", "level", "method", "route", "status", "ms", "principal", "request"}
    assert {"/v1/sessions/{session}/events", "/v1/search", "/sessions/{session}", ""} <= {
        line["route"] for line in lines
    }
    assert {"person:owner", ""} == {line["principal"] for line in lines}


def test_metrics_count_by_route_and_know_no_names(running: Running, client: httpx2.Client) -> None:
    id = asked(running, client)
    text = client.get("/metrics").text
    for private in (SECRET, id, "person:owner", "clew_person_"):
        assert private not in text
    assert 'route="/v1/sessions/{session}/events",status="200"' in text
    labels = {name for found in re.findall(r"clew_\w+{([^}]*}?[^}]*)}", text) for name in re.findall(r"(\w+)=", found)}
    assert labels == {"method", "route", "status", "le"}
    assert "clew_listeners" in text


@pytest.mark.parametrize(("worker", "files"), [("None", 0), ("3", 3)])
def test_one_process_counts_in_memory_and_several_in_their_folder(tmp_path: Path, worker: str, files: int) -> None:
    """Also where the environment has a folder for another program's counts."""
    program = (
        "from clew.server.http.metrics import Metrics\n"
        f"metrics = Metrics({worker})\n"
        "metrics.count('GET', '/v1/me', 200, 0.01)\n"
        "print(metrics.text().decode())"
    )
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert 'clew_requests_total{method="GET",route="/v1/me",status="200"} 1.0' in done.stdout
    assert ("process_cpu_seconds_total" in done.stdout) == (files == 0)
    assert len(list(tmp_path.iterdir())) == files


def test_health_and_readiness(running: Running) -> None:
    with running.client() as nobody:
        assert nobody.get("/healthz").json() == {"healthy": True}
        assert nobody.get("/readyz").json() == {"ready": True}


def test_a_server_without_its_database_is_healthy_but_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clew.model.errors import Unavailable

    with Running(f"sqlite:///{tmp_path / 'clew.db'}", str(tmp_path)) as running, running.client() as client:

        def gone() -> int:
            raise Unavailable(f"cannot open {tmp_path}")

        monkeypatch.setattr(running.authenticator.store, "last_position", gone)
        answer = client.get("/readyz")
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
        assert answer.headers["retry-after"]
        assert str(tmp_path) not in answer.text
        assert client.get("/healthz").status_code == 200


def test_a_request_is_a_span_below_that_of_its_caller(tmp_path: Path) -> None:
    exporter = InMemorySpanExporter()
    running = Running(f"sqlite:///{tmp_path / 'clew.db'}", str(tmp_path))
    running.traces = Traces(exporter)
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    with running, running.client(running.key()) as client:
        client.get(f"/v1/search?query={SECRET}", headers={"traceparent": f"00-{trace}-00f067aa0ba902b7-01"})
    [span] = [one for one in exporter.get_finished_spans() if one.name == "GET /v1/search"]
    assert format(span.context.trace_id, "032x") == trace
    assert span.attributes is not None
    assert span.attributes["http.response.status_code"] == 200
    assert SECRET not in str(span.attributes)


def test_a_trace_is_named_in_the_log(running: Running, client: httpx2.Client) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    client.get("/v1/me", headers={"traceparent": f"00-{trace}-00f067aa0ba902b7-01"})
    client.get("/v1/me", headers={"traceparent": "nonsense"})
    assert [line["trace"] for line in running.lines() if "trace" in line] == [trace]
