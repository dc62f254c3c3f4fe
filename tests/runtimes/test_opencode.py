"""OpenCode: what is read from its databases and exports, and what is written for it.

`fixtures/opencode/rows.json` holds the rows that OpenCode 1.18.33 wrote in one session with calls, a subagent, a
picture, a compaction and a revert; the two exports are what the same client printed of it.
"""

import base64
import json
import sqlite3
import uuid
from pathlib import Path, PurePath
from typing import Any

import msgspec
import pytest
from blake3 import blake3
from msgspec import Raw

from clew.model.conversation import conversation
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
from clew.model.source import identity
from clew.runtimes import runtime
from clew.runtimes.adapters.opencode_rows import _number
from clew.runtimes.contract import Identity, Native, Reading, Target
from clew.runtimes.records import read_records
from clew.runtimes.rounds import Answer, Prompt, Results, Round, rounds
from support.opencode import database, read, rows_of, seen, shown, text, told, translate
from support.transcripts import events, formats

FIXTURES = Path(__file__).parent / "fixtures" / "opencode"
ROWS = json.loads((FIXTURES / "rows.json").read_bytes())
EXPORT = (FIXTURES / "export.json").read_bytes()
SUBAGENT_EXPORT = (FIXTURES / "export_subagent.json").read_bytes()
MAIN, SUBAGENT = "ses_e1c330b05ffev3HYvaGhb67o1R", "ses_e1c276a7fffeFLPq7hh0HUuXPX"
PNG = b"\x89PNG\r\n\x1a\nnot really"
PNG_URL = "data:image/png;base64," + base64.b64encode(PNG).decode()
NOW = 1_794_800_000_000


def session(*messages: tuple[dict[str, Any], list[dict[str, Any]]], **columns: Any) -> sqlite3.Connection:
    """A session `ses_1` of these messages and their parts; the ids are msg_1, prt_1_1 ..."""
    row = {
        "id": "ses_1", "project_id": "global", "parent_id": None, "slug": "s", "directory": "/home/me/app",
        "title": "New session - 2026-11-16T10:00:00.000Z", "version": "1.18.33", "revert": None, "cost": 0.0,
        "tokens_input": 0, "tokens_output": 0, "tokens_reasoning": 0, "tokens_cache_read": 0, "tokens_cache_write": 0,
        "time_created": NOW, "time_updated": NOW, **columns,
    }  # fmt: skip
    said: list[dict[str, Any]] = []
    parts: list[dict[str, Any]] = []
    for i, (data, pieces) in enumerate(messages, 1):
        times = {"session_id": "ses_1", "time_created": NOW + i, "time_updated": NOW + i}
        said.append({"id": f"msg_{i}", **times, "data": text(data)})
        parts += [
            {"id": f"prt_{i}_{j}", "message_id": f"msg_{i}", **times, "data": text(piece)}
            for j, piece in enumerate(pieces, 1)
        ]
    unused = {"id": None, "message_id": None, "session_id": None, "time_created": 0, "time_updated": 0, "data": None}
    connection = database({"session": [row], "message": [*said, unused], "part": [*parts, unused]})
    connection.execute("DELETE FROM message WHERE id IS NULL")
    connection.execute("DELETE FROM part WHERE id IS NULL")
    return connection


def user(*parts: dict[str, Any], at: int = NOW) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    return {"role": "user", "time": {"created": at}}, list(parts)


