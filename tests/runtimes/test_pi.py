"""pi: what is read from its tree of entries, and what is written for it.

`fixtures/pi/tree.jsonl` was made by the session manager of pi 0.73.1; `tree_context.json` is what that client would
have sent to a model when the file had so many bytes.
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
from clew.runtimes import runtime
from clew.runtimes.adapters.pi import State, folder, identify, recognises
from clew.runtimes.contract import Native, Reading, Target, micros, raw
from clew.runtimes.records import read_lines
from clew.runtimes.rounds import Answer, Prompt, Results, Round, output_text, rounds, text_of
from clew.service.capture.discovery import discover
from support.transcripts import events, read, read_in_pieces

FIXTURES = Path(__file__).parent / "fixtures" / "pi"
TREE = (FIXTURES / "tree.jsonl").read_bytes()
STAGES = json.loads((FIXTURES / "tree_context.json").read_bytes())
HEADER = {"type": "session", "version": 3, "id": "s-1", "timestamp": "2026-11-16T10:00:00.000Z", "cwd": "/home/me/app"}
AT = 1_794_823_200_000_000
IMAGE = b"\x89PNG not really"


def lines(*entries: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(entry).encode() + b"\n" for entry in entries)


def chain(*entries: dict[str, Any]) -> bytes:
    """A header and entries that each hang on the one before."""
    whole, parent = [HEADER], None
    for i, entry in enumerate(entries):
        whole.append({"id": f"e{i}", "parentId": parent, "timestamp": "2026-11-16T10:00:00.000Z", **entry})
        parent = f"e{i}"
    return lines(*whole)


def said(role: str, content: Any, **about: Any) -> dict[str, Any]:
    return {"type": "message", "message": {"role": role, "content": content, **about}}


def bodies(data: bytes, kind: type) -> list[Any]:
    return [draft.body for draft in read("pi", data).drafts if isinstance(draft.body, kind)]


def seen(data: bytes) -> list[list[str]]:
    """What a model sees of the session, in the form of `tree_context.json`."""
    found = []
    for one in rounds(model_view(events(read("pi", data).drafts))):
        if isinstance(one, Results):
            found += [["toolResult", back.call, output_text(back)] for back in one.returns]
        elif isinstance(one, Answer):
            found.append(["assistant", *(call.call for call in one.calls), text_of(one.parts)])
        elif any(part != TextPart(text="") for part in one.parts):  # Such a prompt is not written for any program.
            found.append(["user", text_of(one.parts)])
    return found


def unwrapped(message: list[str]) -> list[str]:
    """A message of the program without the words it puts around a compaction, and without tags."""
    text = message[-1].replace("<summary>\n", "").replace("\n</summary>", "").replace("</summary>", "")
    compacted = "The conversation history before this point was compacted into the following summary:\n\n"
    return [*message[:-1], text.removeprefix(compacted)]


@pytest.mark.parametrize("stage", STAGES, ids=[stage["name"] for stage in STAGES])
def test_a_model_sees_what_the_program_would_have_sent(stage: dict[str, Any]) -> None:
    sent = [unwrapped(message) for message in stage["messages"] if message[-1] != "hidden context"]
    assert seen(TREE[: stage["bytes"]]) == sent


def test_every_entry_of_the_tree_is_kept() -> None:
    done = read("pi", TREE)
    assert (done.translated, done.opaque, done.quarantined) == (26, 7, 0)
    assert sorted(draft.body.kind for draft in done.drafts if isinstance(draft.body, Opaque)) == [
        "pi.bashExecution",
        "pi.custom",
        "pi.custom_message",
        "pi.label",
        "pi.model_change",
        "pi.model_change",
        "pi.thinking_level_change",
    ]


def test_pieces_give_what_the_whole_gives() -> None:
    for seed in range(20):
        cuts = random.Random(seed).choices(range(len(TREE)), k=50)
        assert read_in_pieces("pi", TREE, cuts) == read("pi", TREE).drafts
    every = list(range(0, len(TREE), 9))
    assert read_in_pieces("pi", TREE, every) == read("pi", TREE).drafts


def test_sources_are_the_entries_ids() -> None:
    drafts = read("pi", TREE).drafts
    sources = [draft.source for draft in drafts]
    assert len(set(sources)) == len(sources)
    ids = {json.loads(line)["id"] for line in TREE.splitlines()}
    assert {str(source).split("/")[0] for source in sources} == ids


def test_an_answer_becomes_its_thoughts_texts_and_calls_with_its_usage_once() -> None:
    answer = [draft.body for draft in read("pi", TREE).drafts if getattr(draft.body, "message", "") == "resp_1"]
    usage = Usage(input=10, output=2, cache_read=7, cache_write=3, cost_micros=1500)
    thought = (ThinkingPart(text="hmm", signature="sig"), TextPart(text="Looking."))
    about: dict[str, Any] = {"message": "resp_1", "model": "m-1"}
    assert answer == [
        MessageAdded(role="assistant", parts=thought, usage=usage, **about),
        CallMade(call="c1", tool="read", input=raw({"path": "a.py"}), **about),
        CallMade(call="c2", tool="bash", input=raw({"command": "ls"}), **about),
    ]


def test_an_answer_with_texts_between_its_calls_keeps_the_order_and_counts_once() -> None:
    calls = [{"type": "toolCall", "id": f"c{i}", "name": "bash", "arguments": {}} for i in range(2)]
    content = [calls[0], {"type": "text", "text": "between"}, calls[1], {"type": "text", "text": "after"}]
    made = [draft.body for draft in read("pi", chain(said("assistant", content, usage={"output": 4}))).drafts[1:]]
    assert [getattr(body, "call", "") or getattr(body, "text", "") for body in made] == ["c0", "between", "c1", "after"]
    assert [getattr(body, "usage", None) for body in made] == [Usage(output=4), None, None, None]


def test_answers_without_an_id_stay_apart() -> None:
    assert seen(chain(said("assistant", "one"), said("assistant", "two"))) == [
        ["assistant", "one"],
        ["assistant", "two"],
    ]


def test_all_that_was_used_is_counted() -> None:
    counted = [draft.body.usage for draft in read("pi", TREE).drafts if getattr(draft.body, "usage", None)]
    answers = [json.loads(line) for line in TREE.splitlines() if b'"role":"assistant"' in line]
    assert len(counted) == len(answers)
    assert sum(usage.cost_micros for usage in counted) == 1500 * len(answers)


def test_a_result_with_an_image_keeps_both() -> None:
    image = base64.b64encode(IMAGE).decode()
    content = [{"type": "text", "text": "seen"}, {"type": "image", "data": image, "mimeType": "image/png"}]
    (back,) = bodies(chain(said("toolResult", content, toolCallId="c1", toolName="read", isError=False)), CallReturned)
    assert output_text(back) == "seen"
    assert [part.media_type for part in back.parts if isinstance(part, ImagePart)] == ["image/png"]
    (several,) = bodies(chain(said("toolResult", [content[0], content[0]], toolCallId="c1")), CallReturned)
    assert output_text(several) == "seen\nseen"
    (failed,) = bodies(chain(said("toolResult", [], toolCallId="c1", isError=True)), CallReturned)
    assert (failed.failed, output_text(failed)) == (True, "")


def test_a_rewind_goes_to_the_end_of_an_entry_that_said_several_things() -> None:
    calls = [{"type": "toolCall", "id": f"c{i}", "name": "bash", "arguments": {}} for i in range(3)]
    data = chain(said("user", "go"), said("assistant", calls), said("user", "no"))
    data += lines({"id": "x", "parentId": "e1", **said("user", "again")})
    assert bodies(data, Rewound) == [Rewound(to="e1/2")]
    assert seen(data) == [["user", "go"], ["assistant", "c0", "c1", "c2", ""], ["user", "again"]]


def test_what_is_remembered_between_entries_stays_small() -> None:
    calls = [{"type": "toolCall", "id": f"c{i}", "name": "bash", "arguments": {}} for i in range(2)]
    reading = Reading("pi", "s-1", State())
    story = [one for _ in range(700) for one in ({"type": "label"}, {"type": "label"}, said("assistant", calls))]
    read_lines(runtime("pi").formats[0], reading, chain(*story))
    assert (len(reading.state.last), len(reading.state.next), reading.state.silent) == (500, 500, [])
    read_lines(runtime("pi").formats[0], reading, chain(*[{"type": "label"}] * 700))
    assert len(reading.state.silent) == 501


def test_an_entry_whose_parent_was_lost_goes_on_where_we_are() -> None:
    data = chain(said("user", "one")) + lines({"id": "x", "parentId": "gone", **said("user", "two")})
    assert seen(data) == [["user", "one"], ["user", "two"]]


def test_a_file_that_the_program_wrote_again_below_itself_is_read_once() -> None:
    once = chain(said("user", "one"))
    data = once + once + lines({"id": "x", "parentId": "e0", **said("user", "two")})
    assert bodies(data, Rewound) == []
    assert seen(data) == [["user", "one"], ["user", "two"]]


def test_what_a_compaction_keeps_may_begin_with_an_entry_that_says_nothing() -> None:
    entries = [said("user", "old"), {"type": "label", "label": "x"}, {"type": "custom"}, said("user", "kept")]
    data = chain(*entries, {"type": "compaction", "summary": "short", "firstKeptEntryId": "e1"}, said("user", "new"))
    assert bodies(data, Compacted) == [Compacted(summary="short", keep="e3")]
    assert seen(data) == [["user", "short"], ["user", "kept"], ["user", "new"]]


def test_a_title_is_the_first_line_of_the_first_prompt_until_the_person_gives_one() -> None:
    titles = [body.title for body in bodies(TREE, SessionTitled)]
    assert titles == ["Find the bug", "Parser bug"]
    named = chain({"type": "session_info", "name": " Mine "}, said("user", "go"))
    assert bodies(named, SessionTitled) == [SessionTitled(title="Mine")]
    assert bodies(chain(said("user", "x" * 100)), SessionTitled) == [SessionTitled(title="x" * 7 + "…")]
    ran = {"type": "message", "message": {"role": "bashExecution", "command": "ls", "output": "a"}}
    assert bodies(chain(ran), SessionTitled) == []


def test_a_header_says_where_the_session_runs_and_what_it_was_forked_from() -> None:
    forked = {**HEADER, "parentSession": "/home/me/.pi/agent/sessions/--home-me-app--/old.jsonl"}
    attached, parent = (draft for draft in read("pi", lines(forked)).drafts)
    assert attached.body == RuntimeAttached(runtime="pi", native="s-1", cwd="/home/me/app")
    assert attached.said_at == micros("2026-11-16T10:00:00Z")
    assert isinstance(parent.body, Opaque)
    assert parent.body.kind == "pi.parent_session"
    assert json.loads(parent.body.raw) == forked


def edit(target: str, replacement: Any) -> dict[str, Any]:
    return {"type": "context_edit", "targetId": target, "replacement": replacement}


def test_an_edited_entry_is_what_the_program_would_send_of_it() -> None:
    call = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {}}
    result = {"toolCallId": "c1", "isError": False}
    asked = [said("user", "one"), said("assistant", [{"type": "text", "text": "look"}, call])]
    answered = [said("toolResult", [{"type": "text", "text": "a.txt"}], **result), said("assistant", "done")]
    whole = [*asked, *answered, said("user", "two")]
    assert seen(chain(*whole, edit("e0", None)))[0] == ["assistant", "c1", "look"]
    assert seen(chain(*whole, edit("e0", "uno")))[0] == ["user", "uno"]
    assert ["toolResult", "c1", "cut"] in seen(chain(*whole, edit("e2", "cut")))
    assert seen(chain(*whole, edit("e1", "instead")))[1] == ["assistant", "instead"]
    assert seen(chain(*whole, edit("e0", "uno"), edit("e0", "eins")))[0] == ["user", "eins"], "the latest edit wins"
    assert seen(chain(*whole, edit("e9", "nothing"))) == seen(chain(*whole)), "an edit of an unknown entry"


def test_usage_apart_from_answers_is_counted() -> None:
    tokens = {"input": 0, "output": 0, "cacheRead": 50_000, "cacheWrite": 0, "cost": {"total": 0.015}}
    warmed = {"type": "usage", "kind": "cache_warm", "provider": "anthropic", "model": "m", "usage": tokens}
    compacted = {"type": "compaction", "summary": "s", "firstKeptEntryId": "e1", "usage": tokens}
    counted = bodies(chain(said("user", "one"), warmed, compacted), UsageCounted)
    assert [one.usage for one in counted] == [Usage(cache_read=50_000, cost_micros=15_000)] * 2
    assert len({one.message for one in counted}) == 2


def test_its_folders_are_those_that_the_environment_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = chain(said("user", "one"))
    for variable, path in (("PI_CODING_AGENT_DIR", "agent/sessions/--w--"), ("PI_CODING_AGENT_SESSION_DIR", "own")):
        (tmp_path / path).mkdir(parents=True)
        (tmp_path / path / "s.jsonl").write_bytes(data)
        monkeypatch.setenv(variable, str(tmp_path / path.removesuffix("/sessions/--w--")))
    found = [Path(file.path).relative_to(tmp_path) for file in discover(runtime_name="pi").session_files]
    assert found == [Path("agent/sessions/--w--/s.jsonl"), Path("own/s.jsonl")]


def test_commands_of_the_person_are_told_as_the_program_tells_them() -> None:
    def ran(**about: Any) -> str:
        entry = {"type": "message", "message": {"role": "bashExecution", "command": "make", **about}}
        return "".join(body.text for body in bodies(chain(entry), MessageAdded))

    assert ran(output="ok", exitCode=0) == "Ran `make`\n```\nok\n```"
    assert ran(output="", exitCode=2) == "Ran `make`\n(no output)\n\nCommand exited with code 2"
    assert ran(output="", cancelled=True, exitCode=1) == "Ran `make`\n(no output)\n\n(command cancelled)"
    cut = ran(output="o", truncated=True, fullOutputPath="/tmp/o")
    assert cut.endswith("\n\n[Output truncated. Full output: /tmp/o]")
    assert ran(output="secret", excludeFromContext=True) == ""


def test_an_answer_that_broke_off_says_so() -> None:
    data = chain(said("assistant", [], stopReason="error", errorMessage="overloaded", usage={"input": 5}, model="m"))
    assert bodies(data, TurnEnded) == [TurnEnded(stop_reason="error: overloaded", usage=Usage(input=5), model="m")]
    data = chain(said("assistant", [{"type": "text", "text": "half"}], stopReason="aborted", usage={"input": 5}))
    assert [body.usage for body in bodies(data, MessageAdded)] == [Usage(input=5)]
    assert bodies(data, TurnEnded) == [TurnEnded(stop_reason="aborted")]


def test_a_file_of_version_one_has_places_for_sources() -> None:
    call = {"type": "toolCall", "id": "c", "name": "ls"}
    old = lines(
        {"type": "session", "id": "s-1", "timestamp": "2025-11-20T23:33:50.805Z", "cwd": "/home/me/app"},
        {**said("user", [{"type": "text", "text": "go"}]), "timestamp": "2025-11-20T23:33:50.805Z"},
        said("assistant", [{"type": "text", "text": "a"}, call], usage={"cost": 2}),
        said("toolResult", [{"type": "text", "text": "x"}], toolCallId="c"),
        said("assistant", "b"),
    )
    drafts = read("pi", old).drafts
    places = [old.index(line) for line in old.splitlines()]
    assert [draft.source for draft in drafts] == [
        "s-1",
        f"@{places[1]}",
        f"@{places[1]}/title",
        f"@{places[2]}",
        f"@{places[2]}/1",
        f"@{places[3]}",
        f"@{places[4]}",
    ]
    assert seen(old) == [["user", "go"], ["assistant", "c", "a"], ["toolResult", "c", "x"], ["assistant", "b"]]
    assert drafts[3].body.usage == Usage(cost_micros=2_000_000)  # type: ignore[union-attr]
    assert bodies(old, Rewound) == []
    # A place is no name for an answer outside of its session; the pieces of one have the same.
    answers = [getattr(draft.body, "message", "") for draft in drafts[3:]]
    assert answers == [f"s-1/@{places[2]}", f"s-1/@{places[2]}", "", f"s-1/@{places[4]}"]
    assert read_in_pieces("pi", old, [places[2], places[3], places[4]]) == drafts


@pytest.mark.parametrize(
    "entry",
    [
        {"type": "message"},
        {"type": "message", "message": {"role": "user", "content": 5}},
        {"type": "message", "message": {"role": "nobody", "content": "x"}},
        {"type": "message", "message": {"role": "toolResult", "content": []}},
        {"type": "message", "message": {"role": "assistant", "usage": {"input": 1e300}}},
        {"type": "message", "message": {"role": "assistant", "usage": {"cost": {"total": -1}}}},
        said("user", [{"type": "image", "data": "not base64!"}]),
        {"type": "compaction", "summary": {"a": 1}},
        {"type": "session_info", "name": ""},
        {"type": 7},
        {},
    ],
)
def test_an_unexpected_entry_is_kept_and_the_next_one_is_read(entry: dict[str, Any]) -> None:
    data = chain(said("user", "before"), entry, said("user", "after"))
    done = read("pi", data)
    assert done.quarantined == 0
    assert [draft for draft in done.drafts if isinstance(draft.body, Opaque)]
    assert seen(data) == [["user", "before"], ["user", "after"]]


def test_its_files_are_recognised_by_their_header() -> None:
    name = PurePath("sessions/--home-me-app--/2026-11-16T10-00-00-000Z_s-1.jsonl")
    assert recognises(name, TREE[:500])
    assert recognises(name, b'{"type": "session", "id": "x", "cwd": "/"}')
    assert not recognises(name, b'{"type":"session","version":1,"externalId":"x"}\n{"cwd":1}')
    assert not recognises(PurePath("x.json"), TREE)
    found = identify(name, TREE.splitlines()[0])
    assert (found.native, found.project) == (json.loads(TREE.splitlines()[0])["id"], "app")


# Writing --------------------------------------------------------------------------------------------------------------

ID = "7c1c9e5e-0c63-4e0c-9a53-111111111111"
ROUNDS: list[Round] = [
    Prompt(key="1", at=AT, parts=(TextPart(text="look"), ImagePart(blob="b", media_type="image/png"))),
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
    writer = runtime("pi").writer
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
            images = [part.media_type for part in one.parts if isinstance(part, ImagePart)]
            found.append((type(one).__name__, one.at, text_of(one.parts), calls, images))
    return found


def test_what_is_written_is_read_back_exactly_once() -> None:
    done = read("pi", written(ROUNDS).files[0].data)
    assert done.quarantined == 0
    assert told(done.drafts) == [
        ("Prompt", AT, "look", [], ["image/png"]),
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


def test_a_written_session_is_in_the_folder_of_its_directory() -> None:
    native = written(ROUNDS)
    assert [file.path for file in native.files] == [
        f"sessions/--home-me-app--/2026-11-16T10-00-00-000Z_{ID}.jsonl",
    ]
    assert folder("C:\\work\\app") == "--C--work-app--"
    assert native == written(ROUNDS)


def test_a_written_session_has_what_the_program_needs() -> None:
    header, info, *entries = [json.loads(line) for line in written(ROUNDS, "Files").files[0].data.splitlines()]
    assert header == {**HEADER, "id": ID}
    assert (info["type"], info["name"], info["parentId"]) == ("session_info", "Files", None)
    assert [entry["parentId"] for entry in entries] == [info["id"], *(entry["id"] for entry in entries[:-1])]
    answer = entries[1]["message"]
    assert (answer["stopReason"], answer["model"], answer["usage"]["cost"]["total"]) == ("toolUse", "m-9", 0)
    assert [entry["message"].get("toolName") for entry in entries[2:4]] == ["bash", "foreign"]
    assert entries[4]["message"]["stopReason"] == "stop"
    assert entries[0]["message"]["timestamp"] == AT // 1000
    titles = bodies(written(ROUNDS, "Files").files[0].data, SessionTitled)
    assert titles == [SessionTitled(title="Files")]


def test_it_is_resumed_by_the_path_of_its_file() -> None:
    writer = runtime("pi").writer
    assert writer
    assert writer.resume(ID, "/home/me/x.jsonl").argv == ["pi", "--session", "/home/me/x.jsonl"]
