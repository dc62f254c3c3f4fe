"""ATIF: what is read from a trajectory, and that what is exported reads back as the same conversation."""

import json
from pathlib import PurePath
from typing import Any

import pytest

from clew.model.conversation import conversation
from clew.model.errors import InvalidInput
from clew.model.events import (
    CallMade,
    CallReturned,
    ImagePart,
    MessageAdded,
    Opaque,
    RuntimeAttached,
    SessionTitled,
    TextPart,
    ThinkingPart,
    Usage,
)
from clew.runtimes.adapters.atif import document, identify, recognises, steps
from clew.runtimes.contract import micros, raw
from clew.runtimes.rounds import Answer, Prompt, Results, Round, output_text, rounds, text_of
from support.transcripts import events, read

AT = 1_794_823_200_000_000
PATH = "/home/me/runs/task-1/trajectory.json"
DOCUMENT: dict[str, Any] = {
    "schema_version": "ATIF-v1.5",
    "session_id": "s-1",
    "agent": {"name": "codex", "version": "0.1", "model_name": "m-1"},
    "steps": [
        {"step_id": 1, "timestamp": "2026-11-16T10:00:00Z", "source": "system", "message": "Be brief."},
        {"step_id": 2, "timestamp": "2026-11-16T10:00:00Z", "source": "user", "message": "list\nplease"},
        {
            "step_id": 3,
            "timestamp": "2026-11-16T10:00:01Z",
            "source": "agent",
            "message": "I look.",
            "reasoning_content": "a listing",
            "tool_calls": [{"tool_call_id": "c1", "function_name": "shell", "arguments": {"command": "ls"}}],
            "observation": {"results": [{"source_call_id": "c1", "content": "a.txt"}]},
            "metrics": {"prompt_tokens": 30, "completion_tokens": 4, "cached_tokens": 20, "cost_usd": 0.01},
        },
        {"step_id": 4, "source": "agent", "model_name": "m-2", "message": "One file."},
    ],
    "final_metrics": {"total_prompt_tokens": 30, "total_steps": 4},
}


def read_document(document: Any) -> Any:
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    return read("atif", data, path=PATH)


def test_a_trajectory_is_read() -> None:
    done = read_document(DOCUMENT)
    bodies = [draft.body for draft in done.drafts]
    assert bodies[0] == RuntimeAttached(runtime="codex", native="s-1", runtime_version="0.1")
    usage = Usage(input=10, output=4, cache_read=20, cost_micros=10_000)
    parts = (ThinkingPart(text="a listing"), TextPart(text="I look."))
    assert [body for body in bodies if isinstance(body, MessageAdded)] == [
        MessageAdded(role="system", text="Be brief."),
        MessageAdded(role="user", text="list\nplease"),
        MessageAdded(role="assistant", parts=parts, message="s-1/step/3", model="m-1", usage=usage),
        MessageAdded(role="assistant", text="One file.", message="s-1/step/4", model="m-2"),
    ]
    assert [body.title for body in bodies if isinstance(body, SessionTitled)] == ["list"]
    call = next(body for body in bodies if isinstance(body, CallMade))
    assert (call.call, call.tool, bytes(call.input)) == ("c1", "shell", b'{"command": "ls"}')
    assert call.usage is None
    assert done.drafts[2].said_at == micros("2026-11-16T10:00:00Z")
    head = next(body for body in bodies if isinstance(body, Opaque))
    assert json.loads(head.raw)["final_metrics"]["total_steps"] == 4


def spent(metrics: dict[str, Any], **more: Any) -> list[Usage]:
    step = {"step_id": 1, "source": "agent", "message": "x", "metrics": metrics, **more}
    drafts = read_document(DOCUMENT | {"steps": [step]}).drafts
    return [draft.body.usage for draft in drafts if getattr(draft.body, "usage", None)]


def test_what_was_written_to_the_cache_is_no_plain_input() -> None:
    extra = {
        "cache_creation_input_tokens": 5,
        "cache_creation": {"ephemeral_1h_input_tokens": 3},
        "reasoning_tokens": 2,
    }
    metrics = {"prompt_tokens": 30, "completion_tokens": 4, "cached_tokens": 20, "extra": extra}
    assert spent(metrics) == [
        Usage(input=5, output=4, cache_read=20, cache_write=5, cache_write_hour=3, reasoning=2)
    ]  # fmt: skip
    assert spent(metrics | {"prompt_tokens": 22}) == [
        Usage(output=4, cache_read=20, cache_write=5, cache_write_hour=3, reasoning=2)
    ]  # fmt: skip


