"""Cursor: what is read from transcripts, the CLI's store and the editor's database, all of them made up here."""

import base64
import hashlib
import json
import random
import sqlite3
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import pytest

from clew.model.conversation import conversation
from clew.model.events import (
    CallMade,
    CallReturned,
    Draft,
    ImagePart,
    MessageAdded,
    Opaque,
    RuntimeAttached,
    SessionTitled,
    TextPart,
    ThinkingPart,
    Usage,
)
from clew.runtimes.adapters.cursor import (
    RUNTIME,
    SQLITE,
    identify_transcript,
    recognises_cli,
    recognises_ide,
    recognises_transcript,
)
from clew.runtimes.adapters.cursor_cli import protobuf
from clew.runtimes.adapters.cursor_transcript import typed
from clew.runtimes.contract import Identity, Reading, Record, micros
from clew.runtimes.records import Translated, read_records
from clew.runtimes.rounds import rounds, text_of
from support.transcripts import events, formats, read, read_in_pieces

SECRET = "sk-very-secret"
OPEN: list[sqlite3.Connection] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().close()


def fresh() -> sqlite3.Connection:
    """An empty database, closed after the test."""
    OPEN.append(sqlite3.connect(":memory:"))
    return OPEN[-1]


def lines(*records: Any) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def rows(format: str, connection: sqlite3.Connection) -> dict[str, tuple[Identity, str, list[Record]]]:
    access = formats("cursor")[format].rows
    assert access is not None
    return {
        one.native: (one, stamp, list(access.records(connection, one.native)))
        for one, stamp in access.sessions(connection)
    }


def read_rows(format: str, records: list[Record]) -> Translated:
    chosen = formats("cursor")[format]
    return read_records(chosen, Reading("cursor", "s-1", chosen.state()), records)


def told(drafts: list[Draft]) -> list[Any]:
    return [draft.body for draft in drafts if not isinstance(draft.body, Opaque)]


# Transcripts ----------------------------------------------------------------------------------------------------------

TRANSCRIPT = lines(
    {"role": "user", "message": {"content": [{"type": "text", "text": "<user_info>\nOS: linux\n</user_info>"}]}},
    {
        "role": "user",
        "message": {
            "content": [
                {"type": "text", "text": "<timestamp>Monday</timestamp>\n<user_query>\nlist files\n</user_query>"}
            ]
        },
    },
    {
        "role": "assistant",
        "message": {
            "content": [
                {"type": "text", "text": "I write."},
                {"type": "tool_use", "name": "Write", "input": {"path": "a.txt", "contents": "x"}},
                {"type": "tool_use", "name": "Shell", "input": {"command": "ls"}},
            ]
        },
    },
    {"type": "turn_ended", "status": "success"},
)


def test_a_transcript_is_read_with_calls_named_by_their_place() -> None:
    done = read("cursor", TRANSCRIPT)
    bodies = told(done.drafts)
    assert bodies[:3] == [
        RuntimeAttached(runtime="cursor", native="session"),
        MessageAdded(role="user", text="list files"),
        SessionTitled(title="list files"),
    ]
    assert bodies[3] == MessageAdded(role="assistant", text="I write.")
    assert [(body.tool, json.loads(bytes(body.input))) for body in bodies[4:]] == [
        ("Write", {"path": "a.txt", "contents": "x"}),
        ("Shell", {"command": "ls"}),
    ]
    assert len({body.call for body in bodies[4:]}) == 2
    assert [draft.body.kind for draft in done.drafts if isinstance(draft.body, Opaque)] == [
        "cursor.user",
        "cursor.turn_ended",
    ]


def test_pieces_of_a_transcript_give_what_the_whole_gives() -> None:
    whole = read("cursor", TRANSCRIPT).drafts
    for seed in range(20):
        cuts = random.Random(seed).choices(range(len(TRANSCRIPT)), k=1000)
        assert read_in_pieces("cursor", TRANSCRIPT, cuts) == whole


