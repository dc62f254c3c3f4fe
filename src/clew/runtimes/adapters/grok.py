"""Grok CLI (xAI, "Grok Build"): `~/.grok/sessions/<directory, as in a URL>/<id>/chat_history.jsonl`.

The lines are what the model is sent: they have no times and no usage, and the program writes them anew from its log of
updates (`updates.jsonl`, which is not read) after a compaction. Older versions wrote them as OpenAI's API takes them.

Evidence: sample files of two public projects, one of them made with the program's public sources, 2026-11-19. Not run.
"""

from pathlib import PurePath
from typing import Any
from urllib.parse import unquote

import msgspec
from msgspec import Raw

from clew.model.events import Draft
from clew.runtimes.adapters import openai_chat
from clew.runtimes.adapters.message_bodies import Bodies, Chat, json_or_text, json_text, once_attached
from clew.runtimes.adapters.renamed import renamed
from clew.runtimes.contract import Format, Identity, Reading, Runtime, Tool, opaque, project_of, raw

NAME = "grok"


class Block(msgspec.Struct):
    type: str = ""
    text: str | None = None
    url: str | None = None


class Call(msgspec.Struct):
    id: str
    name: str
    arguments: str | None = None


class Kind(msgspec.Struct):
    type: str = ""


class Line(msgspec.Struct):
    type: str = ""
    id: str = ""
    content: str | list[Raw] | None = None
    synthetic_reason: str | None = None
    tool_calls: list[Call] | None = None
    model_id: str | None = None
    tool_call_id: str = ""
    summary: list[Block] | None = None
    encrypted_content: str | None = None
    kind: dict[str, Any] | None = None


_read_older = renamed(openai_chat.read, openai_chat.NAME)


def read(record: bytes, key: str, reading: Reading[Chat]) -> list[Draft]:
    """One line of the history."""
    if not msgspec.json.decode(record, type=Kind).type:
        drafts = _read_older(record, key, reading)
        return [*once_attached(reading, key, None), *drafts]
    line = msgspec.json.decode(record, type=Line)
    role = "user" if line.type == "user" else "assistant"
    bodies = Bodies(reading, role, answer=f"{reading.native}/{key}", model=line.model_id or "")
    # An interjection was typed while the agent was at work; the program put in the others.
    if line.type == "user" and line.synthetic_reason in (None, "interjection"):
        bodies.text(line.content if isinstance(line.content, str) else "")
        for content in line.content if isinstance(line.content, list) else []:
            block = msgspec.json.decode(content, type=Block)
            if block.type == "image" and block.url and block.url.startswith("data:"):
                bodies.image(block.url)
            elif block.text is not None:
                bodies.text(block.text)
            else:
                bodies.other(block.type, bytes(content))
    elif line.type == "reasoning":
        texts = [block.text or "" for block in line.summary or []]
        bodies.thinking("\n".join(texts), line.encrypted_content)
    elif line.type == "assistant":
        bodies.text(_text(line.content))
        for call in line.tool_calls or []:
            bodies.call(call.id, call.name, json_or_text(call.arguments))
    elif line.type == "tool_result" and line.tool_call_id:
        bodies.returned(line.tool_call_id, json_text(_text(line.content)))
    elif line.type == "backend_tool_call" and line.kind:
        # The provider ran it: what it found is in the answer.
        id, tool = str(line.kind.get("id") or key), str(line.kind.get("tool_type") or "backend")
        bodies.call(id, tool, raw(line.kind.get("action") or {}))
        bodies.returned(id, raw(line.kind.get("status")), failed=line.kind.get("status") == "failed")
    else:
        kind = line.synthetic_reason or line.type
        return [*once_attached(reading, key, None), opaque(f"{NAME}.{kind}", record, key)]
    return [*once_attached(reading, key, None), *bodies.drafts(key, None, record)]


def _text(content: str | list[Raw] | None) -> str:
    if isinstance(content, list):
        return "\n".join(msgspec.json.decode(block, type=Block).text or "" for block in content)
    return content or ""


def recognises(path: PurePath, head: bytes) -> bool:
    first = head.lstrip()[:400]
    if path.suffix != ".jsonl" or not first.startswith((b'{"type":', b'{"role":')):
        return False
    return path.name == "chat_history.jsonl" or b'"You are Grok' in first or b'"synthetic_reason":' in first


def identify(path: PurePath, first: bytes) -> Identity:
    """The folder has the session's id, the one above it its directory; so has the file beside it."""
    if path.name != "chat_history.jsonl" or len(path.parts) < 2:
        return Identity(native=path.stem)
    folder = unquote(path.parts[-3]) if len(path.parts) > 2 and "%2F" in path.parts[-3] else ""
    about = "" if folder else str(path.with_name("summary.json"))
    project = project_of(folder) if folder else ""
    return Identity(native=path.parts[-2], folder=folder, folder_file=about, project=project)


RUNTIME = Runtime(
    name=NAME,
    title="Grok CLI",
    home=".grok",
    home_variable="GROK_HOME",
    binary="grok",
    formats=(
        Format(
            name="history",
            patterns=("sessions/*/*/chat_history.jsonl",),
            recognises=recognises,
            identify=identify,
            read=read,
            state=Chat,
        ),
    ),
    tools={
        "shell": Tool("run_terminal_cmd", {"command": "command"}),
        "read": Tool("read_file", {"path": "target_file", "offset": "offset", "limit": "limit"}),
    },
    evidence="public files, not run",
)
