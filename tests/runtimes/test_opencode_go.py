"""The first OpenCode, written in Go: what is read from its database."""

import base64
import sqlite3
from typing import Any

import msgspec
import pytest

from clew.model.events import Opaque
from clew.runtimes.contract import Identity
from support.opencode import database, read, rows_of, seen, shown, text, told, translate

PNG = b"\x89PNG\r\n\x1a\nnot really"


def go(*messages: dict[str, Any], **columns: Any) -> sqlite3.Connection:
    sessions = [
        {
            "id": "s1",
            "parent_session_id": None,
            "title": "Old",
            "created_at": 1_751_116_165,
            "updated_at": 1,
            **columns,
        },
        {"id": "toolu_1", "parent_session_id": "s1", "title": "Sub", "created_at": 1_751_116_166, "updated_at": 1},
        {"id": "title-s1", "parent_session_id": "s1", "title": "T", "created_at": 1_751_116_167, "updated_at": 1},
    ]
    rows = [
        {"id": f"m{i}", "session_id": "s1", "model": None, "created_at": 1_751_116_165, "updated_at": 1, **one}
        | {"parts": text(one["parts"])}
        for i, one in enumerate(messages, 1)
    ]
    files = [{"id": "f1", "session_id": "s1", "path": "/home/me/app/a", "content": "a", "created_at": 1_751_116_165}]
    return database({"sessions": sessions, "messages": rows, "files": files})


def piece(type: str, **data: Any) -> dict[str, Any]:
    return {"type": type, "data": data}


GO_MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "parts": [piece("text", text="go"), piece("binary", Path="/x/a.png", MIMEType="image/png",
                               Data=base64.b64encode(PNG).decode()), piece("finish", reason="stop")]},
    {"role": "assistant", "model": "claude", "parts": [
        piece("reasoning", thinking="hm"), piece("text", text="I look"),
        piece("tool_call", id="c1", name="bash", input='{"command":"ls"}'),
        piece("tool_call", id="c2", name="odd", input="no json")]},
    {"role": "tool", "parts": [piece("tool_result", tool_call_id="c1", content="a", is_error=False),
                               piece("tool_result", tool_call_id="c2", content="bad", is_error=True)]},
    {"role": "assistant", "parts": [piece("text", text="done"), piece("finish", reason="end_turn")]},
]  # fmt: skip


def test_the_go_database_is_read_as_it_went() -> None:
    drafts = read(go(*GO_MESSAGES), "s1", format="go-rows")

    assert shown(drafts) == [
        ("user", "go"),
        ("user", ["ImagePart"]),
        ("assistant", ["ThinkingPart"]),
        ("assistant", "I look"),
        ("bash", {"command": "ls"}),
        ("odd", "no json"),
        ("returned", "a"),
        ("failed", "bad"),
        ("assistant", "done"),
    ]
    assert list(told(drafts)) == [
        *("s1", "s1/title", "m1", "m1/1", "m2", "m2/1", "m2/2", "m2/3", "m3", "m3/1", "m4", "f1"),
    ]
    assert isinstance(drafts[-1].body, Opaque)
    assert {draft.said_at for draft in drafts} == {1_751_116_165_000_000}


@pytest.mark.parametrize("time", [1_751_116_165, 1_751_116_165_000, "2025-06-28T13:09:25.000000Z"])
def test_the_go_database_wrote_time_in_three_ways(time: Any) -> None:
    message = {"role": "user", "parts": [piece("text", text="go")], "created_at": time}

    assert read(go(message), "s1", format="go-rows")[2].said_at == 1_751_116_165_000_000


def test_a_go_stamp_changes_with_the_messages() -> None:
    connection = go(*GO_MESSAGES)
    before = dict(rows_of("go-rows").sessions(connection))

    connection.execute("UPDATE messages SET updated_at = 2 WHERE id = 'm2'")

    after = dict(rows_of("go-rows").sessions(connection))
    assert [one.native for one in after if after[one] != before[one]] == ["s1"]


def test_a_go_subagent_has_the_id_of_its_call() -> None:
    found = [one for one, _ in rows_of("go-rows").sessions(go(*GO_MESSAGES))]

    assert found == [
        Identity(native="s1"),
        Identity(native="toolu_1", parent="s1", call="toolu_1"),
        Identity(native="title-s1", parent="s1"),
    ]


def test_a_go_summary_stands_for_what_came_before() -> None:
    drafts = read(go(*GO_MESSAGES, summary_message_id="m4"), "s1", format="go-rows")

    assert seen(drafts) == [("compacted", "done")]


@pytest.mark.parametrize("parts", ["no json", "{}", "[1]", '[{"type":"text","data":{}}]', '[{"type":"new","data":{}}]'])
def test_odd_go_messages_are_kept_as_they_are(parts: str) -> None:
    connection = go(*GO_MESSAGES[:1], {"role": "user", "parts": parts}, *GO_MESSAGES[3:])
    records = list(rows_of("go-rows").records(connection, "s1"))

    assert shown(translate(records, format="go-rows"))[-1] == ("assistant", "done")
    assert len(msgspec.json.decode(rows_of("go-rows").assemble("s1", records))) == len(records)


@pytest.mark.parametrize("value", [None, 7, ["x"], {}])
@pytest.mark.parametrize(
    ("type", "name"),
    [("text", "text"), ("reasoning", "thinking"), ("tool_call", "id"), ("tool_result", "tool_call_id")],
)
def test_a_go_part_with_a_value_of_another_type_is_kept_as_it_is(type: str, name: str, value: Any) -> None:
    whole = {"text": "x", "thinking": "x", "id": "c", "name": "bash", "tool_call_id": "c", **{name: value}}
    drafts = read(go({"role": "assistant", "parts": [piece(type, **whole)]}), "s1", format="go-rows")

    assert isinstance(drafts[2].body, Opaque)


def test_a_go_row_without_an_id_is_kept_as_it_is() -> None:
    [draft] = translate([("key", b'{"table": "sessions", "id": "", "title": "x"}')], format="go-rows")

    assert isinstance(draft.body, Opaque)
    assert draft.source is not None
    assert draft.source.startswith("key")