def answer(*parts: dict[str, Any], ended: bool = True, **more: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    time = {"created": NOW} | ({"completed": NOW + 5} if ended else {})
    return {"role": "assistant", "modelID": "m", "time": time} | ({"finish": "stop"} if ended else {}) | more, [*parts]


def says(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def tool(status: str, **state: Any) -> dict[str, Any]:
    return {
        "type": "tool",
        "tool": "bash",
        "callID": "c1",
        "state": {"status": status, "input": {"command": "ls"}, **state},
    }


# A real session -------------------------------------------------------------------------------------------------------


def test_a_real_session_is_read_as_it_went() -> None:
    drafts = read(database(ROWS), MAIN)

    assert shown(drafts) == [
        ("user", '"first turn"'),
        ("bash", {"command": "ls", "description": "list"}),
        ("returned", "a.txt\n"),
        ("read", {"filePath": "/home/me/app/missing.txt"}),
        ("failed", "File not found: /home/me/app/missing.txt"),
        ("write", {"filePath": "/home/me/app/b.txt", "content": "two\n"}),
        ("returned", "Wrote file successfully."),
        ("assistant", "All done\\nΩ."),
        ("user", '"delegate"'),
        ("task", {"description": "look", "prompt": "subagent please look", "subagent_type": "general"}),
        ("returned", f'<task id="{SUBAGENT}" state="completed">\n<task_result>\nsub answer\n</task_result>\n</task>'),
        ("assistant", "delegated"),
        ("user", "see the picture"),
        ("user", ["ImagePart"]),
        ("assistant", "SCRIPTED-ANSWER"),
        ("compacted", "seen"),
        ("user", "after compaction"),
        ("assistant", "yes after"),
    ]
    first = drafts[0]
    assert first.body == RuntimeAttached(runtime="opencode", native=MAIN, runtime_version="1.18.33", cwd="/home/me/app")
    assert first.said_at == 1_794_823_222_522_000
    assert drafts[1].body == SessionTitled(title="All done\\nΩ.")
    assert drafts[-1].body == Rewound(to="prt_1e3dd5e5a001JGb8O6K9wmNW7f")


def test_every_record_gives_a_draft_and_every_source_is_its_own() -> None:
    connection = database(ROWS)
    records = list(rows_of("rows").records(connection, MAIN))
    chosen = formats("opencode")["rows"]
    reading = Reading("opencode", MAIN, chosen.state())

    given = [chosen.read(record, key, reading) for key, record in records]

    assert all(given)
    sources = [draft.source for drafts in given for draft in drafts]
    assert len(set(sources)) == len(sources)
    assert len(records) == 1 + 16 + 40 + 1


def test_what_is_assembled_is_what_the_client_exports() -> None:
    connection = database(ROWS)
    rows = rows_of("rows")

    assert rows.assemble(MAIN, list(rows.records(connection, MAIN))) == EXPORT
    assert rows.assemble(SUBAGENT, list(rows.records(connection, SUBAGENT))) == SUBAGENT_EXPORT


def test_an_export_reads_like_the_rows_it_was_made_from() -> None:
    split = formats("opencode")["export"].split
    assert split is not None

    exported, stored = translate(split(EXPORT), format="export"), read(database(ROWS), MAIN)

    assert [identity(draft.source) for draft in exported] == [identity(draft.source) for draft in stored]
    spoken = [draft for draft in exported if not isinstance(draft.body, Opaque)]
    assert spoken == [draft for draft in stored if not isinstance(draft.body, Opaque)]


def test_reading_record_by_record_with_the_state_stored_between_gives_the_same() -> None:
    connection = database(ROWS)
    chosen = formats("opencode")["rows"]
    state = msgspec.json.encode(chosen.state())
    drafts: list[Draft] = []
    for record in rows_of("rows").records(connection, MAIN):
        reading = Reading("opencode", MAIN, msgspec.json.decode(state, type=chosen.state))
        drafts += read_records(chosen, reading, [record]).drafts
        state = msgspec.json.encode(reading.state)

    assert drafts == read(connection, MAIN)


def test_no_table_is_read_but_those_of_the_conversation() -> None:
    connection = database({**ROWS, "credential": [{"id": 1, "value": "secret"}], "account": [{"id": 1}]})
    seen: set[str] = set()

    def watch(action: int, table: str | None, *_: Any) -> int:
        if action == sqlite3.SQLITE_READ and table:
            seen.add(table)
        return sqlite3.SQLITE_OK

    connection.set_authorizer(watch)
    for found, _ in rows_of("rows").sessions(connection):
        list(rows_of("rows").records(connection, found.native))

    assert seen - {"sqlite_master"} == {"session", "message", "part"}


# Which sessions there are ---------------------------------------------------------------------------------------------


def test_a_subagents_session_names_its_parent() -> None:
    found = [one for one, _ in rows_of("rows").sessions(database(ROWS))]

    assert found == [
        Identity(native=MAIN, project="app"),
        Identity(native=SUBAGENT, project="app", agent="general", parent=MAIN),
    ]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE part SET time_updated = time_updated + 10000000 WHERE id = 'prt_1e3ccf588001wPUW9pSS29M7Ll'",
        "DELETE FROM part WHERE id = 'prt_1e3ccf588001wPUW9pSS29M7Ll'",
        "DELETE FROM message WHERE id = 'msg_1e3ccf577001yriWY2kpnS6wO1'",
        f"UPDATE session SET title = 'another' WHERE id = '{MAIN}'",
        f"UPDATE session SET revert = NULL WHERE id = '{MAIN}'",
    ],
)
def test_a_stamp_changes_with_its_session_and_with_no_other(change: str) -> None:
    connection = database(ROWS)
    before = {one.native: stamp for one, stamp in rows_of("rows").sessions(connection)}

    connection.execute(change)

    after = {one.native: stamp for one, stamp in rows_of("rows").sessions(connection)}
    assert after[MAIN] != before[MAIN]
    assert after[SUBAGENT] == before[SUBAGENT]


