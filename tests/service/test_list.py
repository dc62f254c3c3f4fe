"""The list of sessions: what each line tells, how it is narrowed down, and its order."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from clew.model.errors import InvalidInput, NotFound
from clew.model.events import (
    ApprovalAsked,
    ApprovalGiven,
    CallMade,
    CallReturned,
    Draft,
    MessageAdded,
    Opaque,
    RuntimeAttached,
    SessionTitled,
    ThinkingPart,
    TurnEnded,
    TurnStarted,
    Usage,
)
from clew.model.session import Session, Status
from clew.service import Context, call
from clew.store import Store
from clew.store.log.opening import Forking
from clew.store.projects import control_log
from support.talks import DAY, HOUR, ME, MONDAY, add, asked, on, opened


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")


@pytest.fixture
def context(store: Store) -> Iterator[Context]:
    context = on(store)
    yield context
    context.close()


def listed(context: Context, **filters: Any) -> list[Any]:
    found: list[Any] = call(context, "sessions", filters)
    return found


def titles(context: Context, **filters: Any) -> str:
    return " ".join(one.title for one in listed(context, **filters))


def test_a_line_tells_what_happened(context: Context) -> None:
    usage = Usage(input=1_000_000, output=1)
    session = opened(
        context, RuntimeAttached(runtime="codex", machine="laptop", cwd="/home/ada/shop"), asked("hi", MONDAY + HOUR),
        Draft(body=MessageAdded(role="assistant", text="ok", model="claude-sonnet-4-5", usage=usage), said_at=MONDAY),
        Draft(body=CallMade(call="1", tool="Bash"), said_at=MONDAY + 2 * HOUR),
        Draft(body=CallReturned(call="1", output=Raw(b'"no"'), failed=True), said_at=MONDAY + 3 * HOUR),
        MessageAdded(role="user", text="for the helper", side="helper"), SessionTitled(title="Fix the lock"),
        Opaque(kind="x.y", raw="{}"), project="shop", agent="reviewer", title="New",
    )  # fmt: skip
    call(context, "close", {"session": session.id, "outcome": "merged"})
    [one] = listed(context)
    assert (one.id, one.title, one.project, one.agent) == (session.id, "Fix the lock", "shop", "reviewer")
    assert (one.runtime, one.machine, one.folder, one.person) == ("codex", "laptop", "/home/ada/shop", ME)
    assert (one.state, one.outcome, one.turns, one.calls, one.errors) == ("closed", "merged", 1, 1, 1)
    assert (one.tokens, one.cost_micros, one.began_at) == (1_000_001, 3_000_015, MONDAY)


def test_the_latest_activity_comes_first_by_the_clock_of_the_runtime(context: Context) -> None:
    hours = [5, 1, 3, 2, 4]
    for hour in hours:
        opened(context, asked("x", MONDAY + hour * HOUR), title=f"t{hour}")
    # What was recorded earlier is not made newer by being kept later, nor by what keeps it.
    late = opened(context, asked("x", MONDAY), title="t0")
    assert titles(context) == "t5 t4 t3 t2 t1 t0"
    context.store.append(late, [Draft(body=SessionTitled(title="again"), source="s")], actor=ME)
    assert titles(context) == "t5 t4 t3 t2 t1 again"
    add(context, late, asked("y", MONDAY + 9 * HOUR))
    assert titles(context) == "again t5 t4 t3 t2 t1"
    assert titles(context, limit=2) == "again t5"


def test_pages_go_on_from_a_session(context: Context) -> None:
    # Some of them at the same time.
    for number in range(7):
        opened(context, asked("x", MONDAY + number // 3 * HOUR), title=f"t{number}")
    found: list[str] = []
    before: dict[str, str] = {}
    while page := listed(context, limit=2, **before):
        found += [one.title for one in page]
        before = {"before": page[-1].id}
    assert found == ["t6", "t5", "t4", "t3", "t2", "t1", "t0"]


def test_a_page_that_cannot_be_gone_on_from_says_so(context: Context) -> None:
    first, _ = opened(context, title="a"), opened(context, title="b")
    call(context, "erase", {"session": first.id})
    with pytest.raises(NotFound, match="in no list any more; begin again without --before"):
        listed(context, before=first.id)


@pytest.fixture
def some(context: Context) -> dict[str, Session]:
    old = opened(
        context, asked("x", MONDAY), Draft(body=CallReturned(call="1", failed=True), said_at=MONDAY + DAY),
        title="old", project="shop", agent="reviewer", metadata='{"runtime": "codex", "machine": "laptop"}',
    )  # fmt: skip
    path = Raw(msgspec.json.encode({"file_path": "/home/bob/app/billing.py"}))
    mid = opened(
        context, RuntimeAttached(runtime="pi", machine="server"), title="mid", actor="person:bob",
    )  # fmt: skip
    add(context, mid, Draft(body=CallMade(call="1", tool="Edit", input=path), said_at=MONDAY + 7 * DAY))
    new = opened(context, title="new")
    call(context, "pause", {"session": old.id})
    return {"old": old, "mid": mid, "new": new}


def test_narrowed_down(context: Context, some: dict[str, Session]) -> None:
    for filters, expected in (
        ({}, "new mid old"), ({"project": "shop"}, "old"), ({"project": "default"}, "new mid"),
        ({"agent": "reviewer"}, "old"), ({"agent": "x"}, ""), ({"person": "bob"}, "mid"), ({"person": ME}, "new old"),
        ({"runtime": "codex"}, "old"), ({"runtime": "pi"}, "mid"), ({"machine": "laptop"}, "old"),
        ({"machine": "server"}, "mid"), ({"state": "paused"}, "old"),
        ({"state": "idle"}, "mid"), ({"state": "active"}, ""),
        ({"state": "opened"}, "new"), ({"state": "archived"}, ""), ({"failed": True}, "old"),
        ({"file": "billing.py"}, "mid"), ({"file": "app/billing.py"}, "mid"), ({"file": "other.py"}, ""),
        # A session is there from its first event to its last.
        ({"when": "2020-05-04"}, "old"), ({"when": "2020-05-05"}, "old"), ({"when": "2020-05-06"}, ""),
        ({"when": "2020-05"}, "mid old"), ({"since": "2020-05-06"}, "new mid"), ({"until": "2020-05-10"}, "old"),
        ({"when": "2019"}, ""), ({"when": "last hour"}, "new"), ({"until": "2020"}, "mid old"),
        ({"project": "default", "person": "bob", "runtime": "pi", "when": "2020-05"}, "mid"),
        ({"project": "default", "failed": True}, ""), ({"agent": "a\0\udcff"}, ""), ({"machine": "\udcff"}, ""),
    ):  # fmt: skip
        assert titles(context, **filters) == expected, filters
    assert titles(context, before=some["new"].id, project="default") == "mid"


def test_what_a_fork_shares_counts_for_its_parent(context: Context) -> None:
    parent = opened(context, asked("x", MONDAY), CallMade(call="1", tool="Bash"), title="parent")
    child = context.store.open(Forking(parent=parent, title="child"), actor="person:bob")
    add(context, child, asked("y", MONDAY))
    found = {one.title: (one.turns, one.calls, one.person, one.parent) for one in listed(context)}
    assert found == {"parent": (1, 1, ME, None), "child": (1, 0, "person:bob", parent.id)}


def test_control_logs_and_erased_sessions_are_not_listed(context: Context) -> None:
    gone = opened(context, asked("x"), title="gone")
    control_log(context.store, "default", ME)
    opened(context, title="kept")
    call(context, "erase", {"session": gone.id})
    assert titles(context) == "kept"


def test_what_cannot_be_meant_is_refused(context: Context) -> None:
    opened(context)
    for filters, message in (
        ({"limit": 0}, "limit is 0; it must be a whole number from 1 to 10,000"),
        ({"limit": 10_001}, "from 1 to 10,000"), ({"state": "done"}, "state is 'done'; it must be one of opened"),
        ({"when": "someday"}, "'someday' is not a valid date"),
        ({"since": "2021", "until": "2020"}, "ends before it begins"), ({"before": "?"}, "is not a session id"),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match=message):
            listed(context, **filters)
    with pytest.raises(NotFound, match="no project 'x'; there are: default"):
        listed(context, project="x")


# Who waits for whom ---------------------------------------------------------------------------------------------------


def said(role: str, at: int, text: str = "x", **more: Any) -> Draft:
    return Draft(body=MessageAdded(role=role, text=text, **more), said_at=at)


def status(context: Context, session: Session) -> str:
    [line] = [line for line in listed(context) if line.id == session.id]
    shown = call(context, "show", {"session": session.id}).session
    assert shown.status == line.status
    others = {str(other) for other in Status if session.id in {one.id for one in listed(context, state=str(other))}}
    assert others == {line.status}, "the filter finds what the list says"
    return str(line.status)


def test_a_session_waits_for_a_person_once_its_agent_has_answered(context: Context) -> None:
    now = context.store.now()
    session = opened(context, asked("why?", now))
    assert status(context, session) == "active"
    add(context, session, said("assistant", now, "", parts=(ThinkingPart(text="hm"),)))
    assert status(context, session) == "active", "a thought is no answer"
    add(context, session, said("assistant", now), Draft(body=CallMade(call="1", tool="Bash"), said_at=now))
    assert status(context, session) == "active"
    add(context, session, Draft(body=CallReturned(call="1"), said_at=now), said("assistant", now))
    assert status(context, session) == "waiting"
    add(context, session, said("assistant", now, side="helper"), SessionTitled(title="Why"))
    assert status(context, session) == "waiting"
    add(context, session, said("user", now))
    assert status(context, session) == "active"


def test_a_question_of_the_agent_waits_for_a_person(context: Context) -> None:
    now = context.store.now()
    for body, answer in (
        (CallMade(call="1", tool="AskUserQuestion"), CallReturned(call="1")),
        (ApprovalAsked(approval="a", question="go on?"), ApprovalGiven(approval="a", allowed=True)),
        (TurnEnded(), TurnStarted()),
    ):
        session = opened(context, asked("why?", now), Draft(body=body, said_at=now))
        assert status(context, session) == "waiting", body.kind
        add(context, session, Draft(body=answer, said_at=now))
        assert status(context, session) == "active", body.kind


def test_a_silent_session_is_idle_and_an_answer_waits_longer(context: Context) -> None:
    now = context.store.now()
    for role, hours, expected in (
        ("user", 0.9, "active"), ("user", 1.1, "idle"), ("assistant", 1.1, "waiting"), ("assistant", 23.9, "waiting"),
        ("assistant", 24.1, "idle"),
    ):  # fmt: skip
        session = opened(context, said(role, now - int(hours * HOUR)))
        assert status(context, session) == expected, (role, hours)
        call(context, "close", {"session": session.id})
        assert status(context, session) == "closed"


def test_a_subagent_waits_for_nobody(context: Context) -> None:
    metadata = '{"runtime":"x","native":"child","parent":"mother"}'
    assert status(context, opened(context, said("assistant", context.store.now()), metadata=metadata)) == "active"


# Sorted ---------------------------------------------------------------------------------------------------------------


def test_a_list_is_sorted_by_what_is_asked_for_and_goes_on_after_its_last(context: Context) -> None:
    spent = {"a": (1, 100), "b": (3, 50), "c": (2, 100)}
    for title, (turns, tokens) in spent.items():
        said = [MessageAdded(role="user", text="x") for _ in range(turns)]
        answer = MessageAdded(role="assistant", text="y", model="gpt-5.2", usage=Usage(input=tokens * 1000))
        opened(context, *said, answer, title=title)
    titles = lambda **filters: [line.title for line in call(context, "sessions", filters)]  # noqa: E731
    assert titles(sort="turns") == ["b", "c", "a"]
    assert titles(sort="cost") == titles(sort="tokens") == ["c", "a", "b"]
    assert titles(sort="turns", since="2100") == []
    [first, second, third] = call(context, "sessions", {"sort": "cost"})
    assert titles(sort="cost", before=first.id) == [second.title, third.title]
    assert titles(sort="cost", before=third.id) == []