@pytest.mark.parametrize("extra", [None, {}, {"cache_creation_input_tokens": "5", "cache_creation": [1]}])
def test_odd_figures_beside_the_metrics_cost_no_answer(extra: Any) -> None:
    assert spent({"prompt_tokens": 30, "extra": extra}) == [Usage(input=30)]


def test_a_step_copied_from_another_trajectory_was_counted_there() -> None:
    assert spent({"prompt_tokens": 30}, is_copied_context=True) == []
    assert spent({"prompt_tokens": 30}, is_copied_context=False) == [Usage(input=30)]


def test_the_pieces_of_an_answer_are_one_and_those_of_another_session_are_not() -> None:
    other = read_document(DOCUMENT | {"session_id": "s-2"}).drafts
    pieces = []
    for drafts in (read_document(DOCUMENT).drafts, other):
        bodies = [draft.body for draft in drafts if isinstance(draft.body, CallMade | MessageAdded)]
        pieces.append({body.message for body in bodies if body.message})
    assert pieces == [{"s-1/step/3", "s-1/step/4"}, {"s-2/step/3", "s-2/step/4"}]


def test_growth_repeats_what_was_read() -> None:
    whole = [draft.source for draft in read_document(DOCUMENT).drafts if not isinstance(draft.body, Opaque)]
    for size in range(5):
        part = read_document(DOCUMENT | {"steps": DOCUMENT["steps"][:size]}).drafts
        told = [one.source for one in part if not isinstance(one.body, Opaque)]
        assert told == whole[: len(told)]


def test_images_and_subagents_are_kept_verbatim() -> None:
    image = {"type": "image", "source": {"media_type": "image/png", "path": "images/1.png"}}
    steps = [{"step_id": 1, "source": "user", "message": [{"type": "text", "text": "see"}, image]}]
    subagent = DOCUMENT | {"trajectory_id": "t-2"}
    done = read_document(
        DOCUMENT | {"schema_version": "ATIF-v1.7", "steps": steps, "subagent_trajectories": [subagent]}
    )
    assert MessageAdded(role="user", text="see") in [draft.body for draft in done.drafts]
    kept = {draft.body.kind: json.loads(draft.body.raw) for draft in done.drafts if isinstance(draft.body, Opaque)}
    assert kept["atif.user"]["message"][1] == image
    assert kept["atif.subagent"]["trajectory_id"] == "t-2"


def test_what_the_surroundings_say_to_an_agent_without_calls_is_said_to_it() -> None:
    step = {"step_id": 1, "source": "agent", "message": "ls", "observation": {"results": [{"content": "a.txt"}]}}
    grouped = rounds(conversation(events(read_document(DOCUMENT | {"steps": [step]}).drafts)))
    assert [text_of(one.parts) for one in grouped if isinstance(one, Prompt)] == ["a.txt"]


# Export ---------------------------------------------------------------------------------------------------------------


def call(id: str, input: Any) -> CallMade:
    return CallMade(call=id, tool="shell", input=raw(input))


ROUNDS: list[Round] = [
    Prompt(key="1", at=AT, parts=(TextPart(text="Be brief."),), role="system"),
    Prompt(key="2", at=AT, parts=(TextPart(text="list"), TextPart(text='"please" \u00e4\n'))),
    Answer(
        key="3",
        at=AT + 1_000_000,
        model="m-2",
        parts=(
            ThinkingPart(text="hm"),
            TextPart(text="I look."),
            call("c1", {"command": "ls"}),
            call("c2", ["raw", 1]),
        ),
    ),
    Results(
        key="4",
        at=AT + 2_000_000,
        returns=(
            CallReturned(call="c1", output=raw("a.txt"), failed=True),
            CallReturned(call="c2", output=raw({"files": ["a.txt"], "n": 1.5})),
        ),
    ),
    Answer(key="5", at=AT + 3_000_000, parts=(call("c3", {}),)),
    Results(
        key="6", at=AT + 4_000_000, returns=(CallReturned(call="c3", output=raw([{"type": "text", "text": "x"}])),)
    ),
    Answer(key="7", at=AT + 5_000_000, parts=(TextPart(text="One file."),)),
]


