"""Claude Code: what is read from its transcripts, and what is written for it.

`fixtures/claude_code` was recorded with Claude Code 2.1.325: a session with a failing call, a resume, a picture, a
compaction and a subagent, and the subagent's own file. Vendor text was taken out, the directory was rewritten.
"""

import base64
import json
import random
import uuid
from pathlib import Path, PurePath
from typing import Any

import msgspec
import pytest
from blake3 import blake3
from msgspec import Raw

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
    TurnEnded,
    Usage,
    UsageCounted,
)
from clew.model.outline import Outline
from clew.runtimes import runtime
from clew.runtimes.adapters import claude_code
from clew.runtimes.adapters.claude_code import State, identify, recognises
from clew.runtimes.adapters.claude_code_write import folder, resume, write
from clew.runtimes.contract import Identity, Reading, Target
from clew.runtimes.fit import fit
from clew.runtimes.records import Translated, read_lines
from clew.runtimes.rounds import Answer, Prompt, Results, Round, output_text, rounds, text_of
from support import claude
from support.transcripts import events, read, read_in_pieces

FIXTURES = Path(__file__).parent / "fixtures" / "claude_code"
GOLDEN = (FIXTURES / "session.jsonl").read_bytes()
SUBAGENT = (FIXTURES / "subagent.jsonl").read_bytes()
NATIVE = "27399200-c235-4466-853c-ce946346ddd1"
PNG = b"\x89PNG\r\n\x1a\nnot really"
IMAGE = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PNG).decode()},
}
AT = 1_794_823_200_000_000


def take(*records: dict[str, Any], path: str = f"{claude.SESSION}.jsonl") -> Translated:
    return read("claude-code", claude.lines(records), path=path)


def told(*records: dict[str, Any], path: str = f"{claude.SESSION}.jsonl") -> list[Any]:
    """What was understood, but for where the session runs and what it is called."""
    drafts = take(*records, path=path).drafts
    return [draft.body for draft in drafts if not isinstance(draft.body, Opaque | RuntimeAttached | SessionTitled)]


def titles(*records: dict[str, Any]) -> list[str]:
    return [draft.body.title for draft in take(*records).drafts if isinstance(draft.body, SessionTitled)]


def said(drafts: list[Draft], *, seen: bool = False) -> list[str]:
    """The texts of the conversation, or of what a model sees of it."""
    found = events(drafts)
    spoken = [round.body for round in (model_view(found) if seen else conversation(found))]
    return [text_of(message.content) if isinstance(message, MessageAdded) else message.kind for message in spoken]


def side(name: str, record: dict[str, Any], agent: str = "helper") -> dict[str, Any]:
    return {**record, "isSidechain": True, "agentId": agent}


# A session of the real client -----------------------------------------------------------------------------------------


def test_a_recorded_session_is_read() -> None:
    done = read("claude-code", GOLDEN, path=f"{NATIVE}.jsonl")
    assert (done.translated, done.opaque, done.quarantined) == (20, 56, 0)
    bodies = [draft.body for draft in done.drafts if not isinstance(draft.body, Opaque)]
    where = RuntimeAttached(
        runtime="claude-code", native=NATIVE, runtime_version="2.1.325", cwd="/home/me/app", branch="HEAD"
    )
    assert [body for body in bodies if isinstance(body, RuntimeAttached)] == [where]
    assert [body.title for body in bodies if isinstance(body, SessionTitled)] == ["list the files"]
    assert not any(isinstance(body, Rewound) for body in bodies)
    calls = [(body.tool, json.loads(bytes(body.input))) for body in bodies if isinstance(body, CallMade)]
    assert calls == [
        ("Bash", {"command": "ls", "description": "list"}),
        ("Bash", {"command": "cat nothing", "description": "fail"}),
        ("Read", {"file_path": "/home/me/app/dot.png"}),
        ("Agent", {"description": "help", "prompt": "say hi", "subagent_type": "general-purpose"}),
    ]
    backs = [(output_text(body), body.failed, len(body.parts)) for body in bodies if isinstance(body, CallReturned)]
    assert backs == [
        ("a.txt", False, 0),
        ("Exit code 1\ncat: nothing: No such file or directory", True, 0),
        ("", False, 1),
        ("hi from the helper", False, 0),
    ]