@pytest.mark.parametrize(
    ("text", "prompt"),
    [
        ("hello", "hello"),
        ("<user_query>\na\n</user_query>", "a"),
        ("<attached_files>\nx\n</attached_files>\n<user_query>\na\n</user_query>\n<user_query>b</user_query>", "a\nb"),
        ("<rules>x</rules>", ""),
        ("<timestamp>now</timestamp>\nhello", "hello"),
        ("<div> is a tag", "<div> is a tag"),
    ],
)
def test_only_what_was_typed_is_a_prompt(text: str, prompt: str) -> None:
    assert typed(text) == prompt


# The CLI's store ------------------------------------------------------------------------------------------------------


def field(number: int, value: bytes) -> bytes:
    size = len(value)
    head = bytes([number << 3 | 2])
    while size > 127:
        head, size = head + bytes([size & 127 | 128]), size >> 7
    return head + bytes([size]) + value


def store(*messages: Any, name: str = "Files", extra: bytes = b"") -> sqlite3.Connection:
    """A store as the CLI makes it; the messages are named by what they hold."""
    connection = fresh()
    connection.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)")
    connection.execute("CREATE TABLE blobs (id TEXT PRIMARY KEY, data BLOB)")
    root = b""
    for message in messages:
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        connection.execute("INSERT OR IGNORE INTO blobs VALUES (?, ?)", (hashlib.sha256(data).hexdigest(), data))
        root += field(1, hashlib.sha256(data).digest())
    root += b"\x10\x96\x01" + field(9, b"file:///home/me/my%20app") + extra
    id = hashlib.sha256(root).hexdigest()
    connection.execute("INSERT INTO blobs VALUES (?, ?)", (id, root))
    meta = {
        "agentId": "s-1",
        "latestRootBlobId": id,
        "name": name,
        "createdAt": 1_794_823_200_000,
        "lastUsedModel": "m-1",
        "blobEncryptionKey": SECRET,
    }
    connection.execute("INSERT INTO meta VALUES ('0', ?)", (json.dumps(meta).encode().hex(),))
    connection.execute("INSERT INTO meta VALUES ('token', ?)", (SECRET,))
    return connection


MESSAGES = (
    {"role": "system", "content": "You are an agent."},
    {"role": "user", "content": [{"type": "text", "text": "<user_info>\nOS\n</user_info>"}]},
    {"role": "user", "content": [{"type": "text", "text": "<user_query>\nyes\n</user_query>"}]},
    {
        "role": "assistant",
        "id": "1",
        "content": [
            {"type": "reasoning", "text": "a listing", "signature": "sig"},
            {"type": "text", "text": "I look."},
            {"type": "tool-call", "toolCallId": "c\n1", "toolName": "Shell", "args": {"command": "ls"}},
        ],
    },
    {
        "role": "tool",
        "content": [{"type": "tool-result", "toolCallId": "c\n1", "toolName": "Shell", "result": "a.txt"}],
    },
    {"role": "user", "content": [{"type": "text", "text": "<user_query>\nyes\n</user_query>"}]},
)


def test_the_store_of_the_cli_is_read_in_the_order_of_its_root() -> None:
    found = rows("cli", store(*MESSAGES))
    identity, _, records = found["s-1"]
    assert identity == Identity(native="s-1", project="my app")
    done = read_rows("cli", records)
    assert told(done.drafts)[:2] == [
        RuntimeAttached(runtime="cursor", native="s-1", cwd="/home/me/my app"),
        SessionTitled(title="Files"),
    ]
    grouped = rounds(conversation(events(done.drafts)))
    assert [type(one).__name__ for one in grouped] == ["Prompt", "Answer", "Results", "Prompt"]
    assert [text_of(one.parts) for one in (grouped[0], grouped[3])] == ["yes", "yes"]  # type: ignore[union-attr]  # prompts
    bodies = told(done.drafts)
    assert (
        MessageAdded(
            role="assistant",
            parts=(ThinkingPart(text="a listing", signature="sig"), TextPart(text="I look.")),
            model="m-1",
        )
        in bodies
    )
    call = next(body for body in bodies if isinstance(body, CallMade))
    assert (call.call, call.tool, bytes(call.input)) == ("c\n1", "Shell", b'{"command": "ls"}')
    back = next(body for body in bodies if isinstance(body, CallReturned))
    assert (back.call, bytes(back.output), back.failed) == ("c\n1", b'"a.txt"', False)
    kinds = [draft.body.kind for draft in done.drafts if isinstance(draft.body, Opaque)]
    assert kinds == ["cursor.system", "cursor.user"]


