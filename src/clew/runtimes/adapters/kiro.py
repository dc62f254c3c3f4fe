"""Kiro (AWS): the lines of its command line, the database of versions before them, and the chats of its editor.

* `lines`: `~/.kiro/sessions/cli/<id>.jsonl`, whole messages with parts `{kind, data}`.
* `database`: `data.sqlite3`, a row of `conversations_v2` for each conversation, in pairs of person and assistant.
* `editor`: `workspace-sessions/<folder>/<id>.json`, in the form of Continue's sessions.

Evidence: a public session file, and tests of public readers (agentsview, session viewers), 2026-11-19. Not run.
"""

import re
from collections.abc import Iterator
from pathlib import PurePath
from sqlite3 import Connection
from typing import Any

import msgspec
from blake3 import blake3
from msgspec import Raw

from clew.model.events import Draft
from clew.runtimes.adapters import continue_dev
from clew.runtimes.adapters.cursor_rows import assemble, has
from clew.runtimes.adapters.message_bodies import Bodies, Chat, attached, once_attached
from clew.runtimes.contract import Format, Identity, Reading, Record, Rows, Runtime, Tool, micros, project_of, raw

NAME = "kiro"


class Part(msgspec.Struct):
    kind: str
    data: Raw = Raw(b"null")


class Thought(msgspec.Struct):
    text: str = ""
    signature: str | None = None


class Use(msgspec.Struct):
    toolUseId: str
    name: str
    input: Raw = Raw(b"{}")


class Result(msgspec.Struct):
    toolUseId: str
    content: list[Part] = []
    status: str = ""


class Meta(msgspec.Struct):
    timestamp: float | None = None


class Data(msgspec.Struct):
    message_id: str | None = None
    content: list[Raw] = []
    meta: Meta | None = None


class Line(msgspec.Struct):
    kind: str
    data: Data = msgspec.field(default_factory=Data)


_decode = msgspec.json.Decoder(Line).decode
_ROLES = {"Prompt": "user", "AssistantMessage": "assistant", "ToolResults": "user"}


def read_line(record: bytes, key: str, reading: Reading[Chat]) -> list[Draft]:
    """One message of the command line."""
    line = _decode(record)
    meta = line.data.meta
    at = int(meta.timestamp * 1_000_000) if meta and meta.timestamp and abs(meta.timestamp) < 1e11 else None
    source = line.data.message_id or key
    bodies = Bodies(reading, _ROLES.get(line.kind, line.kind), answer=source)
    for content in line.data.content if line.kind in _ROLES else []:
        part = msgspec.json.decode(content, type=Part)
        if part.kind == "text":
            bodies.text(msgspec.json.decode(part.data, type=str))
        elif part.kind == "thinking":
            thought = msgspec.json.decode(part.data, type=Thought)
            bodies.thinking(thought.text, thought.signature)
        elif part.kind == "toolUse":
            use = msgspec.json.decode(part.data, type=Use)
            bodies.call(use.toolUseId, use.name, use.input)
        elif part.kind == "toolResult":
            result = msgspec.json.decode(part.data, type=Result)
            values = [msgspec.json.decode(item.data) for item in result.content]
            output = values[0] if len(values) == 1 else values
            bodies.returned(result.toolUseId, raw(output), failed=result.status.lower() == "error")
        else:
            bodies.other(part.kind, bytes(content))
    return [*once_attached(reading, key, at), *bodies.drafts(source, at, record)]


# The database ---------------------------------------------------------------------------------------------------------


class ToolUse(msgspec.Struct):
    id: str
    name: str
    args: Raw = Raw(b"{}")


class Said(msgspec.Struct):
    message_id: str | None = None
    content: str = ""
    tool_uses: list[ToolUse] = []


class ToolResult(msgspec.Struct):
    tool_use_id: str
    content: list[dict[str, Any]] = []
    status: str = ""


class Asked(msgspec.Struct):
    prompt: str = ""
    tool_use_results: list[ToolResult] = []


class User(msgspec.Struct):
    content: dict[str, Asked] = {}
    timestamp: str | None = None


class Pair(msgspec.Struct):
    user: User = msgspec.field(default_factory=User)
    assistant: dict[str, Said] = {}


