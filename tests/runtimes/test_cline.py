"""Cline and Roo Code: what is read from the two arrays of a task."""

import base64
import json
from pathlib import PurePath
from typing import Any

import msgspec
import pytest

from clew.model.conversation import conversation, model_view
from clew.model.events import (
    CallMade,
    CallReturned,
    Compacted,
    ImagePart,
    MessageAdded,
    Opaque,
    RuntimeAttached,
    SessionTitled,
    TextPart,
    ThinkingPart,
    Usage,
    UsageCounted,
)
from clew.runtimes.adapters.cline import identify, recognises, recognises_shown, split
from clew.runtimes.rounds import Answer, Prompt, Results, rounds, text_of
from support.transcripts import events, read

PATH = (
    "/home/me/.config/Code/User/globalStorage/saoudrizwan.claude-dev/tasks/1794823200000/api_conversation_history.json"
)
ENVIRONMENT = "<environment_details>\n# Current Working Directory (/home/me/app) Files\na.txt\n</environment_details>"
T = 1_794_823_200_000


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


NATIVE = [
    {"role": "user", "ts": T, "content": [text("<task>\nlist the files\nplease\n</task>"), text(ENVIRONMENT)]},
    {
        "role": "assistant",
        "ts": T + 1,
        "content": [
            {"type": "thinking", "thinking": "a listing", "signature": "sig"},
            text("I look."),
            {"type": "tool_use", "id": "c1", "name": "list_files", "input": {"path": "."}},
        ],
        "modelInfo": {"modelId": "m-1", "providerId": "p", "mode": "act"},
        "metrics": {"tokens": {"prompt": 30, "completion": 4, "cached": 20}, "cost": 0.01},
    },
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [text("a.txt")]}, text(ENVIRONMENT)],
    },
    {"role": "assistant", "content": "One file."},
]
XML = [
    {"role": "user", "content": [text("<task>\nlist\n</task>")]},
    {"role": "assistant", "content": [text("I look.\n<list_files>\n<path>.</path>\n</list_files>")]},
    {"role": "user", "content": [text("[list_files for '.'] Result:"), text("a.txt"), text(ENVIRONMENT)]},
]


def read_array(*messages: Any, format: str = "conversation") -> Any:
    return read("cline", json.dumps(list(messages)).encode(), path=PATH, format=format)


def test_a_conversation_with_native_calls_is_read() -> None:
    done = read_array(*NATIVE)
    bodies = [draft.body for draft in done.drafts]
    assert bodies[0] == RuntimeAttached(runtime="cline", native="1794823200000", cwd="/home/me/app")
    assert [body for body in bodies if isinstance(body, RuntimeAttached | SessionTitled)][1:] == [
        SessionTitled(title="list the files")
    ]
    assert [body for body in bodies if isinstance(body, MessageAdded)] == [
        MessageAdded(role="user", text="list the files\nplease"),
        MessageAdded(
            role="assistant",
            parts=(ThinkingPart(text="a listing", signature="sig"), TextPart(text="I look.")),
            message="1794823200000/1",
            model="m-1",
            usage=Usage(input=30, output=4, cache_read=20, cost_micros=10_000),
        ),
        MessageAdded(role="assistant", text="One file.", message="1794823200000/3"),
    ]
    grouped = rounds(conversation(events(done.drafts)))
    assert [type(one) for one in grouped] == [Prompt, Answer, Results, Answer]
    call = next(body for body in bodies if isinstance(body, CallMade))
    assert (call.call, call.tool, bytes(call.input)) == ("c1", "list_files", b'{"path": "."}')
    back = next(body for body in bodies if isinstance(body, CallReturned))
    assert json.loads(bytes(back.output)) == [text("a.txt")]
    assert [body.kind for body in bodies if isinstance(body, Opaque)] == ["cline.environment", "cline.environment"]
    assert [draft.source.partition("~")[0] for draft in done.drafts] == [
        "0/runtime", "0", "0/1", "0/title", "1", "1/1", "2", "2/1", "3",
    ]  # fmt: skip
    assert done.drafts[1].said_at == T * 1000


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}, text("Done.")]},
        {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]},
        {"role": "assistant", "content": [text("so far")], "isSummary": True},
        {"role": "assistant", "content": ""},
    ],
)
def test_usage_is_counted_whatever_the_answer_holds(message: dict[str, Any]) -> None:
    about = {key: NATIVE[1][key] for key in ("modelInfo", "metrics")}
    spending = [draft.body for draft in read_array(message | about).drafts if getattr(draft.body, "usage", None)]
    assert [(one.usage.input, one.model, one.message) for one in spending] == [(30, "m-1", "1794823200000/0")]
    none = {"metrics": {"tokens": {"prompt": 0, "completion": 0, "cached": 0}, "cost": 0}}
    assert not any(getattr(draft.body, "usage", None) for draft in read_array(message | none).drafts)


def test_calls_written_as_xml_stay_text() -> None:
    done = read_array(*XML)
    assert not any(isinstance(draft.body, CallMade | CallReturned) for draft in done.drafts)
    spoken = [draft.body for draft in conversation(events(done.drafts))]
    assert [text_of(message.content) for message in spoken if isinstance(message, MessageAdded)] == [
        "list",
        "I look.\n<list_files>\n<path>.</path>\n</list_files>",
        "[list_files for '.'] Result:\na.txt",
    ]