def test_the_stamp_of_a_store_changes_with_its_messages_and_its_name() -> None:
    stamps = [
        rows("cli", one)["s-1"][1] for one in (store(*MESSAGES), store(*MESSAGES[:-1]), store(*MESSAGES, name="x"))
    ]
    assert len(set(stamps)) == 3
    assert rows("cli", store(*MESSAGES))["s-1"][1] == stamps[0]


def test_a_newer_result_is_taken_out_of_its_wrapping() -> None:
    block = {"type": "tool-result", "toolCallId": "c", "output": {"type": "error-text", "value": "broken"}}
    done = read_rows("cli", [("x", json.dumps({"role": "tool", "content": [block]}).encode())])
    back = done.drafts[0].body
    assert isinstance(back, CallReturned)
    assert (bytes(back.output), back.failed) == (b'"broken"', True)


def test_an_image_of_the_cli_becomes_a_blob() -> None:
    image = {"type": "image", "image": base64.b64encode(b"png").decode(), "mimeType": "image/png"}
    body = read_rows("cli", [("x", json.dumps({"role": "user", "content": [image]}).encode())]).drafts[0].body
    assert isinstance(body, MessageAdded)
    assert isinstance(body.parts[0], ImagePart)


def test_a_blob_that_is_not_json_or_not_there_is_kept_as_what_it_is() -> None:
    connection = store(b"\x0a\x03old", {"role": "user", "content": "hi"}, extra=field(1, b"\x07" * 32))
    records = rows("cli", connection)["s-1"][2]
    done = read_rows("cli", records)
    kinds = [draft.body.kind for draft in done.drafts]
    assert kinds == ["runtime_attached", "session_titled", "cursor.binary", "message_added", "cursor.missing"]
    assert base64.b64decode(json.loads(records[1][1])["base64"]) == b"\x0a\x03old"


@pytest.mark.parametrize("damage", [b"\x0a", b"\xff" * 12, b"\x0b", b"\x0a\xff\xff\x03x"])
def test_a_damaged_root_gives_what_was_whole_before_it(damage: bytes) -> None:
    records = rows("cli", store({"role": "user", "content": "hi"}, extra=damage))["s-1"][2]
    assert len(records) == 2


def test_protobuf_fields_of_every_kind_are_passed() -> None:
    data = b"\x08\x96\x01" + b"\x11" + b"12345678" + field(3, b"abc") + b"\x25" + b"1234"
    assert list(protobuf(data)) == [(1, 150), (2, b"12345678"), (3, b"abc"), (4, b"1234")]


def test_a_store_without_a_session_has_none() -> None:
    assert rows("cli", fresh()) == {}
    connection = store()
    connection.execute("UPDATE meta SET value = 'zz'")
    assert rows("cli", connection) == {}


# The editor's database ------------------------------------------------------------------------------------------------

CREATED = 1_794_823_200_000


def database(values: dict[str, Any], items: dict[str, Any] | None = None) -> sqlite3.Connection:
    connection = fresh()
    for table, held in (("cursorDiskKV", values), ("ItemTable", items)):
        if held is not None:
            connection.execute(f"CREATE TABLE {table} (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")
            for key, value in held.items():
                data = value if isinstance(value, bytes | str) else json.dumps(value)
                connection.execute(f"INSERT INTO {table} VALUES (?, ?)", (key, data))
    return connection


def composer(id: str, *bubbles: str, **about: Any) -> dict[str, Any]:
    headers = [{"bubbleId": one, "type": 1} for one in bubbles]
    return {"_v": 10, "composerId": id, "createdAt": CREATED, "fullConversationHeadersOnly": headers} | about


