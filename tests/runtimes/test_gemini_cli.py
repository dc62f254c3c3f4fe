"""Gemini CLI: what is read from its log and its documents, and what is written for it.

`fixtures/gemini_cli/` was made by Gemini CLI 0.61.0 against a scripted model: `resumed.jsonl` is one call, a resume in
the same minute and one in a later minute; `compacted.jsonl` was compressed at each of its two resumes.
"""

import base64
import json
import random
import uuid
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
from clew.model.source import identity
from clew.runtimes import runtime
from clew.runtimes.adapters.gemini_cli import identify, is_document, is_lines
from clew.runtimes.adapters.gemini_cli_write import resume
from clew.runtimes.adapters.gemini_parts import returned
from clew.runtimes.contract import Native, Target, raw
from clew.runtimes.rounds import Answer, Prompt, Results, Round, output_text, rounds, text_of
from support.transcripts import events, read, read_in_pieces

NAME = "gemini-cli"
FIXTURES = Path(__file__).parent / "fixtures" / "gemini_cli"
RESUMED = (FIXTURES / "resumed.jsonl").read_bytes()
COMPACTED = (FIXTURES / "compacted.jsonl").read_bytes()
TIME = "2026-11-16T10:00:00.000Z"
HEADER = {"sessionId": "s-1", "projectHash": "0", "startTime": TIME, "lastUpdated": TIME, "kind": "main"}
CONTEXT = "<session_context>\n- **Workspace Directories:**\n  - /home/me/app\n</session_context>"
IMAGE = b"\x89PNG not really"


def lines(*records: Any) -> bytes:
    return b"".join(json.dumps(record, separators=(",", ":")).encode() + b"\n" for record in records)


def said(id: str, type: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"id": id, "timestamp": TIME, "type": type, "content": content, **more}


def user(id: str, text: str) -> dict[str, Any]:
    return said(id, "user", [{"text": text}])


def gemini(id: str, text: str, **more: Any) -> dict[str, Any]:
    return said(id, "gemini", text, model="gemini-2.5-pro", **more)


def replaced(*messages: Any) -> dict[str, Any]:
    return {"$set": {"messages": list(messages)}}


def response(call: str, **answer: Any) -> dict[str, Any]:
    return {"functionResponse": {"id": call, "name": "ls", "response": answer}}


def log(*records: Any) -> list[Event]:
    return events(read(NAME, lines(HEADER, *records)).drafts)


def texts(found: list[Event]) -> list[str]:
    """A conversation in short: texts, calls and returns."""
    short = []
    for event in found:
        body = event.body
        if isinstance(body, MessageAdded):
            short.append(text_of(body.content) or "(thoughts)")
        elif isinstance(body, CallMade):
            short.append(
                f"{body.tool}{body.input!r}" if not body.input else f"{body.tool} {bytes(body.input).decode()}"
            )
        elif isinstance(body, CallReturned):
            short.append(f"= {output_text(body)}")
        elif isinstance(body, Compacted):
            short.append(f"# {body.summary}")
    return short


def of(found: list[Event], kind: type) -> list[Any]:
    return [event.body for event in found if isinstance(event.body, kind)]


# Reading --------------------------------------------------------------------------------------------------------------


def test_a_session_of_the_client_is_told_once_through_two_resumes() -> None:
    found = events(read(NAME, RESUMED).drafts)
    assert texts(conversation(found)) == [
        "first turn",
        'run_shell_command {"command":"echo hi","description":"scripted"}',
        "= Output: hi",
        "the answer",
        "second turn same minute",
        "the answer",
        "third turn later",
        "the answer",
    ]
    assert len(of(found, CallMade)) == len(of(found, CallReturned)) == 1
    assert len(of(found, MessageAdded)) == 6
    assert [body.usage for body in of(found, UsageCounted)] == [Usage(input=100, output=5)] * 4
    assert [body.title for body in of(found, SessionTitled)] == ["first turn"]
    assert [(body.native, body.cwd) for body in of(found, RuntimeAttached)] == [
        ("b1998828-2ac5-492d-b695-9da8af5ebc4c", "/home/me/app")
    ]