def gist(grouped: list[Round]) -> list[Any]:
    """What must not get lost: who said what, and each call with its result."""
    found: list[Any] = []
    for one in grouped:
        if isinstance(one, Results):
            found += [(back.call, json.loads(bytes(back.output)), back.failed) for back in one.returns]
        else:
            texts = [part.text for part in one.parts if isinstance(part, TextPart | ThinkingPart)]
            found.append((one.role if isinstance(one, Prompt) else one.model, one.at, texts))
            if isinstance(one, Answer):
                found += [(made.call, made.tool, json.loads(bytes(made.input))) for made in one.calls]
    return found


def exported(grouped: list[Round], **about: str) -> bytes:
    named = {"session": "s-1", "agent": "clew", "model": "m-1", "title": "Files"} | about
    return b"".join(document(steps(grouped), **named))


def test_an_export_reads_back_as_the_same_conversation() -> None:
    done = read_document(exported(ROUNDS))
    back = rounds(conversation(events(done.drafts)))
    expected = gist(ROUNDS)
    # An answer without a model of its own has the trajectory's.
    assert gist(back) == [("m-1", *one[1:]) if one[0] == "" else one for one in expected]
    assert RuntimeAttached(runtime="clew", native="s-1") in [draft.body for draft in done.drafts]
    assert [draft.body.title for draft in done.drafts if isinstance(draft.body, SessionTitled)] == ["Files"]


def test_an_export_keeps_the_rules_of_the_format() -> None:
    image = ImagePart(blob="ab", media_type="image/png")
    unknown = Results(key="9", at=AT, returns=(CallReturned(call="stray", output=raw("x")),))
    document = json.loads(exported([*ROUNDS, Prompt(key="8", at=AT, parts=(TextPart(text="see"), image)), unknown]))
    assert document["schema_version"] == "ATIF-v1.7"
    assert document.keys() <= {"schema_version", "session_id", "agent", "steps", "final_metrics", "extra"}
    assert document["agent"] == {"name": "clew", "version": "unknown", "model_name": "m-1"}
    assert [one["step_id"] for one in document["steps"]] == list(range(1, len(document["steps"]) + 1))
    agents_only = {"model_name", "reasoning_content", "tool_calls", "metrics"}
    for step in document["steps"]:
        assert "message" in step
        assert step["source"] == "agent" or not agents_only & step.keys()
        ids = {call["tool_call_id"] for call in step.get("tool_calls", [])}
        for one in step.get("tool_calls", []):
            assert isinstance(one["arguments"], dict)
        for result in step.get("observation", {}).get("results", []):
            assert result["source_call_id"] in ids | {None}
            assert isinstance(result["content"], str)
    shown = document["steps"][-2]["message"][1]
    assert shown == {"type": "image", "source": {"media_type": "image/png", "path": "images/ab"}}
    back = rounds(conversation(events(read_document(json.dumps(document).encode()).drafts)))
    assert isinstance(back[-1], Results)
    assert [(returned.call, output_text(returned)) for returned in back[-1].returns] == [("stray", "x")]


def test_the_same_conversation_is_exported_the_same() -> None:
    assert exported(ROUNDS) == exported(ROUNDS)


def test_nothing_cannot_be_exported() -> None:
    with pytest.raises(InvalidInput, match="at least one step"):
        exported([])


@pytest.mark.parametrize(
    "step",
    [
        None, 7, "x", [], {}, {"step_id": "1"}, {"step_id": 1, "source": "robot"},
        {"step_id": 1, "source": "user", "message": 7},
        {"step_id": 1, "source": "agent", "tool_calls": [{}]}, {"step_id": 1, "source": "agent", "message": ""},
        {"step_id": 1, "source": "agent", "message": "", "tool_calls": [
            {"tool_call_id": "c", "function_name": "f", "arguments": [], "extra": {"wrapped": True}}]},
    ],
)  # fmt: skip
def test_odd_steps_are_kept_verbatim(step: Any) -> None:
    done = read_document(DOCUMENT | {"steps": [step]})
    assert (done.translated, done.opaque) == (1, 1)
    assert isinstance(done.drafts[-1].body, Opaque)
    assert json.loads(done.drafts[-1].body.raw) == step


def test_files_are_recognised_and_named() -> None:
    data = json.dumps(DOCUMENT).encode()
    assert recognises(PurePath(PATH), data)
    assert recognises(PurePath(PATH), json.dumps(DOCUMENT, indent=2).encode())
    assert not recognises(PurePath(PATH), b'{"schema_version": "1.0"}')
    assert identify(PurePath(PATH), data).native == "s-1"
    assert identify(PurePath(PATH), b"{").native == "task-1/trajectory"
