"""What one principal may use at once, and what becomes of work that nobody waits for."""

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest

from clew.model.errors import TooManyRequests
from clew.model.steps import end_step
from clew.server.http import budgets as counted
from clew.server.http import exchange, right_of_way, uvicorn_server
from clew.server.http.budgets import BUSY_SECONDS, MOST_RUNNING, Budgets, Turn
from clew.server.http.request_body import Gone
from clew.server.http.right_of_way import SHORT_SECONDS, RightOfWay, Work
from clew.server.http.supervisor import BUDGETS_VARIABLE
from clew.server.http.turns import MOST_UNREAD_BYTES, MOST_WAITING, Turns
from clew.server.options import Options
from clew.service import call
from server.running import OWNER, Running, writer

Serve = Callable[..., Running]


@pytest.fixture(params=["sqlite"])
def database(request: pytest.FixtureRequest) -> str:
    """Budgets come before any database."""
    return str(request.param)


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Budgets]:
    """Makes the counts of a process, by its number; all of them share a file."""
    (tmp_path / "counts").touch()
    monkeypatch.setenv(BUDGETS_VARIABLE, str(tmp_path / "counts"))
    return lambda worker: Budgets(Options(worker=worker, streams=3, rate=1, burst=4))


# Counts ---------------------------------------------------------------------------------------------------------------


def test_a_budget_holds_over_all_processes_of_a_server(pair: Callable[[int], Budgets]) -> None:
    first, second = pair(0), pair(1)
    for one in (first, second, first):
        one.begin_stream("person:ann")
    for one in (first, second):
        with pytest.raises(TooManyRequests):
            one.begin_stream("person:ann")
        one.begin_stream("person:ben")
    second.end_stream("person:ann")
    first.begin_stream("person:ann")
    turns = [one.begin_operation("person:ann") for one in (first, second) * 3]
    assert turns == [Turn.SHORT] * MOST_RUNNING + [Turn.NOT_YET] * 2
    for one in (first, second, first, second):
        one.take_request("person:ann")
    with pytest.raises(TooManyRequests):
        first.take_request("person:ann")
    second.take_request("person:ben")


def test_a_process_that_starts_again_forgets_what_the_dead_one_counted(pair: Callable[[int], Budgets]) -> None:
    first, second = pair(0), pair(1)
    for one in (first, first, second):
        one.begin_stream("person:ann")
    again = pair(0)
    for _ in range(2):
        again.begin_stream("person:ann")
    with pytest.raises(TooManyRequests):
        again.begin_stream("person:ann")


def test_whoever_used_much_processor_time_works_on_one_request_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(counted.time, "monotonic", lambda: now[0])
    one = Budgets(Options())
    for _ in range(MOST_RUNNING):
        assert one.begin_operation("person:busy") is Turn.SHORT
    for _ in range(MOST_RUNNING):
        one.end_operation("person:busy", BUSY_SECONDS)
    assert [one.begin_operation("person:busy") for _ in range(2)] == [Turn.LONG, Turn.NOT_YET]
    assert all(one.begin_operation("person:calm") is Turn.SHORT for _ in range(MOST_RUNNING))
    now[0] += 60
    assert one.begin_operation("person:busy") is Turn.SHORT


def test_many_short_requests_are_not_long_ones_and_abandoned_ones_are() -> None:
    one = Budgets(Options())
    for seconds in [SHORT_SECONDS] * 100:
        assert one.begin_operation("person:quick") is Turn.SHORT
        one.end_operation("person:quick", seconds)
        one.begin_operation("person:leaving")
        one.end_operation("person:leaving", seconds, is_abandoned=True)
    assert one.begin_operation("person:leaving") is Turn.LONG


def test_more_principals_than_slots_push_out_those_that_do_nothing() -> None:
    one = Budgets(Options())
    one.begin_stream("person:listening")
    for number in range(3 * counted.SETS * counted.SLOTS):
        one.take_request(f"person:{number}")
    one.end_stream("person:listening")
    for _ in range(Options().streams):
        one.begin_stream("person:listening")
    with pytest.raises(TooManyRequests):
        one.begin_stream("person:listening")


# Turns ----------------------------------------------------------------------------------------------------------------


class Client:
    """A client that stays until it leaves."""

    def __init__(self) -> None:
        self._gone = asyncio.Event()

    async def receive(self) -> Any:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    def leave(self) -> None:
        self._gone.set()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as pool:
        yield pool


def test_a_request_that_waits_is_dropped_when_its_client_leaves(pool: ThreadPoolExecutor) -> None:
    async def scene() -> None:
        turns, free = Turns(Budgets(Options()), pool, RightOfWay()), threading.Event()
        staying, leaving = Client(), Client()
        done: list[str] = []
        running = [
            asyncio.ensure_future(turns.run("person:ann", free.wait, staying.receive)) for _ in range(MOST_RUNNING)
        ]
        dropped = asyncio.ensure_future(turns.run("person:ann", lambda: done.append("dropped"), leaving.receive))
        kept = asyncio.ensure_future(turns.run("person:ann", lambda: done.append("kept"), staying.receive))
        # Others do not wait for these.
        await turns.run("person:ben", lambda: done.append("other"), staying.receive)
        leaving.leave()
        with pytest.raises(Gone):
            await dropped
        free.set()
        await asyncio.gather(*running, kept)
        assert done == ["other", "kept"]

    asyncio.run(scene())


