"""Qwen Code: what is read from its chain of records, and what is written for it.

`fixtures/qwen_code/session.jsonl` was made by Qwen Code 0.15.10 against a scripted model.
"""

import base64
import json
import random
from pathlib import Path, PurePath
from typing import Any

import pytest

from clew.model.conversation import conversation, model_view
from clew.model.events import (
    CallMade,
    CallReturned,
    Compacted,
    Event,
    ImagePart,
    MessageAdded,
    Opaque,
    Rewound,
    RuntimeAttached,
    SessionTitled,
    TextPart,
    ThinkingPart,
    Usage,
    UsageCounted,
)
from clew.runtimes import runtime
from clew.runtimes.adapters.qwen_code import identify, recognises, resume
from clew.runtimes.contract import Native, Target, raw
from clew.runtimes.rounds import Answer, Prompt, Results, Round, output_text, rounds, text_of
from support.transcripts import events, read, read_in_pieces

NAME = "qwen-code"
SESSION = (Path(__file__).parent / "fixtures" / "qwen_code" / "session.jsonl").read_bytes()
IMAGE = b"\x89PNG not really"


def record(id: str, type: str, *parts: Any, **more: Any) -> dict[str, Any]:
    role = "model" if type == "assistant" else "user"
    about = {"uuid": id, "sessionId": "s-1", "timestamp": "2026-11-16T10:00:00.000Z", "type": type}
    return {
        **about,
        "cwd": "/home/me/app",
        "version": "0.15.10",
        "message": {"role": role, "parts": list(parts)},
        **more,
    }


def system(id: str, subtype: str, payload: Any = None, **more: Any) -> dict[str, Any]:
    return {"uuid": id, "sessionId": "s-1", "type": "system", "subtype": subtype, "systemPayload": payload, **more}


def text(words: str) -> dict[str, Any]:
    return {"text": words}


def call(id: str) -> dict[str, Any]:
    return {"functionCall": {"id": id, "name": "ls", "args": {"path": "."}}}


def response(id: str, **answer: Any) -> dict[str, Any]:
    return {"functionResponse": {"id": id, "name": "ls", "response": answer}}


def chain(*records: dict[str, Any]) -> bytes:
    """Records that each hang on the one before, unless they say otherwise."""
    before, rows = None, []
    for one in records:
        rows.append(json.dumps({"parentUuid": before, **one}))
        before = one.get("uuid")
    return "".join(f"{row}\n" for row in rows).encode()


def log(*records: dict[str, Any]) -> list[Event]:
    return events(read(NAME, chain(*records)).drafts)


def texts(found: list[Event]) -> list[str]:
    """A conversation in short: texts, calls and returns."""
    short = []
    for event in found:
        body = event.body
        if isinstance(body, MessageAdded):
            short.append(text_of(body.content) or "(thoughts)")
        elif isinstance(body, CallMade):
            short.append(f"{body.tool} {body.call}")
        elif isinstance(body, CallReturned):
            short.append(f"= {output_text(body)}")
        elif isinstance(body, Compacted):
            short.append(f"# {body.summary}")
    return short


def of(found: list[Event], kind: type) -> list[Any]:
    return [event.body for event in found if isinstance(event.body, kind)]


# Reading --------------------------------------------------------------------------------------------------------------