def test_a_compression_of_the_client_stands_for_what_was_before_it() -> None:
    found = events(read(NAME, COMPACTED).drafts)
    spoken = conversation(found)
    assert texts(spoken)[3:5] == ["plain answer one", "# <state_snapshot>facts</state_snapshot>"]
    assert len(of(found, Compacted)) == 2
    assert texts(model_view(found)) == [
        "# <state_snapshot>facts</state_snapshot>",
        "Got it. Thanks for the additional context!",
        "second",
        "plain answer two",
        "third",
        "plain answer three",
    ]


@pytest.mark.parametrize("data", [RESUMED, COMPACTED])
def test_reading_in_pieces_gives_what_reading_at_once_gives(data: bytes) -> None:
    pick = random.Random(7)
    whole = read(NAME, data).drafts
    for many in (1, 3, 30, 1000):
        assert read_in_pieces(NAME, data, [pick.randrange(len(data)) for _ in range(many)]) == whole


def test_every_record_gives_a_draft_and_unknown_ones_stay_verbatim() -> None:
    strange = [{"$set": {"lastUpdated": TIME}}, {"new": 1}, said("i", "info", "hello"), user("c", CONTEXT)]
    done = read(NAME, lines(HEADER, *strange))
    assert done.records == 5
    found = {body.kind: body.raw for body in of(events(done.drafts), Opaque)}
    assert set(found) == {f"{NAME}.{name}" for name in ("header", "set", "record", "info", "session_context")}
    assert json.loads(found[f"{NAME}.record"]) == {"new": 1}


def test_the_root_of_a_session_is_its_first_prompt() -> None:
    """The injected message has one id in all sessions, and an import's notice one of its own."""
    found = log(said("import-1", "info", "Imported"), replaced(user("same", CONTEXT)), user("p", "hi"))
    assert next(event.source for event in found if event.source and "@" not in event.source).startswith("p~")


def test_a_message_written_again_with_calls_is_one_message() -> None:
    call = {"id": "c1", "name": "ls", "args": {"path": "."}, "result": [response("c1", output="a.txt")]}
    tokens = {"input": 100, "output": 5, "cached": 60, "thoughts": 7, "tool": 1}
    spoken = gemini("g", "let me look", tokens=tokens)
    found = log(
        user("p", "list"), spoken, {**spoken, "toolCalls": [call]}, said("r", "user", [response("c1", output="a.txt")])
    )
    assert texts(conversation(found)) == ["list", "let me look", 'ls {"path":"."}', "= a.txt"]
    assert [body.usage for body in of(found, UsageCounted)] == [Usage(input=41, output=12, cache_read=60, reasoning=7)]
    assert len(of(found, CallReturned)) == 1


def test_usage_that_grew_is_told_as_the_difference() -> None:
    found = log(
        gemini("g", "a", tokens={"input": 10, "output": 1}), gemini("g", "ab", tokens={"input": 10, "output": 4})
    )
    assert [body.usage.output for body in of(found, UsageCounted)] == [1, 3]
    assert sum(body.usage.input for body in of(found, UsageCounted)) == 10
    assert texts(conversation(found)) == ["ab"]


def test_usage_is_not_counted_again_for_a_message_that_a_list_changes() -> None:
    grown = [gemini("g", "a", tokens={"output": 1}), gemini("g", "ab", tokens={"output": 4})]
    last = gemini("h", "c", tokens={"output": 2})
    found = log(*grown, last, replaced({**grown[1], "content": "masked"}, last))
    assert texts(conversation(found)) == ["masked", "c"]
    assert sum(body.usage.output for body in of(found, UsageCounted)) == 6


def test_parallel_calls_come_before_their_returns() -> None:
    calls = [
        {"id": f"c{n}", "name": "ls", "args": {}, "result": [response(f"c{n}", **answer)]}
        for n, answer in enumerate([{"output": "a"}, {"error": "no"}, {"k": 1}])
    ]
    found = conversation(log(user("p", "go"), gemini("g", "", toolCalls=calls)))
    assert [type(event.body) for event in found] == [MessageAdded, *[CallMade] * 3, *[CallReturned] * 3]
    assert [(body.failed, output_text(body)) for body in of(found, CallReturned)] == [
        (False, "a"),
        (True, "no"),
        (False, '{"k":1}'),
    ]
    assert len(rounds(found)) == 3


