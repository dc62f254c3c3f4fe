"""Kimi: what is read from the wire logs of Kimi Code and Kimi CLI, and from a context file."""

import base64
import json
import random
from pathlib import PurePath
from typing import Any

import pytest

from clew.model.conversation import conversation
from clew.model.events import (
    CallMade,
    CallReturned,
    Compacted,
    ImagePart,
    MessageAdded,
    Opaque,
    Rewound,
    RuntimeAttached,
    SessionTitled,
    ThinkingPart,
    Usage,
    UsageCounted,
)
from clew.runtimes.adapters.kimi import identify, identify_context, recognises_cli, recognises_code, recognises_context
from clew.runtimes.contract import Identity
from clew.runtimes.rounds import Answer, Prompt, Results, rounds, text_of
from support.transcripts import events, read, read_in_pieces

T = 1_794_823_200_000
HEAD = {"type": "metadata", "protocol_version": "1.4", "created_at": T}
OLD_HEAD = {"type": "metadata", "protocol_version": "1.2"}


def lines(*records: Any) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def prompt(words: str, kind: str = "user") -> dict[str, Any]:
    message = {"role": "user", "content": [{"type": "text", "text": words}], "toolCalls": [], "origin": {"kind": kind}}
    return {"type": "context.append_message", "message": message, "time": T + 1}


def loop(type: str, **about: Any) -> dict[str, Any]:
    return {"type": "context.append_loop_event", "event": {"type": type, "turnId": "0", **about}, "time": T + 2}


def answer(step: str, words: str) -> dict[str, Any]:
    return loop("content.part", uuid=f"{step}-text", stepUuid=step, part={"type": "text", "text": words})


TOKENS = {"inputOther": 10, "output": 3, "inputCacheRead": 20, "inputCacheCreation": 4}

CODE = lines(
    HEAD,
    {"type": "config.update", "modelAlias": "maker/m-1", "time": T},
    {"type": "config.update", "cwd": "/home/me/app", "time": T},
    {"type": "turn.prompt", "input": [{"type": "text", "text": "list"}], "origin": {"kind": "user"}, "time": T},
    prompt("list\nthe files"),
    prompt("<system-reminder>x</system-reminder>", "injection"),
    loop("step.begin", uuid="s1", step=1),
    loop("content.part", uuid="s1-think", stepUuid="s1", part={"type": "think", "think": "a listing"}),
    answer("s1", "I look."),
    loop("tool.call", uuid="Bash_0", stepUuid="s1", toolCallId="Bash_0", name="Bash", args={"command": "ls"}),
    loop("tool.result", parentUuid="Bash_0", toolCallId="Bash_0", result={"output": "no", "isError": True}),
    loop("step.end", uuid="s1", usage=TOKENS, finishReason="tool_use"),
    {"type": "usage.record", "model": "maker/m-1", "usage": TOKENS, "usageScope": "turn", "time": T + 3},
    answer("s2", "It fails."),
)


def wire(type: str, /, **payload: Any) -> dict[str, Any]:
    return {"timestamp": T / 1000, "message": {"type": type, "payload": payload}}


CLI = lines(
    OLD_HEAD,
    wire("TurnBegin", user_input="list"),
    wire("StepBegin", n=1),
    wire("ContentPart", type="think", think="a listing", encrypted=None),
    wire("ContentPart", type="text", text="I look."),
    wire("ToolCall", type="function", id="c1", function={"name": "Shell", "arguments": '{"command": "ls"}'}),
    wire("ToolCall", type="function", id="c2", function={"name": "Shell", "arguments": '{"command": '}),
    wire("StatusUpdate", context_usage=0.1, token_usage={"input_other": 5, "output": 2, "input_cache_read": 1}),
    wire(
        "ToolResult",
        tool_call_id="c1",
        return_value={"is_error": False, "output": "a.txt", "message": "", "display": []},
    ),
    wire("ToolResult", tool_call_id="c2", return_value={"is_error": True, "output": "bad"}),
    wire(
        "SubagentEvent",
        task_tool_call_id="c3",
        event={"type": "ContentPart", "payload": {"type": "text", "text": "sub"}},
    ),
    wire("TurnEnd"),
)

CONTEXT = lines(
    {"role": "_checkpoint", "id": 0},
    {"role": "user", "content": "list"},
    {"role": "user", "content": [{"type": "text", "text": "<system>CHECKPOINT 1</system>"}]},
    {
        "role": "assistant",
        "content": [{"type": "text", "text": "I look."}],
        "tool_calls": [
            {"type": "function", "id": "c1", "function": {"name": "Shell", "arguments": '{"command":"ls"}'}}
        ],
    },
    {"role": "tool", "content": [{"type": "text", "text": "a.txt"}], "tool_call_id": "c1"},
    {"role": "_usage", "token_count": 99},
)