def test_a_session_of_the_client_is_told() -> None:
    done = read(NAME, SESSION, path="0eef8c22-d78a-446f-9125-92bc26e9d20f.jsonl")
    found = events(done.drafts)
    assert (done.translated, done.opaque, done.quarantined) == (4, 4, 0)
    prompt, made, back, answer = conversation(found)
    assert (prompt.body.role, prompt.body.text) == ("user", "first turn")
    assert (made.body.tool, json.loads(bytes(made.body.input))["command"]) == ("run_shell_command", "echo hi")
    assert (back.body.call, back.body.failed) == (made.body.call, False)
    assert output_text(back.body).startswith("Command: echo hi\n")
    assert (answer.body.text, answer.body.model) == ("the answer", "scripted")
    assert made.body.usage == answer.body.usage == Usage(input=100, output=5)
    assert of(found, RuntimeAttached) == [
        RuntimeAttached(
            runtime=NAME,
            native="0eef8c22-d78a-446f-9125-92bc26e9d20f",
            cwd="/home/me/app",
            runtime_version="0.15.10",
        )
    ]
    assert [body.title for body in of(found, SessionTitled)] == ["first turn"]
    assert {body.kind for body in of(found, Opaque)} == {f"{NAME}.ui_telemetry", f"{NAME}.attribution_snapshot"}


def test_reading_in_pieces_gives_what_reading_at_once_gives() -> None:
    branch = chain(record("a", "user", text("one")), record("b", "user", text("two"), parentUuid=None, gitBranch="x"))
    pick = random.Random(7)
    for data in (SESSION, branch):
        whole = read(NAME, data).drafts
        for many in (1, 3, 30, 1000):
            assert read_in_pieces(NAME, data, [pick.randrange(len(data)) for _ in range(many)]) == whole


def test_one_answer_is_thoughts_text_and_calls_with_its_usage_once() -> None:
    parts = ({"text": "hm", "thought": True, "thoughtSignature": "sig"}, text("let me look"), call("c1"), call("c2"))
    tokens = {"promptTokenCount": 100, "candidatesTokenCount": 5, "thoughtsTokenCount": 3, "totalTokenCount": 108}
    usage = {**tokens, "cachedContentTokenCount": 40}
    back = record("r", "tool_result", response("c1", output="a"), response("c2", error="no"))
    found = log(record("p", "user", text("go")), record("g", "assistant", *parts, usageMetadata=usage), back)
    spoken = conversation(found)
    assert texts(spoken) == ["go", "(thoughts)", "let me look", "ls c1", "ls c2", "= a", "= no"]
    assert spoken[1].body.parts == (ThinkingPart(text="hm", signature="sig"),)
    assert [body.usage for body in of(spoken, MessageAdded) + of(spoken, CallMade) if body.usage] == [
        Usage(input=60, output=8, cache_read=40, reasoning=3)
    ]
    assert [body.failed for body in of(spoken, CallReturned)] == [False, True]
    assert len(rounds(spoken)) == 3


def test_usage_of_an_empty_answer_is_counted_apart() -> None:
    found = log(record("g", "assistant", usageMetadata={"promptTokenCount": 9}))
    assert [body.usage for body in of(found, UsageCounted)] == [Usage(input=9)]


def test_a_rewind_of_the_client_takes_the_conversation_back_to_all_of_a_record() -> None:
    before = [record("a", "user", text("one")), record("b", "assistant", text("two"), call("c1"))]
    before += [record("r", "tool_result", response("c1", output="x")), record("c", "user", text("three"))]
    after = [system("w", "rewind", parentUuid="b"), record("d", "user", text("four"))]
    assert texts(conversation(log(*before, *after))) == ["one", "two", "ls c1", "= x", "four"]
    first = [system("w", "rewind", parentUuid=None), record("d", "user", text("four"))]
    found = log(*before, *first)
    assert texts(conversation(found)) == ["four"]
    assert [body.to for body in of(found, Rewound)] == [""]


def test_a_compression_stands_for_what_was_before_it_and_keeps_copies() -> None:
    history = [
        {"role": "user", "parts": [text("summary")]},
        {"role": "model", "parts": [text("Got it")]},
        {"role": "model", "parts": [call("c1")]},
        {"role": "user", "parts": [response("c1", output="x")]},
    ]
    before = [record("a", "user", text("one")), record("b", "assistant", call("c1"))]
    before.append(record("r", "tool_result", response("c1", output="x")))
    found = log(
        *before, system("s", "chat_compression", {"compressedHistory": history}), record("d", "user", text("go"))
    )
    assert texts(model_view(found)) == ["# summary", "Got it", "ls c1", "= x", "go"]
    again = log(
        *before,
        system("s", "chat_compression", {"compressedHistory": history}),
        record("d", "user", text("go")),
        record("e", "user", text("no, stop"), parentUuid="s"),
    )
    assert texts(model_view(again)) == ["# summary", "Got it", "ls c1", "= x", "no, stop"]


