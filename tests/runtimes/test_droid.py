"""Droid: what is read from its session files and from stream-json."""

import base64
import json
import random
from pathlib import PurePath
from typing import Any

import pytest

from clew.model.conversation import conversation, model_view
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
    TextPart,
    ThinkingPart,
    TurnEnded,
)
from clew.runtimes.adapters.droid import identify, recognises_session, recognises_stream
from clew.runtimes.contract import micros
from support.transcripts import events, read, read_in_pieces

START = {
    "type": "session_start",
    "id": "s-1",
    "title": "New Session",
    "owner": "me",
    "version": 2,
    "cwd": "/home/me/app",
}
AT = "2026-11-16T10:00:00.000Z"


def lines(*records: Any) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def said(id: str, role: str, *content: Any, parent: str | None = None, **about: Any) -> dict[str, Any]:
    message = {"role": role, "content": list(content), **about}
    return {"type": "message", "id": id, "parentId": parent, "timestamp": AT, "message": message}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


SESSION = lines(
    START,
    said("u1", "user", text("<system-reminder>\nbe good\n</system-reminder>\n\n"), text("list the files\nplease")),
    said(
        "a1",
        "assistant",
        {"type": "thinking", "thinking": "a listing", "signature": "sig"},
        text("I look."),
        {"type": "tool_use", "id": "c1", "name": "LS", "input": {"directory_path": "/home/me/app"}},
        parent="u1",
        modelId="m-1",
    ),
    said("r1", "user", {"type": "tool_result", "tool_use_id": "c1", "content": "a.txt", "is_error": True}, parent="a1"),
    said("a2", "assistant", text("One file."), parent="r1"),
    {"type": "todo_state", "id": "t1", "timestamp": AT, "todos": {"todos": "1. [done] look"}},
)

STREAM = lines(
    {"type": "system", "subtype": "init", "cwd": "/home/me/app", "session_id": "s-2", "tools": ["LS"], "model": "m-1"},
    {
        "type": "message",
        "role": "user",
        "id": "u1",
        "text": "list",
        "timestamp": 1_794_823_200_000,
        "session_id": "s-2",
    },
    {"type": "message", "role": "assistant", "id": "a1", "text": "I look.", "timestamp": 1_794_823_201_000},
    {"type": "tool_call", "id": "c1", "messageId": "a1", "toolId": "LS", "toolName": "LS", "parameters": {"x": 1}},
    {"type": "tool_result", "id": "c1", "messageId": "r1", "toolId": "", "isError": False, "value": "a.txt"},
    {"type": "message", "role": "assistant", "id": "a2", "text": "One file.", "timestamp": 1_794_823_202_000},
    {"type": "completion", "finalText": "One file.", "numTurns": 2, "session_id": "s-2"},
)


def test_a_session_file_is_read_with_thoughts_calls_and_results() -> None:
    done = read("droid", SESSION)
    assert [draft.body for draft in done.drafts if not isinstance(draft.body, Opaque)] == [
        RuntimeAttached(runtime="droid", native="s-1", cwd="/home/me/app"),
        MessageAdded(role="user", text="list the files\nplease"),
        SessionTitled(title="list the files"),
        MessageAdded(
            role="assistant",
            parts=(ThinkingPart(text="a listing", signature="sig"), TextPart(text="I look.")),
            message="a1",
            model="m-1",
        ),
        CallMade(
            call="c1",
            tool="LS",
            input=done.drafts[5].body.input,  # type: ignore[union-attr]  # compared below
            message="a1",
            model="m-1",
        ),
        CallReturned(call="c1", output=done.drafts[6].body.output, failed=True),  # type: ignore[union-attr]  # likewise
        MessageAdded(role="assistant", text="One file.", message="a2"),
    ]
    assert [draft.source for draft in done.drafts] == [
        "s-1", "s-1/1", "u1", "u1/title", "a1", "a1/1", "r1", "a2", "t1",
    ]  # fmt: skip
    call, back = done.drafts[5].body, done.drafts[6].body
    assert isinstance(call, CallMade)
    assert json.loads(bytes(call.input)) == {"directory_path": "/home/me/app"}
    assert isinstance(back, CallReturned)
    assert bytes(back.output) == b'"a.txt"'
    assert {draft.said_at for draft in done.drafts[2:]} == {micros(AT)}
    assert isinstance(done.drafts[-1].body, Opaque)
    assert done.drafts[-1].body.kind == "droid.todo_state"


def test_a_title_of_its_own_wins_over_the_first_prompt() -> None:
    done = read("droid", lines(START | {"sessionTitle": "Files"}, said("u1", "user", text("list"))))
    assert [draft.body.title for draft in done.drafts if isinstance(draft.body, SessionTitled)] == ["Files"]


def test_a_message_of_reminders_only_is_opaque() -> None:
    done = read("droid", lines(START, said("u1", "user", text("<system-reminder>x</system-reminder>"))))
    assert [draft.body.kind for draft in done.drafts] == ["runtime_attached", "droid.session_start", "droid.user"]


