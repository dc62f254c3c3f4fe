"""Remote: the same results and the same refusals as a log of one's own, whatever becomes of the line."""

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import clew
from clew.model import codec
from clew.model.errors import ClewError, Conflict, InvalidInput, NotFound, Unauthenticated, Unavailable, WrongState
from clew.model.events import Draft, Event, MessageAdded, Opaque, Removed
from clew.remote import Remote, errors
from clew.service import Context, call
from clew.service.kernel.results import result_from, to_json
from clew.service.replication.server import checked_url
from model.shapes import bodies
from server.running import Running, writer
from sync.lossy import Lossy

ADA = "person:ada"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("served")
    with Running(f"sqlite:///{home / 'clew.db'}", str(home)) as running:
        yield running


@pytest.fixture(scope="module")
def remote(running: Running) -> Iterator[Remote]:
    remote = Remote(running.address, running.key(ADA, writer(ADA, project="shop")))
    yield remote
    remote.close()


@pytest.fixture
def here(running: Running) -> Context:
    """The same person on the server itself."""
    running.key(ADA, writer(ADA, project="shop"))
    return running.authenticator.principal_context(ADA)


def outcome(asked: Any, name: str, **arguments: Any) -> Any:
    """The result without digests, which are not sent, or the refusal."""
    try:
        found = asked(name, **arguments) if not isinstance(asked, Context) else call(asked, name, arguments)
    except ClewError as error:
        return type(error), error.to_dict()
    return type(found), _bare(found)


def _bare(value: Any) -> Any:
    if isinstance(value, Event):
        return msgspec.structs.replace(value, digest=b"")
    if isinstance(value, msgspec.Struct):
        return type(value)(**{name: _bare(getattr(value, name)) for name in value.__struct_fields__})
    return [_bare(item) for item in value] if isinstance(value, list) else value


def test_results_and_refusals_are_those_of_the_log_itself(remote: Remote, here: Context, running: Running) -> None:
    opened = remote.call("open", project="shop", title="Fix the lock", metadata={"n": [1, {"x": None}]})
    id = opened.id
    drafts = [
        Draft(body=MessageAdded(role="user", text="why does it lock?  é\x00"), source="m1", said_at=7),
        Draft(body=Opaque(kind="myapp.note", raw='{"x": [1,  2]}')),
        b'{"kind": "decision_made", "decision": "d", "choice": "use WAL"}',
        {"kind": "scratch_set", "name": "step", "value": {"at": 3}},
        {"kind": "call_made", "call": "1", "tool": "edit", "input": {"file_path": "a.py"}},
    ]
    assert remote.call("append", session=id, drafts=drafts).seqs == [2, 3, 4, 5, 6]
    fork = remote.call("fork", session=id, at=4).id
    remote.call("append", session=fork, drafts=[{"kind": "fact_learned", "fact": "f", "text": "it locks"}])
    secret = call(running.owner, "open", {"project": "other", "title": "not ada's"}).id
    for name, arguments in (
        ("show", {"session": id}), ("show", {"session": id[:6]}), ("events", {"session": fork, "after": 1, "upto": 5}),
        ("tail", {"project": "shop", "after": 0}), ("diff", {"left": id, "right": fork}), ("sessions", {}),
        ("sessions", {"project": "shop", "failed": False, "limit": 1}), ("search", {"query": "lock"}),
        ("recall", {"query": "locks"}), ("usage", {"by": ["project", "model"]}), ("files", {"path": "a.py"}),
        ("verify", {"session": id}), ("export", {"session": id, "form": "jsonl"}), ("whoami", {}),
        ("access_explain", {"who": "ada", "what": "shop"}), ("setting_list", {}), ("retention_list", {}),
        # Refusals.
        ("show", {"session": secret}), ("show", {"session": "zzzz"}), ("show", {"session": ""}),
        ("show", {"session": "../../etc"}), ("show", {"session": id, "nonsense": 1}), ("show", {}),
        ("events", {"session": id, "after": -1}), ("tail", {"project": "other"}), ("fork", {"session": id, "at": 99}),
        ("append", {"session": id, "drafts": [{"kind": "no_such"}]}), ("append", {"session": id, "drafts": [17]}),
        ("append", {"session": id, "drafts": [drafts[0]], "expect": 1}), ("resume", {"session": id}),
        ("append", {"session": id, "drafts": [{"kind": "message_added", "role": "x", "source": "m1"}]}),
        ("append", {"session": id, "drafts": [{"kind": "message_added", "role": "x"}], "lease": 9}),
        ("append", {"session": id, "drafts": [{"kind": "message_added", "role": "x"}], "expect": 1}),
        ("open", {"project": "other"}), ("erase", {"session": secret}), ("principal_list", {}),
        ("retention_set", {"project": "shop"}), ("diff", {"left": id, "right": secret}), ("nothing_like_it", {}),
    ):  # fmt: skip
        assert outcome(remote.call, name, **arguments) == outcome(here, name, **arguments), (name, arguments)