@pytest.mark.parametrize(
    ("output", "failed"),
    [
        ("<untrusted_context>\nOutput: out\nExit Code: 3\nProcess Group PGID: 4433\n</untrusted_context>", True),
        ("Command: x\nOutput: out\nError: (none)\nExit Code: 127\nSignal: 0\nProcess Group PGID: 1", True),
        ("Command: x\nOutput: out\nError: (none)\nExit Code: 0\nSignal: 0\nProcess Group PGID: 1", False),
        ("Output: Exit Code: 3\nmore", False),
        ("Output: \nExit Code: 3\nis what it printed", False),
    ],
)
def test_an_exit_code_other_than_zero_is_a_failure_and_still_output(output: str, failed: bool) -> None:
    call = {"id": "c", "name": "run_shell_command", "args": {}, "result": [response("c", output=output)]}
    [back] = of(log(user("p", "go"), gemini("g", "", toolCalls=[call])), CallReturned)
    assert (back.failed, output_text(back)) == (failed, output)
    target = Target(id="t", cwd="/", at=0, blob=lambda _: b"")
    [written] = returned(back, "run_shell_command", target)
    assert written["functionResponse"]["response"] == {"output": output}


SETUP = said("c0", "user", [{"text": "<session_context>today</session_context>"}])


def test_a_file_with_nothing_but_context_takes_nothing_back() -> None:
    """Each resume in another minute than the session's first writes the context into a further file of the session."""
    found = log(replaced(SETUP), HEADER, replaced(SETUP))
    assert of(found, Rewound) == []
    assert len(found) == len({event.source for event in found}) == 5


def test_a_list_of_nothing_but_context_takes_back_what_its_own_file_had() -> None:
    found = log(replaced(SETUP), user("p", "go"), replaced(SETUP), user("q", "again"))
    assert texts(conversation(found)) == ["again"]


def test_thoughts_are_thinking_and_a_running_call_has_no_return() -> None:
    thoughts = [{"subject": "Look", "description": "at it"}]
    found = conversation(
        log(gemini("g", "yes", thoughts=thoughts, toolCalls=[{"id": "c", "name": "ls", "args": None}]))
    )
    assert found[0].body.parts == (ThinkingPart(text="Look\nat it"),)
    assert texts(found) == ["(thoughts)", "yes", "ls {}"]


def test_images_of_prompts_and_of_returns_become_blobs() -> None:
    data = {"inlineData": {"mimeType": "image/png", "data": base64.b64encode(IMAGE).decode()}}
    found = log(said("p", "user", [{"text": "see"}, data]), said("r", "user", [response("c", output="ok"), data]))
    prompt, back = (event.body for event in conversation(found))
    assert [type(part) for part in prompt.parts] == [TextPart, ImagePart]
    assert back.parts == (prompt.parts[1],)


def test_rewind_takes_back_a_message_and_all_after_it() -> None:
    before = [user("a", "one"), gemini("b", "two"), user("c", "three"), said("i", "info", "x"), gemini("d", "four")]
    assert texts(conversation(log(*before, {"$rewindTo": "c"}, user("e", "five")))) == ["one", "two", "five"]
    assert texts(conversation(log(*before, {"$rewindTo": "a"}, user("e", "five")))) == ["five"]
    # The client's own rule for an id that is not there.
    assert texts(conversation(log(*before, {"$rewindTo": "gone"}, user("e", "five")))) == ["five"]


def test_a_cancelled_answer_vanishes_with_the_list_that_lacks_it() -> None:
    found = log(
        user("a", "one"), gemini("b", "two"), user("c", "three"), replaced(user("a", "one"), gemini("b", "two"))
    )
    assert texts(conversation(found)) == ["one", "two"]
    assert [body.to for body in of(found, Rewound)] == ["b"]


