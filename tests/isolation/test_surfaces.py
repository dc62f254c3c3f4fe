"""Isolation over HTTP, its pages and streams, and over MCP: nothing of the other tenant's, whatever is asked for."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.mcp import prompts, resources
from clew.mcp.tools import tools
from clew.model.errors import ClewError
from clew.service.access.authenticator import Authenticator
from clew.store import open_store
from isolation.tenants import NAMES, Tenant, questions, tenant
from parity.surfaces import over_http
from server.running import Running, listening
from support.postgres import Server


@pytest.fixture
def walled_url(database: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if database == "sqlite":
        return f"sqlite:///{tmp_path / 'clew.db'}"
    server: Server = request.getfixturevalue("postgres")
    return server.two_roles().runtime


@pytest.fixture
def tenants(walled_url: str) -> tuple[Tenant, Tenant]:
    with open_store(walled_url) as store:
        return tenant(store, "apricot"), tenant(store, "walnut")


def leaked(told: str, theirs: Tenant, *said: Any) -> list[str]:
    """What of the other tenant's is in an answer, beyond what the asker said first."""
    for value in said:
        told = told.replace(str(value), "?")
    return [word for word in theirs.words() if word in told]


def test_nothing_comes_over_http(walled_url: str, tenants: tuple[Tenant, Tenant], tmp_path: Path) -> None:
    ours, theirs = tenants
    with Running(walled_url, str(tmp_path)) as running, running.client(ours.secret) as client:
        for question in sorted(questions(ours, theirs), key=lambda one: one.operation.endswith(("revoke", "rotate"))):
            answer = over_http(client, question)
            assert not leaked(answer.text, theirs, *question.arguments.values()), (question, answer)


def test_pages_streams_and_links_keep_to_it_too(
    walled_url: str, tenants: tuple[Tenant, Tenant], tmp_path: Path
) -> None:
    ours, theirs = tenants
    with Running(walled_url, str(tmp_path), heartbeat_seconds=0.1) as running, running.client(ours.secret) as client:
        for path in (
            "/",
            "/sessions",
            f"/sessions/{theirs.session}",
            f"/sessions/{theirs.private}",
            f"/sessions/{theirs.session}?part=turns",
            f"/sessions/{theirs.session}/events/2",
            f"/sessions?project={theirs.project}",
            f"/sessions?filter=project:{theirs.project}",
            f"/search?q={theirs.word}",
            f"/search?session={theirs.session}&q=a",
            "/?part=spent",
            "/usage",
            "/usage?by=session",
            f"/usage?project={theirs.project}",
            "/files",
            f"/files?path={theirs.file}",
            f"/files?file={theirs.file}&of={theirs.project}",
            f"/files?part=change&session={theirs.session}&seq=3",
            "/timeline?range=year",
            f"/timeline?filter=project:{theirs.project}",
            "/agents",
            "/people",
            f"/people?who={theirs.person}",
            "/access",
            f"/access?who={theirs.person}&what={theirs.project}",
            "/keys",
            f"/keys?who={theirs.person}",
            "/audit",
            f"/audit?filter=project:{theirs.project}",
            *(f"/settings?part={part}" for part in ("projects", "retention", "redaction", "remotes", "jobs", "doctor")),
            f"/settings?part=redaction&project={theirs.project}",
            "/metrics",
            "/docs",
        ):
            page = client.get(path)
            # What the asker wrote comes back in the page, as a filter or as words.
            own_words = (theirs.session, theirs.private, theirs.project, theirs.word, theirs.file, theirs.person)
            said = [value for value in own_words if value in path]
            assert not leaked(page.text, theirs, *said), path
        for path in (f"/v1/sessions/{theirs.session}/stream", f"/v1/stream?project={theirs.project}"):
            assert client.get(path).status_code == 404
        with listening(running, "/v1/stream?after=0", ours.secret) as listener:
            # Two sessions opened with eight drafts and three labels each, and a fork.
            listener.wait(25)
            with running.client(theirs.secret) as other:
                draft = {"kind": "message_added", "role": "user", "text": theirs.hidden}
                assert other.post(f"/v1/sessions/{theirs.session}/events", json={"drafts": [draft]}).status_code == 200
            last = {"kind": "message_added", "role": "user", "text": "that was all"}
            assert client.post(f"/v1/sessions/{ours.session}/events", json={"drafts": [last]}).status_code == 200
            assert listener.wait(26)[-1]["text"] == "that was all"
        assert not leaked(str(listener.events), theirs)


def arguments_of(schema: dict[str, Any], mine: Tenant, other: Tenant) -> Iterator[dict[str, Any]]:
    """What a tool can be asked with, each thing that it can name swapped for the other tenant's."""
    known = {"session_id": "session", "after": "session", **NAMES}
    plain: dict[str, Any] = {
        "drafts": [{"kind": "message_added", "role": "user", "text": "x"}], "text": "x", "choice": "x", "done": "x",
        "title": "x", "tags": ["x"], "action": "log",
    }  # fmt: skip
    own = {
        name: getattr(mine, known[name]) if name in known else plain[name] for name in schema.get("required", ())
    }  # fmt: skip
    yield own
    for name in schema["properties"]:
        if name in known:
            yield {**own, name: getattr(other, known[name])}
            if known[name] == "session":
                yield {**own, name: other.private}


def test_nothing_comes_over_mcp(walled_url: str, tenants: tuple[Tenant, Tenant], tmp_path: Path) -> None:
    ours, theirs = tenants
    with open_store(walled_url) as store:
        authenticator = Authenticator(store, home=str(tmp_path), fresh_seconds=0)
        asked = 0
        for tool in tools().values():
            for arguments in arguments_of(tool.schema, ours, theirs):
                asked += 1
                try:
                    found = tool(authenticator.principal_context(ours.person), arguments)
                    told = f"{found.text} {found.values}"
                except ClewError as error:
                    told = f"{error} {error.details}"
                assert not leaked(told, theirs, *arguments.values()), (tool.name, arguments, told)
        assert asked > 40
        context = authenticator.principal_context(ours.person)
        for id in (theirs.session, theirs.private):
            for uri in (f"clew://session/{id}", f"clew://session/{id}/brief", f"clew://session/{id}/events/1-9"):
                with pytest.raises(ClewError) as raised:
                    resources.read(context, uri)
                assert not leaked(str(raised.value), theirs, id)
        assert not leaked(str(resources.listed(context, "")), theirs)
        for name in prompts.PROMPTS:
            for given in ({"project": theirs.project}, {"session_id": theirs.session}, {}):
                try:
                    told = prompts.prompt(context, name, given)
                except ClewError as error:
                    told = str(error)
                assert not leaked(told, theirs, *given.values())
