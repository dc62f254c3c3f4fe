"""Goose (Block): all sessions in one database, `~/.local/share/goose/sessions/sessions.db`; a message is some parts.

`usage_ledger` has what each request cost, without the message it belongs to; versions before it have sums in the row of
the session. The files of versions before the database (`*.jsonl`) have the same messages, a line each.

Evidence: Goose's public sources as noted by a public project (schema version 15) and its tests, 2026-11-19. Not run.
"""

import re
from pathlib import PurePath
from typing import Any

import msgspec
from msgspec import Raw

from clew.model.events import Draft, Usage, UsageCounted
from clew.runtimes.adapters import goose_database
from clew.runtimes.adapters.database_rows import assemble
from clew.runtimes.adapters.message_bodies import Bodies, Chat, attached, id_of, once_attached, whole_number
from clew.runtimes.contract import (
    Format,
    Identity,
    Reading,
    Rows,
    Runtime,
    Tool,
    from_seconds,
    identity_in,
    micros,
    opaque,
    raw,
)

NAME = "goose"


class Outcome(msgspec.Struct):
    status: str = ""
    value: Any = None
    error: Any = None


class Part(msgspec.Struct):
    type: str
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    id: str = ""
    data: str | None = None
    mimeType: str | None = None
    toolCall: Outcome | None = None
    toolResult: Outcome | None = None


class Message(msgspec.Struct):
    role: str = ""
    content: list[Raw] | None = None
    id: str | None = None
    created: float | None = None
    working_dir: str | None = None
    description: str | None = None


def read(record: bytes, key: str, reading: Reading[Chat]) -> list[Draft]:
    """One message, a line of the ledger, or what the session says about itself."""
    if key == "about":
        about = msgspec.json.decode(record, type=dict[str, Any])
        title = about.get("name") or about.get("description") or ""
        at = _time(about.get("created_at"))
        drafts = attached(reading, key, at, cwd=str(about.get("working_dir") or ""), title=str(title))
        return [*drafts, opaque(f"{NAME}.session", record, f"{key}/record", at)]
    if key.startswith("usage/"):
        return _spent(msgspec.json.decode(record, type=dict[str, Any]), record, key)
    message = msgspec.json.decode(record, type=Message)
    if message.content is None and message.working_dir is not None:
        # The first line of a file.
        drafts = attached(reading, key, None, cwd=message.working_dir, title=message.description or "")
        return [*drafts, opaque(f"{NAME}.session", record, f"{key}/record")]
    at = from_seconds(message.created)
    bodies = Bodies(reading, message.role, answer=f"{reading.native}/{key}")
    for content in message.content or [] if message.role in ("user", "assistant") else []:
        part = msgspec.json.decode(content, type=Part)
        if part.type == "text":
            bodies.text(part.text)
        elif part.type == "thinking":
            bodies.thinking(part.thinking, part.signature)
        elif part.type == "image" and part.data:
            bodies.image(part.data, part.mimeType)
        elif part.type in ("toolRequest", "frontendToolRequest") and part.id and part.toolCall:
            _add_call(bodies, part.id, part.toolCall)
        elif part.type == "toolResponse" and part.id and part.toolResult:
            _add_result(bodies, part.id, part.toolResult)
        else:
            bodies.other(part.type, bytes(content))
    return [*once_attached(reading, key, at), *bodies.drafts(key, at, record)]


def _add_call(bodies: Bodies, id: str, call: Outcome) -> None:
    value = call.value if isinstance(call.value, dict) else {}
    bodies.call(id, str(value.get("name") or "unknown"), raw(value.get("arguments") or {}))


def _add_result(bodies: Bodies, id: str, result: Outcome) -> None:
    """The result of a call: blocks, in newer versions within an object that says whether it failed."""
    value, failed = result.value, result.status == "error"
    if isinstance(value, dict):
        failed, value = failed or value.get("isError") is True, value.get("content", value)
    if isinstance(value, list):  # What is for the person's eyes only was not sent.
        value = [block for block in value if not _is_for_people(block)]
    if isinstance(value, list) and value and all(_is_text(block) for block in value):
        value = "\n".join(block["text"] for block in value)
    bodies.returned(id, raw(result.error if result.status == "error" else value), failed=failed)


def _is_text(block: Any) -> bool:
    return isinstance(block, dict) and isinstance(block.get("text"), str)


def _is_for_people(block: Any) -> bool:
    notes = block.get("annotations") if isinstance(block, dict) else None
    return isinstance(notes, dict) and notes.get("audience") == ["user"]


def _spent(row: dict[str, Any], record: bytes, key: str) -> list[Draft]:
    """The usage of a request. Its input includes what was read from the cache and written to it."""
    read, written = whole_number(row.get("cache_read_tokens")), whole_number(row.get("cache_write_tokens"))
    cost = row.get("cost")
    usage = Usage(
        input=max(0, whole_number(row.get("input_tokens")) - read - written),
        output=whole_number(row.get("output_tokens")),
        cache_read=read,
        cache_write=written,
        cost_micros=round(cost * 1_000_000) if isinstance(cost, int | float) and 0 < cost < 1e6 else 0,
    )
    at = _time(row.get("created_timestamp"))
    if usage == Usage():
        return [opaque(f"{NAME}.usage", record, key, at)]
    return [Draft(body=UsageCounted(usage=usage, model=str(row.get("model") or "")), source=key, said_at=at)]


def _time(value: object) -> int | None:
    """Microseconds from seconds since 1970, or from the text that SQLite makes of a time in UTC."""
    if isinstance(value, int | float):
        return from_seconds(value)
    return micros(f"{value}+00:00") if isinstance(value, str) and "+" not in value else None


def recognises_database(path: PurePath, head: bytes) -> bool:
    return path.name == "sessions.db" and b"content_json" in head


def recognises_lines(path: PurePath, head: bytes) -> bool:
    """Whether the first line is Goose's head of a file, or its first message."""
    return path.suffix == ".jsonl" and re.match(rb'\s*\{[^\n]*"working_dir":[^\n]*"message_count":', head) is not None


def identify(path: PurePath, first: bytes) -> Identity:
    cwd = id_of(Raw(first), "working_dir") if path.suffix == ".jsonl" else ""
    return identity_in(cwd, path.stem)


_FOLDERS = (".local/share/goose", "Library/Application Support/goose", "AppData/Roaming/Block/goose/data")

RUNTIME = Runtime(
    name=NAME,
    title="Goose",
    home="",
    binary="goose",
    formats=(
        Format(
            name="database",
            patterns=tuple(f"{folder}/sessions/sessions.db" for folder in _FOLDERS),
            recognises=recognises_database,
            identify=identify,
            read=read,
            state=Chat,
            rows=Rows(sessions=goose_database.sessions, records=goose_database.records, assemble=assemble),
        ),
        Format(
            name="lines",
            patterns=tuple(f"{folder}/sessions/*.jsonl" for folder in _FOLDERS),
            recognises=recognises_lines,
            identify=identify,
            read=read,
            state=Chat,
        ),
    ),
    tools={"shell": Tool("developer__shell", {"command": "command"})},
    evidence="public sources and tests, not run",
)
