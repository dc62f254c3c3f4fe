"""Sessions as people and agents use them, through the Python API, on both databases."""

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import clew
from clew.client import OpenSession, Plane
from clew.local import Local
from clew.model.access import owner_of_everything
from clew.model.errors import BudgetExceeded, ClewError, LeaseHeld, LeaseLost, StaleHead, WrongState
from clew.model.events import Draft, FilePart, ImagePart, MessageAdded, TextPart, Touch, Usage
from clew.service import Context
from clew.service.kernel import call as call_module
from clew.store import Store, open_store
from clew.store.objects import objects
from clew.store.objects.collection import collect

ME = "person:ada"


@pytest.fixture
def plane(store: Store) -> Plane:
    return Plane(Local(Context(store=store, unrestricted=store, principal=ME, grants=(owner_of_everything(ME),))))


def again(url: str) -> Plane:
    """The same log as another process would open it."""
    store = open_store(url)
    return Plane(Local(Context(store=store, unrestricted=store, principal=ME, grants=(owner_of_everything(ME),))))


def kinds(session: OpenSession) -> list[str]:
    return [event.kind for event in session.events()]


def test_a_block_closes_its_session(plane: Plane) -> None:
    with plane.session("t", agent="reviewer", project="shop") as s:
        s.user("hi")
    assert s.info.state == "closed"
    assert (s.info.agent, s.info.project, s.info.title) == ("reviewer", "shop", "t")


def test_a_block_that_raises_pauses_with_the_reason(plane: Plane) -> None:
    s = plane.session("t")

    def work() -> None:
        with s:
            s.user("hi")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert s.info.state == "paused"
    assert "ZeroDivisionError" in s.events()[-1].body.reason  # type: ignore[union-attr]


def test_a_session_continues_from_exactly_where_it_was_acknowledged(plane: Plane, store_url: str) -> None:
    s = plane.session("t")
    s.user("first")
    s.scratch["plan"] = {"steps": [1, 2.50, "ä"], "big": 12345678901234567890}
    s.pause(reason="lunch")
    with again(store_url) as other:
        resumed = other.resume(s.id)
        assert resumed.scratch["plan"] == {"steps": [1, 2.50, "ä"], "big": 12345678901234567890}
        resumed.user("second")
    texts = [event.body.text for event in s.events() if isinstance(event.body, MessageAdded)]
    assert texts == ["first", "second"]


def test_scratch_comes_back_to_the_letter(plane: Plane) -> None:
    s = plane.session()
    text = b'{"n":1.50,"e":1e400,"dup":1,"dup":2,"deep":[[[]]]}'
    s.scratch["raw"] = msgspec.Raw(text)
    s.pause()
    s.resume()
    assert bytes(s.detail.scratch["raw"]) == text
    del s.scratch["raw"]
    assert dict(s.scratch) == {}
    with pytest.raises(KeyError):
        del s.scratch["raw"]


def test_a_paused_session_takes_nothing(plane: Plane) -> None:
    s = plane.session()
    s.user("x")
    s.pause()
    head = s.head
    for write in (lambda: s.user("y"), lambda: s.remember("f"), lambda: s.scratch.update(a=1), s.pause):
        with pytest.raises(WrongState, match="resume it first"):
            write()
    assert s.head == head


def test_an_archived_session_can_only_be_forked(plane: Plane) -> None:
    s = plane.session()
    s.user("x")
    with pytest.raises(WrongState):
        s.archive()
    s.close(outcome="merged", summary="done")
    s.archive()
    for write in (s.resume, s.close, lambda: s.user("y")):
        with pytest.raises(WrongState, match="fork"):
            write()
    child = s.fork()
    child.user("goes on")
    assert [e.body.text for e in child.events() if isinstance(e.body, MessageAdded)] == ["x", "goes on"]


def test_turns_carry_messages_calls_and_usage(plane: Plane) -> None:
    s = plane.session()
    s.start_turn(model="m")
    s.message("user", "look", parts=[TextPart(text="at this")])
    with s.call("Read", {"file_path": "src/a.py"}) as call:
        call.output = {"lines": 3}
    with pytest.raises(OSError, match="disk"), s.call("Bash", {"command": "make"}):
        raise OSError("disk")
    s.end_turn(usage=Usage(input=10, output=5, cache_read=1000), stop_reason="end_turn")
    made = [e.body for e in s.events() if e.kind == "call_returned"]
    assert [bytes(body.output) for body in made] == [b'{"lines":3}', b'"OSError: disk"']  # type: ignore[union-attr]
    assert [body.failed for body in made] == [False, True]  # type: ignore[union-attr]
    assert s.info.spent_tokens == 15