def test_a_database_of_something_else_has_no_sessions() -> None:
    connection = database({"notes": [{"id": 1}]})

    assert list(rows_of("rows").sessions(connection)) == []
    assert list(rows_of("go-rows").sessions(connection)) == []


@pytest.mark.parametrize(
    ("path", "head", "format"),
    [
        ("opencode.db", b"SQLite format 3\0", "rows"),
        ("opencode-dev.db", b"SQLite format 3\0", "rows"),
        ("app/.opencode/opencode.db", b"SQLite format 3\0", "go-rows"),
        ("copy_of_opencode.db", b"SQLite format 3\0 CREATE TABLE goose_db_version", "go-rows"),
        ("anything.json", EXPORT[:2000], "export"),
        ("opencode.db", b"no database", None),
        ("state.db", b"SQLite format 3\0", None),
        ("package.json", b'{"info": {"id": "x"}}', None),
    ],
)
def test_a_file_is_recognised_by_one_format(path: str, head: bytes, format: str | None) -> None:
    found = [one.name for one in runtime("opencode").formats if one.recognises(PurePath(path), head)]

    assert found == ([format] if format else [])


def test_an_export_is_identified_by_its_beginning() -> None:
    identify = formats("opencode")["export"].identify

    assert identify(PurePath("x.json"), EXPORT[:600]) == Identity(native=MAIN, project="app")
    assert identify(PurePath("x.json"), SUBAGENT_EXPORT[:600]).parent == MAIN
    assert identify(PurePath("x.json"), b"{") == Identity(native="x")


# Rows that change -----------------------------------------------------------------------------------------------------


def test_an_answer_is_told_when_it_has_ended_and_in_its_place() -> None:
    half = answer(says("Let me", time={"start": NOW}), tool("running", time={"start": NOW}), ended=False)
    whole = answer(says("Let me look"), tool("completed", output="a", time={"start": NOW, "end": NOW + 1}))

    early, late = read(session(user(says("go")), half)), read(session(user(says("go")), whole))

    assert shown(early) == [("user", "go"), ("bash", {"command": "ls"})]
    assert isinstance(told(early)["prt_2_1"], Opaque)
    assert shown(early + late) == [
        ("user", "go"),
        ("assistant", "Let me look"),
        ("bash", {"command": "ls"}),
        ("returned", "a"),
    ]


def test_what_is_still_being_written_makes_no_revisions() -> None:
    def growing(words: str) -> list[Draft]:
        return read(session(user(says("go")), answer(says(words, time={"start": NOW}), ended=False)))

    assert growing("L") == growing("Let me")