IDE = {
    "composerData:k-1": composer(
        "k-1",
        "b2",
        "b1",
        "b3",
        "gone",
        name="Files",
        subComposerIds=["k-2"],
        modelConfig={"modelName": "m-1"},
        blobEncryptionKey=SECRET,
        workspaceIdentifier={"id": "w", "uri": {"fsPath": "/home/me/app"}},
    ),
    "composerData:k-2": composer("k-2", "b9"),
    "composerData:k-3": composer("k-3"),
    "composerData:bad": "{",
    "composerData:odd": {"composerId": 7},
    "bubbleId:k-1:b2": {"_v": 3, "type": 1, "bubbleId": "b2", "text": "list", "createdAt": "2026-11-16T10:00:01.000Z"},
    "bubbleId:k-1:b1": {
        "type": 2,
        "bubbleId": "b1",
        "text": "I look.",
        "thinking": {"text": "a listing", "signature": "sig"},
        "tokenCount": {"inputTokens": 9, "outputTokens": 4},
    },
    "bubbleId:k-1:b3": {
        "type": 2,
        "bubbleId": "b3",
        "text": "",
        "toolFormerData": {
            "name": "list_dir",
            "toolCallId": "c1",
            "rawArgs": '{"path": "."}',
            "params": '{"x": 1}',
            "result": '{"files": ["a.txt"]}',
            "status": "completed",
        },
    },
    "bubbleId:k-1:unlisted": {"type": 1, "bubbleId": "unlisted", "text": "taken back"},
    "bubbleId:k-2:b9": {"type": 1, "text": "sub"},
    "secret": SECRET,
}


def test_the_database_of_the_editor_is_read_in_the_order_of_the_headers() -> None:
    found = rows("ide", database(IDE, {"cursorAuth/accessToken": SECRET}))
    assert [one for one, _, _ in found.values()] == [
        Identity(native="k-1", project="app"),
        Identity(native="k-2", parent="k-1"),
    ]
    done = read_rows("ide", found["k-1"][2])
    bodies = told(done.drafts)
    assert bodies[:4] == [
        RuntimeAttached(runtime="cursor", native="s-1", cwd="/home/me/app"),
        SessionTitled(title="Files"),
        MessageAdded(role="user", text="list"),
        MessageAdded(
            role="assistant",
            parts=(ThinkingPart(text="a listing", signature="sig"), TextPart(text="I look.")),
            model="m-1",
            usage=Usage(input=9, output=4),
        ),
    ]
    call, back = bodies[4:]
    assert (call.call, call.tool, bytes(call.input)) == ("c1", "list_dir", b'{"path": "."}')
    assert (back.call, bytes(back.output), back.failed) == ("c1", b'{"files": ["a.txt"]}', False)
    assert [draft.said_at for draft in done.drafts[2:4]] == [micros("2026-11-16T10:00:01.000Z"), CREATED * 1000]
    grouped = rounds(conversation(events(done.drafts)))
    assert [type(one).__name__ for one in grouped] == ["Prompt", "Answer", "Results"]


@pytest.mark.parametrize("format", ["cli", "ide"])
def test_no_secret_is_among_the_records(format: str) -> None:
    connection = store(*MESSAGES) if format == "cli" else database(IDE, {"cursorAuth/accessToken": SECRET})
    for _, _, records in rows(format, connection).values():
        assert SECRET not in repr(records)
        made = RUNTIME.formats[2].rows
        assert made is not None
        assert SECRET.encode() not in made.assemble("s-1", records)
        assert [one["key"] for one in json.loads(made.assemble("s-1", records))["records"]] == [
            key for key, _ in records
        ]


