"""Kiro (AWS): the lines of its command line, the database of versions before them, and the chats of its editor.

* `lines`: `~/.kiro/sessions/cli/<id>.jsonl`, whole messages with parts `{kind, data}`.
* `database`: `data.sqlite3` (kiro_database.py).
* `editor`: `workspace-sessions/<folder>/<id>.json`, in the form of Continue's sessions.

Evidence: a public session file, and tests of public readers (agentsview, session viewers), 2026-11-19. Not run.
"""

import re
from pathlib import PurePath

import msgspec
from msgspec import Raw

from clew.model.events import Draft
from clew.runtimes.adapters import continue_dev, kiro_database
from clew.runtimes.adapters.database_rows import assemble
from clew.runtimes.adapters.message_bodies import Bodies, Chat, once_attached
from clew.runtimes.contract import Format, Identity, Reading, Rows, Runtime, Tool, from_seconds

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
    at = from_seconds(line.data.meta.timestamp) if line.data.meta else None
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
            bodies.returned_values(result.toolUseId, values, failed=result.status.lower() == "error")
        else:
            bodies.other(part.kind, bytes(content))
    return [*once_attached(reading, key, at), *bodies.drafts(source, at, record)]


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
            read=kiro_database.read,
            state=Chat,
            rows=Rows(sessions=kiro_database.sessions, records=kiro_database.records, assemble=assemble),
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