@pytest.mark.parametrize(
    "rows",
    [
        [answer(says("cut off"), ended=False, tokens={"input": 1}), user(says("again"))],
        [answer(says("cut off", time={"start": NOW, "end": NOW + 1}), ended=False)],
    ],
)
def test_an_answer_that_never_ended_is_told_when_its_text_is_whole_or_something_follows(rows: Any) -> None:
    drafts = read(session(*rows))

    assert ("assistant", "cut off") in shown(drafts)
    assert not any(isinstance(draft.body, UsageCounted) for draft in drafts)


def test_usage_is_counted_once_per_answer_with_reasoning_in_the_output() -> None:
    tokens = {"input": 10, "output": 5, "reasoning": 3, "cache": {"read": 100, "write": 7}}
    running = read(session(answer(says("x"), ended=False, tokens=tokens, cost=0.5)))
    ended = read(session(answer(says("x"), tokens=tokens, cost=0.5)))

    counted = [draft.body for draft in events(running + ended + ended) if isinstance(draft.body, UsageCounted)]

    usage = Usage(input=10, output=8, cache_read=100, cache_write=7, reasoning=3, cost_micros=500_000)
    assert counted == [UsageCounted(usage=usage, model="m", message="msg_1")]


@pytest.mark.parametrize(
    ("version", "more", "output"),
    [
        ("1.3.15", {}, 50),
        ("0.15.3", {}, 50),
        ("1.3.16", {}, 80),
        ("1.10.0", {}, 80),
        ("local", {}, 80),
        ("0.0.0-dev-202611161000", {}, 80),
        ("", {}, 80),
        # A sum tells it, whichever version began the session.
        ("1.3.15", {"total": 167 + 30}, 80),
        ("1.18.33", {"total": 167}, 50),
        ("1.3.15", {"total": 3}, 50),
        ("1.3.15", {"total": None}, 50),
        # More than all cannot be a part of it.
        ("1.3.15", {"reasoning": 51}, 101),
    ],
)
def test_reasoning_was_a_part_of_the_output_until_1_3_15(version: str, more: dict[str, Any], output: int) -> None:
    tokens = {"input": 10, "output": 50, "reasoning": 30, "cache": {"read": 100, "write": 7}} | more
    [counted] = [
        draft.body.usage
        for draft in read(session(answer(says("x"), tokens=tokens), version=version))
        if isinstance(draft.body, UsageCounted)
    ]
    assert (counted.output, counted.reasoning) == (output, tokens["reasoning"])


def test_an_error_of_an_answer_is_kept_beside_its_usage() -> None:
    found = told(read(session(answer(says("x"), tokens={"input": 1}, error={"name": "APIError"}))))

    assert isinstance(found["msg_1"], UsageCounted)
    error = found["msg_1/1"]
    assert isinstance(error, Opaque)
    assert error.kind == "opencode.error"
    assert "APIError" in error.raw


# Calls ----------------------------------------------------------------------------------------------------------------


def test_a_call_without_its_input_yet_is_not_told() -> None:
    drafts = read(session(answer(tool("pending"), ended=False)))

    assert list(told(drafts)) == ["ses_1", "msg_1", "prt_1_1/call"]
    assert shown(drafts) == []


def test_a_call_and_its_return_have_sources_and_times_of_their_own() -> None:
    drafts = read(session(answer(tool("completed", output="a", time={"start": NOW + 1, "end": NOW + 2}))))

    made, back = drafts[-2:]
    assert (identity(made.source), made.said_at) == ("prt_1_1/call", (NOW + 1) * 1000)
    assert made.body == CallMade(call="c1", tool="bash", input=Raw(b'{"command": "ls"}'), message="msg_1", model="m")
    assert (identity(back.source), back.said_at) == ("prt_1_1/return", (NOW + 2) * 1000)
    assert back.body == CallReturned(call="c1", output=Raw(b'"a"'))


def test_an_exit_code_other_than_zero_is_a_failure() -> None:
    for code, told_as in ((3, "failed"), (0, "returned")):
        state = {"output": "out", "metadata": {"output": "out", "exit": code}}
        assert shown(read(session(answer(tool("completed", **state)))))[-1] == (told_as, "out")