def test_the_usage_of_a_recorded_session_is_what_its_answers_cost() -> None:
    done = read("claude-code", GOLDEN)
    spent = [draft.body.usage for draft in done.drafts if getattr(draft.body, "usage", None)]
    # Eight answers; what the compaction and the subagent cost is not in this file.
    assert spent == [Usage(input=100, output=5)] * 8


def test_a_recorded_compaction_keeps_what_the_client_kept() -> None:
    drafts = read("claude-code", GOLDEN).drafts
    seen = said(drafts, seen=True)
    # In this order they were in the client's next request.
    assert seen[:2] == ["compacted", "A red dot."]
    assert seen[-4:] == ["call_returned", "The helper says hi.", seen[-2], "The helper says hi."]
    assert "list the files" not in seen
    assert said(drafts)[0] == "list the files"


def test_a_recorded_subagent_is_a_session_of_its_own() -> None:
    path = PurePath(f"/home/me/.claude/projects/-home-me-app/{NATIVE}/subagents/agent-aa3518c5952166186.jsonl")
    identity = identify(path, SUBAGENT.split(b"\n")[0])
    assert identity == Identity(native="agent-aa3518c5952166186", project="-home-me-app", parent=NATIVE)
    drafts = read("claude-code", SUBAGENT, path=path.name).drafts
    assert said(drafts) == ["say hi", "hi from the helper"]


@pytest.mark.parametrize("data", [GOLDEN, SUBAGENT, claude.lines(claude.story())])
def test_pieces_are_the_whole(data: bytes) -> None:
    whole = read("claude-code", data).drafts
    draw = random.Random(7)
    for count in (1, 10, 1000):
        cuts = [draw.randrange(len(data) + 1) for _ in range(count)]
        pieces = read_in_pieces("claude-code", data, cuts)
        assert [(piece.source, piece.body.kind, piece.said_at) for piece in pieces] == [
            (one.source, one.body.kind, one.said_at) for one in whole
        ]


# Answers --------------------------------------------------------------------------------------------------------------


def test_a_thought_a_text_and_a_call_of_one_answer_are_one_round() -> None:
    records = [
        claude.says("u", None, "go"),
        claude.answers("a", "u", {"type": "thinking", "thinking": "hm", "signature": "sig"}, message="m"),
        claude.answers("b", "a", claude.text("I look."), message="m"),
        claude.answers("c", "b", claude.calls("t", "ls"), message="m"),
        claude.returns("r", "c", "t", "a.txt"),
    ]
    _, answer, results = rounds(conversation(events(take(*records).drafts)))
    assert isinstance(answer, Answer)
    assert isinstance(results, Results)
    assert answer.parts[:2] == (ThinkingPart(text="hm", signature="sig"), TextPart(text="I look."))
    assert [call.call for call in answer.calls] == ["t"]
    assert answer.model == "claude-opus-5-5"


def test_hidden_thinking_and_a_search_by_the_provider_are_understood() -> None:
    found = {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"title": "x"}]}
    search = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}}
    hidden, call, back = told(
        claude.answers("a", None, {"type": "redacted_thinking", "data": "secret"}, search, found, message="m")
    )
    assert hidden.parts == (ThinkingPart(text="", signature="secret"),)
    assert (call.call, call.tool) == ("s", "web_search")
    assert (back.call, json.loads(bytes(back.output))) == ("s", [{"title": "x"}])


def test_an_answer_may_be_plain_text() -> None:
    record = claude.answers("a", None)
    record["message"]["content"] = "done"
    assert [body.text for body in told(record)] == ["done"]


@pytest.mark.parametrize("blocks", [[{"type": "fallback"}], [claude.text("x"), {"type": "fallback"}]])
def test_a_block_nobody_knows_is_kept_with_its_record(blocks: list[dict[str, Any]]) -> None:
    drafts = take(claude.answers("a", None, *blocks)).drafts
    kept = next(draft for draft in drafts if isinstance(draft.body, Opaque))
    assert isinstance(kept.body, Opaque)
    assert kept.source == f"{claude.id_of('a')}/record"
    assert "fallback" in kept.body.raw
    assert sum(bool(getattr(draft.body, "usage", None)) for draft in drafts) == 1


# Usage ----------------------------------------------------------------------------------------------------------------


def spent(*records: dict[str, Any]) -> list[Usage]:
    return [body.usage for body in told(*records) if getattr(body, "usage", None)]


