"""Codex rollouts: files of the real client (fixtures/codex, made with 0.166.0) and small ones in older forms."""

import base64
import json
import random
from pathlib import Path, PurePath
from typing import Any

import msgspec
import pytest

from clew.model.conversation import conversation, model_view
from clew.model.events import (
    CallMade,
    CallReturned,
    Compacted,
    Draft,
    ImagePart,
    MessageAdded,
    Opaque,
    Rewound,
    RuntimeAttached,
    SessionTitled,
    TextPart,
    ThinkingPart,
    TurnEnded,
    Usage,
    UsageCounted,
)
from clew.model.working_set import working_set
from clew.runtimes.adapters.codex import RUNTIME
from clew.runtimes.contract import Reading, Target, raw
from clew.runtimes.rounds import Answer, Prompt, Results, Round, images_of, output_text, rounds, text_of
from support.transcripts import events, read, read_in_pieces

FIXTURES = Path(__file__).parent / "fixtures/codex"
THREAD = "01a1e3d7-be7e-7442-bead-df5817b843f3"
PIXELS = b"\x89PNG not really"
PNG = f"data:image/png;base64,{base64.b64encode(PIXELS).decode()}"
AT = 1_794_000_000_000_000


def line(type: str, payload: dict[str, Any], *, at: str = "2026-11-16T10:00:00.000Z") -> bytes:
    return json.dumps({"timestamp": at, "type": type, "payload": payload}).encode() + b"\n"


def meta(**more: Any) -> bytes:
    about = {"id": THREAD, "timestamp": "2026-11-16T10:00:00.000Z", "cwd": "/home/me/app", "cli_version": "0.42.0"}
    return line("session_meta", about | {"originator": "codex_cli_rs"} | more)


def item(type: str, **fields: Any) -> bytes:
    return line("response_item", {"type": type, **fields})


def said(role: str, text: str, **more: Any) -> bytes:
    kind = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": kind, "text": text}], **more)


def event(type: str, **fields: Any) -> bytes:
    return line("event_msg", {"type": type, **fields})


def tokens(input: int, cached: int, output: int) -> dict[str, int]:
    return {
        "input_tokens": input,
        "cached_input_tokens": cached,
        "output_tokens": output,
        "total_tokens": input + output,
    }


def drafts_of(*lines: bytes) -> list[Draft]:
    return read("codex", b"".join([meta(), *lines])).drafts[1:]


def bodies_of(*lines: bytes) -> list[Any]:
    return [draft.body for draft in drafts_of(*lines)]


def told(drafts: list[Draft], *kinds: type) -> list[Any]:
    return [draft.body for draft in drafts if isinstance(draft.body, kinds)]


def fixture(name: str) -> bytes:
    return (FIXTURES / name).read_bytes()


# Files of the real client ---------------------------------------------------------------------------------------------


def test_a_session_of_the_real_client_is_told_exactly_once() -> None:
    done = read("codex", fixture("tools.jsonl"))
    assert (done.records, done.quarantined) == (43, 0)
    found = rounds(conversation(events(done.drafts)))
    assert [type(one).__name__ for one in found] == ["Prompt", *["Answer", "Results"] * 6, "Answer"]
    assert text_of(found[0].parts) == "Try every tool."
    assert [part.media_type for part in images_of(found[0].parts)] == ["image/png"]
    assert text_of(found[-1].parts) == "All tried."
    calls = told(done.drafts, CallMade)
    assert [(call.tool, bytes(call.input)) for call in calls] == [
        ("exec_command", b'{"cmd": "cat a.txt"}'),
        ("mcp__probe__look", b'{"q": "x"}'),
        ("mcp__probe__look", b'{"q": "bad"}'),
        ("view_image", b'{"path": "/home/me/app/p.png"}'),
        ("exec_command", b'{"cmd": "exit 3"}'),
        ("no_such_tool", b'{"a": 1}'),
    ]
    returns = told(done.drafts, CallReturned)
    assert [returned.call for returned in returns] == [call.call for call in calls]
    assert [returned.failed for returned in returns] == [False, False, True, False, True, True]
    assert output_text(returns[0]).endswith("Output:\nhi\n")
    assert output_text(returns[1]) == 'Wall time: 0.0043 seconds\nOutput:\nseen {"q": "x"}'
    assert [part.media_type for part in returns[3].parts] == ["image/png"]
    assert output_text(returns[3]) == ""


