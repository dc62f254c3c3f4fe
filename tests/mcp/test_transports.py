"""The two ways to reach the server: a process on standard input and output, and streamable HTTP."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from clew.model.access import owner_of_everything
from clew.service import Context, call

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)

CLEW = Path(sys.executable).with_name("clew")


class Program:
    """`clew mcp` as a client starts it."""

    def __init__(self, store_url: str, home: Path, **variables: str) -> None:
        env = {"PATH": os.environ["PATH"], "HOME": str(home), "CLEW_STORE": store_url, "CLEW_PRINCIPAL": "person:ada"}
        pipe = subprocess.PIPE
        self.running = subprocess.Popen([CLEW, "mcp"], stdin=pipe, stdout=pipe, stderr=pipe, env={**env, **variables})

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer to a request; the next line of standard output has to be it."""
        self.say(json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}))
        assert self.running.stdout is not None
        answer: dict[str, Any] = json.loads(self.running.stdout.readline())
        assert answer["id"] == 7
        return answer

    def say(self, line: str) -> None:
        assert self.running.stdin is not None
        self.running.stdin.write(line.encode() + b"\n")
        self.running.stdin.flush()

    def end(self) -> tuple[int, bytes, bytes]:
        """Its exit code and what else it has said, once its standard input is closed."""
        out, err = self.running.communicate(timeout=60)
        return self.running.returncode, out, err