def costing(name: str, message: str, output: int, **more: Any) -> dict[str, Any]:
    record = claude.answers(name, None, claude.text(name), message=message, **more)
    record["message"]["usage"]["output_tokens"] = output
    return record


def test_usage_is_counted_once_per_answer_though_each_record_repeats_it() -> None:
    assert spent(costing("a", "m", 5), costing("b", "m", 5)) == [
        Usage(input=100, output=5, cache_read=7, cache_write=3)
    ]


def test_usage_that_grows_counts_what_it_grew() -> None:
    first, more = spent(costing("a", "m", 5), costing("b", "m", 631), costing("c", "m", 600))
    assert (first.output, more) == (5, Usage(output=626))


def test_usage_of_an_answer_is_counted_once_though_another_comes_between() -> None:
    found = spent(costing("a", "m", 5), side("s", costing("s", "n", 9)), costing("b", "m", 5), costing("c", "m", 6))
    assert [one.output for one in found] == [5, 9, 1]


def test_usage_of_an_answer_is_counted_once_however_many_others_come_between() -> None:
    records = [costing(f"a{i}", f"m{i}", 5) for i in range(300)]
    again = [costing(f"b{i}", f"m{i}", 5) for i in range(300)]
    assert len(spent(*records, *again)) == 300
    pieces = read_in_pieces("claude-code", claude.lines([*records, *again]), [100_000, 150_000, 200_000])
    assert sum(bool(getattr(piece.body, "usage", None)) for piece in pieces) == 300


def remembered(answers: int) -> bytes:
    reading = Reading("claude-code", "n", State())
    records = claude.lines(costing(f"a{i}", f"msg_01{i:022}", i) for i in range(answers))
    read_lines(runtime("claude-code").formats[0], reading, records)
    return msgspec.json.encode(reading.state)


def test_what_is_remembered_of_usage_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = len(remembered(100)), len(remembered(1_100))
    assert (many - few) / 1_000 < 16
    monkeypatch.setattr(claude_code, "_COUNTED", 200)
    assert len(remembered(300)) == len(remembered(400))


def test_what_an_older_reader_remembered_is_understood() -> None:
    state = msgspec.json.decode(b'{"leaf":"x","answers":{"m":[100,5,7,3]}}', type=State)
    reading = Reading("claude-code", "n", state)
    record = hourly("a", "m", write=3, hour=2)
    record["message"]["usage"]["output_tokens"] = 9
    done = read_lines(runtime("claude-code").formats[0], reading, claude.lines([record, hourly("b", "n", 5, 4)]))
    found = [draft.body.usage for draft in done.drafts if getattr(draft.body, "usage", None)]
    assert found == [
        Usage(output=4), Usage(input=100, output=5, cache_read=7, cache_write=5, cache_write_hour=4)
    ]  # fmt: skip


def hourly(name: str, message: str, write: int, hour: Any) -> dict[str, Any]:
    record = claude.answers(name, None, claude.text(name), message=message)
    kept = {"ephemeral_1h_input_tokens": hour, "ephemeral_5m_input_tokens": 0}
    record["message"]["usage"] |= {"cache_creation_input_tokens": write, "cache_creation": kept}
    return record


def test_what_a_cache_keeps_for_an_hour_is_a_part_of_what_was_written() -> None:
    first, more = spent(hourly("a", "m", 10, 4), hourly("b", "m", 10, 4), hourly("c", "m", 25, 19))
    assert (first.cache_write, first.cache_write_hour) == (10, 4)
    assert more == Usage(cache_write=15, cache_write_hour=15)
    assert spent(hourly("d", "n", 10, 99))[0].cache_write_hour == 10


@pytest.mark.parametrize("odd", [None, "x", [], {}, {"ephemeral_1h_input_tokens": None}])
def test_an_odd_account_of_a_cache_costs_no_answer(odd: Any) -> None:
    record = costing("a", "m", 5)
    record["message"]["usage"] |= {"cache_creation": odd, "speed": odd}
    assert spent(record) == [Usage(input=100, output=5, cache_read=7, cache_write=3)]


def test_a_fast_answer_is_told_from_a_standard_one() -> None:
    records = [costing(name, name, 5) for name in ("quick", "usual")]
    for record, speed in zip(records, ("fast", "standard"), strict=True):
        record["message"]["usage"]["speed"] = speed
    assert [one.fast for one in spent(*records)] == [True, False]


