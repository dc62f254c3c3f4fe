"""SWE-agent: what is read from a trajectory."""

import json
from pathlib import PurePath
from typing import Any

import msgspec
import pytest

from clew.model.conversation import conversation
from clew.model.events import (
    CallMade,
    CallReturned,
    MessageAdded,
    Opaque,
    RuntimeAttached,
    SessionTitled,
    TextPart,
    ThinkingPart,
    TurnEnded,
    Usage,
)
from clew.runtimes.adapters.swe_agent import identify, recognises, split
from clew.runtimes.rounds import rounds
from support.transcripts import events, read

PATH = "/home/me/trajectories/me/run-1/fix-7/fix-7.traj"
INFO = {
    "exit_status": "submitted",
    "submission": "diff",
    "swe_agent_version": "1.1.0",
    "model_stats": {"instance_cost": 0.5, "tokens_sent": 100, "tokens_received": 20, "api_calls": 2},
}


def step(action: str, observation: str, **about: Any) -> dict[str, Any]:
    return {"action": action, "observation": observation, "response": "r", "thought": "t", "query": [{"x": 1}]} | about


TEXT = {
    "environment": "main",
    "trajectory": [step("ls\n", "a.txt", state={"open_file": "n/a"}), step("submit\n", "done", execution_time=1.5)],
    "history": [
        {"role": "system", "content": "You are a programmer.", "agent": "primary"},
        {"role": "user", "content": "An example.", "is_demo": True, "agent": "primary"},
        {"role": "user", "content": "Fix it.\nNow.", "agent": "primary"},
        {
            "role": "assistant",
            "content": "I look.\n```\nls\n```",
            "thought": "I look.",
            "action": "ls\n",
            "agent": "primary",
        },
        {"role": "user", "content": "a.txt\n(Open file: n/a)", "agent": "primary"},
        {"role": "assistant", "content": "Done.\n```\nsubmit\n```", "thought": "Done.", "action": "submit\n"},
    ],
    "info": INFO,
}
NATIVE = {
    "trajectory": [step("str_replace_editor view a.txt", "1 x")],
    "history": [
        {"role": "user", "content": [{"type": "text", "text": "Fix it."}], "message_type": "observation"},
        {
            "role": "assistant",
            "content": "I look.",
            "message_type": "action",
            "thought": "I look.",
            "action": "str_replace_editor view a.txt",
            "tool_calls": [
                {
                    "type": "function",
                    "id": "c1",
                    "function": {"name": "str_replace_editor", "arguments": '{"path":"a.txt"}'},
                }
            ],
            "thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "sig"}],
        },
        {"role": "tool", "content": "1 x", "message_type": "observation", "tool_call_ids": ["c1"]},
    ],
    "info": {"model_stats": {"tokens_sent": 5}},
}


def read_document(document: Any) -> Any:
    return read("swe-agent", json.dumps(document).encode(), path=PATH)


def told(document: Any) -> list[Any]:
    return [draft.body for draft in read_document(document).drafts if not isinstance(draft.body, Opaque)]


def test_commands_in_the_text_are_calls_and_each_thing_is_read_once() -> None:
    bodies = told(TEXT)
    assert bodies[0] == RuntimeAttached(runtime="swe-agent", native="run-1/fix-7", runtime_version="1.1.0")
    assert bodies[1:3] == [MessageAdded(role="user", text="Fix it.\nNow."), SessionTitled(title="Fix it.")]
    assert [body.text for body in bodies if isinstance(body, MessageAdded)] == ["Fix it.\nNow.", "I look.", "Done."]
    calls = [(body.call, body.tool, json.loads(bytes(body.input))) for body in bodies if isinstance(body, CallMade)]
    assert calls == [
        ("history/3/call", "bash", {"command": "ls\n"}),
        ("history/5/call", "bash", {"command": "submit\n"}),
    ]
    backs = [(body.call, json.loads(bytes(body.output))) for body in bodies if isinstance(body, CallReturned)]
    assert backs == [("history/3/call", "a.txt\n(Open file: n/a)"), ("history/5/call", "done")]
    spent = Usage(input=100, output=20, cost_micros=500_000)
    assert bodies[-1] == TurnEnded(stop_reason="submitted", usage=spent)
    opaque = {draft.body.kind: draft.body.raw for draft in read_document(TEXT).drafts if isinstance(draft.body, Opaque)}
    assert list(opaque) == ["swe-agent.system", "swe-agent.demo", "swe-agent.step", "swe-agent.info"]
    assert json.loads(opaque["swe-agent.step"]) == {"state": {"open_file": "n/a"}}