def test_the_title_is_the_first_prompt_until_there_is_one() -> None:
    named = {"customTitle": "Hello world", "titleSource": "auto"}
    note = record("n", "user", text("an agent is done"), subtype="notification")
    found = log(
        note,
        record("a", "user", text("\nwrite it\nnow")),
        system("t", "custom_title", named),
        system("u", "custom_title", named),
    )
    assert [body.title for body in of(found, SessionTitled)] == ["write it", "Hello world"]
    assert texts(conversation(found))[0] == "an agent is done"


def test_a_runtime_is_attached_again_only_when_something_changed() -> None:
    found = log(
        record("a", "user", text("one"), gitBranch="main"),
        record("b", "assistant", text("two")),
        record("c", "user", text("three"), gitBranch="main"),
        record("d", "user", text("four"), gitBranch="next"),
    )
    assert [body.branch for body in of(found, RuntimeAttached)] == ["main", "next"]


def test_a_record_that_goes_on_with_the_one_before_is_not_lost() -> None:
    found = log(record("a", "assistant", text("one")), record("a", "assistant", text("two")))
    assert texts(conversation(found)) == ["one", "two"]


def test_a_subagent_inside_the_session_is_at_its_side() -> None:
    inside = record("b", "assistant", text("aside"), isSidechain=True, agentId="a1")
    found = log(record("a", "user", text("one")), inside, record("c", "assistant", text("two"), parentUuid="a"))
    assert texts(conversation(found)) == ["one", "two"]
    assert [event.body.side for event in conversation(found, sides=True)] == ["", "a1", ""]
    own = read(NAME, chain(record("a", "user", text("one"), isSidechain=True)), path="subagents/s/agent-1.jsonl")
    assert texts(conversation(events(own.drafts))) == ["one"]


def test_images_become_blobs() -> None:
    data = {"inlineData": {"mimeType": "image/png", "data": base64.b64encode(IMAGE).decode()}}
    found = conversation(log(record("a", "user", text("see"), data)))
    assert [type(part) for part in found[0].body.parts] == [TextPart, ImagePart]


@pytest.mark.parametrize(
    "odd",
    [
        {"type": "user", "uuid": 7},
        {"type": "user", "uuid": "x", "message": "text"},
        {"type": "assistant", "uuid": "x", "message": {"parts": 7}},
        {"type": "assistant", "uuid": "x", "message": {"parts": [{"functionCall": []}]}},
        {"type": "system", "uuid": "x", "systemPayload": []},
        {"type": "user", "message": {"parts": [{"inlineData": {"data": "%%"}}]}},
        {"type": "new kind"},
        {},
    ],
)
def test_odd_shapes_are_kept_and_harm_nothing(odd: Any) -> None:
    data = chain(record("a", "user", text("one"))) + json.dumps(odd).encode() + b"\n"
    done = read(NAME, data + chain(record("b", "assistant", text("two"), parentUuid="a")))
    assert (done.records, done.quarantined) == (3, 0)
    assert texts(conversation(events(done.drafts))) == ["one", "two"]
    assert any(json.loads(body.raw) == odd for body in of(events(done.drafts), Opaque))


# Recognising ----------------------------------------------------------------------------------------------------------