def test_usage_without_anything_said_is_counted_apart() -> None:
    record = claude.answers("a", None)
    [body] = told(record)
    assert isinstance(body, UsageCounted)
    assert (body.message, body.usage.input) == ("msg_a", 100)


# Prompts and results --------------------------------------------------------------------------------------------------


def test_a_prompt_with_a_picture_and_a_document() -> None:
    paper = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}}
    record = claude.line("u", None, "user", {"role": "user", "content": [claude.text("see"), IMAGE, paper]})
    [body] = told(record)
    assert body.parts == (
        TextPart(text="see"),
        ImagePart(blob=blake3(PNG).hexdigest(), media_type="image/png"),
        FilePart(blob=blake3(b"words").hexdigest(), media_type="text/plain"),
    )


def test_a_result_with_a_picture_keeps_what_else_it_says() -> None:
    odd = {"type": "tool_reference", "tool_name": "X"}
    [only] = told(claude.returns("r", "a", "t", [IMAGE]))
    assert (bytes(only.output), len(only.parts)) == (b"null", 1)
    [mixed] = told(claude.returns("r", "a", "t", [claude.text("before"), IMAGE, odd]))
    assert json.loads(bytes(mixed.output)) == [claude.text("before"), odd]
    assert mixed.parts[0].blob == blake3(PNG).hexdigest()


@pytest.mark.parametrize("output", ["image", '"image"', [claude.text('"source"')], None, {"a": 1}])
def test_a_result_is_kept_verbatim(output: Any) -> None:
    [body] = told(claude.returns("r", "a", "t", output))
    assert json.loads(bytes(body.output)) == output


def test_what_was_typed_while_the_agent_was_at_work_is_a_prompt() -> None:
    def queued(prompt: Any) -> dict[str, Any]:
        attachment = {"type": "queued_command", "prompt": prompt}
        return {"type": "attachment", "uuid": claude.id_of("q"), "parentUuid": None, "attachment": attachment}

    assert [body.text for body in told(queued("and this"))] == ["and this"]
    [body] = told(queued([claude.text("and this"), IMAGE]))
    assert [type(one) for one in body.parts] == [TextPart, ImagePart]
    assert told(queued("")) == []
    assert told(queued(None)) == []


def test_what_the_program_adds_for_itself_is_kept_and_not_said() -> None:
    drafts = take({"type": "mode", "mode": "normal"}, {"type": "news", "uuid": "n", "x": 1}).drafts
    kinds = [draft.body.kind for draft in drafts if isinstance(draft.body, Opaque)]
    assert kinds == ["claude-code.mode", "claude-code.news"]
    assert [draft.source for draft in drafts][-2:] == ["@0", "n"]
    assert said(drafts) == []


def test_the_body_of_a_skill_is_carried_as_a_message_of_the_system() -> None:
    records = [
        claude.says("u", None, "<command-name>/review</command-name>"),
        claude.says("m", "u", "Base directory for this skill: /s\n\nReview it.", isMeta=True),
        claude.answers("a", "m", claude.text("fine")),
    ]
    bodies = told(*records)
    assert [(said.role, said.text[:20]) for said in bodies] == [
        ("user", "<command-name>/revie"), ("system", "Base directory for t"), ("assistant", "fine"),
    ]  # fmt: skip
    report = fit(Outline.in_memory({one.seq: one for one in events(take(*records).drafts)}), runtime("codex"), tools={})
    assert "Review it." in str(report.rounds)
    assert {change.what: change.count for change in report.fidelity.adapted} == {"system messages": 1}


@pytest.mark.parametrize(
    "record",
    [
        claude.answers("e", "u", claude.text("API Error: 400 bad"), isApiErrorMessage=True),
        claude.line("e", "u", "assistant", {"model": "<synthetic>", "content": [claude.text("Prompt is too long")]}),
        claude.line(
            "e", "u", "assistant", {"model": "<synthetic>", "content": [claude.text("No response requested.")]}
        ),
    ],
)
def test_an_error_in_the_place_of_an_answer_ends_the_turn(record: dict[str, Any]) -> None:
    drafts = take(claude.says("u", None, "go"), record).drafts
    assert said(drafts) == ["go"]
    [ended] = [one.body for one in drafts if isinstance(one.body, TurnEnded)]
    assert ended.stop_reason in json.dumps(record)


