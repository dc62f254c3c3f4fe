"""Copilot Chat in VS Code and editors made of it: a session is one document, or a log of changes to one.

`chatSessions/<id>.json` below a workspace's storage is written anew each time. Since 2026 it is `<id>.jsonl`: the
document (`kind` 0), then values that are set (1), lists that are added to (2), members that are removed (3), each by
its path. The calls of a request are read from what was exchanged with the model (`toolCallRounds`); if that is missing,
from what the panel shows, which has no arguments.

Evidence: VS Code's public sources as noted by a public project, and tests of public readers, 2026-11-19. No real file,
not run.
"""

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import msgspec
from msgspec import Raw

from clew.model.events import Draft, Usage
from clew.runtimes.adapters.copilot_chat_log import is_log, replayed
from clew.runtimes.adapters.copilot_chat_panel import add_shown
from clew.runtimes.adapters.message_bodies import Bodies, Chat, attached, document, json_or_text, whole_number
from clew.runtimes.contract import Format, Identity, Reading, Record, Runtime, Tool, micros, opaque, raw

NAME = "copilot-chat"


class About(msgspec.Struct):
    sessionId: str = ""
    customTitle: str | None = None
    creationDate: float | None = None


class Text(msgspec.Struct):
    text: str = ""


class Made(msgspec.Struct):
    id: str
    name: str
    arguments: str | None = None


class Round(msgspec.Struct):
    """One answer of the model in the course of a request."""

    response: str = ""
    toolCalls: list[Made] = []
    thinking: dict[str, Any] | None = None


class Metadata(msgspec.Struct):
    toolCallRounds: list[Round] = []
    toolCallResults: dict[str, Any] = {}
    promptTokens: Any = None
    outputTokens: Any = None
    resolvedModel: str | None = None


class Result(msgspec.Struct):
    metadata: Metadata = msgspec.field(default_factory=Metadata)


class Request(msgspec.Struct):
    message: Text | str = ""
    response: list[Raw] | None = None
    timestamp: float | None = None
    modelId: str | None = None
    result: Result | None = None


def split(data: bytes) -> Iterator[Record]:
    return document(replayed(data) if is_log(data) else data, "requests", id="requestId")


def read(record: bytes, key: str, reading: Reading[Chat]) -> list[Draft]:
    """One request with its answer, or what the session says about itself."""
    if key == "about":
        about = msgspec.json.decode(record, type=About)
        at = micros(about.creationDate)
        drafts = attached(reading, key, at, title=about.customTitle or "")
        return [*drafts, opaque(f"{NAME}.session", record, f"{key}/record", at)]
    request = msgspec.json.decode(record, type=Request)
    at, about_result = micros(request.timestamp), request.result.metadata if request.result else Metadata()
    model = about_result.resolvedModel or (request.modelId or "").removeprefix("copilot/")
    asked = Bodies(reading, "user")
    asked.text(request.message if isinstance(request.message, str) else request.message.text)
    usage = Usage(input=whole_number(about_result.promptTokens), output=whole_number(about_result.outputTokens))
    drafts = asked.drafts(key, at, record)
    rounds = [one for one in about_result.toolCallRounds if one.response or one.toolCalls]
    for number, one in enumerate(rounds):
        bodies = Bodies(reading, "assistant", answer=f"{reading.native}/{key}/{number}", model=model)
        _add_round(bodies, one, about_result.toolCallResults)
        last = number == len(rounds) - 1
        drafts += bodies.drafts(f"{key}/round/{number}", None, b"null", usage=usage if last else None)
    if not rounds and request.response:
        bodies = Bodies(reading, "assistant", answer=f"{reading.native}/{key}", model=model)
        add_shown(bodies, request.response, key)
        drafts += bodies.drafts(f"{key}/answer", None, b"null", usage=usage)
    # What the panel shows besides, edits and references, is in the record.
    return [*drafts, opaque(f"{NAME}.request", record, f"{key}/record", at)]


def _add_round(bodies: Bodies, one: Round, results: dict[str, Any]) -> None:
    thought = one.thinking.get("text") if one.thinking else ""
    bodies.thinking(_joined(thought) or (thought if isinstance(thought, str) else ""))
    bodies.text(one.response)
    for call in one.toolCalls:
        bodies.call(call.id, call.name, json_or_text(call.arguments))
    for call in one.toolCalls:
        if call.id in results:
            content = results[call.id].get("content") if isinstance(results[call.id], dict) else None
            values = [piece.get("value") for piece in content if isinstance(piece, dict)] if content else []
            bodies.returned(call.id, raw(_joined(values) or results[call.id]))


def _joined(values: object) -> str:
    """The lines of a list of texts; empty for anything else."""
    texts = [value for value in values if isinstance(value, str)] if isinstance(values, list) else []
    return "\n".join(texts) if isinstance(values, list) and len(texts) == len(values) else ""


def recognises(path: PurePath, head: bytes) -> bool:
    if path.suffix == ".jsonl":
        return is_log(head) and b'"requests"' in head
    begins = re.match(rb'\s*\{\s*"(version|requesterUsername|responderUsername|requests|sessionId)"\s*:', head)
    return path.suffix == ".json" and begins is not None and b'"requests"' in head


def identify(path: PurePath, first: bytes) -> Identity:
    """The file's name is the session's id; a file beside its folder names the folder of the workspace."""
    folders = path.parts[:-1]
    beside = folders[-1:] == ("chatSessions",)
    return Identity(native=path.stem, folder_file=str(PurePath(*folders[:-1], "workspace.json")) if beside else "")


_USER = (
    ".config/{}/User",
    "Library/Application Support/{}/User",
    "AppData/Roaming/{}/User",
)
_SERVERS = (".vscode-server/data/User", ".vscode-server-insiders/data/User")
_FOLDERS = (*(user.format(name) for user in _USER for name in ("Code", "Code - Insiders", "VSCodium")), *_SERVERS)

RUNTIME = Runtime(
    name=NAME,
    title="Copilot Chat (VS Code)",
    home="",
    formats=(
        Format(
            name="session",
            patterns=tuple(
                f"{folder}/{place}.{kind}"
                for folder in _FOLDERS
                for place in ("workspaceStorage/*/chatSessions/*", "globalStorage/emptyWindowChatSessions/*")
                for kind in ("json", "jsonl")
            ),
            recognises=recognises,
            identify=identify,
            read=read,
            state=Chat,
            mutable=True,
            split=split,
        ),
    ),
    tools={
        "shell": Tool("run_in_terminal", {"command": "command"}),
        "read": Tool("read_file", {"path": "filePath"}),
        "write": Tool("create_file", {"path": "filePath", "content": "content"}),
        "edit": Tool("replace_string_in_file", {"path": "filePath", "old": "oldString", "new": "newString"}),
        "list": Tool("list_dir", {"path": "path"}),
        "glob": Tool("file_search", {"pattern": "query"}),
        "search": Tool("grep_search", {"pattern": "query"}),
    },
    evidence="public sources and tests, not run",
)
