"""One door: parse, rule, run, audit."""

from pathlib import Path

import pytest

from clew.model.access import Grant, Right, owner_of_everything
from clew.model.errors import AmbiguousId, ClewError, Denied, InvalidInput, NotFound
from clew.model.events import OperationCalled
from clew.service import Context, call
from clew.service.kernel.registry import load
from clew.store import Store
from clew.store.log.opening import Opening
from clew.store.projects import control_log, list_projects

OWNER = "person:owner"


@pytest.fixture
def context(store: Store) -> Context:
    return Context(store=store, unrestricted=store, principal=OWNER, grants=(owner_of_everything(OWNER),))


def acting(context: Context, principal: str, *grants: Grant) -> Context:
    return Context(store=context.store, unrestricted=context.store, principal=principal, grants=grants)


def grant(principal: str, *rights: Right, project: str = "", agent: str = "", session: str = "") -> Grant:
    return Grant(principal=principal, rights=frozenset(rights), project=project, agent=agent, session=session)


def audit(context: Context, project: str) -> list[OperationCalled]:
    log = control_log(context.store, project, OWNER)
    return [event.body for event in context.store.read(log) if isinstance(event.body, OperationCalled)]


def test_every_operation_has_a_right_and_help() -> None:
    for operation in load().values():
        assert isinstance(operation.right, Right)
        assert operation.help.splitlines()[0].endswith((".", ";")), operation.name


def test_a_grant_on_one_session_does_not_open_another(context: Context) -> None:
    mine, other = (call(context, "open", {"title": title}).id for title in ("mine", "other"))
    reader = acting(context, "agent:reader", grant("agent:reader", Right.READ, session=mine))
    assert call(reader, "events", {"session": mine})
    with pytest.raises(NotFound):
        call(reader, "events", {"session": other})
    with pytest.raises(Denied):
        call(reader, "append", {"session": mine, "drafts": [{"kind": "message_added", "role": "user"}]})
    with pytest.raises(NotFound):
        call(reader, "diff", {"left": mine, "right": other})


def test_a_refusal_is_on_record_with_its_reason(context: Context) -> None:
    session = call(context, "open", {"project": "shop"})
    with pytest.raises(Denied):
        call(
            acting(context, "person:eve", grant("person:eve", Right.SEE, project="shop")), "erase",
            {"session": session.id},
        )  # fmt: skip
    [entry] = audit(context, "shop")
    assert (entry.operation, entry.target, entry.allowed) == ("erase", session.id, False)
    assert "person:eve" in entry.because


def test_whoever_is_refused_makes_no_project_by_it(context: Context) -> None:
    with pytest.raises(Denied):
        call(acting(context, "person:eve"), "open", {"project": "shop"})
    assert set(list_projects(context.store).values()) == {"*"}
    [entry] = audit(context, "*")
    assert (entry.operation, entry.target, entry.allowed) == ("open", "shop", False)


def test_what_leaves_no_event_of_its_own_is_on_record(context: Context) -> None:
    call(context, "setting_set", {"name": "audit_reads", "value": "on", "project": "shop"})
    assert [(entry.operation, entry.allowed) for entry in audit(context, "shop")] == [("setting_set", True)]


def test_control_logs_are_not_listed_among_sessions(context: Context) -> None:
    call(context, "setting_set", {"name": "audit_reads", "value": "on", "project": "shop"})
    assert call(context, "sessions", {}) == []
    assert call(context, "tail", {}) == []


@pytest.mark.parametrize(
    ("name", "arguments", "error", "words"),
    [
        ("nonsense", {}, InvalidInput, "no operation 'nonsense'"),
        ("open", {"titel": "x"}, InvalidInput, "titel"),
        ("open", {"title": 5}, InvalidInput, "title"),
        ("open", {"project": ""}, InvalidInput, "project"),
        ("open", {"title": "a\0b"}, InvalidInput, "NUL"),
        ("open", {"budget_tokens": 0}, InvalidInput, "budget_tokens is 0; it must be a whole number of 1 or more"),
        ("show", {}, InvalidInput, "session"),
        ("show", {"session": "../../etc"}, InvalidInput, "not a session id"),
        ("show", {"session": "zzzzzzzz"}, NotFound, "zzzzzzzz"),
        ("sessions", {"limit": -1}, InvalidInput, "limit"),
    ],
)
def test_bad_input_is_refused_in_words(
    context: Context, name: str, arguments: dict[str, object], error: type[ClewError], words: str
) -> None:
    with pytest.raises(error) as raised:
        call(context, name, arguments)
    assert words in str(raised.value)
    assert context.store.sessions() == []


RESERVED = {
    "session_erased": {"events": 3},
    "session_paused": {},
    "lease_taken": {"holder": "me", "epoch": 9},
    "bodies_pruned": {"ranges": [[1, 1]]},
    "operation_called": {"operation": "open"},
}


@pytest.mark.parametrize("kind", RESERVED)
def test_a_reserved_kind_cannot_be_appended(context: Context, kind: str) -> None:
    session = call(context, "open", {})
    with pytest.raises(InvalidInput, match="operation of its own"):
        call(context, "append", {"session": session.id, "drafts": [{"kind": kind, **RESERVED[kind]}]})
    assert context.store.head(context.store.session(session.id)).head == 1


def test_an_id_can_be_shortened_while_it_is_unique(context: Context) -> None:
    ids = [context.store.open(Opening(project="p", id=f"abc{n}{'0' * 16}"), actor=OWNER).id for n in range(2)]
    assert call(context, "show", {"session": "ABC0"}).session.id == ids[0]
    with pytest.raises(AmbiguousId) as raised:
        call(context, "show", {"session": "abc"})
    assert raised.value.details["candidates"] == ids


def test_the_whole_id_wins_over_longer_ones(context: Context) -> None:
    short = context.store.open(Opening(project="p", id="abc"), actor=OWNER)
    context.store.open(Opening(project="p", id="abcd"), actor=OWNER)
    assert call(context, "show", {"session": "abc"}).session.id == short.id


def test_operations_work_from_plain_json(context: Context, tmp_path: Path) -> None:
    """Everything a surface sends is JSON: strings, numbers, objects."""
    session = call(context, "open", {"title": "t", "metadata": {"branch": "main"}, "budget_usd": 1.5})
    draft = {"kind": "call_made", "call": "1", "tool": "Read", "input": {"file_path": "a.py"}}
    appended = call(context, "append", {"session": session.id, "drafts": [draft], "expect": 1})
    assert appended.seqs == [2]
    detail = call(context, "show", {"session": session.id})
    assert [touched.what for touched in detail.working_set] == ["a.py"]
    assert detail.session.budget.cost_micros == 1_500_000