def test_a_growing_answer_changes_the_stamp_and_becomes_a_revision() -> None:
    connection = database(IDE)
    before = rows("ide", connection)
    grown = IDE["bubbleId:k-1:b1"] | {"text": "I look at it."}  # type: ignore[operator]  # a dict
    connection.execute("INSERT INTO cursorDiskKV VALUES ('bubbleId:k-1:b1', ?)", (json.dumps(grown),))
    after = rows("ide", connection)
    assert before["k-1"][1] != after["k-1"][1]
    assert before["k-2"][1] == after["k-2"][1]
    drafts = read_rows("ide", before["k-1"][2]).drafts + read_rows("ide", after["k-1"][2]).drafts
    spoken = [
        text_of(draft.body.content) for draft in conversation(events(drafts)) if isinstance(draft.body, MessageAdded)
    ]
    assert spoken == ["list", "I look at it."]


@pytest.mark.parametrize(
    ("tool", "outputs"),
    [
        ({"name": "t", "status": "loading"}, []),
        ({"name": "t", "status": "error"}, [(b'""', True)]),
        ({"name": "t", "status": "completed", "result": "plain words"}, [(b'"plain words"', False)]),
        ({"name": "t", "userDecision": "rejected", "result": "{}"}, [(b"{}", True)]),
        ({"name": "t", "status": "completed", "toolCallBinary": "AAAA"}, []),
    ],
)
def test_a_call_returns_only_what_is_there(tool: dict[str, Any], outputs: list[Any]) -> None:
    done = read_rows("ide", [("b1", json.dumps({"type": 2, "toolFormerData": tool}).encode())])
    assert isinstance(done.drafts[0].body, CallMade)
    assert done.drafts[0].body.call == "b1"
    backs = [
        (bytes(draft.body.output), draft.body.failed) for draft in done.drafts if isinstance(draft.body, CallReturned)
    ]
    assert backs == outputs


def test_an_older_composer_holds_its_bubbles_itself() -> None:
    inline = {
        "composerId": "k-1",
        "conversation": [{"type": 1, "bubbleId": "b1", "text": "list"}, {"type": 2, "text": "ok"}],
    }
    records = rows("ide", database({"composerData:k-1": inline}))["k-1"][2]
    assert [key for key, _ in records] == ["about", "b1", "bubble-1"]
    assert [draft.text for draft in told(read_rows("ide", records).drafts) if isinstance(draft, MessageAdded)] == [
        "list",
        "ok",
    ]


def test_the_tables_of_2024_are_read() -> None:
    items = {
        "workbench.panel.aichat.view.aichat.chatdata": {
            "tabs": [
                {
                    "tabId": "t-1",
                    "chatTitle": "A chat",
                    "lastSendTime": CREATED,
                    "bubbles": [
                        {"type": "user", "id": "x1", "text": "why"},
                        {"type": "ai", "id": "x2", "rawText": "because", "modelType": "m-0"},
                    ],
                }
            ]
        },
        "composer.composerData": {
            "allComposers": [
                {
                    "composerId": "k-1",
                    "createdAt": CREATED,
                    "conversation": [{"type": 1, "bubbleId": "b1", "text": "do"}],
                },
                {"composerId": "elsewhere", "name": "only a header"},
            ]
        },
        "aiService.prompts": [{"text": "why"}],
        "secret": SECRET,
    }
    connection = fresh()
    connection.execute("CREATE TABLE ItemTable (key TEXT, value BLOB)")
    connection.executemany("INSERT INTO ItemTable VALUES (?, ?)", [(k, json.dumps(v)) for k, v in items.items()])
    found = rows("ide", connection)
    assert list(found) == ["k-1", "t-1"]
    assert told(read_rows("ide", found["t-1"][2]).drafts) == [
        RuntimeAttached(runtime="cursor", native="s-1"),
        SessionTitled(title="A chat"),
        MessageAdded(role="user", text="why"),
        MessageAdded(role="assistant", text="because", model="m-0"),
    ]
    assert told(read_rows("ide", found["k-1"][2]).drafts)[-1] == SessionTitled(title="do")


