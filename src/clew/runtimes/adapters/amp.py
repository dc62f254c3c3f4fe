"""Amp (Sourcegraph): a thread is one JSON document, `~/.local/share/amp/threads/T-<id>.json`, or `amp threads export`.

The documents on the machine are a cache of what the server has: threads of other machines are missing, and Amp may
remove them. Messages are blocks as Anthropic's, but a result has its own form (`toolUseID`, `run`).

Evidence: sample files and tests of two public projects, 2026-11-19. Not run.
"""

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import msgspec
from msgspec import Raw

from clew.model.events import Draft, Usage
from clew.runtimes.adapters.message_bodies import Bodies, Chat, attached, directory, document, whole_number
from clew.runtimes.contract import Format, Identity, Reading, Record, Runtime, Tool, micros, opaque, project_of, raw

NAME = "amp"


class Tree(msgspec.Struct):
    uri: str = ""


class Place(msgspec.Struct):
    cwd: str = ""
    trees: list[Tree] = []


class Environment(msgspec.Struct):
    initial: Place = msgspec.field(default_factory=Place)


class About(msgspec.Struct):
    id: str = ""
    title: str | None = None
    created: float | None = None
    env: Environment = msgspec.field(default_factory=Environment)

    @property
    def cwd(self) -> str:
        trees = self.env.initial.trees
        return self.env.initial.cwd or (directory(trees[0].uri) if trees else "")


class Block(msgspec.Struct):
    type: str
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    id: str = ""
    name: str = ""
    input: Raw = Raw(b"{}")
    toolUseID: str = ""
    run: dict[str, Any] | None = None
    source: dict[str, Any] | None = None


class Meta(msgspec.Struct):
    sentAt: float | None = None


class Message(msgspec.Struct):
    role: str
    content: str | list[Raw] = ""
    meta: Meta | None = None
    usage: dict[str, Any] | None = None


def split(data: bytes) -> Iterator[Record]:
    return document(data, "messages", id="messageId")


def read(record: bytes, key: str, reading: Reading[Chat]) -> list[Draft]:
    """One message, or what the thread says about itself."""
    if key == "about":
        about = msgspec.json.decode(record, type=About)
        at = micros(about.created)
        drafts = attached(reading, key, at, cwd=about.cwd, title=about.title or "")
        return [*drafts, opaque(f"{NAME}.thread", record, f"{key}/record", at)]
    message = msgspec.json.decode(record, type=Message)
    usage = message.usage or {}
    at = micros(message.meta.sentAt) if message.meta and message.meta.sentAt else micros(usage.get("timestamp"))
    model = usage.get("model")
    bodies = Bodies(
        reading, message.role, answer=f"{reading.native}/{key}", model=model if isinstance(model, str) else ""
    )
    if message.role not in ("user", "assistant"):
        return [opaque(f"{NAME}.{message.role}", record, key, at)]
    if isinstance(message.content, str):
        bodies.text(message.content)
    for content in message.content if isinstance(message.content, list) else []:
        block = msgspec.json.decode(content, type=Block)
        if block.type == "text":
            bodies.text(block.text)
        elif block.type == "thinking":
            bodies.thinking(block.thinking, block.signature)
        elif block.type == "tool_use" and block.id:
            bodies.call(block.id, block.name, block.input)
        elif block.type == "tool_result" and block.toolUseID:
            _add_result(bodies, block.toolUseID, block.run or {})
        elif block.type == "image" and block.source and isinstance(block.source.get("data"), str):
            bodies.image(block.source["data"], str(block.source.get("mediaType") or ""))
        else:
            bodies.other(block.type, bytes(content))
    return bodies.drafts(key, at, record, usage=_usage(usage))


def _add_result(bodies: Bodies, call: str, run: dict[str, Any]) -> None:
    """The result of a run that is over; one that still waits has none."""
    status = run.get("status")
    if status == "done":
        bodies.returned(call, raw(run.get("result")))
    elif status in ("error", "cancelled", "rejected-by-user"):
        error = run.get("error")
        text = error.get("message") if isinstance(error, dict) else error or run.get("reason") or status
        bodies.returned(call, raw(text), failed=True)
    else:
        bodies.other("run", msgspec.json.encode(run))


def _usage(tokens: dict[str, Any]) -> Usage:
    return Usage(
        input=whole_number(tokens.get("inputTokens")),
        output=whole_number(tokens.get("outputTokens")),
        cache_read=whole_number(tokens.get("cacheReadInputTokens")),
        cache_write=whole_number(tokens.get("cacheCreationInputTokens")),
    )


def recognises(path: PurePath, head: bytes) -> bool:
    return path.suffix == ".json" and re.search(rb'"id"\s*:\s*"T-[0-9a-f]{8}-', head[:4096]) is not None


def identify(path: PurePath, first: bytes) -> Identity:
    try:
        about = msgspec.json.decode(first, type=About)
    except (ValueError, RecursionError):
        about = About()
    return Identity(
        native=about.id or path.stem, folder=about.cwd, project=project_of(about.cwd) if about.cwd else ""
    )  # fmt: skip


RUNTIME = Runtime(
    name=NAME,
    title="Amp",
    home="",
    binary="amp",
    formats=(
        Format(
            name="thread",
            patterns=(".local/share/amp/threads/T-*.json",),
            recognises=recognises,
            identify=identify,
            read=read,
            state=Chat,
            mutable=True,
            split=split,
        ),
    ),
    tools={
        "shell": Tool("Bash", {"command": "cmd"}),
        "read": Tool("Read", {"path": "path"}),
        "write": Tool("create_file", {"path": "path", "content": "content"}),
        "edit": Tool("edit_file", {"path": "path", "old": "old_str", "new": "new_str"}),
        "glob": Tool("glob", {"pattern": "filePattern"}),
        "search": Tool("Grep", {"pattern": "pattern", "path": "path"}),
    },
    evidence="public files, not run",
)