def test_an_answer_that_clew_wrote_for_another_program_is_an_answer() -> None:
    written = claude.line("e", "u", "assistant", {"model": "<synthetic>", "content": [claude.text("API is down")]})
    assert said(take(claude.says("u", None, "go"), written).drafts) == ["go", "API is down"]


def cleared(*again: dict[str, Any]) -> list[str]:
    first = [claude.says("u", None, "one"), claude.answers("a", "u", claude.calls("c", "ls"))]
    return said(take(*first, claude.returns("r", "a", "c", "x"), *again).drafts)


def test_a_record_without_a_parent_begins_the_conversation_anew() -> None:
    """After `/clear`, and when the program copies the history again under other ids."""
    hook = {"type": "attachment", "uuid": claude.id_of("h"), "parentUuid": None, "attachment": {"type": "hook_success"}}
    again = [claude.says("u2", "h", "one"), claude.answers("a2", "u2", claude.calls("c2", "ls"))]
    assert cleared(claude.says("u2", None, "two")) == ["two"]
    assert cleared(hook, *again, claude.returns("r2", "a2", "c2", "x")) == ["one", "call_made", "call_returned"]


def test_a_beginning_that_no_message_follows_takes_nothing_back() -> None:
    hook = {"type": "attachment", "uuid": claude.id_of("h"), "parentUuid": None, "attachment": {"type": "hook_success"}}
    assert cleared(hook) == ["one", "call_made", "call_returned"]
    assert cleared(hook, claude.says("u2", "r", "two")) == ["one", "call_made", "call_returned", "two"]


def test_records_that_are_copied_under_their_own_ids_take_nothing_back() -> None:
    first = [claude.says("u", None, "one"), claude.answers("a", "u", claude.calls("c", "ls"))]
    assert cleared(*first, claude.says("u2", "a", "two"))[-1] == "two"
    assert "call_made" in cleared(*first, claude.says("u2", "a", "two"))


def test_where_the_session_runs_is_told_again_only_when_it_changed() -> None:
    here, there = {"cwd": "/home/me/app"}, {"cwd": "/home/me/other", "gitBranch": "topic"}
    records = [claude.says(f"u{i}", None, "x", **where) for i, where in enumerate([here, here, there])]
    found = [draft.body for draft in take(*records).drafts if isinstance(draft.body, RuntimeAttached)]
    assert [(one.cwd, one.branch) for one in found] == [("/home/me/app", "main"), ("/home/me/other", "topic")]


# Titles ---------------------------------------------------------------------------------------------------------------

OWN = {"type": "custom-title", "customTitle": "mine", "sessionId": "s"}
MADE = {"type": "ai-title", "aiTitle": "made", "sessionId": "s"}
OLD = {"type": "summary", "summary": "old", "leafUuid": "x"}
FIRST = claude.says("u", None, f"{'long ' * 40}\nprompt")


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([FIRST], ["long " * 15 + "long…"]),
        ([FIRST, claude.says("v", "u", "second")], ["long " * 15 + "long…"]),
        ([OLD, MADE, OWN], ["old", "made", "mine"]),
        ([OWN, MADE, OLD, FIRST], ["mine"]),
        ([MADE, OLD, OWN, {**OWN, "customTitle": "mine again"}], ["made", "mine", "mine again"]),
        ([{**OWN, "customTitle": " "}, {**MADE, "aiTitle": 7}], []),
        ([claude.says("c", None, "<command-name>/model</command-name>"), claude.says("u", "c", "real")], ["real"]),
        ([claude.says("m", None, "caveat", isMeta=True), claude.says("u", "m", "real")], ["real"]),
        ([side("s", claude.says("s", None, "for the helper")), claude.says("u", None, "real")], ["real"]),
    ],
)
def test_a_persons_title_is_worth_more_than_the_programs_and_both_more_than_a_prompt(
    records: list[dict[str, Any]], expected: list[str]
) -> None:
    assert titles(*records) == expected


# The chain ------------------------------------------------------------------------------------------------------------


def test_a_record_with_another_parent_takes_the_conversation_back() -> None:
    records = [
        claude.says("u1", None, "one"),
        claude.answers("a1", "u1", claude.text("first")),
        claude.says("u2", "a1", "two"),
        claude.answers("a2", "u2", claude.text("second")),
        claude.says("u3", "a1", "two again"),
    ]
    drafts = take(*records).drafts
    assert [draft.body.to for draft in drafts if isinstance(draft.body, Rewound)] == [claude.id_of("a1")]
    assert said(drafts) == ["one", "first", "two again"]