def test_what_the_real_client_counts_is_counted_once() -> None:
    counted = told(read("codex", fixture("tools.jsonl")).drafts, UsageCounted)
    assert [one.usage for one in counted] == [Usage(input=100, output=5)] * 7
    assert len({one.message for one in counted}) == 7
    assert {one.model for one in counted} == {"scripted"}


def test_the_program_the_place_and_the_title_come_from_the_file() -> None:
    drafts = read("codex", fixture("tools.jsonl")).drafts
    attached = RuntimeAttached(runtime="codex", native=THREAD, runtime_version="0.166.0", cwd="/home/me/app")
    assert told(drafts, RuntimeAttached) == [attached]
    assert told(drafts, SessionTitled) == [SessionTitled(title="Try every tool.")]
    assert drafts[0].said_at == 1_794_823_929_597_000


def test_sources_are_the_ids_of_the_items_and_never_repeat() -> None:
    for name in ("tools.jsonl", "reverted.jsonl", "fork.jsonl", "subagent.jsonl"):
        drafts = read("codex", fixture(name)).drafts
        sources = [draft.source for draft in drafts]
        assert len(set(sources)) == len(sources)
        items = [draft for draft in drafts if isinstance(draft.body, MessageAdded | CallMade | CallReturned)]
        assert all(str(draft.source).startswith(("msg_", "fc_", "fco_")) for draft in items)


def test_injected_context_is_kept_but_is_not_a_message() -> None:
    drafts = read("codex", fixture("tools.jsonl")).drafts
    assert [text_of(draft.content) for draft in told(drafts, MessageAdded)] == ["Try every tool.", "All tried."]
    kept = [body.raw for body in told(drafts, Opaque) if body.kind == "codex.message"]
    assert any("<environment_context>" in one and "AGENTS.md" in one for one in kept)


def test_a_fork_holds_its_own_part_and_names_its_parent() -> None:
    data = fixture("fork.jsonl")
    who = RUNTIME.formats[0].identify(PurePath("rollout-x.jsonl"), data.split(b"\n")[0])
    assert who.native == "01a1e3d1-768e-73d1-9d6d-7c6b45692ec6"
    assert (who.fork_of, who.parent) == ("01a1e3cd-643e-7fa2-8e42-5173f1641ad2", "")
    drafts = read("codex", data).drafts
    assert isinstance(drafts[0].body, RuntimeAttached)
    kept = drafts[1].body
    assert isinstance(kept, Opaque)
    assert msgspec.json.decode(kept.raw)["payload"]["history_base"]["end_ordinal_exclusive"] == 31
    assert [draft.text for draft in told(drafts, MessageAdded)] == ["forked prompt", "forked answer"]


def test_what_follows_a_revert_is_a_session_of_its_own_that_codex_knows_by_the_first_id() -> None:
    thread = "01a1e3ce-6516-7640-8437-58b581925dcb"
    path = f"rollout-2026-11-16T10-01-57-{thread}_01a1e3ce-669f-72e2-83d4-51ae5354ce10.jsonl"
    data = fixture("reverted.jsonl")
    who = RUNTIME.formats[0].identify(PurePath(path), data.split(b"\n")[0])
    assert (who.native, who.fork_of) == (f"{thread}_01a1e3ce-669f-72e2-83d4-51ae5354ce10", thread)
    assert [draft.native for draft in told(read("codex", data, path=path).drafts, RuntimeAttached)] == [thread]
    assert RUNTIME.writer is not None
    assert RUNTIME.writer.resume(who.native, path).argv == ["codex", "resume", thread]


def test_a_subagent_names_the_session_that_spawned_it() -> None:
    who = RUNTIME.formats[0].identify(PurePath("rollout-x.jsonl"), fixture("subagent.jsonl").split(b"\n")[0])
    assert who.native == "01a1e3d1-cb16-7f71-b2eb-4a1cf9becf8b"
    assert who.parent == "01a1e3d1-ca85-7cc2-92d9-b9a15e64bd6d"
    assert (who.agent, who.project) == ("Goodall", "app")
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": "older"}}}
    for about, parent in (({"parent_thread_id": "newer"}, "newer"), ({"source": spawned}, "older"), ({}, "")):
        assert RUNTIME.formats[0].identify(PurePath("rollout-x.jsonl"), meta(**about)).parent == parent