def test_work_ends_when_its_client_leaves(pool: ThreadPoolExecutor) -> None:
    async def scene() -> None:
        turns, client, begun = Turns(Budgets(Options()), pool, RightOfWay()), Client(), threading.Event()

        def work() -> None:
            begun.set()
            while True:
                end_step()

        running = asyncio.ensure_future(turns.run("person:ann", work, client.receive))
        await asyncio.to_thread(begun.wait)
        client.leave()
        with pytest.raises(Gone):
            await running

    asyncio.run(scene())


def test_a_queue_has_an_end(pool: ThreadPoolExecutor) -> None:
    async def scene() -> None:
        turns, free, client = Turns(Budgets(Options()), pool, RightOfWay()), threading.Event(), Client()
        all_ = [
            asyncio.ensure_future(turns.run("person:ann", free.wait, client.receive))
            for _ in range(MOST_RUNNING + MOST_WAITING + 1)
        ]
        done, _ = await asyncio.wait(all_, return_when=asyncio.FIRST_COMPLETED)
        assert isinstance(done.pop().exception(), TooManyRequests)
        free.set()
        await asyncio.gather(*all_, return_exceptions=True)

    asyncio.run(scene())


def test_whoever_leaves_answers_unread_gets_no_other_until_then(pool: ThreadPoolExecutor) -> None:
    async def scene() -> None:
        turns, client = Turns(Budgets(Options()), pool, RightOfWay()), Client()
        done: list[str] = []
        with turns.sending("person:ann", MOST_UNREAD_BYTES):
            next_answer = asyncio.ensure_future(turns.run("person:ann", lambda: done.append("next"), client.receive))
            await turns.run("person:ben", lambda: done.append("other"), client.receive)
            # The answer that is being sent goes on.
            await turns.run("person:ann", lambda: done.append("piece"), client.receive, is_begun=True)
            done.append("read")
        await next_answer
        assert done == ["other", "piece", "read", "next"]

    asyncio.run(scene())


# The right of way -----------------------------------------------------------------------------------------------------


def test_long_work_waits_for_short_requests_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(right_of_way, "LONGEST_WAIT_SECONDS", 60.0)
    ways, order = RightOfWay(), list[str]()
    ways.begin("person:ben")

    def work() -> None:
        ways.give_way("person:ann", 60.0)
        order.append("long")

    working = threading.Thread(target=work)
    working.start()
    while not ways.waiting and working.is_alive():
        os.sched_yield()
    order.append("short")
    ways.end("person:ben")
    working.join()
    assert order == ["short", "long"]


def test_long_work_waits_neither_for_its_own_principal_nor_for_ever() -> None:
    ways = RightOfWay()
    ways.begin("person:ann")
    ways.give_way("person:ann", 3600.0)
    ways.begin("person:ben")
    ways.give_way("person:ann", 0.001)


def test_a_request_is_short_until_it_has_computed_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(right_of_way, "SHORT_SECONDS", 0.0)
    ways = RightOfWay()
    work = Work(ways, "person:ben", is_long=False)
    assert ways.on_their_way == 1
    work.start()
    work.end_step()
    assert ways.on_their_way == 0
    work.end()
    assert ways.on_their_way == 0


# Real sockets ---------------------------------------------------------------------------------------------------------


def raw(running: Running) -> socket.socket:
    host, port = running.address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=20)


def test_one_principal_has_so_many_streams_and_others_have_theirs(serve: Serve) -> None:
    running = serve(streams=3, heartbeat_seconds=0.2)
    id = call(running.owner, "open", {"project": "p"}).id
    keys = [running.key(), running.key()]
    with running.client(keys[0]) as client, running.client(keys[1]) as same, ExitStack() as streams:
        for _ in range(3):
            opened = streams.enter_context(client.stream("GET", f"/v1/sessions/{id}/stream"))
            assert opened.status_code == 200
        assert same.get("/v1/stream").status_code == 429
    with running.client(keys[0]) as client:
        while running.application.streams.listeners:
            os.sched_yield()
        with client.stream("GET", "/v1/stream") as opened:
            assert opened.status_code == 200


def asked_over_mcp(client: httpx2.Client) -> int:
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_sessions", "arguments": {}}}
    accepted = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
    return client.post("/mcp", json=asked, headers=accepted).status_code


