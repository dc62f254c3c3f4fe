"""Copilot session interchange: what the client would refuse is never written, and what was said comes back."""

import json
import random
from pathlib import PurePath
from typing import Any

import msgspec
from msgspec import Raw

from clew.model.conversation import conversation
from clew.model.events import (
    CallMade,
    CallReturned,
    FilePart,
    ImagePart,
    MessageAdded,
    Opaque,
    RuntimeAttached,
    SessionTitled,
    TextPart,
    ThinkingPart,
)
from clew.runtimes.adapters import pi
from clew.runtimes.adapters.interchange import RUNTIME, About, moment, pieces, plain, recognises
from clew.runtimes.rounds import Answer, Prompt, Results, Round, output_text, rounds, text_of
from support.transcripts import events, read, read_in_pieces

NAME = "copilot-interchange"
AT = 1_794_800_000_123_456
BLOBS = {"pic": b"\x89PNG....", "txt": b"from the file"}
ABOUT = About(session="s1", title="A title", cwd="/home/me/app", opened_at=AT, blob=BLOBS.__getitem__)


def export(talk: list[Round], about: About) -> bytes:
    return b"".join(pieces(talk, about))


def text(said: str) -> TextPart:
    return TextPart(text=said)


def call(id: str, tool: str = "ls", input: bytes = b"{}") -> CallMade:
    return CallMade(call=id, tool=tool, input=Raw(input))


def back(id: str, output: Any = "ok", **more: Any) -> CallReturned:
    return CallReturned(call=id, output=Raw(msgspec.json.encode(output)), **more)


TALK: list[Round] = [
    Prompt(key="1", at=AT, parts=(text("list the files\nplease"),)),
    Answer(
        key="2", at=AT + 1, model="m", parts=(text("I look."), text("Twice."), call("a", "ls", b'{"p":1}'), call("b"))
    ),
    Results(key="4", at=AT + 2, returns=(back("a", "a.txt"), back("b", "no such file", failed=True))),
    Answer(key="6", at=AT + 3, model="m", parts=(call("c", "cat"),)),
    Results(key="7", at=AT + 4, returns=(back("c", ""),)),
    Answer(key="8", at=AT + 5, model="m2", parts=(text("One file."),)),
    Answer(key="9", at=AT + 6, parts=(text("And that is all."),)),
    Prompt(key="10", at=AT + 7, parts=(text("thanks"),)),
]


def records(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.decode().split("\n") if line]


def is_blank(text: str) -> bool:
    return not text.strip(" \t\r\n\ufeff")


def refusals(data: bytes) -> list[str]:
    """What the client's own check says of a file, rule by rule."""
    header, *rest = records(data)
    found = [] if header["type"] == "session" and header["version"] == 1 and header["externalId"] else ["header"]
    ids: set[str] = set()
    segment, open_turn, calls, done = 0, None, {}, set()
    for one in rest:
        if is_blank(one["id"]) or one["id"] in ids:
            found.append(f"id {one['id']!r}")
        ids.add(one["id"])
        if one["type"] == "message":
            segment += 1
            open_turn = one["turnId"] if one["role"] == "assistant" else None
            if not one["content"] or ("model" in one and is_blank(one["model"])):
                found.append("content or model")
        elif one["type"] == "tool-call":
            if one["turnId"] != open_turn or is_blank(one["name"]):
                found.append(f"orphan {one['id']}")
            calls[one["id"]] = (segment, one["turnId"])
        else:
            if calls.get(one["toolCallId"]) != (segment, one["turnId"]) or one["toolCallId"] in done:
                found.append(f"late, unknown or second result {one['toolCallId']}")
            done.add(one["toolCallId"])
            if one["success"] == ("error" in one) or ("content" in one) == ("error" in one):
                found.append("an error, or a content")
            if "error" in one and is_blank(one["error"]["message"]):
                found.append("an empty error")
    return found