def test_compaction_stands_for_the_past_with_the_messages_it_kept() -> None:
    spoken = conversation(events(read("codex", fixture("reverted.jsonl")).drafts))
    seen = [event.body for event in model_view(spoken)]
    assert seen[0] == Compacted(summary="user: one\n\nuser: two\n\nuser: four\n\nThe summary of what was done.")
    assert [one.text for one in seen if isinstance(one, MessageAdded)] == [
        "five", "answer five", "six", "<turn_aborted>\n(stripped)\n</turn_aborted>", "seven", "answer seven",
    ]  # fmt: skip


def test_an_interrupted_turn_ends_and_its_call_failed() -> None:
    drafts = read("codex", fixture("reverted.jsonl")).drafts
    assert [draft.stop_reason for draft in told(drafts, TurnEnded)] == [
        "completed", "completed", "completed", "interrupted", "completed",
    ]  # fmt: skip
    assert [draft.failed for draft in told(drafts, CallReturned)] == [True]


@pytest.mark.parametrize("name", ["tools.jsonl", "reverted.jsonl", "fork.jsonl", "subagent.jsonl"])
def test_a_file_read_in_a_thousand_pieces_gives_the_same_drafts(name: str) -> None:
    data = fixture(name)
    cuts = random.Random(7).sample(range(len(data)), 1000)
    assert read_in_pieces("codex", data, cuts) == read("codex", data).drafts


def test_older_forms_read_in_pieces_give_the_same_drafts() -> None:
    lines = [
        meta(forked_from_id="x"),
        line("turn_context", {"cwd": "/home/me/b", "model": "gpt-5"}),
        said("user", "one"),
    ]
    for i in range(30):
        total = tokens(100 * i, 0, i)
        lines += [
            said("user", f"prompt {i}"),
            event("exec_command_end", call_id=f"call_{i}", exit_code=i % 2),
            item("function_call_output", call_id=f"call_{i}", output="done"),
            event("token_count", info={"total_token_usage": total, "last_token_usage": tokens(100, 0, 1)}),
            *([event("thread_rolled_back", num_turns=2)] if i % 5 == 4 else []),
        ]
    data = b"".join(lines)
    whole = read("codex", data).drafts
    assert len(told(whole, Rewound)) == 6
    assert read_in_pieces("codex", data, random.Random(1).sample(range(len(data)), 1000)) == whole


# Older forms ----------------------------------------------------------------------------------------------------------


def test_events_for_the_screen_are_not_a_second_message() -> None:
    drafts = drafts_of(
        said("user", "list files"), event("user_message", message="list files"),
        event("agent_reasoning", text="hm"), event("agent_message", message="one file"), said("assistant", "one file"),
    )  # fmt: skip
    assert [(draft.role, draft.text) for draft in told(drafts, MessageAdded)] == [
        ("user", "list files"),
        ("assistant", "one file"),
    ]
    assert [draft.kind for draft in told(drafts, Opaque)] == [
        "codex.user_message", "codex.agent_reasoning", "codex.agent_message",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "<environment_context>\n<cwd>/x</cwd>\n</environment_context>",
        "<user_instructions>\nbe kind\n</user_instructions>",
        "# AGENTS.md instructions for /x\n\n<INSTRUCTIONS>\nbe kind\n</INSTRUCTIONS>",
    ],
)
def test_tags_of_older_versions_mark_injected_context(text: str) -> None:
    assert isinstance(bodies_of(said("user", text))[0], Opaque)
    assert bodies_of(said("user", f"What does this mean? {text}"))[0] == MessageAdded(
        role="user", text=f"What does this mean? {text}"
    )


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("skills.selected_skill_instructions", "<skill>\n<name>weigh</name>\nTwice.\n</skill>"),
        ("multi_agent.subagent_notification", "<subagent_notification>\n{}\n</subagent_notification>"),
        ("generic.turn_aborted", "<turn_aborted>\nby the user\n</turn_aborted>"),
    ],
)
def test_what_the_program_says_of_the_conversation_is_a_message_of_the_system(kind: str, text: str) -> None:
    """The llm gets a skill's body, what a subagent found, and that it was interrupted; none of it is a title."""
    about = {"content_item_kinds": [kind]}
    for record in (said("user", text), said("user", text, internal_chat_message_metadata_passthrough=about)):
        assert bodies_of(record) == [MessageAdded(role="system", text=text)]