def test_the_body_tells_it_from_claude_code() -> None:
    claude = (
        b'{"parentUuid":null,"sessionId":"s","type":"user","uuid":"u","message":{"role":"user","content":"parts"}}\n'
    )
    path = PurePath("x.jsonl")
    assert recognises(path, SESSION)
    assert recognises(path, chain(system("a", "attribution_snapshot", {})))
    assert not recognises(path, claude)
    assert not runtime("claude-code").formats[0].recognises(path, SESSION)


def test_the_file_names_the_session_and_the_folder_its_parent() -> None:
    root = PurePath("/home/me/.qwen/projects/-home-me-app")
    first = SESSION.split(b"\n", 1)[0]
    assert (who := identify(root / "chats" / "s-1.jsonl", first)).native == "s-1"
    assert (who.project, who.parent) == ("app", "")
    child = identify(root / "subagents" / "s_1" / "agent-7.jsonl", json.dumps({"sessionId": "s.1"}).encode())
    assert (child.native, child.parent) == ("agent-7", "s.1")
    assert identify(root / "chats" / "s-1.jsonl", b"nonsense").native == "s-1"


# Writing --------------------------------------------------------------------------------------------------------------

ROUNDS: list[Round] = [
    Prompt(key="1", at=1_000_000, parts=(TextPart(text="/abs/path is broken"),)),
    Answer(
        key="2",
        at=2_000_000,
        model="gpt-9",
        parts=(
            TextPart(text="let me look"),
            CallMade(call="c1", tool="ls", input=raw({"path": "."})),
            CallMade(call="c2", tool="cat", input=raw("free text")),
        ),
    ),
    Results(
        key="3",
        at=3_000_000,
        returns=(CallReturned(call="c1", output=raw("a.txt")), CallReturned(call="c2", output=raw("no"), failed=True)),
    ),
    Answer(key="4", at=4_000_000, parts=(TextPart(text="one"), TextPart(text="two"))),
    Prompt(key="5", at=5_000_000, parts=(TextPart(text="see"), ImagePart(blob="b", media_type="image/png"))),
]


def written() -> Native:
    writer = runtime(NAME).writer
    assert writer is not None
    id = "00000000-0000-4000-8000-000000000001"
    return writer.write(
        ROUNDS, Target(id=id, cwd="/home/me/my.app", at=9_000_000, title="A title", blob=lambda _: IMAGE)
    )


def test_what_is_written_reads_back_as_the_same_conversation() -> None:
    found = events(read(NAME, written().files[0].data).drafts)
    back = rounds(conversation(found))
    assert [type(one) for one in back] == [type(round) for round in ROUNDS]
    assert [text_of(one.parts) for one in back if not isinstance(one, Results)] == [
        "/abs/path is broken",
        "let me look",
        "one\ntwo",
        "see",
    ]
    assert [(body.call, body.tool, bytes(body.input)) for body in of(found, CallMade)] == [
        ("c1", "ls", b'{"path":"."}'),
        ("c2", "cat", b'{"input":"free text"}'),
    ]
    assert [(body.call, output_text(body), body.failed) for body in of(found, CallReturned)] == [
        ("c1", "a.txt", False),
        ("c2", "no", True),
    ]
    assert [one.at for one in back] == [round.at for round in ROUNDS]
    assert [body.title for body in of(found, SessionTitled)] == ["/abs/path is broken", "A title"]
    assert of(found, Rewound) == []


def test_what_is_written_is_what_the_client_resumes() -> None:
    native = written()
    rows = [json.loads(row) for row in native.files[0].data.splitlines()]
    assert native == written()
    assert native.files[0].path == f"projects/-home-me-my-app/chats/{native.id}.jsonl"
    assert [row["parentUuid"] for row in rows] == [None, *(row["uuid"] for row in rows[:-1])]
    assert {(row["sessionId"], row["cwd"]) for row in rows} == {(native.id, "/home/me/my.app")}
    assert [row["toolCallResult"]["status"] for row in rows if row["type"] == "tool_result"] == ["success", "error"]
    assert resume(native.id, "").argv == ["qwen", "-r", native.id]