def test_results_of_parallel_calls_take_nothing_back() -> None:
    # A progress record hangs beside the chain, and so leads to a rewind that changes nothing.
    drafts = take(*(one for one in claude.story() if one["type"] != "progress")).drafts
    assert not any(isinstance(draft.body, Rewound) for draft in drafts)
    assert said(take(*claude.story()).drafts) == said(drafts)
    told_rounds = rounds(conversation(events(drafts)))
    assert [type(round) for round in told_rounds] == [Prompt, Answer, Results, Answer, Prompt, Answer]
    assert isinstance(told_rounds[2], Results)
    assert [(returned.call, returned.failed) for returned in told_rounds[2].returns] == [("t1", False), ("t2", True)]


def test_a_parent_that_is_not_there_takes_nothing_away() -> None:
    assert said(take(claude.says("u1", None, "one"), claude.says("u2", "gone", "two")).drafts) == ["one", "two"]


def test_what_a_subagent_says_inside_the_session_is_beside_the_conversation() -> None:
    records = [
        claude.says("u", None, "go"),
        side("s1", claude.says("s1", None, "for the helper")),
        side("s2", claude.answers("s2", "s1", claude.calls("t", "ls"))),
        side("s3", claude.returns("s3", "s2", "t", "a.txt")),
        claude.answers("a", "u", claude.text("done")),
    ]
    drafts = take(*records).drafts
    assert {getattr(draft.body, "side", "") for draft in drafts} == {"", "helper"}
    assert said(drafts) == ["go", "done"]
    assert len(conversation(events(drafts), sides=True)) == 5
    assert not any(isinstance(draft.body, Rewound) for draft in drafts)
    nameless = {**claude.says("s", None, "x"), "isSidechain": True}
    assert [body.side for body in told(nameless)] == ["side"]


def test_a_subagents_own_file_is_its_conversation() -> None:
    records = [side("s1", claude.says("s1", None, "for the helper")), side("s2", claude.answers("s2", "s1"))]
    assert [body.side for body in told(*records, path="agent-1.jsonl") if isinstance(body, MessageAdded)] == [""]


# Compaction -----------------------------------------------------------------------------------------------------------


def compacting(metadata: Any) -> list[dict[str, Any]]:
    boundary = claude.line("b", None, "system", {}, subtype="compact_boundary", compactMetadata=metadata)
    boundary["logicalParentUuid"] = claude.id_of("a2")
    del boundary["message"]
    return [
        claude.says("u1", None, "one"),
        claude.answers("a1", "u1", claude.text("first")),
        claude.says("u2", "a1", "two"),
        claude.answers("a2", "u2", claude.text("second")),
        boundary,
        claude.says("k", "b", "what happened", isCompactSummary=True),
        claude.says("u3", "k", "three"),
    ]


def test_a_compaction_stands_for_all_but_what_it_kept() -> None:
    drafts = take(*compacting({"preservedSegment": {"headUuid": claude.id_of("u2")}})).drafts
    assert said(drafts) == ["one", "first", "two", "second", "compacted", "three"]
    assert said(drafts, seen=True) == ["compacted", "two", "second", "three"]
    [body] = [draft.body for draft in drafts if isinstance(draft.body, Compacted)]
    assert body == Compacted(summary="what happened", keep=claude.id_of("u2"))


@pytest.mark.parametrize("metadata", [None, {}, {"preservedSegment": None}, {"preservedSegment": {"headUuid": 7}}])
def test_a_compaction_that_kept_nothing_stands_for_all(metadata: Any) -> None:
    assert said(take(*compacting(metadata)).drafts, seen=True) == ["compacted", "three"]


def test_what_one_compaction_kept_is_not_kept_by_the_next() -> None:
    records = compacting({"preservedSegment": {"headUuid": claude.id_of("u2")}})
    again = claude.says("k2", "u3", "all of it", isCompactSummary=True)
    assert said(take(*records, again).drafts, seen=True) == ["compacted"]


def test_a_subagents_compaction_is_none_of_the_sessions() -> None:
    records = [claude.says("u", None, "go"), side("k", claude.says("k", None, "short", isCompactSummary=True))]
    assert said(take(*records).drafts, seen=True) == ["go"]