def test_an_interrupted_command_returns_what_it_had_printed() -> None:
    state = {"error": "aborted", "metadata": {"interrupted": True, "output": "so far"}}

    assert shown(read(session(answer(tool("error", **state)))))[-1] == ("failed", "so far")
    assert shown(read(session(answer(tool("error", error="aborted")))))[-1] == ("failed", "aborted")


def test_files_that_a_call_gave_back_are_parts_of_its_return() -> None:
    file = {"type": "file", "mime": "image/png", "url": PNG_URL}

    back = read(session(answer(tool("completed", output="a", attachments=[file]))))[-1].body

    assert isinstance(back, CallReturned)
    assert back.parts == (ImagePart(blob=blake3(PNG).hexdigest(), media_type="image/png"),)


def test_parallel_calls_are_one_answer() -> None:
    second = tool("completed", output="b") | {"callID": "c2"}

    found = rounds(conversation(events(read(session(answer(tool("completed", output="a"), second))))))

    assert [type(one) for one in found] == [Answer, Results]


# Parts ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "mime", "part"),
    [
        (PNG_URL, "image/png", ImagePart(blob=blake3(PNG).hexdigest(), media_type="image/png", name="f")),
        ("data:text/csv,a%2Cb", "text/csv", FilePart(blob=blake3(b"a,b").hexdigest(), media_type="text/csv", name="f")),
    ],
)
def test_a_file_with_its_bytes_is_a_part_of_the_message(url: str, mime: str, part: Any) -> None:
    chosen = formats("opencode")["rows"]
    reading = Reading("opencode", "n", chosen.state())
    connection = session(user({"type": "file", "mime": mime, "filename": "f", "url": url}))

    drafts = read_records(chosen, reading, rows_of("rows").records(connection, "ses_1")).drafts

    assert drafts[-1].body == MessageAdded(role="user", parts=(part,))
    assert part.blob in reading.blobs


@pytest.mark.parametrize(
    "part",
    [
        says("injected", synthetic=True),
        says("for the screen", ignored=True),
        says(""),
        {"type": "file", "mime": "text/plain", "url": "file:///home/me/app/a.txt"},
        {"type": "patch", "hash": "x", "files": []},
        {"type": "snapshot", "snapshot": "x"},
        {"type": "subtask", "prompt": "p", "description": "d", "agent": "a"},
        {"type": "step-start"},
        {"type": "something-new", "text": "?"},
    ],
)
def test_what_nobody_said_is_kept_verbatim(part: dict[str, Any]) -> None:
    drafts = read(session(user(part)))

    assert drafts[-1].body == Opaque(kind=f"opencode.{part['type']}", raw=json.dumps(part))
    assert shown(drafts) == []


def test_reasoning_is_thinking_with_its_signature() -> None:
    part = {"type": "reasoning", "text": "hm", "metadata": {"anthropic": {"signature": "sig"}}}

    body = read(session(answer(part)))[-1].body

    assert body == MessageAdded(
        role="assistant", parts=(ThinkingPart(text="hm", signature="sig"),), message="msg_1", model="m"
    )


def test_a_session_without_a_title_is_called_after_its_first_prompt() -> None:
    rows = [user(says("injected", synthetic=True), says(f"\n  Fix {'x' * 100}\nplease")), user(says("more"))]

    titles = [draft.body for draft in read(session(*rows)) if isinstance(draft.body, SessionTitled)]
    own = [draft.body for draft in read(session(*rows, title="Mine")) if isinstance(draft.body, SessionTitled)]

    assert titles == [SessionTitled(title="Fix…")]
    assert own == [SessionTitled(title="Mine")]


def test_a_part_whose_message_is_gone_is_kept_verbatim() -> None:
    connection = session(user(says("there")), user(says("lost")))
    connection.execute("DELETE FROM message WHERE id = 'msg_2'")

    drafts = read(connection)

    assert shown(drafts) == [("user", "there")]
    assert isinstance(drafts[-1].body, Opaque)
    assert "lost" in drafts[-1].body.raw