def test_a_tag_that_the_user_typed_is_the_users_when_the_client_says_so() -> None:
    text = "<environment_context>x</environment_context>"
    about = {"content_item_kinds": ["user.text"]}
    assert bodies_of(said("user", text, internal_chat_message_metadata_passthrough=about))[0].text == text
    assert isinstance(bodies_of(said("developer", "be kind"))[0], Opaque)


def test_the_title_is_the_first_line_of_the_first_prompt_once() -> None:
    drafts = drafts_of(
        said("user", "# Context from my IDE setup:\n\n## My request for Codex:\nFix it\nnow"), said("user", "b")
    )
    assert told(drafts, SessionTitled) == [SessionTitled(title="Fix it")]
    named = drafts_of(said("user", "x" * 100), event("thread_name_updated", thread_name="A name"))
    assert [body.title for body in told(named, SessionTitled)] == ["x" * 7 + "…", "A name"]


def test_reasoning_keeps_its_summary_and_what_is_encrypted() -> None:
    thought = item("reasoning", summary=[{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}],
                   content=None, encrypted_content="gAAA")  # fmt: skip
    assert bodies_of(thought)[0].parts == (ThinkingPart(text="a\n\nb", signature="gAAA"),)
    assert isinstance(bodies_of(item("reasoning", summary=[], content=None, encrypted_content=None))[0], Opaque)


def test_a_patch_is_a_call_with_free_text() -> None:
    bodies = bodies_of(
        item("custom_tool_call", call_id="call_1", name="apply_patch", input="*** Begin Patch"),
        item("custom_tool_call_output", call_id="call_1", output="ok"),
    )
    assert bodies == [
        CallMade(call="call_1", tool="apply_patch", input=raw({"input": "*** Begin Patch"})),
        CallReturned(call="call_1", output=raw("ok")),
    ]


def changed(call: str, *paths: str, status: str = "completed") -> bytes:
    """What Codex 0.166 reports when a shell applied a patch."""
    changes = {path: {"type": "add", "content": "x"} for path in paths}
    return event("item_completed", item={"type": "FileChange", "id": call, "changes": changes, "status": status})


def test_files_that_a_shell_changed_with_a_patch_are_touched_once() -> None:
    drafts = drafts_of(
        item("function_call", call_id="c1", name="exec_command", arguments='{"cmd": "apply_patch <<EOF"}'),
        changed("c1", "/w/new.txt", "/w/b.txt"),
        item("function_call_output", call_id="c1", output="done"),
        item("custom_tool_call", call_id="c2", name="apply_patch", input="*** Begin Patch\n*** Update File: c.txt\n"),
        changed("c2", "/w/c.txt"),
        item("custom_tool_call_output", call_id="c2", output="done"),
        item("function_call", call_id="c3", name="exec_command", arguments='{"cmd": "apply_patch <<EOF"}'),
        changed("c3", "/w/d.txt", status="failed"),
        item("function_call_output", call_id="c3", output="no"),
    )
    touched = {touch.what: (touch.read, touch.written) for touch in working_set(events(drafts))}
    assert touched == {"/w/new.txt": (0, 1), "/w/b.txt": (0, 1), "c.txt": (0, 1)}


def test_calls_that_the_provider_or_an_old_version_made() -> None:
    action = {"type": "exec", "command": ["ls"]}
    bodies = bodies_of(
        item("local_shell_call", call_id="call_1", status="completed", action=action),
        item("web_search_call", id="ws_1", status="completed", action={"type": "search", "query": "q"}),
        item("tool_search_call", call_id="call_2", arguments={"query": "q"}),
        item("tool_search_output", call_id="call_2", tools=[{"name": "t"}]),
        item(
            "image_generation_call",
            id="ig_1",
            status="completed",
            revised_prompt="red",
            result=base64.b64encode(PIXELS).decode(),
        ),
    )
    made = [body for body in bodies if isinstance(body, CallMade)]
    assert [(one.call, one.tool) for one in made] == [
        ("call_1", "local_shell"), ("ws_1", "web_search"), ("call_2", "tool_search"), ("ig_1", "image_generation"),
    ]  # fmt: skip
    assert msgspec.json.decode(made[0].input) == action
    assert [body.call for body in bodies if isinstance(body, CallReturned)] == ["ws_1", "call_2", "ig_1"]
    assert isinstance(bodies[-1].parts[0], ImagePart)