HOSTILE = [
    b"null", b"7", b'"x"', b"[]", b"{}", b'{"type": []}', b'{"type": 2, "toolFormerData": 7}',
    b'{"type": 1, "text": 7}',
    b'{"role": "user", "content": 7}', b'{"role": "assistant", "content": [7]}', b"[" * 9000 + b"]" * 9000, b"\xff\xfe",
    b'{"role": "user", "content": [{"type": "image", "image": "%"}]}', b'{"text": "\xff"}', b"",
]  # fmt: skip


@pytest.mark.parametrize("value", HOSTILE)
def test_odd_values_are_kept(value: bytes) -> None:
    for format, connection in (
        ("cli", store(value)),
        ("ide", database({"composerData:k": composer("k", "b"), "bubbleId:k:b": value})),
    ):
        ((_, _, records),) = rows(format, connection).values()
        done = read_rows(format, records)
        assert done.opaque == 1
        assert done.quarantined == 0


@pytest.mark.parametrize("record", [None, 7, "x", [], {}, {"role": 7}, {"role": "user", "message": {"content": [{}]}}])
def test_odd_lines_are_kept(record: Any) -> None:
    done = read("cursor", lines(record))
    assert (done.records, done.quarantined) == (1, 0)
    assert isinstance(done.drafts[-1].body, Opaque)


def test_files_are_recognised_and_named() -> None:
    path = PurePath("/home/me/.cursor/projects/home-me-app/agent-transcripts/s-1/s-1.jsonl")
    assert recognises_transcript(path, TRANSCRIPT)
    assert not recognises_transcript(path, b'{"role": "user", "content": "x"}')
    assert identify_transcript(path, b"") == Identity(native="s-1", project="-home-me-app")
    assert recognises_cli(PurePath("/x/store.db"), SQLITE)
    assert not recognises_cli(PurePath("/x/other.db"), SQLITE)
    assert recognises_ide(PurePath("/x/state.vscdb"), SQLITE)
    assert not recognises_ide(PurePath("/x/state.vscdb"), b"")


def test_a_result_that_a_bubble_keeps_in_binary_is_read_from_the_messages() -> None:
    call = {"name": "run_terminal_cmd", "toolCallId": "c1\nfc_1", "rawArgs": '{"command": "ls"}', "status": "completed"}
    result = {"type": "tool-result", "toolCallId": "c1", "toolName": "Shell", "result": "a.txt"}
    message = {"role": "tool", "content": [result]}
    name = hashlib.sha256(json.dumps(message).encode()).digest()
    state = "~" + base64.b64encode(b"\x0a\x20" + name).decode()
    values = {
        "composerData:k": composer("k", "b", conversationState=state),
        "bubbleId:k:b": {"type": 2, "bubbleId": "b", "toolFormerData": call},
        f"agentKv:blob:{name.hex()}": message,
    }
    _, _, records = rows("ide", database(values))["k"]
    [returned] = [d.body for d in read_rows("ide", records).drafts if isinstance(d.body, CallReturned)]
    assert (returned.call, bytes(returned.output)) == ("c1\nfc_1", b'"a.txt"')


def test_a_store_that_names_no_root_has_the_longest_one() -> None:
    connection = store({"role": "user", "content": "one"}, {"role": "user", "content": "two"})
    first = connection.execute("SELECT data FROM blobs WHERE substr(data, 1, 2) = X'0A20'").fetchone()[0][:34]
    connection.execute("INSERT INTO blobs (id, data) VALUES (?, ?)", (hashlib.sha256(first).hexdigest(), first))
    meta = json.dumps({"agentId": "s-1", "latestRootBlobId": ""}).encode().hex()
    connection.execute("UPDATE meta SET value = ?", (meta,))
    [(_, _, records)] = rows("cli", connection).values()
    assert [json.loads(record)["content"] for _, record in records[1:]] == ["one", "two"]


def test_a_subagents_transcript_names_its_parent() -> None:
    path = PurePath(".cursor/projects/home-me-app/agent-transcripts/s-1/subagents/s-2.jsonl")
    assert identify_transcript(path, b"{}") == Identity(native="s-2", parent="s-1", project="-home-me-app")