# Compaction and revert ------------------------------------------------------------------------------------------------


def compacted(summary: dict[str, Any], **compaction: Any) -> sqlite3.Connection:
    return session(
        user(says("old")),
        answer(says("older answer")),
        user(says("kept")),
        answer({"type": "step-start"}, says("kept answer")),
        user({"type": "compaction", "auto": True, **compaction}),
        answer(says("the summary"), **summary),
        user(says("new")),
    )


@pytest.mark.parametrize(
    ("compaction", "kept"),
    [
        ({}, []),
        ({"tail_start_id": "msg_3"}, [("user", "kept"), ("assistant", "kept answer")]),
        ({"tail_start_id": "msg_4"}, [("assistant", "kept answer")]),
    ],
)
def test_a_compaction_stands_for_all_but_what_the_client_kept(compaction: dict[str, str], kept: list[Any]) -> None:
    assert seen(read(compacted({"summary": True}, **compaction))) == [
        ("compacted", "the summary"),
        *kept,
        ("user", "new"),
    ]


def test_a_summary_that_failed_compacts_nothing() -> None:
    drafts = read(compacted({"summary": True, "error": {"name": "ContextOverflowError"}}))

    assert not any(isinstance(draft.body, Compacted) for draft in drafts)


def test_a_summary_is_told_only_once_it_is_whole() -> None:
    rows = [user(says("old")), user({"type": "compaction", "auto": True})]
    part = says("the summary", time={"start": NOW, "end": NOW + 1})

    assert shown(read(session(*rows, answer(part, summary=True, ended=False)))) == [("user", "old")]


def revertible(revert: dict[str, str] | None) -> sqlite3.Connection:
    rows = [user(says("one")), answer(says("first"), says("second")), user(says("two")), answer(says("oops"))]
    return session(*rows, revert=json.dumps(revert) if revert else None)


@pytest.mark.parametrize(
    ("revert", "left"),
    [
        ({"messageID": "msg_3"}, [("user", "one"), ("assistant", "first"), ("assistant", "second")]),
        # An answer is whole or not there at all: one that was taken back from its middle on stays whole.
        (
            {"messageID": "msg_2", "partID": "prt_2_2"},
            [("user", "one"), ("assistant", "first"), ("assistant", "second")],
        ),
        ({"messageID": "msg_1"}, []),
    ],
)
def test_what_is_taken_back_is_no_longer_part_of_the_conversation(revert: dict[str, str], left: list[Any]) -> None:
    before, after = read(revertible(None)), read(revertible(revert))

    assert shown(after) == left
    assert shown(before + after) == left
    went_on = MessageAdded(role="user", text="instead")
    assert shown([*before, *after, Draft(body=went_on, source="prt_9")]) == [*left, ("user", "instead")]


def test_a_revert_to_a_message_that_is_gone_takes_nothing_back() -> None:
    drafts = read(revertible({"messageID": "msg_9"}))

    assert len(shown(drafts)) == 5
    assert isinstance(drafts[-1].body, Opaque)


# Hostile and odd rows -------------------------------------------------------------------------------------------------


def test_half_a_surrogate_pair_costs_one_character_and_is_exported_as_it_is() -> None:
    connection = session(user(), answer(says("x")))
    connection.execute("UPDATE part SET data = ?", ['{"type":"text","text":"cut \\ud83d","n":[],"o":{}}'])

    records = list(rows_of("rows").records(connection, "ses_1"))

    assert shown(translate(records)) == [("assistant", "cut ?")]
    exported = rows_of("rows").assemble("ses_1", records)
    assert b'"text": "cut \\ud83d",\n          "n": [],\n          "o": {},\n' in exported
    split = formats("opencode")["export"].split
    assert split is not None
    assert shown(translate(split(exported), format="export")) == [("assistant", "cut ?")]