def test_arguments_stay_as_the_model_wrote_them() -> None:
    def given(arguments: Any) -> bytes:
        return bytes(bodies_of(item("function_call", call_id="c", name="t", arguments=arguments))[0].input)

    assert given('{ "b" : 1.50, "a": "\\u00e9" }') == b'{ "b" : 1.50, "a": "\\u00e9" }'
    assert given('{"half') == b'"{\\"half"'
    assert given("") == b"{}"
    assert given(None) == b"{}"


@pytest.mark.parametrize(
    ("output", "failed"),
    [
        ("Exit code: 1\nWall time: 0.1 seconds\nOutput:\nno", True),
        ("Exit code: 0\nWall time: 0.1 seconds\nOutput:\nyes", False),
        ("Chunk ID: 1\nProcess running with session ID 4\nOutput:\nExit code: 1\n", False),
        ('{"output":"no","metadata":{"exit_code":2,"duration_seconds":0.1}}', True),
        ('{"output":"yes","metadata":{"exit_code":0}}', False),
        ({"content": "no", "success": False}, True),
        ("aborted", True),
        ("Plan updated", False),
    ],
)
def test_a_return_tells_whether_the_call_failed(output: Any, failed: bool) -> None:
    assert bodies_of(item("function_call_output", call_id="c", output=output))[0].failed is failed


def test_a_failure_that_only_an_event_tells_belongs_to_its_call() -> None:
    drafts = drafts_of(
        event("mcp_tool_call_end", call_id="a", result={"Err": "no"}),
        event("patch_apply_end", call_id="b", success=False),
        event("exec_command_end", call_id="c", exit_code=0),
        *(item("function_call_output", call_id=call, output="text") for call in "abc"),
    )
    assert [draft.failed for draft in told(drafts, CallReturned)] == [True, True, False]


def test_usage_is_counted_when_the_total_grows_and_cached_input_is_apart() -> None:
    first = {"total_token_usage": tokens(100, 60, 10), "last_token_usage": tokens(100, 60, 10)}
    second = {"total_token_usage": tokens(250, 160, 30), "last_token_usage": tokens(150, 100, 20)}
    drafts = drafts_of(
        event("token_count", info=None), event("token_count", info=first), event("token_count", info=first),
        event("token_count", info=second),
    )  # fmt: skip
    assert [draft.usage for draft in told(drafts, UsageCounted)] == [
        Usage(input=40, cache_read=60, output=10), Usage(input=50, cache_read=100, output=20),
    ]  # fmt: skip


def test_the_copied_turns_of_an_older_fork_are_not_paid_twice() -> None:
    def turn(id: str, total: int) -> list[bytes]:
        info = {"total_token_usage": tokens(total, 0, 0), "last_token_usage": tokens(10, 0, 0)}
        return [event("task_started", turn_id=id), event("token_count", info=info)]

    lines = [*turn("01a1e3d7-0000-7442-bead-df5817b843f3", 10), *turn("01a1e3d7-ffff-7442-bead-df5817b843f3", 20)]
    forked = b"".join([meta(forked_from_id="01a1e3d7-0000-7442-bead-000000000000"), meta(id="another"), *lines])
    assert len(told(read("codex", forked).drafts, UsageCounted)) == 1
    assert len(told(drafts_of(*lines), UsageCounted)) == 2


def test_a_repeated_head_attaches_again_only_when_something_changed() -> None:
    git = {"branch": "main"}
    drafts = drafts_of(
        meta(), meta(id="01a1e3d7-0000-7442-bead-000000000000", cwd="/parent"), meta(git=git),
        line("turn_context", {"cwd": "/home/me/app", "model": "gpt-5"}),
        line("turn_context", {"cwd": "/home/me/b", "model": "gpt-5"}), said("assistant", "hi"),
    )  # fmt: skip
    attached = told(drafts, RuntimeAttached)
    assert [(one.cwd, one.branch) for one in attached] == [("/home/me/app", "main"), ("/home/me/b", "main")]
    assert told(drafts, MessageAdded)[0].model == "gpt-5"