def test_a_list_that_says_the_same_tells_nothing_again() -> None:
    """At a resume models, tokens and thoughts are missing in the list, and arguments are spaced in another way."""
    call = {"id": "c", "name": "ls", "args": {"a": 1}, "result": [response("c", output="x")]}
    full = gemini("b", "two", thoughts=[{"subject": "s"}], tokens={"input": 9}, toolCalls=[call])
    bare = said("b", "gemini", [{"text": "two"}, {"functionCall": {"id": "c", "name": "ls", "args": {"a": 1}}}])
    back = said("b_response", "user", [response("c", output="x")])
    before = [user("a", "one"), full, said("r", "user", [response("c", output="x")])]
    again = replaced(user("ctx", CONTEXT), user("a", "one"), bare, back, before[2])
    spaced = json.dumps(again).encode() + b"\n"
    once, twice = log(*before), events(read(NAME, lines(HEADER, *before) + spaced * 2).drafts)
    assert texts(conversation(once)) == texts(conversation(twice)) == ["one", "(thoughts)", "two", 'ls {"a":1}', "= x"]
    new = [event.body for event in twice[len(once) :]]
    assert {type(body) for body in new} == {RuntimeAttached, Opaque, Rewound}
    assert all(
        event.body.model == "gemini-2.5-pro" for event in conversation(twice) if isinstance(event.body, CallMade)
    )


def test_a_wiped_list_that_is_put_back_is_the_same_conversation() -> None:
    before = [user("a", "one"), gemini("b", "two"), said("i", "info", "x"), user("c", "three"), gemini("d", "four")]
    back = [one for one in before if one["type"] != "info"]
    wiped = replaced(user("ctx", CONTEXT))
    found = log(*before, wiped, wiped, replaced(user("ctx", CONTEXT), *back), user("e", "five"))
    assert texts(conversation(found)) == ["one", "two", "three", "four", "five"]
    assert len(of(found, MessageAdded)) == 5


def test_a_masked_result_in_a_list_takes_the_place_of_the_first() -> None:
    calls = [said(f"g{n}", "gemini", [{"functionCall": {"id": f"c{n}", "name": "ls", "args": {}}}]) for n in (1, 2)]
    backs = [said(f"r{n}", "user", [response(f"c{n}", output="long")]) for n in (1, 2)]
    masked = said("r1", "user", [response("c1", output="masked")])
    found = log(calls[0], backs[0], calls[1], backs[1], replaced(calls[0], masked, calls[1], backs[1]))
    assert texts(conversation(found)) == ["ls {}", "= masked", "ls {}", "= long"]


def test_messages_in_another_order_are_told_in_that_order() -> None:
    one, two, three = user("a", "one"), gemini("b", "two"), user("c", "three")
    found = log(one, two, three, replaced(one, three, two), user("d", "four"))
    assert texts(conversation(found)) == ["one", "three", "two", "four"]


def replay(records: list[Any]) -> list[str]:
    """The texts of the messages that are left, by the client's own rules."""
    left: dict[str, str] = {}
    for one in records:
        if "$rewindTo" in one:
            ids = list(left)
            cut = ids.index(one["$rewindTo"]) if one["$rewindTo"] in ids else 0
            left = {id: left[id] for id in ids[:cut]}
        elif "$set" in one:
            left = {message["id"]: message["content"][0]["text"] for message in one["$set"]["messages"]}
        else:
            left[one["id"]] = one["content"][0]["text"]
    return list(left.values())


def history(pick: random.Random) -> list[Any]:
    """Messages that are added, written again, taken back, and replaced by lists of old ones."""
    every: dict[str, Any] = {}
    records: list[Any] = []
    for n in range(pick.randrange(3, 25)):
        act, ids = pick.random(), list(every)
        if act < 0.55 or not ids:
            every[f"m{n}"] = user(f"m{n}", f"text {n}")
            records.append(every[f"m{n}"])
        elif act < 0.65:
            id = pick.choice(ids)
            every[id] = user(id, f"{id} again {n}")
            records.append(every[id])
        elif act < 0.75:
            records.append({"$rewindTo": pick.choice([*ids, "gone"])})
        else:
            some = pick.sample(ids, pick.randrange(len(ids) + 1))
            chosen = sorted(some, key=ids.index) if pick.random() < 0.8 else some
            records.append(replaced(*(every[id] for id in (ids if pick.random() < 0.3 else chosen))))
    return records


def test_any_history_ends_in_the_messages_the_client_would_load() -> None:
    for seed in range(500):
        records = history(random.Random(seed))
        assert texts(conversation(log(*records))) == replay(records), seed


def test_the_title_is_what_the_person_typed_until_the_client_has_a_summary() -> None:
    init = {**user("p", "You are an agent\nthat writes"), "displayContent": [{"text": "/init"}]}
    found = log(user("c", "System: Please continue."), init, user("q", "more"), {"$set": {"summary": "Wrote a file"}})
    assert [body.title for body in of(found, SessionTitled)] == ["/init", "more", "Wrote a file"]