def test_the_friendly_api_works_on_a_server(running: Running, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CLEW_KEY", running.key(ADA, writer(ADA, project="shop")))
    with clew.connect(running.address, home=tmp_path) as plane:
        assert plane.client.principal == ADA
        with plane.session("From afar", project="shop") as s:
            s.user("hello")
            with s.call("shell", {"command": "ls"}) as made:
                made.output = ["a.py"]
            s.scratch["step"] = {"n": 2}
            assert s.scratch["step"] == {"n": 2}
            lease = s.acquire(seconds=30)
            s.note_progress("said hello")
            assert lease.epoch == 1
        with pytest.raises(WrongState):
            s.user("too late")
        assert s.info.state == "closed"
        assert [event.kind for event in s.events(after=1, upto=4)] == ["message_added", "call_made", "call_returned"]
        for reach in (lambda: list(plane.capture()), lambda: plane.client.context):
            with pytest.raises(InvalidInput, match="names the server"):
                reach()


@given(st.data())
def test_an_event_that_was_written_flat_is_read_back(data: st.DataObject) -> None:
    others = [
        Opaque(kind="x.y", raw='{"a": 1}'),
        Opaque(kind="x.y", raw="[1]"),
        Removed(kind="compacted", how="pruned"),
    ]
    body = data.draw(bodies() | st.sampled_from(others))
    try:
        codec.encode(body) if not isinstance(body, Removed) else None
    except InvalidInput:
        return
    event = Event(
        "s", 3, 9, 5, data.draw(st.none() | st.just(4)), "person:a", data.draw(st.none() | st.just("x")), b"", body
    )
    assert result_from(list[Event], to_json([event])) == [event]


def test_an_answer_that_was_lost_is_asked_for_again_and_done_once(running: Running) -> None:
    with Lossy(running.address) as line:
        remote = Remote(line.address, running.key(ADA, writer(ADA, project="shop")))
        id = remote.call("open", project="shop").id
        for name, arguments in (
            ("append", {"session": id, "drafts": [{"kind": "message_added", "role": "user", "text": "once"}]}),
            ("fork", {"session": id}),
            ("events", {"session": id}),
        ):
            line.drops = 2
            remote.call(name, **arguments)
        assert line.dropped == 6
        assert [event.kind for event in remote.call("events", session=id)] == ["session_opened", "message_added"]
        assert len(remote.call("show", session=id).forks) == 1
        remote.close()


def test_following_goes_on_over_a_restart_without_a_gap(tmp_path: Path) -> None:
    with Running(f"sqlite:///{tmp_path / 'clew.db'}", str(tmp_path)) as running:
        remote = Remote(running.address, running.key(ADA, writer(ADA, project="shop")))
        id = remote.call("open", project="shop").id
        assert remote.last_position() == remote.call("tail")[-1].position
        assert not remote.wait(after=remote.last_position(), timeout=0.2)
        assert remote.wait(after=0, timeout=20)
        heard: list[Event] = []
        grown = threading.Condition()

        def listen() -> None:
            for event in remote.follow(after=0, session=id):
                with grown:
                    heard.append(event)
                    grown.notify_all()
                if event.kind == "session_closed":
                    return

        ear = threading.Thread(target=listen)
        ear.start()
        for number in range(6):
            draft = {"kind": "message_added", "role": "user", "text": f"{number}\u2028"}
            call(running.owner, "append", {"session": id, "drafts": [draft]})
            if number == 2:
                with grown:
                    assert grown.wait_for(lambda: len(heard) >= 2, 20)
                running.restart()
        call(running.owner, "close", {"session": id})
        ear.join(30)
        assert not ear.is_alive()
        assert [event.seq for event in heard] == list(range(1, 9))
        assert [event.body.text for event in heard[1:-1]] == [f"{number}\u2028" for number in range(6)]  # type: ignore[union-attr]
        with pytest.raises(NotFound):
            next(remote.follow(after=0, session="zzzzzz"))
        remote.close()


# Other servers --------------------------------------------------------------------------------------------------------


class Stranger(BaseHTTPRequestHandler):
    """Answers everything with what it was told to."""

    status, body = 200, b""

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.body)))
        self.send_header("Location", "https://elsewhere.example/")
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing."""


NO_ROUTE = b'{"code":"not_found","detail":"there is nothing at this address; /docs shows what there is","status":404}'


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (404, NO_ROUTE, "has no whoami: it is of another version"),
        (200, b'{"principal": 7}', "in words this clew does not know"),
        (200, b"<html>", "in words this clew does not know"),
        (302, b"", "is not a clew server"),
        (404, b"<html>no such page</html>", "is not a clew server"),
    ],
)
def test_a_server_that_is_none_or_of_another_version_is_told_apart(status: int, body: bytes, told: str) -> None:
    kind = type("Told", (Stranger,), {"status": status, "body": body})
    with HTTPServer(("127.0.0.1", 0), kind) as stranger:
        thread = threading.Thread(target=stranger.serve_forever, args=[0.01])
        thread.start()
        remote = Remote(f"http://127.0.0.1:{stranger.server_port}", "clew_key")
        with pytest.raises(Unavailable, match=told):
            remote.call("whoami")
        remote.close()
        stranger.shutdown()
        thread.join()


def test_a_key_is_asked_for(running: Running) -> None:
    remote = Remote(running.address)
    with pytest.raises(Unauthenticated):
        remote.call("whoami")
    remote.close()


def test_every_code_has_its_error() -> None:
    known = errors()
    assert known["conflict"] is Conflict
    assert all(kind.code == code for code, kind in known.items())


@pytest.mark.parametrize(
    "url",
    [
        "https://ada:secret@clew.example", "https://token@clew.example", "http://clew.example", "ftp://clew.example",
        "https://clew.example/path", "https://clew.example?key=1", "https://", "https://clew.example:port",
    ],
)  # fmt: skip
def test_an_address_that_would_give_a_secret_away_or_is_none_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        checked_url(url)
    assert "secret" not in str(caught.value)
    assert "token" not in str(caught.value)


def test_a_request_goes_through_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        proxy.settimeout(10)
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        remote = Remote("https://clew.invalid", "key", patience=0)

        def asks() -> None:
            with pytest.raises(Unavailable):
                remote.call("whoami")
            remote.close()

        asking = threading.Thread(target=asks)
        asking.start()
        connection, _ = proxy.accept()
        with connection:
            assert connection.recv(1000).startswith(b"CONNECT clew.invalid:443 ")
        asking.join()


def test_a_key_for_this_machine_goes_through_no_proxy(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    remote = Remote(running.address, running.key(ADA, writer(ADA, project="shop")))
    assert remote.principal == ADA
    remote.close()