def test_the_working_set_is_derived_from_calls(plane: Plane) -> None:
    s = plane.session()
    s.call("Read", {"file_path": "a.py"})
    s.call("Edit", {"file_path": "a.py"})
    s.call("mcp__github__list_issues", {})
    s.call("query", {}, touched=[Touch(what="orders", how="written", type="source")])
    found = {(t.type, t.what): (t.read, t.written) for t in s.working_set}
    assert found == {("file", "a.py"): (1, 1), ("app", "github"): (1, 0), ("source", "orders"): (0, 1)}


def test_knowledge_is_folded_and_can_be_seen_as_of_an_event(plane: Plane) -> None:
    s = plane.session()
    fact = s.remember("the lock is in WAL mode", evidence=[1])
    choice = s.decide("use WAL", why="readers", rejected=["DELETE"])
    seen = s.head
    s.retire(fact, reason="wrong")
    s.reverse(choice)
    s.note_progress("half", next="rest", open=["who?"])
    now, then = s.knowledge(), s.knowledge(upto=seen)
    assert (now.facts, now.decisions) == ({}, {})
    assert now.progress is not None
    assert now.progress.next == "rest"
    assert then.facts[fact].text == "the lock is in WAL mode"
    assert then.decisions[choice].rejected == ("DELETE",)


REFUSED_KNOWLEDGE: list[tuple[str, dict[str, Any]]] = [
    ("remember", {"text": ""}),
    ("remember", {"text": "x" * 10_001}),
    ("remember", {"text": "x", "evidence": [99]}),
    ("remember", {"text": "x", "evidence": [0]}),
    ("remember", {"text": "x", "scope": "nowhere"}),
    ("remember", {"text": "x", "fact": "f" * 201}),
    ("remember", {"text": "x", "fact": "a\0b"}),
    ("decide", {"choice": ""}),
    ("decide", {"choice": "x", "why": "y" * 10_001}),
    ("decide", {"choice": "x", "rejected": [""]}),
    ("decide", {"choice": "x", "rejected": ["y"] * 101}),
    ("decide", {"choice": "x", "decision": "d" * 201}),
    ("retire", {"fact": "unknown"}),
    ("retire", {"fact": "gone"}),
    ("reverse", {"decision": "unknown"}),
    ("reverse", {"decision": "gone"}),
    ("progress", {}),
    ("progress", {"done": "x" * 10_001}),
    ("progress", {"open": [""]}),
]


@pytest.mark.parametrize(("operation", "arguments"), REFUSED_KNOWLEDGE)
def test_python_refuses_what_the_operations_refuse(plane: Plane, operation: str, arguments: dict[str, Any]) -> None:
    s = plane.session()
    s.remember("x", fact="gone")
    s.retire("gone")
    s.decide("x", decision="gone")
    s.reverse("gone")
    head = s.head
    with pytest.raises(ClewError) as expected:
        plane.client.call(operation, session=s.id, **arguments)
    with pytest.raises(type(expected.value), match=re.escape(str(expected.value))):
        getattr(s, "note_progress" if operation == "progress" else operation)(**arguments)
    assert s.head == head


def test_what_is_known_is_written_under_the_lease_that_is_held(plane: Plane) -> None:
    s = plane.session()
    s.acquire()
    fact, choice = s.remember("x"), s.decide("y")
    assert s.retire(fact) + 1 == s.reverse(choice)
    assert s.note_progress("z") == s.head
    other = plane.get(s.id)
    writes: list[Callable[[], object]] = [lambda: other.remember("x"), lambda: other.note_progress("z")]
    for write in writes:
        with pytest.raises(LeaseHeld):
            write()


def test_exceeding_a_budget_stores_everything_and_pauses(plane: Plane) -> None:
    s = plane.session(budget_tokens=100)
    s.end_turn(usage=Usage(input=60, output=40))
    assert s.info.state == "active"
    with pytest.raises(BudgetExceeded) as raised:
        s.append(MessageAdded(role="assistant", text="kept"), {"kind": "turn_ended", "usage": {"output": 1}})
    assert raised.value.details["seqs"] == [3, 4]
    assert kinds(s)[2:] == ["message_added", "turn_ended", "budget_exceeded", "session_paused"]
    with pytest.raises(WrongState, match="over its budget"):
        s.resume()
    plane.client.call("budget", session=s.id, tokens=200)
    s.resume()
    s.user("on we go")


def test_a_budget_in_money_counts_too(plane: Plane) -> None:
    s = plane.session(budget_usd=0.01)
    with pytest.raises(BudgetExceeded, match=r"\$0.02"):
        s.end_turn(usage=Usage(cost_micros=20_000))


def test_a_fork_inherits_the_budget_and_what_was_spent_of_it(plane: Plane) -> None:
    s = plane.session(budget_tokens=100)
    s.end_turn(usage=Usage(input=90))
    child = s.fork()
    child.end_turn(usage=Usage(input=10))
    with pytest.raises(BudgetExceeded):
        child.end_turn(usage=Usage(input=90))
    assert s.info.state == "active"