def told(data: bytes, format: str) -> list[Any]:
    return [draft.body for draft in read("kimi", data, format=format).drafts if not isinstance(draft.body, Opaque)]


def test_a_wire_log_of_kimi_code_is_read_once() -> None:
    done = read("kimi", CODE)
    bodies = [draft.body for draft in done.drafts]
    assert bodies[0] == RuntimeAttached(runtime="kimi", native="session")
    assert RuntimeAttached(runtime="kimi", native="session", cwd="/home/me/app") in bodies
    assert [body for body in bodies if isinstance(body, MessageAdded)] == [
        MessageAdded(role="user", text="list\nthe files"),
        MessageAdded(role="assistant", parts=(ThinkingPart(text="a listing"),), message="s1", model="maker/m-1"),
        MessageAdded(role="assistant", text="I look.", message="s1", model="maker/m-1"),
        MessageAdded(role="assistant", text="It fails.", message="s2", model="maker/m-1"),
    ]
    assert [body.title for body in bodies if isinstance(body, SessionTitled)] == ["list"]
    usage = Usage(input=10, output=3, cache_read=20, cache_write=4)
    assert [body for body in bodies if isinstance(body, UsageCounted)] == [UsageCounted(usage=usage, model="maker/m-1")]
    opaque = [body.kind for body in bodies if isinstance(body, Opaque)]
    assert opaque == ["kimi.config.update", "kimi.turn.prompt", "kimi.injection", "kimi.step.begin", "kimi.step.end"]
    call = next(draft for draft in done.drafts if isinstance(draft.body, CallMade))
    assert call.source == "s1/Bash_0"
    assert call.said_at == (T + 2) * 1000
    assert len({draft.source for draft in done.drafts}) == len(done.drafts)


def test_usage_that_names_no_model_is_that_of_the_model_in_use() -> None:
    data = lines(HEAD, {"type": "config.update", "modelAlias": "maker/m-1"}, {"type": "usage.record", "usage": TOKENS})
    assert [body.model for body in told(data, "code") if isinstance(body, UsageCounted)] == ["maker/m-1"]


def test_an_answer_with_its_calls_is_one_round() -> None:
    grouped = rounds(conversation(events(read("kimi", CODE).drafts)))
    assert [type(one) for one in grouped] == [Prompt, Answer, Results, Answer]
    assert isinstance(grouped[1], Answer)
    assert [call.tool for call in grouped[1].calls] == ["Bash"]
    assert isinstance(grouped[2], Results)
    assert grouped[2].returns[0].failed
    assert bytes(grouped[2].returns[0].output) == b'"no"'


def test_undo_goes_back_to_before_the_prompt_even_after_a_rewind() -> None:
    undo = {"type": "context.undo", "count": 1}
    data = lines(
        HEAD,
        prompt("one"),
        answer("s1", "1"),
        prompt("two"),
        answer("s2", "2"),
        undo,
        prompt("three"),
        undo,
        prompt("four"),
    )
    spoken = conversation(events(read("kimi", data).drafts))
    assert [text_of(message.body.content) for message in spoken if isinstance(message.body, MessageAdded)] == [
        "one",
        "1",
        "four",
    ]


def test_clear_begins_anew_and_a_compaction_stands_for_what_was() -> None:
    data = lines(HEAD, prompt("one"), {"type": "context.clear"}, prompt("two"))
    spoken = conversation(events(read("kimi", data).drafts))
    assert [message.body.text for message in spoken if isinstance(message.body, MessageAdded)] == ["two"]
    data = lines(HEAD, prompt("one"), {"type": "context.apply_compaction", "summary": "so far", "compactedCount": 1})
    assert told(data, "code")[-1] == Compacted(summary="so far")
    # What was compacted cannot be undone.
    assert not any(
        isinstance(body, Rewound) for body in told(data + lines({"type": "context.undo", "count": 1}), "code")
    )


def test_an_image_becomes_a_blob_and_one_kept_elsewhere_stays_verbatim() -> None:
    url = "data:image/png;base64," + base64.b64encode(b"png").decode()
    record = prompt("see")
    record["message"]["content"].append({"type": "image_url", "imageUrl": {"url": url}})
    body = read("kimi", lines(HEAD, record)).drafts[1].body
    assert isinstance(body, MessageAdded)
    assert isinstance(body.parts[1], ImagePart)
    record["message"]["content"][1]["imageUrl"]["url"] = "blobref:1"
    done = read("kimi", lines(HEAD, record))
    assert [draft.body.kind for draft in done.drafts[1:]] == ["message_added", "session_titled", "kimi.part"]


