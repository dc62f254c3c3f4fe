"""What becomes of a session in another program is told before anything is written, and wherever it is stored."""

import pytest
from msgspec import Raw

from clew.model import events as e
from clew.model.access import Grant, Right
from clew.model.errors import InvalidInput
from clew.service import Context, call
from clew.store import Store
from support.talks import on, opened


@pytest.fixture
def context(store: Store) -> Context:
    return on(store)


def a_session(context: Context) -> str:
    return opened(
        context, e.RuntimeAttached(runtime="claude-code", cwd="/home/ada/shop", machine="elsewhere"),
        e.MessageAdded(role="user", text="why?"),
        e.MessageAdded(role="assistant", parts=(e.ThinkingPart(text="hm"), e.TextPart(text="I look")), model="opus"),
        e.CallMade(call="1", tool="Bash", input=Raw(b'{"command":"pytest"}')),
        e.CallReturned(call="1", output=Raw(b'"1 failed"')),
        e.MessageAdded(role="assistant", text="because"),
    ).id  # fmt: skip


def test_what_is_carried_adapted_and_dropped_is_told_for_each_program(context: Context) -> None:
    id = a_session(context)
    own = call(context, "continuation", {"session": id[:9]})
    assert (own.session, own.runtime, own.title, own.cwd, own.at) == (
        id,
        "claude-code",
        "Claude Code",
        "/home/ada/shop",
        7,
    )
    assert own.programs[0].is_own
    assert own.programs[0].runtime == "claude-code"
    for program in own.programs:
        told = call(context, "continuation", {"session": id, "runtime": program.runtime})
        assert told.fidelity.carried["prompts"] == 1, program
        assert not told.is_empty
        assert not told.is_in_place  # No file of the program is stored.
    codex = call(context, "continuation", {"session": id, "runtime": "codex"})
    assert [change.what for change in codex.fidelity.adapted] == ["tool names"]
    assert [change.what for change in codex.fidelity.dropped] == ["thinking"]
    assert call(context, "continuation", {"session": id, "runtime": "claude"}).runtime == "claude-code"


def test_it_is_told_up_to_an_event_and_nothing_changes(context: Context) -> None:
    id = a_session(context)
    early = call(context, "continuation", {"session": id, "runtime": "codex", "at": 3})
    assert (early.at, early.fidelity.carried) == (3, {"prompts": 1})
    with pytest.raises(InvalidInput, match="events 1 to 7"):
        call(context, "continuation", {"session": id, "at": 8})
    assert call(context, "show", {"session": id}).session.head == 7


def test_a_session_without_a_program_or_without_words_says_so(context: Context) -> None:
    id = opened(context, e.MessageAdded(role="user", text="go")).id
    none = call(context, "continuation", {"session": id})
    assert (none.runtime, none.fidelity.carried) == ("", {})
    assert call(context, "continuation", {"session": id, "runtime": "codex"}).fidelity.carried == {"prompts": 1}
    silent = opened(context, title="nothing said").id
    assert call(context, "continuation", {"session": silent, "runtime": "codex"}).is_empty
    with pytest.raises(InvalidInput):
        call(context, "continuation", {"session": id, "runtime": "no such program"})


def test_who_may_read_may_ask(context: Context, store: Store) -> None:
    id = a_session(context)
    grants = (Grant(principal="person:bo", rights=frozenset({Right.SEE, Right.READ}), session=id),)
    bo = Context(store=store, unrestricted=store, principal="person:bo", grants=grants, answers_leave_machine=True)
    assert call(bo, "continuation", {"session": id, "runtime": "codex"}).fidelity.carried["calls"] == 1