def test_a_rollback_takes_back_whole_turns() -> None:
    lines = [said(role, f"{role} {i}") for i in range(9) for role in ("user", "assistant")]
    drafts = read(
        "codex", b"".join([meta(), *lines, event("thread_rolled_back", num_turns=7), said("user", "other")])
    ).drafts
    spoken = [event.body.text for event in conversation(events(drafts))]
    assert spoken == ["user 0", "assistant 0", "user 1", "assistant 1", "other"]


def test_a_compaction_that_nobody_can_read_does_not_hide_the_past() -> None:
    kept = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "one"}]}
    secret = {"message": "", "replacement_history": [kept, {"type": "compaction", "encrypted_content": "gAAA"}]}
    assert isinstance(bodies_of(line("compacted", secret))[0], Opaque)
    assert bodies_of(line("compacted", {"message": "All done."})) == [Compacted(summary="All done.")]


def test_what_another_agent_says_is_heard_unless_it_is_encrypted() -> None:
    heard = [{"type": "input_text", "text": "Look there."}]
    secret = [{"type": "encrypted_content", "encrypted_content": "gAAA"}]
    bodies = bodies_of(item("agent_message", author="a", content=heard), item("agent_message", content=secret))
    assert bodies[0] == MessageAdded(role="user", text="Look there.")
    assert isinstance(bodies[1], Opaque)


def test_short_ids_repeat_and_are_no_identity() -> None:
    drafts = drafts_of(said("assistant", "a", id="msg_0"), said("assistant", "b", id="msg_0"))
    assert len({draft.source for draft in drafts}) == 2