def heard(talk: list[Round]) -> list[Any]:
    """What a model sees of a conversation, without our keys."""
    told: list[Any] = []
    for one in talk:
        if isinstance(one, Prompt):
            told.append(("prompt", one.at // 1000, one.parts))
        elif isinstance(one, Answer):
            parts = [(p.call, p.tool, bytes(p.input)) if isinstance(p, CallMade) else p for p in one.parts]
            told.append(("answer", one.at // 1000, one.model, parts))
        else:
            told.append(("results", one.at // 1000, [(r.call, output_text(r), r.failed) for r in one.returns]))
    return told


def again(data: bytes) -> list[Round]:
    return rounds(conversation(events(read(NAME, data).drafts)))


def test_a_conversation_comes_back_as_it_was() -> None:
    data = export(TALK, ABOUT)
    assert refusals(data) == []
    assert heard(again(data)) == heard(TALK)


def test_what_comes_back_is_written_the_same_again() -> None:
    once = again(export(TALK, ABOUT))
    assert heard(again(export(once, ABOUT))) == heard(TALK)


def test_reading_in_pieces_is_reading_at_once() -> None:
    data = export(TALK, ABOUT)
    chance = random.Random(7)
    for _ in range(20):
        cuts = [chance.randrange(len(data)) for _ in range(40)]
        assert read_in_pieces(NAME, data, cuts) == read(NAME, data).drafts


def test_a_late_result_is_written_beside_its_call() -> None:
    talk: list[Round] = [
        Answer(key="1", at=AT, parts=(call("slow"),)),
        Prompt(key="2", at=AT, parts=(text("do not wait"),)),
        Results(key="3", at=AT, returns=(back("slow", "done"),)),
    ]
    data = export(talk, ABOUT)
    assert refusals(data) == []
    assert [record["type"] for record in records(data)[1:]] == ["message", "tool-call", "tool-result", "message"]


def test_call_ids_that_are_used_again_or_blank_become_unique() -> None:
    talk: list[Round] = [
        Answer(key="1", at=AT, parts=(call("c1"), call(" "))),
        Results(key="2", at=AT, returns=(back("c1", "first"), back(" ", "blank"))),
        Answer(key="3", at=AT, parts=(call("c1"), call("message-1"))),
        Results(key="4", at=AT, returns=(back("c1", "second"), back("message-1", "odd"))),
    ]
    data = export(talk, ABOUT)
    assert refusals(data) == []
    results = [record["content"] for record in records(data) if record["type"] == "tool-result"]
    assert results == ["first", "blank", "second", "odd"]


def test_a_failure_without_a_word_still_has_an_error() -> None:
    talk: list[Round] = [
        Answer(key="1", at=AT, parts=(call("a"),)),
        Results(key="2", at=AT, returns=(back("a", " ", failed=True),)),
    ]
    data = export(talk, ABOUT)
    assert refusals(data) == []
    assert records(data)[-1]["error"] == {"message": "failed"}


def test_a_result_without_its_call_is_told_in_words() -> None:
    data = export([Results(key="2", at=AT, returns=(back("gone", "what it said"),))], ABOUT)
    assert refusals(data) == []
    assert "what it said" in records(data)[-1]["content"][0]["text"]


def test_an_image_of_a_result_without_its_call_is_named() -> None:
    shown = (ImagePart(blob="pic", media_type="image/png", name="shot.png"),)
    data = export([Results(key="2", at=AT, returns=(back("gone", parts=shown),))], ABOUT)
    assert refusals(data) == []
    assert [record["text"] for record in records(data)[-1]["content"]][1:] == ["[image shot.png, image/png, 8 bytes]"]


def test_nameless_tools_and_models_and_thinking_are_never_written_empty() -> None:
    thought = Answer(key="1", at=AT, parts=(ThinkingPart(text="hm"),))
    talk: list[Round] = [
        thought,
        Answer(key="2", at=AT, model=" ", parts=(ThinkingPart(text="hm"), call("\ufeff", "\ufeff"))),
    ]
    data = export(talk, ABOUT)
    assert refusals(data) == []
    assert [record["type"] for record in records(data)] == ["session", "message", "tool-call"]
    assert b"hm" not in data


def test_images_are_named_and_texts_are_told() -> None:
    parts = (
        text("look"),
        ImagePart(blob="pic", media_type="image/png", name="shot.png"),
        FilePart(blob="txt", media_type="text/plain", name="n.txt"),
        FilePart(blob="gone", name="old.bin"),
    )
    said = [record["text"] for record in records(export([Prompt(key="1", at=AT, parts=parts)], ABOUT))[1]["content"]]
    assert said == [
        "look",
        "[image shot.png, image/png, 8 bytes]",
        "[file n.txt, text/plain, 13 bytes]\nfrom the file",
        "[file old.bin, no longer kept]",
    ]


def test_verbatim_json_with_line_breaks_stays_on_one_line() -> None:
    data = export([Answer(key="1", at=AT, parts=(call("a", "ls", b'{\r\n "p": "x\\ny"\n}'),))], ABOUT)
    assert len(data.rstrip(b"\n").split(b"\n")) == 3
    assert b"\r" not in data
    assert records(data)[-1]["arguments"] == {"p": "x\ny"}


def test_a_title_is_one_line_that_the_client_takes() -> None:
    for title in ("a\nb\x07 ", "x" * 300, "😀" * 90):
        header = records(export([], msgspec.structs.replace(ABOUT, title=title)))[0]
        assert 0 < len(header["title"].encode("utf-16-le")) <= 200
        assert header["title"] == header["title"].strip()
        assert header["title"].isprintable()
    assert "title" not in records(export([], msgspec.structs.replace(ABOUT, title=" \n")))[0]


def test_no_time_is_too_odd_to_be_written() -> None:
    assert [moment(at) for at in (-5, 2**63 - 1)] == ["1970-01-01T00:00:00.000Z", "9999-12-31T23:59:59.000Z"]


def test_control_characters_and_direction_marks_are_shown() -> None:
    assert plain("a\r\nb\rc\x1b[31m\u202ed\u2028e\tf") == "a\nb\\x0dc\\x1b[31m\\u202ed\\u2028e\tf"


HEADER = (
    b'{"type":"session","version":1,"externalId":"ext-1","createdAt":"2026-11-15T10:00:00.000Z","title":"Imported",'
    b'"source":{"application":"other","version":"2.1"},"workspace":{"workingDirectory":"/home/me/app","branch":"main"}}\n'
)


def test_the_header_tells_where_the_session_was_and_is_kept() -> None:
    attached, header, title = read(NAME, HEADER).drafts
    assert attached.body == RuntimeAttached(
        runtime=NAME, native="ext-1", runtime_version="2.1", cwd="/home/me/app", branch="main"
    )
    assert attached.said_at == 1_794_736_800_000_000
    assert header.body == Opaque(kind=f"{NAME}.session", raw=HEADER.decode().rstrip("\n"))
    assert title.body == SessionTitled(title="Imported")
    identity = RUNTIME.formats[0].identify(PurePath("x.jsonl"), HEADER)
    assert (identity.native, identity.project) == ("ext-1", "app")


def test_a_session_without_a_title_is_called_by_its_first_prompt_once() -> None:
    talk: list[Round] = [Prompt(key=str(i), at=AT, parts=(text(f"prompt {i}\nmore"),)) for i in range(3)]
    drafts = read(NAME, export(talk, msgspec.structs.replace(ABOUT, title=""))).drafts
    assert [draft.body.title for draft in drafts if isinstance(draft.body, SessionTitled)] == ["prompt 0"]


def test_attachments_are_kept_and_the_text_beside_them_is_said() -> None:
    line = (
        b'{"type":"message","id":"m1","timestamp":"2026-11-15T10:00:00.000Z","role":"user","content":'
        b'[{"type":"text","text":"see"},{"type":"attachment","path":"a.png","mediaType":"image/png"}]}\n'
    )
    said, attached = read(NAME, HEADER + line).drafts[3:]
    assert said.body == MessageAdded(role="user", text="see")
    assert json.loads(attached.body.raw)[0]["path"] == "a.png"


def test_a_failure_with_content_reads_as_the_client_reads_it() -> None:
    line = (
        b'{"type":"tool-result","id":"r","timestamp":"2026-11-15T10:00:00Z","toolCallId":"c","success":false,'
        b'"content":"details","error":{"message":"failed"}}\n'
    )
    (result,) = read(NAME, HEADER + line).drafts[3:]
    assert isinstance(result.body, CallReturned)
    assert (output_text(result.body), result.body.failed) == ("failed\n\ndetails", True)


def test_every_odd_record_is_kept() -> None:
    odd = [
        b'{"type":"message","id":"1","role":"user","content":"not a list"}',
        b'{"type":"message","id":"2","role":"user","content":[]}',
        b'{"type":"message","id":"3","role":"robot","content":[{"type":"text","text":"x"}]}',
        b'{"type":"tool-call","id":"4"}',
        b'{"type":"tool-result","id":"5"}',
        b'{"type":"tool-result","id":"6","toolCallId":"c","content":{"a":1}}',
        b'{"type":"reasoning","id":"7"}',
        b'{"id":"8"}',
        b"[1]",
    ]
    drafts = read(NAME, HEADER + b"\n".join(odd) + b"\n").drafts[3:]
    assert [draft.body.raw.encode() for draft in drafts if isinstance(draft.body, Opaque)] == odd


def test_only_its_own_files_are_recognised() -> None:
    path = PurePath("x.jsonl")
    assert recognises(path, export(TALK, ABOUT))
    assert not pi.recognises(path, export(TALK, ABOUT))
    for other in (
        b'{"type":"session","version":3,"id":"x","timestamp":"t","cwd":"/a"}',
        b'{"type":"session","version":2,"externalId":"x"}',
        b'{"type":"session","version":1,"externalId":7}',
        b'["externalId"]',
        b'{"externalId":',
        b"\xff\xfe{",
        b"",
    ):
        assert not recognises(path, other)


def test_texts_of_one_answer_are_told_before_its_calls() -> None:
    talk: list[Round] = [Answer(key="1", at=AT, parts=(text("first"), call("a"), text("then")))]
    (answer,) = again(export(talk, ABOUT))
    assert isinstance(answer, Answer)
    assert text_of(answer.parts) == "first\nthen"
    assert [call.call for call in answer.calls] == ["a"]