def test_many_sessions_of_one_agent_do_not_touch_each_other(plane: Plane) -> None:
    sessions = [plane.session(f"s{n}", agent="reviewer") for n in range(8)]

    def work(number: int) -> None:
        s = sessions[number]
        for step in range(10):
            s.user(f"{number}:{step}")
            s.scratch["step"] = [number, step]

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, s in enumerate(sessions):
        texts = [e.body.text for e in s.events() if isinstance(e.body, MessageAdded)]
        assert texts == [f"{number}:{step}" for step in range(10)]
        assert s.scratch["step"] == [number, 9]


def test_siblings_can_be_compared(plane: Plane) -> None:
    s = plane.session("root")
    s.user("shared")
    s.scratch["mode"] = "a"
    left, right = s.fork(title="left"), s.fork(title="right")
    left.call("Write", {"file_path": "left.py"})
    left.decide("go left")
    right.scratch["mode"] = "b"
    right.remember("right is right")
    found = plane.diff(left, right)
    assert found.shared == 3
    assert found.left.files == ["left.py"]
    assert found.left.decisions == ["go left"]
    assert found.right.facts == ["right is right"]
    assert {name: bytes(value) for name, value in found.right.scratch.items()} == {"mode": b'"b"'}
    assert [event.seq for event in found.left.events] == [4, 5, 6]


def test_a_parent_and_its_child_part_at_the_fork(plane: Plane) -> None:
    s = plane.session()
    for n in range(3):
        s.user(str(n))
    child = s.fork(at=2)
    assert plane.diff(s, child).shared == 2
    grandchild = child.fork(at=1)
    assert plane.diff(grandchild, child).shared == 1
    assert plane.diff(s, plane.session()).shared == 0


def test_one_writer_at_a_time(plane: Plane) -> None:
    s, other = plane.session(), None
    s.user("x")
    s.acquire(seconds=60)
    other = plane.get(s.id)
    with pytest.raises(LeaseHeld):
        other.user("intruder")
    with pytest.raises(LeaseHeld):
        other.acquire(seconds=1)
    s.user("holder")
    s.renew(seconds=60)
    s.release()
    other.acquire(seconds=60)
    other.user("next")
    s._lease = msgspec.structs.replace(other._lease, epoch=1)  # what a zombie still believes
    with pytest.raises(LeaseLost):
        s.user("zombie")


def test_expect_refuses_what_was_not_seen(plane: Plane) -> None:
    s = plane.session()
    s.user("a")
    with pytest.raises(StaleHead) as raised:
        s.append(MessageAdded(role="user", text="b"), expect=1)
    assert raised.value.details["head"] == 2
    s.append(MessageAdded(role="user", text="b"), expect=2)


def test_large_outputs_and_attachments_come_back_whole(plane: Plane, store: Store) -> None:
    s = plane.session()
    output = "x" * 3_000_000
    s.call("Bash", {"command": "cat"}).returned(output)
    digest = objects.save(store, b"\x89PNG" + bytes(5000))
    s.message("user", "see", parts=[ImagePart(blob=digest, media_type="image/png"), FilePart(blob=digest, name="a")])
    body = s.events()[2].body
    assert msgspec.json.decode(body.output) == output  # type: ignore[union-attr]
    assert objects.load(store, digest) == b"\x89PNG" + bytes(5000)
    collect(store, grace_us=0)
    assert objects.load(store, digest)


def test_the_same_source_is_stored_once(plane: Plane) -> None:
    s = plane.session()
    draft = Draft(body=MessageAdded(role="user", text="hi"), source="line-1")
    assert s.append(draft).seqs == s.append(draft).seqs == [2]
    assert s.append(draft).deduplicated == [2]


@pytest.mark.parametrize("end", ["archive", "erase"])
def test_an_append_looks_its_session_up_once_and_meets_what_became_of_it(
    store_url: str, tmp_path: Path, end: str
) -> None:
    with clew.connect(store_url, home=tmp_path, principal=ME) as plane:
        session = plane.session()
        session.user("x")
        assert isinstance(plane.client, Local)
        assert list(plane.client.context.known_sessions or {}) == [session.id]
        session.close()
        with again(store_url) as other:
            other.client.call(end, session=session.id)
        with pytest.raises(WrongState, match=f"is {end}d"):
            session.user("y")


def test_few_of_many_sessions_are_remembered(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_module, "MOST_KNOWN", 2)
    assert isinstance(plane.client, Local)
    plane.client.context = msgspec.structs.replace(plane.client.context, known_sessions={})
    sessions = [plane.session() for _ in range(5)]
    for session in sessions * 2:
        session.user("x")
    assert len(plane.client.context.known_sessions or {}) <= 2
    assert [len(list(session.events())) for session in sessions] == [3] * 5