def test_a_process_speaks_the_protocol_and_nothing_else_on_standard_output(store_url: str, tmp_path: Path) -> None:
    """Broken JSON, an unknown method and an unknown tool are answered or skipped; nothing of them is logged."""
    clew = Program(store_url, tmp_path, CLEW_RUNTIME="codex")
    who = {"capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    opened = clew.ask("initialize", protocolVersion="2025-11-25", **who)["result"]
    assert opened["protocolVersion"] == "2025-11-25"
    assert "recall" in opened["instructions"]
    clew.say('{"jsonrpc": "2.0", "method": "notifications/initialized"}')
    made = clew.ask("tools/call", name="open_session", arguments={"title": "hello"})
    assert made["result"]["structuredContent"]["title"] == "hello"
    assert "no tool" in clew.ask("tools/call", name="nope", arguments={"text": "hush-hush"})["error"]["message"]
    assert clew.ask("hush-hush")["error"]["code"] == -32601
    clew.say('{"hush-hush": ')
    refused = clew.ask("tools/call", name="remember", arguments={"session_id": "zzzz", "text": "hush-hush"})["result"]
    assert (refused["isError"], refused["structuredContent"]["error"]) == (True, "not_found")
    [session] = clew.ask("tools/call", name="list_sessions", arguments={})["result"]["structuredContent"]["sessions"]
    assert (session["title"], session["runtime"]) == ("hello", "codex")
    assert clew.end() == (0, b"", b"")


def test_the_newest_revision_needs_no_handshake(store_url: str, tmp_path: Path) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    clew = Program(store_url, tmp_path)
    answer = clew.ask("tools/call", name="recall", arguments={}, _meta=meta)["result"]
    assert (answer["structuredContent"]["found"], answer["resultType"]) == ([], "complete")
    assert clew.end() == (0, b"", b"")


STARTS = [
    ("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}),
    ("tools/list", {}),
    ("prompts/list", {}),
    ("resources/templates/list", {}),
    ("resources/list", {}),
    ("ping", {}),
]


def test_a_program_that_starts_again_gets_the_same_answers_without_the_server(store_url: str, tmp_path: Path) -> None:
    """Loading the SDK takes half a second, which some programs wait for whenever they start."""
    home = tmp_path / ".clew"
    home.mkdir()
    answers, loaded, listed = [], [], []
    for _ in range(2):
        clew = Program(store_url, tmp_path)
        answers.append([clew.ask(method, **params)["result"] for method, params in STARTS])
        clew.say('{"jsonrpc": "2.0", "method": "notifications/initialized"}')
        loaded.append("pydantic_core" in Path(f"/proc/{clew.running.pid}/maps").read_text())
        made = clew.ask("tools/call", name="open_session", arguments={"title": "hello"})["result"]
        assert made["structuredContent"]["title"] == "hello"
        # The server continues: the client hears nothing twice.
        listed.append(clew.ask("resources/list")["result"])
        assert clew.end() == (0, b"", b"")
    assert loaded == [True, False]
    [*first, _, _], [*second, resources, _] = answers
    assert first == second
    assert resources == listed[0]
    assert [one["name"] for one in resources["resources"]] == ["hello"]
    # It ends when the client goes, and what it kept is for its person only.
    assert Program(store_url, tmp_path).end() == (0, b"", b"")
    assert (home / "mcp-answers.json").stat().st_mode & 0o077 == 0


def test_a_damaged_or_old_cache_is_not_used(store_url: str, tmp_path: Path) -> None:
    (tmp_path / ".clew").mkdir()
    for damaged in ("{", '{"stamp": [], "answers": 7}'):
        (tmp_path / ".clew/mcp-answers.json").write_text(damaged)
        clew = Program(store_url, tmp_path)
        assert "recall" in clew.ask(*STARTS[0][:1], **STARTS[0][1])["result"]["instructions"]
        assert clew.end() == (0, b"", b"")


def test_a_store_that_cannot_be_opened_is_told_at_once(database: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code, out, err = Program(f"sqlite:///{tmp_path}/file/clew.db", tmp_path).end()
    assert (code != 0, out) == (True, b"")
    assert err.startswith(b"error: ")


# HTTP -----------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def served(context_of_request: Callable[[Any], Context]) -> Iterator[str]:
    """A server on loopback, mounted as the team server does it."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.routing import Mount

    from clew.mcp.server import http_app

    found = http_app(context_of_request)
    app = Starlette(routes=[Mount("/mcp", found.app)], lifespan=lambda _: found.run())
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            thread.join()


def post(url: str, message: dict[str, Any], **headers: str) -> tuple[int, Any]:
    """One request, as any HTTP client sends it."""
    import httpx2

    sent = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25", **headers}
    found = httpx2.post(f"{url}/", json={"jsonrpc": "2.0", "id": 1, **message}, headers=sent)
    is_json = found.headers.get("content-type", "").startswith("application/json")
    return found.status_code, found.json() if is_json else found.text


def test_each_request_is_served_for_whoever_sent_it_without_a_session_of_the_protocol(context: Context) -> None:
    def of_request(request: Any) -> Context:
        who = request.headers["x-who"]
        return msgspec.structs.replace(context, principal=who, grants=(owner_of_everything(who),), _cache={})

    session = call(context, "open", {"title": "shared"})
    with served(of_request) as url:
        for revision in ("2025-11-25", "2025-06-18"):
            for who in ("agent:one", "agent:two"):
                arguments = {"session_id": session.id, "text": f"seen by {who}", "fact": who}
                asked = {"method": "tools/call", "params": {"name": "remember", "arguments": arguments}}
                status, told = post(url, asked, **{"X-Who": who, "MCP-Protocol-Version": revision})
                assert (status, told["result"]["structuredContent"]["fact"]) == (200, who)
        status, listed = post(url, {"method": "tools/list"}, **{"X-Who": "agent:one"})
        assert len(listed["result"]["tools"]) == 15
    known = call(context, "recall", {"session": session.id}).found
    assert {one.who for one in known} == {"agent:one", "agent:two"}


def test_a_client_of_the_newest_revision_is_served_over_http(context: Context) -> None:
    from mcp import Client

    call(context, "open", {"title": "over HTTP"})

    async def ask(url: str) -> Any:
        async with Client(f"{url}/", mode="2026-07-28") as client:
            return await client.call_tool("list_sessions", {})

    def of_request(request: Any) -> Context:
        assert request.headers["mcp-protocol-version"] == "2026-07-28"
        return context

    with served(of_request) as url:
        found = anyio.run(ask, url)
    assert found.structured_content["sessions"][0]["title"] == "over HTTP"


def test_a_page_that_reaches_the_server_by_a_name_of_its_own_is_refused(context: Context) -> None:
    with served(lambda _: context) as url:
        asked = {"method": "tools/list"}
        assert post(url, asked, Host="evil.example")[0] == 421
        assert post(url, asked, Origin="https://evil.example")[0] == 403
        assert post(url, asked)[0] == 200
        big = {"method": "tools/call", "params": {"name": "recall", "arguments": {"query": "x" * 3_000_000}}}
        assert post(url, big)[0] == 413