def test_a_wire_log_of_kimi_cli_is_read() -> None:
    done = read("kimi", CLI, format="cli")
    bodies = [draft.body for draft in done.drafts]
    step = done.drafts[3].source or ""
    assert [body for body in bodies if isinstance(body, MessageAdded)] == [
        MessageAdded(role="user", text="list"),
        MessageAdded(role="assistant", parts=(ThinkingPart(text="a listing"),), message=step),
        MessageAdded(role="assistant", text="I look.", message=step),
        MessageAdded(role="assistant", text="sub", side="c3"),
    ]
    calls = [body for body in bodies if isinstance(body, CallMade)]
    assert [bytes(call.input) for call in calls] == [b'{"command": "ls"}', b'"{\\"command\\": "']
    assert [(body.call, bytes(body.output), body.failed) for body in bodies if isinstance(body, CallReturned)] == [
        ("c1", b'"a.txt"', False),
        ("c2", b'"bad"', True),
    ]
    assert UsageCounted(usage=Usage(input=5, output=2, cache_read=1)) in bodies
    assert done.drafts[1].said_at == T * 1000
    grouped = rounds(conversation(events(done.drafts)))
    assert [type(one) for one in grouped] == [Prompt, Answer, Results]


def test_a_context_file_is_read() -> None:
    bodies = told(CONTEXT, "context")
    assert [type(body).__name__ for body in bodies] == [
        "RuntimeAttached", "MessageAdded", "SessionTitled", "MessageAdded", "CallMade", "CallReturned",
    ]  # fmt: skip
    assert bytes(bodies[-1].output) == b'"a.txt"'
    kinds = [
        draft.body.kind for draft in read("kimi", CONTEXT, format="context").drafts if isinstance(draft.body, Opaque)
    ]
    assert kinds == ["kimi._checkpoint", "kimi.user", "kimi._usage"]


@pytest.mark.parametrize(("format", "data"), [("code", CODE), ("cli", CLI), ("context", CONTEXT)])
def test_pieces_give_what_the_whole_gives(format: str, data: bytes) -> None:
    whole = read("kimi", data, format=format).drafts
    for seed in range(20):
        cuts = random.Random(seed).choices(range(len(data)), k=1000)
        assert read_in_pieces("kimi", data, cuts, format=format) == whole


@pytest.mark.parametrize("format", ["code", "cli", "context"])
@pytest.mark.parametrize(
    "record",
    [
        None, 7, "x", [], {}, {"type": 3}, {"type": "context.append_message"}, {"type": "context.undo", "count": -1},
        {"type": "context.undo", "count": 9}, {"type": "context.append_loop_event", "event": {"type": "tool.call"}},
        {"type": "context.append_message", "message": {"role": "user", "content": [{"type": "text"}]}},
        {"timestamp": 1, "message": {"type": "ToolCall", "payload": {"id": "x"}}}, {"timestamp": "now", "message": {}},
        {"role": "assistant"}, {"role": "tool", "content": []}, {"role": 7},
        {"type": "usage.record", "usage": {"output": "x"}},
    ],
)  # fmt: skip
def test_odd_records_are_kept_verbatim(format: str, record: Any) -> None:
    done = read("kimi", lines(record), format=format)
    assert (done.opaque, done.quarantined) == (1, 0)
    assert isinstance(done.drafts[0].body, Opaque)
    assert json.loads(done.drafts[0].body.raw) == record


def test_files_are_recognised_and_named() -> None:
    code = PurePath("/home/me/.kimi-code/sessions/wd_app_1/session_1/agents/main/wire.jsonl")
    assert recognises_code(code, CODE)
    assert not recognises_cli(code, CODE)
    assert recognises_cli(code, CLI)
    assert not recognises_code(code, CLI)
    assert recognises_cli(code, lines(wire("TurnBegin", user_input="x")))
    assert identify(code, b"") == Identity(native="session_1", project="app")
    child = PurePath("/home/me/.kimi-code/sessions/wd_app_1/session_1/agents/agent-0/wire.jsonl")
    named = Identity(native="session_1/agent-0", project="app", agent="agent-0", parent="session_1")
    assert identify(child, b"") == named
    assert identify(PurePath("/home/me/.kimi/sessions/aa/s-1/wire.jsonl"), b"") == Identity(native="s-1")
    context = PurePath("/home/me/.kimi/sessions/aa/s-1/context.jsonl")
    assert recognises_context(context, CONTEXT)
    assert not recognises_context(PurePath("x.jsonl"), lines({"role": "user", "content": "x"}))
    assert identify_context(context, b"").native == "s-1"
    assert identify_context(PurePath("/home/me/.kimi/sessions/aa/s-2.jsonl"), b"").native == "s-2"