def test_a_rewritten_message_takes_the_place_of_the_first() -> None:
    before = read_array(*XML)
    after = read_array(XML[0], {"role": "assistant", "content": [text("Something else.")]}, *XML[2:])
    spoken = [draft.body for draft in conversation(events(before.drafts + after.drafts))]
    assert [text_of(message.content) for message in spoken if isinstance(message, MessageAdded)][1] == "Something else."
    assert len(spoken) == 3


def test_growth_repeats_what_was_read() -> None:
    whole = [draft.source for draft in read_array(*NATIVE).drafts]
    for size in range(len(NATIVE)):
        part = [draft.source for draft in read_array(*NATIVE[:size]).drafts]
        assert part == whole[: len(part)]


def test_a_summary_of_roo_stands_for_what_was_before() -> None:
    done = read_array(*XML, {"role": "assistant", "content": [text("so far")], "isSummary": True}, NATIVE[3])
    assert Compacted(summary="so far") in [draft.body for draft in done.drafts]
    assert len(model_view(conversation(events(done.drafts)))) == 2


def test_an_image_becomes_a_blob() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(b"png").decode()}
    done = read_array({"role": "user", "content": [text("see"), {"type": "image", "source": source}]})
    body = next(draft.body for draft in done.drafts if isinstance(draft.body, MessageAdded))
    assert isinstance(body.parts[1], ImagePart)


SHOWN = [
    {"ts": T, "type": "say", "say": "text", "text": "list"},
    {
        "ts": T,
        "type": "say",
        "say": "api_req_started",
        "text": '{"request":"x","tokensIn":10,"tokensOut":4,"cost":0.01}',
    },
    {"ts": T, "type": "say", "say": "text", "text": "I look.", "partial": True},
    {"ts": T, "type": "say", "say": "api_req_started", "text": '{"request":"y","tokensIn":1,"cacheReads":7}'},
    {"ts": T, "type": "ask", "ask": "completion_result", "text": ""},
    {"ts": T, "type": "say", "say": "api_req_started", "text": '{"request":"z","tokensIn":5}'},
]


def test_what_the_panel_shows_counts_a_request_once_it_is_settled() -> None:
    done = read_array(*SHOWN, format="shown")
    assert [draft.body.usage for draft in done.drafts if isinstance(draft.body, UsageCounted)] == [
        Usage(input=10, output=4, cost_micros=10_000),
        Usage(input=1, cache_read=7),
    ]
    # While an answer is coming in its cost still grows.
    assert not any(isinstance(draft.body, UsageCounted) for draft in read_array(*SHOWN[:3], format="shown").drafts)
    assert not any(isinstance(draft.body, MessageAdded) for draft in done.drafts)
    assert sum(isinstance(draft.body, Opaque) for draft in done.drafts) == len(SHOWN)
    sources = [draft.source for draft in done.drafts]
    assert len(set(sources)) == len(sources)


def test_what_the_panel_shows_names_the_model() -> None:
    about = {"modelInfo": {"modelId": "m-1", "providerId": "p"}}
    done = read_array(*({**one, **about} for one in SHOWN), format="shown")
    assert [draft.body.model for draft in done.drafts if isinstance(draft.body, UsageCounted)] == ["m-1", "m-1"]


def test_what_the_panel_shows_is_not_counted_where_the_conversation_counts_it() -> None:
    # Since Cline tells the mode of a model it keeps what an answer cost with the answer.
    about = {"modelInfo": {"modelId": "m-1", "providerId": "p", "mode": "act"}}
    done = read_array(SHOWN[0], {**SHOWN[1], **about}, *SHOWN[2:], format="shown")
    assert [draft.body.usage for draft in done.drafts if isinstance(draft.body, UsageCounted)] == [
        Usage(input=1, cache_read=7)
    ]
    assert sum(isinstance(draft.body, Opaque) for draft in done.drafts) == len(SHOWN)


@pytest.mark.parametrize("format", ["conversation", "shown"])
@pytest.mark.parametrize(
    "record",
    [
        None, 7, "x", [], {}, {"role": 7}, {"role": "user"}, {"role": "user", "content": [7]}, {"role": "tool"},
        {"role": "user", "content": [{"type": "image", "source": {"data": "%"}}]}, {"type": "say"}, {"type": 7},
        {"type": "reasoning", "encrypted_content": "x"}, {"type": "say", "say": "api_req_started", "text": "{"},
    ],
)  # fmt: skip
def test_odd_elements_are_kept_verbatim(format: str, record: Any) -> None:
    done = read_array(record, format=format)
    assert (done.records, done.quarantined) == (1, 0)
    kept = [draft.body for draft in done.drafts if isinstance(draft.body, Opaque)]
    assert json.loads(kept[-1].raw) == record


def test_a_document_that_is_none_is_refused_and_odd_bytes_are_not() -> None:
    with pytest.raises(msgspec.DecodeError):
        list(split(b'[{"role": "user"'))
    ((_, record),) = split(b'[{"role":"user","content":"\xff"}]')
    assert json.loads(record)["content"] == "\ufffd"


def test_files_are_recognised_and_named() -> None:
    assert recognises(PurePath(PATH), b"[]")
    assert not recognises(PurePath("x.json"), b"[]")
    assert recognises_shown(PurePath("/x/ui_messages.json"), b" [")
    assert identify(PurePath(PATH), b"").native == "1794823200000"
    roo = "/home/me/.config/Code/User/globalStorage/rooveterinaryinc.roo-cline/tasks/a-b/api_conversation_history.json"
    assert (identify(PurePath(roo), b"").native, identify(PurePath(roo), b"").agent) == ("a-b", "roo")