def test_records_before_the_envelope_are_read() -> None:
    data = b"\n".join(
        json.dumps(record).encode()
        for record in (
            {"id": THREAD, "timestamp": "2025-06-01T10:00:00Z", "instructions": None},
            {"record_type": "state"},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
            {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c"},
        )
    )
    drafts = read("codex", data).drafts
    assert [type(draft.body) for draft in drafts] == [Opaque, Opaque, MessageAdded, SessionTitled, CallMade]
    assert RUNTIME.formats[0].identify(PurePath("rollout-x.jsonl"), data.split(b"\n")[0]).native == THREAD


def test_content_without_a_part_is_kept_with_its_record() -> None:
    content = [
        {"type": "input_text", "text": "hear"},
        {"type": "input_audio", "audio_url": "data:audio/wav;base64,AA=="},
    ]
    bodies = bodies_of(item("message", role="user", content=content))
    assert bodies[0] == MessageAdded(role="user", text="hear")
    assert "audio_url" in bodies[1].raw


@pytest.mark.parametrize(
    "payload",
    [
        None, 1, "x", [], {}, {"type": 1}, {"type": "message"}, {"type": "message", "role": "user", "content": 7},
        {"type": "message", "role": "user", "content": [7, None]}, {"type": "message", "role": ["user"]},
        {"type": "message", "role": "user", "content": [{"image_url": "data:image/png;base64,???"}]},
        {"type": "function_call"}, {"type": "function_call", "name": "t", "call_id": 9},
        {"type": "function_call_output"}, {"type": "function_call_output", "call_id": "c", "output": [1]},
        {"type": "reasoning", "summary": "no"}, {"type": "token_count", "info": 3},
        {"type": "token_count", "info": {"total_token_usage": {}}}, {"type": "turn_aborted", "reason": [1]},
        {"type": "thread_rolled_back", "num_turns": 10**30}, {"type": "thread_rolled_back", "num_turns": "2"},
        {"type": "item_completed", "item": [], "result": []}, {"type": "thread_name_updated", "thread_name": {}},
        {"message": 1, "replacement_history": [1, {"content": 2}]}, {"id": THREAD, "cwd": 5, "git": "main"},
        {"id": THREAD, "cwd": "/x", "git": {"branch": 5}}, {"cwd": {}, "model": []},
        {"response_id": [], "usage": {"input_tokens": "1"}},
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "kind",
    ["session_meta", "turn_context", "response_item", "event_msg", "compacted", "token_usage_record", "new", None],
)
def test_no_shape_loses_a_record_or_stops_the_reading(kind: str | None, payload: Any) -> None:
    odd = json.dumps({"timestamp": 3, "type": kind, "payload": payload}).encode() + b"\n"
    done = read("codex", meta() + odd + said("user", "after"))
    assert (done.records, done.quarantined) == (3, 0)
    assert told(done.drafts, MessageAdded)[-1].text == "after"
    for draft in done.drafts:
        assert msgspec.json.decode(msgspec.json.encode(draft.body), type=type(draft.body)) == draft.body


def test_files_are_recognised_and_named_by_what_they_hold() -> None:
    rollout = RUNTIME.formats[0]
    assert rollout.recognises(PurePath("export.jsonl"), meta())
    assert rollout.recognises(PurePath("sessions/2025/06/01/rollout-x.jsonl"), b'{"id":"x"}')
    assert not rollout.recognises(PurePath("session.jsonl"), b'{"type":"user","sessionId":"x","message":{}}')
    torn = rollout.identify(PurePath(f"rollout-2026-11-16T10-00-00-{THREAD}.jsonl"), b'{"type":"session_m')
    assert (torn.native, torn.parent) == (THREAD, "")
    assert rollout.identify(PurePath("export.jsonl"), b"[]").native == "export"


# Writing --------------------------------------------------------------------------------------------------------------


def made(call: str, tool: str, **input: Any) -> CallMade:
    return CallMade(call=call, tool=tool, input=raw(input))


ROUNDS: list[Round] = [
    Prompt(key="1", at=AT, parts=(TextPart(text="First, ünïcode 🧵"),)),
    Answer(key="2", at=AT + 1_000_000, parts=(TextPart(text="I look."), made("toolu_1", "exec_command", cmd="ls"),
                                              made("toolu_2", "exec_command", cmd='cat "a b"'))),
    Results(key="3", at=AT + 2_000_000, returns=(CallReturned(call="toolu_1", output=raw("a.txt\nb")),
                                                 CallReturned(call="toolu_2", output=raw("aborted"), failed=True))),
    Answer(key="4", at=AT + 3_000_000, parts=(made("toolu_3", "apply_patch", input="*** Begin Patch\n"),
                                              made("toolu_4", "mcp__x__y", q=[1, {"z": None}]))),
    Results(key="5", at=AT + 4_000_000, returns=(CallReturned(call="toolu_3", output=raw("ok")),
                                                 CallReturned(call="toolu_4", output=raw([{"text": "t"}]),
                                                              parts=(ImagePart(blob="b", media_type="image/png"),)))),
    Answer(key="6", at=AT + 5_000_000, parts=(TextPart(text="One."), TextPart(text="Two."))),
    Prompt(key="7", at=AT + 6_000_000, parts=(TextPart(text="See"), ImagePart(blob="b", media_type="image/png"))),
    Answer(key="8", at=AT + 7_000_000, parts=(TextPart(text="Seen."),)),
]  # fmt: skip


def written(found: list[Round], title: str = "") -> tuple[str, bytes]:
    assert RUNTIME.writer is not None
    target = Target(id=THREAD, cwd="/home/me/app", at=AT, title=title, blob=lambda _: PIXELS)
    native = RUNTIME.writer.write(found, target)
    assert (native.id, len(native.files)) == (THREAD, 1)
    return native.files[0].path, native.files[0].data


def gist(found: list[Round]) -> list[Any]:
    """What has to survive: texts, calls with their input, outputs, images and times, in order."""
    told: list[Any] = []
    for one in found:
        if isinstance(one, Results):
            told += [(one.at, back.call, output_text(back), len(back.parts), back.failed) for back in one.returns]
            continue
        for part in one.parts:
            said = (part.call, part.tool, msgspec.json.decode(part.input)) if isinstance(part, CallMade) else type(part)
            told.append((type(one), one.at, said, getattr(part, "text", "")))
    return told


def test_what_is_written_is_read_back_exactly_once() -> None:
    path, data = written(ROUNDS)
    drafts = read("codex", data, path=path).drafts
    assert gist(rounds(conversation(events(drafts)))) == gist(ROUNDS)
    assert written(ROUNDS) == (path, data)


def test_written_images_are_their_bytes() -> None:
    _, data = written(ROUNDS)
    rollout = RUNTIME.formats[0]
    reading = Reading("codex", THREAD, rollout.state())
    for record in data.splitlines():
        rollout.read(record, "@0", reading)
    assert list(reading.blobs.values()) == [PIXELS]
    assert data.count(PNG.encode()) == 2


def test_the_file_is_where_codex_looks_and_resumes_by_its_id() -> None:
    path, data = written(ROUNDS)
    assert path == f"sessions/2026/11/06/rollout-2026-11-06T21-20-00-{THREAD}.jsonl"
    assert PurePath(path).match("sessions/*/*/*/rollout-*.jsonl")
    head = msgspec.json.decode(data.splitlines()[0])
    assert head["type"] == "session_meta"
    assert set(head["payload"]) == {"id", "timestamp", "cwd", "originator", "cli_version", "source"}
    assert RUNTIME.writer is not None
    assert RUNTIME.writer.resume(THREAD, path).argv == ["codex", "resume", THREAD]


def test_every_record_has_the_form_that_codex_does_not_drop() -> None:
    records = [msgspec.json.decode(one) for one in written(ROUNDS)[1].splitlines()]
    assert all(record["timestamp"].endswith("Z") for record in records)
    payloads = [record["payload"] for record in records if record["type"] == "response_item"]
    assert all(isinstance(payload["arguments"], str) for payload in payloads if payload["type"] == "function_call")
    contents = [part["type"] for payload in payloads if payload["type"] == "message" for part in payload["content"]]
    assert set(contents) == {"input_text", "output_text", "input_image"}
    shown = [record["payload"] for record in records if record["type"] == "event_msg"]
    assert [(one["type"], one["message"]) for one in shown] == [
        ("user_message", "First, ünïcode 🧵"), ("agent_message", "I look."), ("agent_message", "One."),
        ("agent_message", "Two."), ("user_message", "See"), ("agent_message", "Seen."),
    ]  # fmt: skip
    assert [payload["type"] for payload in payloads if payload.get("name") == "apply_patch"] == ["custom_tool_call"]
    outputs = {payload["call_id"]: payload["type"] for payload in payloads if payload["type"].endswith("_output")}
    assert outputs["toolu_3"] == "custom_tool_call_output"
    assert outputs["toolu_4"] == "function_call_output"
    [of_server] = [payload for payload in payloads if payload.get("call_id") == "toolu_4" and "name" in payload]
    assert (of_server["namespace"], of_server["name"]) == ("mcp__x", "y")


def test_a_call_for_a_subagent_goes_back_into_its_namespace() -> None:
    answer = Answer(key="1", at=AT, parts=(made("c1", "multi_agent_v1__spawn_agent", message="Count."),))
    back = Results(key="2", at=AT, returns=(CallReturned(call="c1", output=raw("a")),))
    payloads = [msgspec.json.decode(line)["payload"] for line in written([answer, back])[1].splitlines()]
    [call] = [payload for payload in payloads if payload.get("type") == "function_call"]
    assert (call["namespace"], call["name"]) == ("multi_agent_v1", "spawn_agent")


def test_a_program_is_written_as_the_text_that_it_was() -> None:
    call = made("c1", "exec", input="await tools.ls();")
    _, data = written([Prompt(key="1", at=AT, parts=(TextPart(text="go"),)), Answer(key="2", at=AT, parts=(call,)),
                       Results(key="3", at=AT, returns=(CallReturned(call="c1", output=raw("a")),))])  # fmt: skip
    payloads = [msgspec.json.decode(line)["payload"] for line in data.splitlines()]
    [one] = [payload for payload in payloads if payload.get("name") == "exec"]
    assert (one["type"], one["input"]) == ("custom_tool_call", "await tools.ls();")


def test_names_and_ids_fit_what_the_api_takes() -> None:
    call = made("c" * 80, "server.tool/x", a=1)
    records = [msgspec.json.decode(one)["payload"] for one in written([
        Answer(key="1", at=AT, parts=(call,)),
        Results(key="2", at=AT, returns=(CallReturned(call="c" * 80, output=raw("ok")),)),
    ])[1].splitlines()]  # fmt: skip
    assert records[1]["name"] == "server_tool_x"
    assert len(records[1]["call_id"]) <= 64
    assert records[1]["call_id"] == records[2]["call_id"]


def test_a_written_title_is_the_title_that_is_read() -> None:
    drafts = read("codex", written(ROUNDS, "Given title")[1]).drafts
    assert told(drafts, SessionTitled) == [SessionTitled(title="Given title")]
