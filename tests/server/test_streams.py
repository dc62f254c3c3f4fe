"""Live streams: complete across reconnects and restarts, narrowed for whoever listens, cheap while nothing happens."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx2
from msgspec import Raw

from clew.model.access import Grant, Right
from clew.model.events import CallMade, Draft, OperationCalled
from clew.service import call
from clew.store.access.credentials import end_credential, list_credentials
from clew.store.access.grants import list_grants, remove_grant
from clew.store.projects import control_log
from server.running import Running, listening, viewer
from support.planes import plane_on
from support.postgres import Server

SAID = {"kind": "message_added", "role": "user", "text": "hello"}
Serve = Callable[..., Running]


def opened(running: Running, **fields: str) -> str:
    return str(call(running.owner, "open", fields).id)


def said(running: Running, id: str, count: int = 1) -> None:
    call(running.owner, "append", {"session": id, "drafts": [SAID] * count})


def test_a_stream_is_complete_across_restarts_of_the_server(serve: Serve) -> None:
    """A writer appends all the while, through a store of its own, as another process would."""
    running = serve()
    key, id = running.key(), opened(running, project="p")
    with (
        listening(running, f"/v1/sessions/{id}/stream", key) as one,
        listening(running, "/v1/stream?project=p&after=0", key) as all_of_it,
    ):
        one.wait(1)
        all_of_it.wait(1)
        wanted = 120

        def write() -> None:
            with plane_on(running.url) as plane:
                for number in range(wanted):
                    plane.client.call("append", session=id, drafts=[{**SAID, "text": str(number)}])
                    time.sleep(0.005)

        writing = threading.Thread(target=write)
        writing.start()
        for count in (20, 60):
            one.wait(count)
            running.restart()
        writing.join()
        said(running, id)
        found = one.wait(wanted + 2)
        assert one.ids == [event["seq"] for event in found] == [*range(1, wanted + 3)]
        everything = all_of_it.wait(wanted + 2)
        assert [event["seq"] for event in everything] == [*range(1, wanted + 3)]
        assert all_of_it.ids == [event["position"] for event in everything]
        assert one.reconnects >= 2
        assert all_of_it.reconnects >= 2
        one.end()
        all_of_it.end()
        said(running, id)


def test_a_stream_goes_on_when_the_database_comes_back(tmp_path: Path) -> None:
    with Server() as postgres, Running(postgres.new_database(), str(tmp_path), heartbeat_seconds=0.05) as running:
        key, id = running.key(), opened(running)
        with listening(running, f"/v1/sessions/{id}/stream", key) as one:
            one.wait(1)
            postgres.crash()
            postgres.restart_after_crash()
            with running.client(key) as client:
                # While connections are found to be broken, a request may be refused as one to try again.
                while client.post(f"/v1/sessions/{id}/events", json={"drafts": [SAID]}).status_code != 200:
                    pass
                client.post(f"/v1/sessions/{id}/events", json={"drafts": [SAID]}).raise_for_status()
            assert [event["seq"] for event in one.wait(3)] == [1, 2, 3]
            assert (one.reconnects, one.problems) == (0, [])
            one.end()
            said(running, id)


def test_two_servers_on_one_log_serve_one_listener_after_the_other(serve: Serve) -> None:
    first, second = serve(), serve()
    key, id = first.key(), opened(first)
    with listening(first, f"/v1/sessions/{id}/stream", key) as one:
        said(second, id, 3)
        assert [event["seq"] for event in one.wait(4)] == [1, 2, 3, 4]
        one.end()
    with listening(second, f"/v1/sessions/{id}/stream", key, last="2") as other:
        said(first, id)
        assert [event["seq"] for event in other.wait(3)] == [3, 4, 5]
        other.end()
    said(first, id)


def test_more_than_a_page_comes_whole_and_once(running: Running) -> None:
    id = opened(running)
    said(running, id, 450)
    with listening(running, f"/v1/sessions/{id}/stream?after=10", running.key()) as one:
        assert [event["seq"] for event in one.wait(441)] == [*range(11, 452)]
        one.end()
        said(running, id)


def test_an_event_is_one_line_of_a_stream_whatever_lines_its_json_had(running: Running) -> None:
    id = opened(running)
    made = Draft(body=CallMade(call="1", tool="x", input=Raw(b'{\r\n "a":\n\n[1]}')))
    store = running.owner.store
    store.append(store.session(id), [made])
    with listening(running, f"/v1/sessions/{id}/stream", running.key()) as listener:
        assert listener.wait(2)[-1]["input"] == {"a": [1]}


def test_a_fork_streams_what_it_shares(running: Running) -> None:
    id = opened(running)
    said(running, id, 2)
    child = call(running.owner, "fork", {"session": id, "at": 2}).id
    with listening(running, f"/v1/sessions/{child}/stream", running.key()) as one:
        one.wait(3)
        said(running, child)
        assert [event["seq"] for event in one.wait(4)] == [1, 2, 3, 4]
        one.end()
        said(running, child)


def test_a_listener_hears_only_what_it_may_read(running: Running) -> None:
    hidden, theirs = opened(running, project="hidden"), opened(running, project="theirs")
    key = running.key("person:eve", viewer("person:eve", project="theirs"))
    with listening(running, "/v1/stream?after=0", key) as eve, running.client(key) as client:
        said(running, hidden)
        said(running, theirs)
        assert {event["session"] for event in eve.wait(2)} == {theirs}
        assert client.get("/v1/stream?project=hidden").status_code == 404
        assert client.get(f"/v1/sessions/{hidden}/stream").status_code == 404
        said(running, hidden)
        said(running, theirs)
        assert {event["session"] for event in eve.wait(3)} == {theirs}
        eve.end()
        said(running, theirs)


def test_a_stream_of_changes_says_that_something_changed_and_not_what(running: Running) -> None:
    hidden, theirs = opened(running, project="unseen"), opened(running, project="seen")
    grant = Grant(principal="person:lou", rights=frozenset({Right.SEE}), project="seen")
    key = running.key("person:lou", grant)
    with listening(running, "/v1/stream?only=changes", key) as lou, running.client(key) as client:
        lou.wait_until_open()
        said(running, hidden)
        said(running, theirs)
        [change] = lou.wait(1)
        assert change == {"changed": True}
        assert client.get("/v1/stream?only=changes&project=unseen").status_code == 404
        assert client.get("/v1/stream?only=names").json()["code"] == "invalid_input"
        lou.end()
        said(running, theirs)


def test_whoever_loses_the_right_to_listen_is_cut_off(serve: Serve) -> None:
    """Also when nothing happens in the session: rights are looked at again and again."""
    running = serve(recheck_seconds=0.05, heartbeat_seconds=3600)
    id = opened(running, project="p")
    keys = {
        name: running.key(f"person:{name}", viewer(f"person:{name}", project="p")) for name in ("ungranted", "revoked")
    }
    late = Grant(
        principal="person:late", rights=frozenset({Right.READ, Right.SEE}), project="p",
        until=running.authenticator.store.now() + 2_000_000,
    )  # fmt: skip
    keys["late"] = running.key("person:late", late)
    path = f"/v1/sessions/{id}/stream"
    with (
        listening(running, path, keys["ungranted"]) as ungranted,
        listening(running, path, keys["revoked"]) as revoked,
        listening(running, path, keys["late"]) as overdue,
    ):
        for one in (ungranted, revoked, overdue):
            one.wait(1)
        store = running.authenticator.store
        [given] = list_grants(store, who="person:ungranted")
        remove_grant(store, given.grant.id)
        [key] = list_credentials(store, "person:revoked")
        end_credential(store, key.id, store.now())
        assert ungranted.wait_for_problem()["code"] == "not_found"
        assert revoked.wait_for_problem()["code"] == "unauthenticated"
        assert overdue.wait_for_problem()["code"] == "not_found"
        for one in (ungranted, revoked, overdue):
            one.join()
            assert len(one.events) == 1


def test_many_idle_listeners_take_no_thread_each(running: Running) -> None:
    id, key = opened(running), running.key()
    before = {thread.name for thread in threading.enumerate()}
    others = running.application.streams.listeners
    with running.client(key, limits=httpx2.Limits(max_connections=200)) as client:
        opened_streams = [client.stream("GET", f"/v1/sessions/{id}/stream") for _ in range(100)]
        for one in opened_streams:
            assert one.__enter__().status_code == 200
        assert running.application.streams.listeners >= others + 100
        new = [thread.name for thread in threading.enumerate() if thread.name not in before]
        assert len([name for name in new if not name.startswith(("clew-stream", "clew-operation"))]) <= 1
        assert len(new) <= 9 + 40
        for one in opened_streams:
            one.__exit__(None, None, None)
    said(running, id)


def test_what_a_stream_is_asked_for_is_checked(running: Running) -> None:
    id = opened(running)
    with running.client(running.key()) as client:
        for path in ("?after=x", "?after=-1", "?after=1&after=2", "?before=1", "?project=p", f"?after={'9' * 30}"):
            assert client.get(f"/v1/sessions/{id}/stream{path}").json()["code"] == "invalid_input", path
        bad = client.get(f"/v1/sessions/{id}/stream", headers={"Last-Event-ID": "zero"})
        assert bad.status_code == 400
    with running.client() as nobody:
        assert nobody.get(f"/v1/sessions/{id}/stream").status_code == 401


def test_a_stream_is_recorded_once_in_each_project_that_it_showed(serve: Serve) -> None:
    """Also in one whose first event came long after the stream began, and in no other."""
    running = serve()
    owner, listener = running.owner, "person:listener"
    shop, bank, mine = (opened(running, project=project) for project in ("shop", "bank", "mine"))
    for project in ("shop", "bank", "mine"):
        call(owner, "setting_set", {"project": project, "name": "audit_reads", "value": "on"})
    key = running.key(listener, viewer(listener))
    after = owner.store.last_position()
    with listening(running, f"/v1/stream?after={after}", key) as everything:
        for number, session in enumerate((shop, bank, shop, bank), 1):
            said(running, session)
            everything.wait(number)
    with listening(running, f"/v1/sessions/{mine}/stream", key) as one:
        one.wait(1)
    assert reads(running, "shop", listener) == ["tail"]
    assert reads(running, "bank", listener) == ["tail"]
    assert reads(running, "mine", listener) == ["events"]
    assert reads(running, "*", listener) == []


def reads(running: Running, project: str, principal: str) -> list[str]:
    log = control_log(running.authenticator.store, project, principal)
    entries = [event for event in running.authenticator.store.read(log) if isinstance(event.body, OperationCalled)]
    return [event.body.operation for event in entries if event.actor == principal]