@pytest.mark.parametrize(
    "data",
    [
        "no json", "", "null", "7", '"text"', "[]", "{}", '{"type":5}', '{"type":"text","text":{}}', "[" * 5000,
        '{"type":"tool","tool":"t","callID":"c","state":[]}', '{"type":"file","url":"data:image/png;base64,%%%"}',
        '{"type":"text","time":"now","text":"x"}', b"\xff\x00", '{"role":[]}', '{"role":"assistant","tokens":7}',
        '{"role":"assistant","time":{"completed":1},"tokens":{"cache":null}}', '{"a":"\\ud800","role":3}',
    ],
)  # fmt: skip
def test_odd_data_is_kept_as_it_is_and_harms_nothing_else(data: Any) -> None:
    connection = session(user(says("before")), user(says("odd")), user(says("after")))
    rows = rows_of("rows")
    for statement in (
        "UPDATE part SET data = ? WHERE id = 'prt_2_1'",
        "UPDATE message SET data = ? WHERE id = 'msg_2'",
    ):
        connection.execute(statement, [data])
        records = list(rows.records(connection, "ses_1"))

        drafts = translate(records)

        assert shown(drafts) == [("user", "before"), ("user", "after")]
        assert b"before" in rows.assemble("ses_1", records)
    assert len(list(rows.sessions(connection))) == 1


@pytest.mark.parametrize(
    "document",
    [
        b'{"info":{"id":"ses_1","time":5,"revert":7},"messages":{}}',
        b'{"info":{"id":"ses_1"},"messages":[1,null,{"info":3,"parts":4},{"parts":[{"id":5}]}]}',
        b'{"info":{}}',
    ],
)
def test_an_odd_export_is_kept_as_it_is(document: bytes) -> None:
    split = formats("opencode")["export"].split
    assert split is not None
    records = list(split(document))

    drafts = translate(records, format="export")

    assert len(drafts) >= len(records)
    assert shown(drafts) == []


@pytest.mark.parametrize(
    ("stored", "printed"),
    [("0.0", "0"), ("1.5", "1.5"), ("0.00001", "0.00001"), ("1e-7", "1e-7"), ("1.2e-10", "1.2e-10"), ("12.0", "12")],
)
def test_a_cost_is_printed_as_javascript_prints_it(stored: str, printed: str) -> None:
    assert bytes(_number(Raw(stored.encode())) or b"") == printed.encode()


# Writing --------------------------------------------------------------------------------------------------------------

US = NOW * 1000
ROUNDS: list[Round] = [
    Prompt(key="1", at=US, parts=(TextPart(text="first Ω"),)),
    Answer(key="2", at=US, model="m1", parts=(
        TextPart(text="I look."),
        CallMade(call="c1", tool="bash", input=Raw(b'{"command":"ls"}')),
        CallMade(call="c2", tool="read", input=Raw(b'{"filePath":"x"}')),
    )),
    Results(key="3", at=US, returns=(
        CallReturned(call="c1", output=Raw(b'"a.txt"'), parts=(ImagePart(blob="b", media_type="image/png"),)),
        CallReturned(call="c2", output=Raw(b'"no such file"'), failed=True),
    )),
    Answer(key="4", at=US - 9_000_000, parts=(TextPart(text="One file."),)),
    Prompt(key="5", at=US + 10**12, parts=(
        TextPart(text="second"),
        ImagePart(blob="b", media_type="image/png", name="dot.png"),
        FilePart(blob="t", media_type="text/plain"),
    )),
    Answer(key="6", at=US, parts=(TextPart(text="Seen."),)),
]  # fmt: skip


def written(rounds: list[Round], **more: Any) -> Native:
    writer = runtime("opencode").writer
    assert writer is not None
    blobs = {"b": PNG, "t": b"a text file"}
    target = {"id": str(uuid.UUID(int=7)), "cwd": "/home/me/app", "at": US + 60_000_000, "blob": blobs.__getitem__}
    return writer.write(rounds, Target(**{**target, **more}))


def reread(native: Native) -> list[Draft]:
    split = formats("opencode")["export"].split
    assert split is not None
    return translate(split(native.files[0].data), format="export")