def test_a_document_is_read_like_the_log() -> None:
    messages = [user("a", "one"), gemini("b", "two"), said("i", "info", "x")]
    document = json.dumps({**HEADER, "messages": messages}, indent=2).encode()
    done = read(NAME, document, path="s.json", format="document")
    assert done.records == 4
    assert texts(conversation(events(done.drafts))) == ["one", "two"]
    longer = json.dumps({**HEADER, "messages": [*messages, user("c", "three")]}).encode()
    both = events([*done.drafts, *read(NAME, longer, path="s.json", format="document").drafts])
    assert texts(conversation(both)) == ["one", "two", "three"]
    # The same document on one line of a log.
    assert texts(conversation(events(read(NAME, longer + b"\n").drafts))) == ["one", "two", "three"]


@pytest.mark.parametrize(
    "record",
    [
        {"id": 1, "type": "user"},
        {"id": "x", "type": "user", "content": 7},
        {"id": "x", "type": "gemini", "toolCalls": [{"name": "no id"}]},
        {"id": "x", "type": "gemini", "content": [{"functionCall": "ls"}]},
        {"id": "x", "type": "user", "content": [{"inlineData": {"data": "%%"}}]},
        {"$set": {"messages": [7]}},
        {"$rewindTo": 7},
        [],
    ],
)
def test_odd_shapes_are_kept_and_harm_nothing(record: Any) -> None:
    done = read(NAME, lines(HEADER, user("a", "one"), record, gemini("b", "two")))
    assert (done.records, done.quarantined) == (4, 0)
    assert texts(conversation(events(done.drafts))) == ["one", "two"]
    assert any(json.loads(body.raw) == record for body in of(events(done.drafts), Opaque))


def test_a_part_without_a_word_for_it_is_kept_beside_the_text() -> None:
    found = log(said("a", "user", [{"text": "see"}, {"fileData": {"fileUri": "gs://x"}}]))
    assert texts(conversation(found)) == ["see"]
    assert any("gs://x" in body.raw for body in of(found, Opaque))


# Recognising ----------------------------------------------------------------------------------------------------------


def test_a_document_is_told_from_a_log_by_what_is_in_it() -> None:
    document = {**HEADER, "messages": [user("a", "one")]}
    for data in (json.dumps(document, indent=2).encode(), json.dumps(document).encode()):
        assert is_document(PurePath("x.jsonl"), data)
        assert not is_lines(PurePath("x.jsonl"), data)
    assert is_lines(PurePath("x.jsonl"), RESUMED)
    assert not is_document(PurePath("x.jsonl"), RESUMED)
    for other in (b"", b"{}", b'{"type":"user","sessionId":"s"}\n', b"\xff\xfe"):
        assert not is_lines(PurePath("x.jsonl"), other)
        assert not is_document(PurePath("x.jsonl"), other)


def test_the_header_names_the_session_and_the_folder_its_parent() -> None:
    header = json.dumps(HEADER).encode()
    root = PurePath("/home/me/.gemini/tmp/my-app/chats")
    assert (who := identify(root / "session-2026-11-16T10-00-s1.jsonl", header)).native == "s-1"
    assert (who.project, who.parent) == ("my-app", "")
    assert identify(root / "parent-1" / "agent.jsonl", header).parent == "parent-1"
    assert identify(PurePath("/tmp") / ("a" * 64) / "chats" / "session-1.json", header).project == ""
    assert identify(PurePath("other.jsonl"), b"nonsense").native == "other"


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