def test_tools_take_turns_with_all_other_requests_of_their_principal(serve: Serve) -> None:
    """MCP is no way around the budget: whoever has as many operations running as they may waits with a tool, too."""
    running = serve()
    operations = running.application.operations
    with running.client(running.key()) as busy, running.client(running.key("person:calm")) as calm:
        assert asked_over_mcp(busy) == 200
        while operations.budgets.begin_operation(OWNER) is not Turn.NOT_YET:
            pass
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(asked_over_mcp, busy)
            while not operations._turns._waiting and not waiting.done():
                os.sched_yield()
            assert asked_over_mcp(calm) == 200
            assert not waiting.done()
            for _ in range(MOST_RUNNING):
                operations.budgets.end_operation(OWNER, 0.0)
            assert waiting.result() == 200


def test_all_links_of_one_maker_have_one_budget(serve: Serve) -> None:
    """Otherwise whoever makes links makes budgets; and whoever opens them takes none of their maker's."""
    running = serve(streams=2, heartbeat_seconds=0.2)
    keys, links = {}, {}
    for who in ("person:ann", "person:ben"):
        keys[who] = running.key(who, writer(who, project=who[7:]))
        with running.client(keys[who]) as client:
            id = client.post("/v1/sessions", json={"project": who[7:]}).json()["id"]
            links[who] = [client.post(f"/v1/sessions/{id}/links", json={}).json()["key"] for _ in range(3)]
    browser = running.authenticator.log_in(links["person:ann"][2])

    def opened(streams: ExitStack, key: str, **options: Any) -> int:
        client = streams.enter_context(running.client(key, **options))
        return streams.enter_context(client.stream("GET", "/v1/stream")).status_code

    with ExitStack() as streams:
        assert [opened(streams, key) for key in links["person:ann"]] == [200, 200, 429]
        assert opened(streams, "", cookies={"clew": browser}) == 429
        assert [opened(streams, key) for key in (keys["person:ann"], links["person:ben"][0])] == [200, 200]


def test_an_answer_that_nobody_reads_is_given_up(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "WRITE_SECONDS", 0.2)
    monkeypatch.setattr(uvicorn_server, "CLOSING_SECONDS", 0.2)
    running = serve()
    key = running.key()
    id = call(running.owner, "open", {}).id
    for _ in range(12):
        call(running.owner, "append", {"session": id, "drafts": [
            {"kind": "message_added", "role": "user", "text": os.urandom(500_000).hex()}
        ]})  # fmt: skip
    with raw(running) as unread:
        unread.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        unread.sendall(
            f"GET /v1/sessions/{id}/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n".encode()
        )
        assert running.server is not None
        connections = running.server.server_state.connections
        while not connections:
            os.sched_yield()
        while connections:
            os.sched_yield()


def test_a_long_list_comes_in_pieces_and_is_the_same(serve: Serve) -> None:
    running = serve()
    id = call(running.owner, "open", {}).id
    secret = f"password={'Tq7vRz2mWk9x'}; "
    for number in range(30):
        text = f"{number} {secret if number % 3 else ''}" + "lorem ipsum " * 6000
        made = {"kind": "call_made", "call": f"{number}", "tool": "t"}
        said = {"kind": "message_added", "role": "user", "text": text}
        call(running.owner, "append", {"session": id, "drafts": [said, made]})
    path = f"/v1/sessions/{id}/events"
    with running.client(running.key()) as client:
        whole = client.get(path)
        assert "content-length" not in whole.headers
        assert "link" not in whole.headers
        assert "Tq7vRz2mWk9x" not in whole.text
        assert whole.text.count("REDACTED") == 20
        one_by_one = [client.get(f"{path}?after={seq}&limit=1").json()[0] for seq in range(len(whole.json()))]
        assert whole.json() == one_by_one
        assert client.get(f"{path}?after=999").text == "[]"
        assert client.get(f"{path}?limit=40").headers["link"].endswith('rel="next"')


def test_an_answer_is_not_larger_than_a_server_can_hold(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    from clew.service.sessions import events

    monkeypatch.setattr(events, "MOST_ANSWER_BYTES", 250_000)
    running = serve()
    id = call(running.owner, "open", {}).id
    draft = {"kind": "message_added", "role": "user", "text": "x" * 100_000}
    for _ in range(5):
        call(running.owner, "append", {"session": id, "drafts": [draft]})
    with running.client(running.key()) as client:
        for path in (f"/v1/sessions/{id}/events", "/v1/events"):
            refused = client.get(path)
            assert (refused.status_code, refused.json()["code"]) == (413, "too_large")
            assert len(client.get(f"{path}?limit={refused.json()['limit']}").json()) == refused.json()["limit"]


def test_connections_that_send_half_a_header_keep_nobody_out(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uvicorn_server, "most_connections", lambda: 20)
    running = serve()
    key = running.key()
    with ExitStack() as stack:
        for _ in range(60):
            stack.enter_context(raw(running)).sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        for _ in range(5):
            with running.client(key) as client:
                assert client.get("/v1/me").status_code == 200