# Hostile shapes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"type": 7},
        {"type": None},
        {"type": "user"},
        {"type": "user", "uuid": "u", "message": 7},
        {"type": "user", "uuid": "u", "message": {"content": [7]}},
        {"type": "user", "uuid": "u", "message": {"content": [{"type": "image", "source": {"data": "%%"}}]}},
        {"type": "user", "uuid": {"x": 1}, "message": {"content": "x"}},
        {"type": "assistant", "uuid": "u", "message": {"content": None, "usage": {"input_tokens": "many"}}},
        {"type": "assistant", "uuid": "u", "message": {"content": [{"type": "tool_use"}]}},
        {"type": "attachment", "attachment": {"type": "queued_command", "prompt": {"x": 1}}},
        {"type": "custom-title", "customTitle": ["x"]},
        {"type": "system", "subtype": "compact_boundary", "compactMetadata": 7},
        {"type": "x" * 500},
        {"type": "a\x1b[31m/../b"},
    ],
)
def test_an_odd_record_is_kept_as_it_is(record: dict[str, Any]) -> None:
    done = take(record, claude.says("u", None, "still here"))
    assert (done.records, done.quarantined) == (2, 0)
    assert isinstance(done.drafts[0].body, Opaque)
    assert json.loads(done.drafts[0].body.raw) == record
    assert said(done.drafts) == ["still here"]


# Recognising ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "is_ours"),
    [
        (GOLDEN[:3000], True),
        (SUBAGENT[:3000], True),
        (claude.lines([OLD]), True),
        (claude.lines([{"type": "file-history-snapshot", "snapshot": {}}]), True),
        (b"not json\n" + claude.lines([claude.says("u", None, "x")]), True),
        (b'{"type":"user","message":{"role":"user","parts":[],"content":""},"uuid":"u"}', False),
        (b'{"type":"session","version":3}', False),
        (b'{"role":"user","message":{"content":[]}}', False),
        (b'{"type":{"a":1}}', False),
        (b'{"type":"mode"}', False),
        (b'{"k\xff":1}', False),
        (b'{"a":' * 5000, False),
        (b"[]", False),
        (b"", False),
    ],
)
def test_it_is_recognised_by_the_body_of_its_records(head: bytes, is_ours: bool) -> None:
    assert recognises(PurePath("x.jsonl"), head) is is_ours
    assert recognises(PurePath("x.json"), head) is False


@pytest.mark.parametrize(
    ("path", "first", "expected"),
    [
        (".claude/projects/-home-me-app/s.jsonl", b"", Identity(native="s", project="-home-me-app")),
        ("/projects/x/.claude/projects/-p/s.jsonl", b"", Identity(native="s", project="-p")),
        ("s.jsonl", b"", Identity(native="s")),
        ("projects/s.jsonl", b"", Identity(native="s")),
        ("p/agent-1.jsonl", b'{"sessionId":"s"}', Identity(native="agent-1", parent="s")),
        ("p/agent-1.jsonl", b'{"sessionId":7}', Identity(native="agent-1")),
        ("p/agent-1.jsonl", b'{"a":' * 5000, Identity(native="agent-1")),
        ("p/agent-1.jsonl", b"\xff", Identity(native="agent-1")),
    ],
)
def test_a_session_is_called_like_its_file(path: str, first: bytes, expected: Identity) -> None:
    assert identify(PurePath(path), first) == expected


# Writing --------------------------------------------------------------------------------------------------------------


def target(**changes: Any) -> Target:
    about = {"id": claude.SESSION, "cwd": "/home/me/app", "at": AT, "title": "Files", "blob": lambda digest: PNG}
    return Target(**{**about, **changes})


TALK: list[Round] = [
    Prompt(key="1", at=AT, parts=(TextPart(text="list"), TextPart(text="für mich 🧵"))),
    Answer(
        key="2",
        at=AT + 1_000,
        parts=(
            TextPart(text="I look."),
            CallMade(call="c1", tool="Bash", input=Raw(b'{"command": "ls"}')),
            CallMade(call="c2", tool="foreign_tool", input=Raw(b"{}")),
        ),
    ),
    Results(
        key="3",
        at=AT + 2_000,
        returns=(
            CallReturned(call="c1", output=Raw(b'"a.txt"'), failed=True),
            CallReturned(call="c2", parts=(ImagePart(blob=blake3(PNG).hexdigest()),)),
        ),
    ),
    Answer(key="4", at=AT + 3_000, parts=(TextPart(text="Done."),)),
    Prompt(key="5", at=AT + 4_000, parts=(TextPart(text="and?"), ImagePart(blob=blake3(PNG).hexdigest()))),
]


