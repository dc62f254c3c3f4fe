"""GitHub Copilot CLI: what is read from its events, and what is written for it.

`fixtures/copilot_cli/events.jsonl` was made by Copilot CLI 1.0.102: a prompt with a call of the shell, then a resume
with a subagent, an image that was looked at and a call that was refused. The program's own prompt is stripped.
"""

import base64
import json
import random
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Any

import pytest

from clew.model.conversation import conversation, model_view
from clew.model.events import (
    CallMade,
    CallReturned,
    Compacted,
    Draft,
    FilePart,
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
from clew.runtimes.adapters.copilot_cli import identify, recognises
from clew.runtimes.contract import Native, Target, micros, raw
from clew.runtimes.rounds import Answer, Prompt, Results, Round, output_text, rounds, text_of
from support.transcripts import events, read, read_in_pieces

NAME = "copilot-cli"
REAL = (Path(__file__).parent / "fixtures" / "copilot_cli" / "events.jsonl").read_bytes()
REFUSED = (
    "Permission denied because no interactive user response was available. Retry in an interactive session so the user "
    "can approve it, or try an alternative that does not require this permission."
)
AT = 1_794_823_200_000_000
IMAGE = b"\x89PNG not really"
IMAGE_TEXT = base64.b64encode(IMAGE).decode()


def event(type: str, *, agent: str = "", **data: Any) -> dict[str, Any]:
    return {"type": type, "data": data} | ({"agentId": agent} if agent else {})


def session(*told: dict[str, Any]) -> bytes:
    start = event("session.start", sessionId="s-1", copilotVersion="1.0.102", context={"cwd": "/home/me/app"})
    at = "2026-11-16T10:00:00.000Z"
    whole = [{**one, "id": f"e{i}", "timestamp": at} for i, one in enumerate((start, *told))]
    return b"".join(json.dumps(one, separators=(",", ":")).encode() + b"\n" for one in whole)


def user(text: str, **data: Any) -> dict[str, Any]:
    return event("user.message", content=text, transformedContent=f"<current_datetime/>{text}", **data)


def assistant(text: str, *calls: str, **data: Any) -> dict[str, Any]:
    requests = [{"toolCallId": call, "name": "bash", "arguments": {"command": "ls"}} for call in calls]
    return event("assistant.message", messageId=f"m-{text}", content=text, toolRequests=requests, **data)


def complete(call: str, text: str, **data: Any) -> dict[str, Any]:
    return event("tool.execution_complete", toolCallId=call, success=True, result={"content": text}, **data)


def bodies(data: bytes, kind: type) -> list[Any]:
    return [draft.body for draft in read(NAME, data).drafts if isinstance(draft.body, kind)]


def seen(data: bytes) -> list[list[str]]:
    """What a model sees of the session."""
    found = []
    for one in rounds(model_view(conversation(events(read(NAME, data).drafts)))):
        if isinstance(one, Results):
            found += [["result", back.call, output_text(back)] for back in one.returns]
        elif isinstance(one, Answer):
            found.append(["assistant", *(call.call for call in one.calls), text_of(one.parts)])
        else:
            found.append(["user", text_of(one.parts)])
    return found


def test_a_real_session_is_told_in_order_and_each_thing_once() -> None:
    calls = [body.call for body in bodies(REAL, CallMade)]
    assert seen(REAL) == [
        ["user", "list the files please"],
        ["assistant", calls[0], ""],
        ["result", calls[0], "a.txt\n<shellId: 0 completed with exit code 0>"],
        ["assistant", "SCRIPTED-ANSWER"],
        ["user", "look at @dot.png and delegate"],
        ["assistant", calls[1], ""],
        ["result", calls[1], "SCRIPTED-ANSWER"],
        ["assistant", calls[2], ""],
        ["result", calls[2], "Viewed image file successfully."],
        ["assistant", calls[3], ""],
        ["result", calls[3], REFUSED],
        ["assistant", "SCRIPTED-ANSWER"],
    ]
    assert [body.tool for body in bodies(REAL, CallMade)] == ["bash", "task", "view", "view"]
    assert bytes(bodies(REAL, CallMade)[0].input) == b'{"command":"ls","description":"scripted"}'
    assert [body.failed for body in bodies(REAL, CallReturned)] == [False, False, False, True]


@pytest.mark.parametrize(
    ("output", "failed"),
    [
        ("out\n<shellId: 0 completed with exit code 3>", True),
        ("out\n<exited with exit code 127>", True),
        ("out\n<exited with exit code 0>", False),
        ("<exited with exit code 3>\nis what it printed", False),
    ],
)
def test_an_exit_code_other_than_zero_is_a_failure_and_still_output(output: str, failed: bool) -> None:
    ran = event("tool.execution_complete", toolCallId="c", success=True, result={"content": output})
    [back] = bodies(session(user("go"), assistant("", "c"), ran), CallReturned)
    assert (back.failed, output_text(back)) == (failed, output)
    rounds = [
        Prompt(key="1", at=0, parts=(TextPart(text="go"),)),
        Answer(key="2", at=0, parts=(CallMade(call="c", tool="bash"),)),
        Results(key="3", at=0, returns=(back,)),
    ]
    assert b'"success":true,"result":{"content":' in written(rounds).files[0].data


def test_every_record_of_a_real_session_is_kept() -> None:
    done = read(NAME, REAL)
    assert (done.translated, done.opaque, done.quarantined) == (22, 30, 0)
    assert not [draft for draft in done.drafts if draft.body.kind.endswith("unreadable")]
    sources = [str(draft.source) for draft in done.drafts]
    assert len(set(sources)) == len(sources)
    assert {source.split("/")[0] for source in sources} == {json.loads(line)["id"] for line in REAL.splitlines()}


def test_pieces_give_what_the_whole_gives() -> None:
    whole = read(NAME, REAL).drafts
    for seed in range(10):
        cuts = random.Random(seed).choices(range(len(REAL)), k=50)
        assert read_in_pieces(NAME, REAL, cuts) == whole
    assert read_in_pieces(NAME, REAL, list(range(0, len(REAL), 27))) == whole


def test_the_prompt_of_the_program_is_not_part_of_the_conversation() -> None:
    kinds = [draft.body.kind for draft in read(NAME, REAL).drafts if isinstance(draft.body, Opaque)]
    assert kinds.count("copilot-cli.system.message") == 2
    assert not [body for body in bodies(REAL, MessageAdded) if "prompt of the program" in body.text]


def test_what_a_subagent_said_is_on_its_side() -> None:
    agent = "029eece8-0fc0-4e58-abd8-6bcaa4160ab3"
    aside = [(body.role, body.text) for body in bodies(REAL, MessageAdded) if body.side == agent]
    assert aside == [("user", "say hi"), ("assistant", "SCRIPTED-ANSWER")]
    older = session(
        user("go"),
        assistant("x", "c1", parentToolCallId="task-1"),
        event("tool.execution_start", toolCallId="c2", toolName="view", parentToolCallId="task-1"),
        complete("c1", "done", parentToolCallId="task-1"),
    )
    spoken = [draft.body for draft in read(NAME, older).drafts if hasattr(draft.body, "side")]
    assert [body.side for body in spoken] == ["", "task-1", "task-1", "task-1", "task-1"]
    assert seen(older) == [["user", "go"]]


def test_tokens_are_counted_once_though_the_shutdown_repeats_them() -> None:
    counted = bodies(REAL, UsageCounted)
    assert len(counted) == 7
    assert sum(body.usage.input for body in counted) == 700
    assert sum(body.usage.output for body in counted) == 35
    assert all(body.message.startswith("chatcmpl-") for body in counted)


def test_a_shutdown_counts_what_no_record_did() -> None:
    def stop(**usage: int) -> dict[str, Any]:
        return event("session.shutdown", modelMetrics={"m": {"requests": {"count": 1}, "usage": usage}})

    alone = session(stop(inputTokens=150, outputTokens=5, cacheReadTokens=20, cacheWriteTokens=30, reasoningTokens=2))
    usage = Usage(input=100, output=5, cache_read=20, cache_write=30, reasoning=2)
    assert bodies(alone, UsageCounted) == [UsageCounted(usage=usage, model="m")]
    record = event(
        "session.usage_record", usage={"model": "m", "inputTokens": 100, "outputTokens": 5, "apiCallId": "a"}
    )
    both = session(record, stop(inputTokens=100, outputTokens=5), record, stop(inputTokens=260, outputTokens=10))
    assert [body.usage.input for body in bodies(both, UsageCounted)] == [100, 100, 60]
    assert bodies(session(event("session.shutdown", modelMetrics={"m": {"requests": 2}})), UsageCounted) == []


def test_a_call_is_made_by_the_message_and_its_start_repeats_it() -> None:
    start = event("tool.execution_start", toolCallId="c1", toolName="bash", arguments={"command": "ls"})
    data = session(user("go"), assistant("", "c1"), start, complete("c1", "a"))
    assert [body.call for body in bodies(data, CallMade)] == ["c1"]
    alone = session(user("go"), start, complete("c1", "a"))
    assert bodies(alone, CallMade) == [CallMade(call="c1", tool="bash", input=raw({"command": "ls"}))]
    asked = event("tool.user_requested", toolCallId="c1", toolName="bash", arguments={"command": "ls"})
    assert len(bodies(session(asked, start, complete("c1", "a")), CallMade)) == 1


def test_arguments_in_a_string_are_taken_out_of_it_when_they_are_json() -> None:
    def given(arguments: Any) -> bytes:
        request = {"toolCallId": "c", "name": "t", "arguments": arguments}
        (made,) = bodies(session(event("assistant.message", toolRequests=[request])), CallMade)
        return bytes(made.input)

    assert given('{"command":"ls"}') == b'{"command":"ls"}'
    assert given("*** Begin Patch") == b'"*** Begin Patch"'
    assert given({"a": 1}) == b'{"a":1}'


def test_reasoning_is_a_thought_before_the_text() -> None:
    data = session(assistant("said", "c1", reasoningText="hmm", reasoningOpaque="sig", apiCallId="a", model="m"))
    parts = (ThinkingPart(text="hmm", signature="sig"), TextPart(text="said"))
    about: dict[str, Any] = {"message": "a", "model": "m"}
    assert bodies(data, MessageAdded) == [MessageAdded(role="assistant", parts=parts, **about)]
    assert [(body.message, body.model) for body in bodies(data, CallMade)] == [("a", "m")]


def test_the_chunks_of_one_answer_are_one_round() -> None:
    data = session(user("go"), assistant("one", apiCallId="a"), assistant("two", "c1", apiCallId="a"))
    assert seen(data) == [["user", "go"], ["assistant", "c1", "one\ntwo"]]


def test_images_are_found_in_the_asset_they_name() -> None:
    (viewed,) = (body for body in bodies(REAL, CallReturned) if body.parts)
    assert [(type(part), part.media_type) for part in viewed.parts] == [(ImagePart, "image/png")]
    asset = event("session.binary_asset", assetId="sha256:1", data=IMAGE_TEXT, mimeType="image/png")
    named = {"type": "blob", "assetId": "sha256:1", "mimeType": "image/png", "displayName": "a.png"}
    inline = {"type": "blob", "data": IMAGE_TEXT, "mimeType": "application/pdf"}
    (asked,) = bodies(session(asset, user("see", attachments=[named, inline])), MessageAdded)
    assert [(type(part), part.name) for part in asked.parts] == [(ImagePart, "a.png"), (FilePart, "")]
    assert asked.text == "see"


def test_an_attachment_without_bytes_is_kept_beside_the_message() -> None:
    attached = [{"type": "file", "path": "/home/me/a.py", "displayName": "a.py"}]
    drafts = read(NAME, session(user("see", attachments=attached))).drafts
    kept = [draft.body for draft in drafts if isinstance(draft.body, Opaque)]
    assert [(body.kind, json.loads(body.raw)) for body in kept] == [("copilot-cli.attachments", attached)]


def test_what_the_program_put_in_is_not_said_by_the_user() -> None:
    data = session(
        user("go"), user("skill text", source="skill-pdf"), user("keep going", isAutopilotContinuation=True), user("")
    )
    assert seen(data) == [["user", "go"], ["user", "skill text"], ["user", "keep going"]]
    assert [message.role for message in bodies(data, MessageAdded)] == ["user", "system", "system"]
    assert [draft.body.kind for draft in read(NAME, data).drafts].count("copilot-cli.user.message") == 1


def test_the_body_of_a_skill_is_told_where_the_llm_got_it() -> None:
    """1.0.102 writes the body when the skill is invoked, and later only a reference with what it puts around it."""
    body = "Weigh it — twice.\n"
    reference = {
        "contentId": f"sha256:{sha256(body.encode()).hexdigest()}",
        "prefix": "<skill>\n",
        "suffix": "</skill>",
    }
    data = session(
        user("go"), event("skill.invoked", name="weigh", content=body), user("more"),
        event("skill.context_delivered_ref", **reference),
        event("skill.context_delivered_ref", **{**reference, "contentId": "sha256:unknown"}),
    )  # fmt: skip
    assert seen(data) == [["user", "go"], ["user", "more"], ["user", f"<skill>\n{body}</skill>"]]
    assert [one.kind for one in bodies(data, Opaque)] == [
        "copilot-cli.skill.invoked",
        "copilot-cli.skill.context_delivered_ref",
    ]


def test_a_compaction_leaves_the_prompts_before_the_llm() -> None:
    """The program repeats them in front of the summary; those of before a clear are gone."""
    compacted = [
        event("session.compaction_start"), event("session.compaction_complete", success=True, summaryContent="short")
    ]  # fmt: skip
    first = [user("gone"), event("session.context_cleared"), user("A"), *compacted]
    long = "x" * 60_000
    data = session(*first, user("B"), user(long), *compacted)
    summaries = [body.summary for body in bodies(data, Compacted)]
    assert summaries[0] == "Prompts so far:\n<user_message>\nA\n</user_message>\n\nshort"
    prompts = f"[2 earlier left out]\n<user_message>\n{long}\n</user_message>"
    assert summaries[1] == f"Prompts so far:\n{prompts}\n\nshort"


def test_a_compaction_keeps_what_was_said_while_it_was_made() -> None:
    done = event("session.compaction_complete", success=True, summaryContent="short")
    begun = event("session.compaction_start")
    data = session(user("A"), assistant("a"), begun, user("B"), assistant("b"), done, user("C"))
    prompts = "Prompts so far:\n<user_message>\nA\n</user_message>"
    assert bodies(data, Compacted) == [Compacted(summary=f"{prompts}\n\nshort", keep="e4")]
    summary = f"{prompts}\n\nshort"
    assert seen(data) == [["user", summary], ["user", "B"], ["assistant", "b"], ["user", "C"]]
    assert seen(session(user("A"), begun, done, user("C"))) == [["user", summary], ["user", "C"]]
    failed = event("session.compaction_complete", success=False, error="no", summaryContent="half")
    assert seen(session(user("A"), begun, failed, user("C"))) == [["user", "A"], ["user", "C"]]
    assert bodies(session(user("A"), event("session.truncation", tokenLimit=1)), Compacted) == []


def test_a_cleared_context_begins_anew() -> None:
    cleared = event("session.context_cleared", messagesCleared=2, initialMessage="INIT")
    data = session(user("A"), assistant("a"), cleared, user("C"))
    assert bodies(data, Rewound) == [Rewound(to="")]
    assert seen(data) == [["user", "INIT"], ["user", "C"]]


def test_where_it_runs_is_told_at_the_start_and_when_it_changes() -> None:
    here = RuntimeAttached(runtime=NAME, native="s-1", runtime_version="1.0.102", cwd="/home/me/app")
    there = RuntimeAttached(runtime=NAME, native="s-1", runtime_version="1.0.102", cwd="/home/me/b", branch="main")
    data = session(
        event("session.resume", context={"cwd": "/home/me/app"}),
        event("session.context_changed", cwd="/home/me/b", branch="main"),
        event("session.context_changed", agent="a-1", cwd="/elsewhere"),
        event("session.resume", context={"cwd": "/home/me/b", "branch": "main"}),
    )
    assert bodies(data, RuntimeAttached) == [here, there]
    assert read(NAME, data).drafts[0].said_at == micros("2026-11-16T10:00:00Z")


def test_the_title_is_the_first_line_of_the_first_prompt() -> None:
    data = session(user("aside", source="skill-x"), user("\n Fix it \nnow"), user("more"))
    assert bodies(data, SessionTitled) == [SessionTitled(title="Fix it")]
    assert bodies(session(user("x" * 100)), SessionTitled) == [SessionTitled(title="x" * 7 + "…")]


@pytest.mark.parametrize(
    "record",
    [
        {"type": "user.message", "data": 5},
        {"type": "user.message", "data": {"content": ["x"]}},
        {"type": "assistant.message", "data": {"toolRequests": [{"name": "x"}]}},
        {"type": "assistant.message", "data": {}},
        {"type": "tool.execution_complete", "data": {"toolCallId": 7}},
        {"type": "session.usage_record", "data": {"usage": {"inputTokens": -1}}},
        {"type": "session.usage_record", "data": {"usage": {"inputTokens": 10**30}}},
        {"type": "session.shutdown", "data": {"modelMetrics": []}},
        {"type": "session.binary_asset", "data": {"assetId": "a", "data": "not base64!"}},
        {"type": "session.compaction_complete", "data": {"success": False, "error": "text"}},
        {"type": "something.new", "data": {"a": [1]}},
        {"type": 7},
        {},
    ],
)
def test_an_unexpected_record_is_kept_and_the_next_one_is_read(record: dict[str, Any]) -> None:
    data = session(user("before"), record, user("after"))
    done = read(NAME, data)
    assert (done.quarantined, done.opaque) == (0, 1)
    assert seen(data) == [["user", "before"], ["user", "after"]]


def test_its_files_are_recognised_by_their_first_event() -> None:
    name = PurePath("session-state/4efe2ae7/events.jsonl")
    assert recognises(name, REAL[:800])
    assert not recognises(name, REAL.split(b"\n", 1)[1])
    assert not recognises(PurePath("events.json"), REAL)
    first = REAL.split(b"\n", 1)[0]
    assert (identify(name, first).native, identify(name, first).project) == ("4efe2ae7", "app")
    flat = identify(PurePath("session-state/some.jsonl"), first)
    assert flat.native == json.loads(first)["data"]["sessionId"]


# Writing --------------------------------------------------------------------------------------------------------------

ID = "7c1c9e5e-0c63-4e0c-9a53-111111111111"
ROUNDS: list[Round] = [
    Prompt(key="1", at=AT, parts=(TextPart(text="look"), ImagePart(blob="b", media_type="image/png", name="a.png"))),
    Answer(
        key="2",
        at=AT + 1_000_000,
        model="m-9",
        parts=(
            TextPart(text="I look"),
            CallMade(call="c1", tool="bash", input=raw({"command": "ls"})),
            CallMade(call="c2", tool="foreign", input=raw({"n": [1, 2.5]})),
        ),
    ),
    Results(
        key="3",
        at=AT + 2_000_000,
        returns=(
            CallReturned(call="c1", output=raw("a.txt"), parts=(ImagePart(blob="b", media_type="image/png"),)),
            CallReturned(call="c2", output=raw("boom"), failed=True),
        ),
    ),
    Answer(key="4", at=AT + 3_000_000, parts=(TextPart(text="one file"),)),
    Prompt(key="5", at=AT + 4_000_000, parts=(TextPart(text="a note"),), role="system"),
]


def written(story: list[Round], title: str = "") -> Native:
    writer = runtime(NAME).writer
    assert writer
    return writer.write(story, Target(id=ID, cwd="/home/me/app", at=AT, title=title, blob=lambda digest: IMAGE))


def told(drafts: list[Draft]) -> list[Any]:
    """Rounds without what a file cannot carry: keys, and the ids of blobs and answers."""
    found: list[Any] = []
    for one in rounds(conversation(events(drafts))):
        if isinstance(one, Results):
            images = [[part.media_type for part in back.parts] for back in one.returns]  # type: ignore[union-attr]
            found.append([(back.call, output_text(back), back.failed) for back in one.returns] + images)
        else:
            calls = [(call.call, call.tool, bytes(call.input)) for call in getattr(one, "calls", [])]
            images = [part.name for part in one.parts if isinstance(part, ImagePart)]
            found.append((type(one).__name__, one.at, text_of(one.parts), calls, images))
    return found


def test_what_is_written_is_read_back_exactly_once() -> None:
    done = read(NAME, written(ROUNDS).files[0].data)
    assert done.quarantined == 0
    assert told(done.drafts) == [
        ("Prompt", AT, "look", [], ["a.png"]),
        (
            "Answer",
            AT + 1_000_000,
            "I look",
            [("c1", "bash", b'{"command":"ls"}'), ("c2", "foreign", b'{"n":[1,2.5]}')],
            [],
        ),
        [("c1", "a.txt", False), ("c2", "boom", True), ["image/png"], []],
        ("Answer", AT + 3_000_000, "one file", [], []),
        ("Prompt", AT + 4_000_000, "a note", [], []),
    ]
    assert not [draft for draft in done.drafts if isinstance(draft.body, Rewound | Opaque)]


def test_a_written_session_is_a_chain_of_events_in_its_folder() -> None:
    native = written(ROUNDS)
    assert [file.path for file in native.files] == [f"session-state/{ID}/events.jsonl"]
    told_events = [json.loads(line) for line in native.files[0].data.splitlines()]
    ids = [event["id"] for event in told_events]
    assert len(set(ids)) == len(ids)
    assert [event["parentId"] for event in told_events] == [None, *ids[:-1]]
    assert told_events[0]["data"]["sessionId"] == ID
    assert told_events[0]["data"]["context"] == {"cwd": "/home/me/app"}
    # The program reads only the error of what failed; a result beside it would be dropped.
    assert told_events[4]["data"] == {"toolCallId": "c2", "success": False, "error": {"message": "boom"}}
    assert native == written(ROUNDS)


def test_an_answer_without_a_word_or_a_call_is_not_written() -> None:
    (only,) = written([Answer(key="1", at=AT, parts=())]).files
    assert only.data.count(b"\n") == 1


def test_a_title_is_in_the_file_beside_the_events() -> None:
    _, beside = written(ROUNDS, 'Fix: "it"').files
    assert beside.path == f"session-state/{ID}/workspace.yaml"
    assert beside.data.decode().splitlines() == [
        f'id: "{ID}"',
        'cwd: "/home/me/app"',
        'name: "Fix: \\"it\\""',
        "user_named: true",
    ]


def test_it_is_resumed_by_its_id() -> None:
    writer = runtime(NAME).writer
    assert writer
    assert writer.resume(ID, "/home/me/events.jsonl").argv == ["copilot", f"--resume={ID}"]