def test_what_is_written_reads_back_once_and_in_order() -> None:
    native = written(ROUNDS, title="Taken over")
    drafts = reread(native)

    assert shown(drafts) == [
        ("user", "first Ω"),
        ("assistant", "I look."),
        ("bash", {"command": "ls"}),
        ("returned", "a.txt"),
        ("read", {"filePath": "x"}),
        ("failed", "no such file"),
        ("assistant", "One file."),
        ("user", "second"),
        ("user", ["ImagePart"]),
        ("user", "a text file"),
        ("assistant", "Seen."),
    ]
    assert drafts[0].body == RuntimeAttached(
        runtime="opencode", native=native.id, runtime_version="1.18.33", cwd="/home/me/app"
    )
    assert drafts[1].body == SessionTitled(title="Taken over")
    answers = [draft for draft in rounds(conversation(events(drafts))) if isinstance(draft, Answer)]
    assert [(len(one.calls), one.model) for one in answers] == [(2, "m1"), (0, ""), (0, "")]
    image = next(draft.body for draft in drafts if isinstance(draft.body, CallReturned) and draft.body.parts)
    assert image.parts[0].blob == blake3(PNG).hexdigest()
    assert not any(isinstance(draft.body, UsageCounted) for draft in drafts)


def test_messages_are_in_the_order_in_which_the_client_sorts_them() -> None:
    document = msgspec.json.decode(written(ROUNDS).files[0].data)
    times = [message["info"]["time"]["created"] for message in document["messages"]]
    ids = [message["info"]["id"] for message in document["messages"]]
    parts = [part["id"] for message in document["messages"] for part in message["parts"]]

    assert times == sorted(set(times))
    assert times[-1] < NOW + 60_000
    assert ids == sorted(set(ids))
    assert parts == sorted(set(parts))
    first = ids[0]
    assert [message["info"].get("parentID") for message in document["messages"]] == [None, first, first, None, ids[3]]


def test_the_same_target_gives_the_same_bytes_and_another_one_other_ids() -> None:
    one, other = written(ROUNDS), written(ROUNDS, id=str(uuid.UUID(int=8)))

    assert one == written(ROUNDS)
    mine, others = (set(told(reread(native))) for native in (one, other))
    assert not mine & others


def test_what_the_client_demands_is_there() -> None:
    document = msgspec.json.decode(written(ROUNDS).files[0].data)

    assert {"id", "slug", "version", "title", "time"} <= set(document["info"])
    for message in document["messages"]:
        wanted = {"user": "agent model", "assistant": "parentID mode agent path tokens cost modelID providerID time"}
        assert set(wanted[message["info"]["role"]].split()) <= set(message["info"])
        for part in message["parts"]:
            assert (part["sessionID"], part["messageID"]) == (document["info"]["id"], message["info"]["id"])
            if part.get("state", {}).get("status") == "completed":
                assert {"title", "metadata", "time", "input", "output"} <= set(part["state"])
                assert all({"id", "sessionID", "messageID"} <= set(file) for file in part["state"]["attachments"])


def test_an_input_that_is_no_object_becomes_one() -> None:
    call = CallMade(call="c", tool="patch", input=Raw(b'"*** Begin"'))
    back = CallReturned(call="c", output=Raw(b'{"k":[1]}'))

    found = shown(reread(written([Answer(key="1", at=US, parts=(call,)), Results(key="2", at=US, returns=(back,))])))

    assert found == [("patch", {"input": "*** Begin"}), ("returned", '{"k":[1]}')]


def test_a_session_is_taken_in_and_resumed_by_the_clients_own_commands() -> None:
    native = written(ROUNDS)
    writer = runtime("opencode").writer
    assert writer is not None

    assert native.files[0].path == f"clew/{native.id}.json"
    assert writer.prepare == (("opencode", "import", "{file}"),)
    assert writer.resume(native.id, "ignored").argv == ["opencode", "-s", native.id]
    assert formats("opencode")["export"].recognises(PurePath("x.json"), native.files[0].data[:4096])
    assert formats("opencode")["export"].identify(PurePath("x.json"), native.files[0].data[:4096]).native == native.id