MODEL = {"agent": {"model": {"name": "maker/m-1"}, "name": "main"}, "env": {}}


@pytest.mark.parametrize("config", [MODEL, json.dumps(MODEL)])
def test_the_model_of_a_run_is_that_of_its_configuration(config: Any) -> None:
    ended = told(TEXT | {"replay_config": config})[-1]
    assert ended.model == "maker/m-1"
    assert ended.usage == Usage(input=100, output=20, cost_micros=500_000)


@pytest.mark.parametrize("config", [None, 7, "", "{", "[]", [], {"agent": None}, {"agent": {"model": {"name": 7}}}])
def test_an_odd_configuration_tells_no_model(config: Any) -> None:
    bodies = told(TEXT | {"replay_config": config})
    assert bodies == told(TEXT)
    assert bodies[-1].model == ""


def test_native_calls_are_read() -> None:
    bodies = told(NATIVE)
    said = next(body for body in bodies if isinstance(body, MessageAdded) and body.role == "assistant")
    assert said.parts == (ThinkingPart(text="hm", signature="sig"), TextPart(text="I look."))
    call = next(body for body in bodies if isinstance(body, CallMade))
    assert (call.call, call.tool, json.loads(bytes(call.input))) == ("c1", "str_replace_editor", {"path": "a.txt"})
    assert [(body.call, bytes(body.output)) for body in bodies if isinstance(body, CallReturned)] == [("c1", b'"1 x"')]
    # The run goes on, so its totals are not counted yet.
    assert not any(isinstance(body, TurnEnded) for body in bodies)


def test_a_document_without_a_history_is_read_from_its_steps() -> None:
    grouped = rounds(conversation(events(read_document({"trajectory": TEXT["trajectory"], "info": INFO}).drafts)))
    assert [type(one).__name__ for one in grouped] == ["Answer", "Results", "Answer", "Results"]


def test_growth_ends_in_the_same_conversation() -> None:
    early = {"trajectory": TEXT["trajectory"][:1], "history": TEXT["history"][:4], "info": {}}  # type: ignore[index]  # lists
    whole = [draft.body for draft in conversation(events(read_document(TEXT).drafts))]
    grown = [draft.body for draft in conversation(events(read_document(early).drafts + read_document(TEXT).drafts))]
    texts = [one.text for one in whole if isinstance(one, MessageAdded)]
    assert [one.text for one in grown if isinstance(one, MessageAdded)] == texts


@pytest.mark.parametrize(
    "item",
    [
        None, 7, "x", [], {}, {"role": 7}, {"role": "user"}, {"role": "assistant"}, {"role": "user", "content": 7},
        {"role": "assistant", "tool_calls": [{}]}, {"role": "tool", "tool_call_ids": []},
        {"role": "odd", "content": "x"},
    ],
)  # fmt: skip
def test_odd_items_are_kept_verbatim(item: Any) -> None:
    done = read_document({"history": [item]})
    assert (done.translated, done.opaque) == (1, 1)
    assert isinstance(done.drafts[1].body, Opaque)
    assert json.loads(done.drafts[1].body.raw) == item


def test_arguments_that_are_no_json_stay_the_words_they_are() -> None:
    call = {"id": "c1", "function": {"name": "bash", "arguments": '{"command": '}}
    body = told({"history": [{"role": "assistant", "content": "", "tool_calls": [call]}]})[-1]
    assert json.loads(bytes(body.input)) == '{"command": '


def test_files_are_recognised_and_named() -> None:
    assert recognises(PurePath(PATH), b"{")
    assert not recognises(PurePath("x.json"), b"{")
    assert identify(PurePath(PATH), b"").native == "run-1/fix-7"
    assert identify(PurePath("/x/run-2/fix-7.traj"), b"").native == "run-2/fix-7"
    assert identify(PurePath("fix-7.traj"), b"").native == "fix-7"
    with pytest.raises(msgspec.DecodeError):
        list(split(b"{"))