def read_pair(record: bytes, key: str, reading: Reading[Chat]) -> list[Draft]:
    """What a person or the calls before said, and the answer to it; or the record about the conversation."""
    if key == "about":
        about = msgspec.json.decode(record, type=dict[str, Any])
        return attached(reading, key, None, cwd=str(about.get("key") or ""))
    pair = msgspec.json.decode(record, type=Pair)
    at = micros(pair.user.timestamp)
    asked, answered = Bodies(reading, "user"), None
    for content in pair.user.content.values():
        for result in content.tool_use_results:
            values = [value for item in result.content for value in item.values()]
            output = values[0] if len(values) == 1 else values
            asked.returned(result.tool_use_id, raw(output), failed=result.status.lower() == "error")
        asked.text(content.prompt)
    for said in pair.assistant.values():
        answered = Bodies(reading, "assistant", answer=said.message_id or f"{reading.native}/{key}")
        answered.text(said.content)
        for use in said.tool_uses:
            answered.call(use.id, use.name, use.args)
    drafts = asked.drafts(key, at, record)
    return [*drafts, *answered.drafts(f"{key}/answer", None, record)] if answered else drafts


def sessions(connection: Connection) -> Iterator[tuple[Identity, str]]:
    if has(connection, "conversations_v2"):
        rows = connection.execute(
            "SELECT key, conversation_id, CAST(value AS BLOB) FROM conversations_v2 ORDER BY created_at"
        )
        for cwd, native, value in rows:
            cwd = str(cwd or "")
            identity = Identity(native=str(native), folder=cwd, project=project_of(cwd) if cwd else "")
            yield identity, blake3(value or b"").hexdigest()[:32]


def records(connection: Connection, native: str) -> Iterator[Record]:
    rows = connection.execute(
        "SELECT key, CAST(value AS BLOB) FROM conversations_v2 WHERE conversation_id = ?", (native,)
    )
    row = rows.fetchone()
    if row is None:
        return
    yield "about", msgspec.json.encode({"key": str(row[0] or "")})
    value = msgspec.json.decode(bytes(row[1] or b"{}"), type=dict[str, Raw])
    history = msgspec.json.decode(value.get("history", Raw(b"[]")), type=list[Raw])
    yield from ((f"#{number}", bytes(pair)) for number, pair in enumerate(history))


# Finding and recognising ----------------------------------------------------------------------------------------------


def recognises_line(path: PurePath, head: bytes) -> bool:
    return path.suffix == ".jsonl" and re.match(rb'\s*\{"version":\s*"v\d+",\s*"kind":\s*"', head) is not None


def recognises_database(path: PurePath, head: bytes) -> bool:
    return path.name == "data.sqlite3"


def recognises_editor(path: PurePath, head: bytes) -> bool:
    return "workspace-sessions" in path.parts and continue_dev.recognises(path, head)


def identify(path: PurePath, first: bytes) -> Identity:
    """The file has the session's id; the file beside it names the directory."""
    return Identity(native=path.stem, folder_file=str(path.with_suffix(".json")) if path.name else "")


_DATA = (".local/share/kiro-cli", "Library/Application Support/kiro-cli")
_EDITOR = (".config/Kiro", "Library/Application Support/Kiro", "AppData/Roaming/Kiro")

RUNTIME = Runtime(
    name=NAME,
    title="Kiro",
    home="",
    binary="kiro-cli",
    formats=(
        Format(
            name="lines",
            patterns=(".kiro/sessions/cli/*.jsonl",),
            recognises=recognises_line,
            identify=identify,
            read=read_line,
            state=Chat,
        ),
        Format(
            name="database",
            patterns=tuple(f"{folder}/data.sqlite3" for folder in _DATA),
            recognises=recognises_database,
            identify=identify,
            read=read_pair,
            state=Chat,
            rows=Rows(sessions=sessions, records=records, assemble=assemble),
        ),
        Format(
            name="editor",
            patterns=tuple(
                f"{folder}/User/globalStorage/kiro.kiroagent/workspace-sessions/*/*.json" for folder in _EDITOR
            ),
            recognises=recognises_editor,
            identify=continue_dev.identify,
            read=continue_dev.read,
            state=Chat,
            mutable=True,
            split=continue_dev.split,
        ),
    ),
    tools={"shell": Tool("shell", {"command": "command"})},
    evidence="public files, not run",
)