def written(id: str = "00000000-0000-4000-8000-000000000001") -> Native:
    writer = runtime(NAME).writer
    assert writer is not None
    return writer.write(
        ROUNDS, Target(id=id, cwd="/home/me/app", at=1_794_823_200_000_000, title="A title", blob=lambda _: IMAGE)
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
    assert [
        (call.call, call.tool, bytes(call.input)) for one in back if isinstance(one, Answer) for call in one.calls
    ] == [
        ("c1", "ls", b'{"path":"."}'),
        ("c2", "cat", b'{"input":"free text"}'),
    ]
    assert [(body.call, output_text(body), body.failed) for body in of(found, CallReturned)] == [
        ("c1", "a.txt", False),
        ("c2", "no", True),
    ]
    assert [one.at for one in back] == [round.at for round in ROUNDS]
    assert [body.title for body in of(found, SessionTitled)] == ["A title"]
    assert [body.cwd for body in of(found, RuntimeAttached)] == ["/home/me/app"]


def test_a_prompt_that_looks_injected_is_still_a_prompt() -> None:
    writer = runtime(NAME).writer
    assert writer is not None
    prompt = Prompt(key="1", at=1_000_000, parts=(TextPart(text=CONTEXT),))
    target = Target(id="00000000-0000-4000-8000-000000000001", cwd="/", at=1, blob=lambda _: IMAGE)
    assert texts(conversation(events(read(NAME, writer.write([prompt], target).files[0].data).drafts))) == [CONTEXT]


def test_a_copy_by_the_client_has_the_same_sources() -> None:
    """The client gives an import another id and a notice in front; the messages stay as they are."""
    rows = written().files[0].data.splitlines()
    header = {**json.loads(rows[0]), "sessionId": "another"}
    copy = lines(header, said("import-1", "info", "Imported"), *(json.loads(row) for row in rows[1:]))
    sources = [
        [draft.source for draft in conversation(events(read(NAME, data).drafts))] for data in (b"\n".join(rows), copy)
    ]
    assert sources[0] == sources[1]
    assert len(sources[0]) == 8
    assert all(source and "@" not in identity(source) for source in sources[0])


def test_what_is_written_is_what_the_client_resumes() -> None:
    native = written()
    rows = [json.loads(row) for row in native.files[0].data.splitlines()]
    assert native == written()
    assert native.files[0].path == f"tmp/app/chats/session-2026-11-16T10-00-{native.id}.jsonl"
    assert (native.files[1].path, native.files[1].data) == ("tmp/app/.project_root", b"/home/me/app")
    assert rows[0]["lastUpdated"] == "2026-11-16T10:00:00.000Z"
    # Results in `toolCalls` come twice after a resume, and a prompt like a command is left out.
    assert not any("toolCalls" in row for row in rows)
    assert rows[1]["content"] == [{"text": "/abs/path is broken", "thought": False}]
    assert rows[5]["content"][0] == {"text": "see"}
    # Texts side by side would be glued together.
    assert rows[4]["content"] == [{"text": "one\ntwo"}]
    assert len({row["id"] for row in rows[1:]}) == len(ROUNDS)
    assert {row["id"] for row in rows[1:]}.isdisjoint(
        json.loads(row)["id"] for row in written("00000000-0000-4000-8000-000000000002").files[0].data.splitlines()[1:]
    )


@pytest.mark.parametrize(
    ("files", "folder", "marked"),
    [
        ({"projects.json": b'{"projects":{"/home/me/app":"my-app"}}'}, "my-app", False),
        ({"projects.json": b'{"projects":{"/other/app":"app"}}'}, "app-1", True),
        ({"tmp/app/.project_root": b"/other/app"}, "app-1", True),
        ({"tmp/app/.project_root": b"/home/me/app\n"}, "app", False),
        ({"projects.json": b"not json"}, "app", True),
        ({"projects.json": b'{"projects":{"/home/me/app":"../../etc"}}'}, "app", True),
    ],
)
def test_the_folder_is_the_one_the_client_keeps_for_the_directory(
    files: dict[str, bytes], folder: str, marked: bool
) -> None:
    writer = runtime(NAME).writer
    assert writer is not None
    target = Target(id=str(uuid.UUID(int=1)), cwd="/home/me/app", at=1, blob=lambda _: b"", file=files.get)
    native = writer.write(ROUNDS[:1], target)
    assert native.files[0].path.startswith(f"tmp/{folder}/chats/session-")
    assert [one.path for one in native.files[1:]] == ([f"tmp/{folder}/.project_root"] if marked else [])


def test_a_session_of_the_client_is_resumed_by_its_id_and_ours_as_a_file() -> None:
    assert resume("s-1", "/home/me/.gemini/tmp/app/chats/session-1-s.jsonl").argv == ["gemini", "-r", "s-1"]
    assert resume("s-1", "/home/me/.gemini/clew/s-1.jsonl").argv == [
        "gemini", "--session-file", "/home/me/.gemini/clew/s-1.jsonl",
    ]  # fmt: skip