def test_what_is_written_reads_back_as_the_same_conversation() -> None:
    [file] = write(TALK, target()).files
    drafts = read("claude-code", file.data, path=file.path).drafts
    back = rounds(conversation(events(drafts)))
    assert [type(one) for one in back] == [type(message) for message in TALK]
    assert [one.at for one in back] == [message.at for message in TALK]
    prompt, answer, results, done, last = back
    assert isinstance(prompt, Prompt)
    assert text_of(prompt.parts) == "list\nfür mich 🧵"
    assert isinstance(answer, Answer)
    assert text_of(answer.parts) == "I look."
    assert [(call.call, call.tool, json.loads(bytes(call.input))) for call in answer.calls] == [
        ("c1", "Bash", {"command": "ls"}),
        ("c2", "foreign_tool", {}),
    ]
    assert isinstance(results, Results)
    assert [
        (returned.call, output_text(returned), returned.failed, len(returned.parts)) for returned in results.returns
    ] == [
        ("c1", "a.txt", True, 0),
        ("c2", "", False, 1),
    ]
    assert isinstance(done, Answer)
    assert isinstance(last, Prompt)
    assert last.parts == (
        TextPart(text="and?"),
        ImagePart(blob=blake3(PNG).hexdigest(), media_type="image/png"),
    )
    assert titles(*[json.loads(line) for line in file.data.splitlines()])[-1] == "Files"


def test_what_is_written_is_a_chain_that_the_client_takes() -> None:
    records = [json.loads(line) for line in write(TALK, target()).files[0].data.splitlines()]
    chain = [record for record in records if "uuid" in record]
    assert [one["parentUuid"] for one in chain] == [None, *(one["uuid"] for one in chain[:-1])]
    assert len({one["uuid"] for one in chain}) == len(chain)
    assert all(uuid.UUID(one["uuid"]) for one in chain)
    assert {record["sessionId"] for record in records} == {claude.SESSION}
    ids = [one["message"]["id"] for one in chain if one["type"] == "assistant"]
    # One id for the blocks of an answer, another for the next: the client merges by it.
    assert (len(ids), len(set(ids))) == (4, 2)
    # No block of no text: the API refuses it.
    blocks = [
        block for one in chain if isinstance(one["message"]["content"], list) for block in one["message"]["content"]
    ]
    inner = [one for block in blocks if isinstance(block.get("content"), list) for one in block["content"]]
    assert all(one.get("text", "x") for one in [*blocks, *inner])


def test_the_same_is_written_each_time() -> None:
    assert write(TALK, target()) == write(TALK, target())
    other = write(TALK, target(id=str(uuid.uuid4())))
    assert other.files[0].data != write(TALK, target()).files[0].data


def test_a_session_lies_in_the_folder_of_its_directory() -> None:
    assert folder("/home/me/my app.é_1") == "-home-me-my-app---1"
    native = write(TALK, target(cwd="/../../etc"))
    assert native.files[0].path == f"projects/-------etc/{claude.SESSION}.jsonl"
    assert write(TALK, target(title="")).files[0].data.count(b"custom-title") == 0


def test_a_very_long_directory_is_resumed_by_path() -> None:
    short, long = (write(TALK, target(cwd=f"/{'x' * size}")).files[0].path for size in (150, 250))
    assert len(PurePath(long).parent.name) == 200
    assert resume(claude.SESSION, f"/home/me/.claude/{short}").argv == ["claude", "--resume", claude.SESSION]
    assert resume(claude.SESSION, f"/home/me/.claude/{long}").argv == ["claude", "--resume", f"/home/me/.claude/{long}"]


def test_the_state_is_small_and_json() -> None:
    assert msgspec.json.encode(State()) == b"{}"


def test_what_a_local_command_printed_is_said_to_the_model() -> None:
    printed = "<local-command-stdout>Reconnected.</local-command-stdout>"
    command = {**claude.line("s1", "u1", "system", {}), "subtype": "local_command", "content": printed}
    command.pop("message")
    data = claude.lines([claude.says("u1", None, "hello"), command, claude.says("u2", "s1", "go on")])
    texts = [draft.body.text for draft in read("claude-code", data).drafts if isinstance(draft.body, MessageAdded)]
    assert texts == ["hello", printed, "go on"]