def test_another_parent_takes_the_conversation_back() -> None:
    data = SESSION + lines(
        said("u2", "user", text("first try"), parent="a2"),
        said("a3", "assistant", text("wrong"), parent="u2"),
        said("u3", "user", text("second try"), parent="a2"),
    )
    done = read("droid", data)
    assert [draft.body for draft in done.drafts if isinstance(draft.body, Rewound)] == [Rewound(to="a2")]
    spoken = [draft.body.text for draft in conversation(events(done.drafts)) if isinstance(draft.body, MessageAdded)]
    assert spoken[-2:] == ["One file.", "second try"]


def test_a_compaction_keeps_what_came_after_its_anchor() -> None:
    compaction = {
        "type": "compaction_state",
        "id": "k1",
        "timestamp": AT,
        "summaryText": "looked",
        "anchorMessage": {"id": "r1", "index": 2},
        "removedCount": 3,
    }
    done = read("droid", SESSION + lines(compaction, said("u2", "user", text("go on"), parent="a2")))
    assert Compacted(summary="looked", keep="a2") in [draft.body for draft in done.drafts]
    seen = [draft.source for draft in model_view(conversation(events(done.drafts)))]
    assert seen == ["k1", "a2", "u2"]


def test_an_image_becomes_a_blob() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(b"png").decode()}
    body = (
        read("droid", lines(START, said("u1", "user", text("see"), {"type": "image", "source": source}))).drafts[2].body
    )
    assert isinstance(body, MessageAdded)
    assert body.parts[0] == TextPart(text="see")
    assert isinstance(body.parts[1], ImagePart)
    assert body.parts[1].media_type == "image/png"


def test_stream_json_is_read_once_and_its_final_text_is_not_an_answer() -> None:
    done = read("droid", STREAM, format="stream")
    assert [type(draft.body).__name__ for draft in done.drafts] == [
        "RuntimeAttached", "Opaque", "MessageAdded", "SessionTitled", "MessageAdded", "CallMade", "CallReturned",
        "MessageAdded", "TurnEnded", "Opaque",
    ]  # fmt: skip
    assert done.drafts[0].body == RuntimeAttached(runtime="droid", native="s-2", cwd="/home/me/app")
    call = done.drafts[5].body
    assert isinstance(call, CallMade)
    assert (call.call, call.tool, call.message, call.model) == ("c1", "LS", "a1", "m-1")
    assert done.drafts[8].body == TurnEnded(stop_reason="completed", model="m-1")
    assert len({draft.source for draft in done.drafts}) == len(done.drafts)
    spoken = conversation(events(done.drafts))
    assert [message.body.text for message in spoken if isinstance(message.body, MessageAdded)] == [
        "list",
        "I look.",
        "One file.",
    ]


@pytest.mark.parametrize(("format", "data"), [("session", SESSION), ("stream", STREAM)])
def test_pieces_give_what_the_whole_gives(format: str, data: bytes) -> None:
    whole = read("droid", data, format=format).drafts
    for seed in range(20):
        cuts = random.Random(seed).choices(range(len(data)), k=1000)
        assert read_in_pieces("droid", data, cuts, format=format) == whole


@pytest.mark.parametrize("format", ["session", "stream"])
@pytest.mark.parametrize(
    "record",
    [
        None, 7, "x", [], {}, {"type": 3}, {"type": "message"}, {"type": "message", "message": {"role": "user"}},
        {"type": "message", "id": "x", "message": {"role": "user", "content": [7]}},
        {"type": "message", "id": "x", "message": {"role": "assistant", "content": [{"type": "news", "x": 1}]}},
        {"type": "message", "message": {"role": "user", "content": [{"type": "image", "source": {"data": "%%"}}]}},
        {"type": "tool_call"}, {"type": "tool_result", "value": {}}, {"type": "system"}, {"type": "compaction_state"},
        {"type": "brand_new", "timestamp": "yesterday"},
    ],
)  # fmt: skip
def test_odd_records_are_kept_verbatim(format: str, record: Any) -> None:
    done = read("droid", lines(START, record), format=format)
    assert done.quarantined == 0
    assert done.records == 2
    kept = done.drafts[-1].body
    assert isinstance(kept, Opaque)


def test_files_are_recognised_and_named() -> None:
    path = PurePath("/home/me/.factory/sessions/-home-me-app/s-1.jsonl")
    assert recognises_session(path, SESSION)
    assert recognises_stream(path, STREAM)
    assert not recognises_session(path, STREAM)
    claude = {"type": "system", "subtype": "init", "cwd": "/", "session_id": "s", "apiKeySource": "none", "uuid": "u"}
    assert not recognises_stream(path, lines(claude))
    assert identify(path, SESSION.split(b"\n", 1)[0]).native == "s-1"
    assert identify(path, SESSION.split(b"\n", 1)[0]).project == "app"
    child = lines(START | {"id": "s-9", "callingSessionId": "s-1", "callingToolUseId": "c7"})
    assert (identify(path, child).parent, identify(path, child).call) == ("s-1", "c7")
    assert identify(path, b"not json").native == "s-1"
