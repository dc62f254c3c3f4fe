"""Claude.ai: `conversations.json` of a data export, with all conversations of an account.

A message has blocks as the API's, without ids: a result belongs to the call before it. Branches are not marked: the
messages come in the order in which they were sent. Files are named, and those that were text come with their text.

Evidence: tests of a public project (agentsview), 2026-11-19. The vendor publishes no schema. No real export.
"""

import re
from collections.abc import Iterator
from pathlib import PurePath

import msgspec
from msgspec import Raw

from clew.model.events import Draft
from clew.runtimes.adapters.chatgpt import conversations, identify_first
from clew.runtimes.adapters.message_bodies import Bodies, Chat, attached, document
from clew.runtimes.contract import Format, Identity, Reading, Record, Runtime, micros, opaque, raw
from clew.runtimes.records import without_halves

NAME = "claude-ai"
_ROLES = {"human": "user", "assistant": "assistant"}


class About(msgspec.Struct):
    uuid: str = ""
    name: str | None = None
    created_at: str | None = None


class Block(msgspec.Struct):
    type: str
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw = Raw(b"{}")
    tool_use_id: str | None = None
    content: Raw = Raw(b"null")
    is_error: bool | None = None


class Attachment(msgspec.Struct):
    file_name: str | None = None
    extracted_content: str | None = None


class Message(msgspec.Struct):
    sender: str
    uuid: str = ""
    text: str | None = None
    content: list[Raw] | None = None
    created_at: str | None = None
    attachments: list[Attachment] | None = None
    files: list[Attachment] | None = None


def sessions(data: bytes) -> Iterator[tuple[Identity, bytes]]:
    """Every conversation of an export in which something was said."""
    for conversation in conversations(data):
        members = msgspec.json.decode(conversation, type=dict[str, Raw])
        if bytes(members.get("chat_messages", b"[]")).strip() != b"[]":
            about = msgspec.json.decode(without_halves(conversation), type=About)
            yield Identity(native=about.uuid, project="claude.ai"), conversation


def split(data: bytes) -> Iterator[Record]:
    return document(next(conversations(data), b"null"), "chat_messages", id="uuid")


def read(record: bytes, key: str, reading: Reading[Chat]) -> list[Draft]:
    """One message, or what the conversation says about itself."""
    if key == "about":
        about = msgspec.json.decode(record, type=About)
        at = micros(about.created_at)
        drafts = attached(reading, key, at, title=about.name or "")
        return [*drafts, opaque(f"{NAME}.conversation", record, f"{key}/record", at)]
    message = msgspec.json.decode(record, type=Message)
    at, role = micros(message.created_at), _ROLES.get(message.sender, message.sender)
    if role not in ("user", "assistant"):
        return [opaque(f"{NAME}.{role}", record, key, at)]
    bodies = Bodies(reading, role, answer=key)
    for number, content in enumerate(message.content or []):
        _add_block(bodies, content, f"{key}/call/{number}", reading.state)
    if not message.content:
        bodies.text(message.text)
    for file in [*(message.attachments or []), *(message.files or [])]:
        bodies.text("\n".join(filter(None, (f"[file {file.file_name}]", file.extracted_content))))
    return bodies.drafts(key, at, record)


def _add_block(bodies: Bodies, content: Raw, place: str, state: Chat) -> None:
    block = msgspec.json.decode(content, type=Block)
    if block.type == "text":
        bodies.text(block.text)
    elif block.type == "thinking":
        bodies.thinking(block.thinking)
    elif block.type == "tool_use" and block.name:
        state.open_calls = [*state.open_calls, block.id or place][-20:]
        bodies.call(block.id or place, block.name, block.input)
    elif block.type == "tool_result" and (block.tool_use_id or state.open_calls):
        call = block.tool_use_id or state.open_calls[0]
        state.open_calls = [open for open in state.open_calls if open != call]
        value = msgspec.json.decode(block.content)
        texts = [piece.get("text") for piece in value if isinstance(piece, dict)] if isinstance(value, list) else []
        output = "\n".join(text for text in texts if isinstance(text, str)) or value
        bodies.returned(call, raw(output), failed=bool(block.is_error))
    else:
        bodies.other(block.type, bytes(content))


def recognises(path: PurePath, head: bytes) -> bool:
    begins = re.match(rb'\s*\[?\s*\{\s*"', head) is not None
    return path.suffix == ".json" and begins and b'"chat_messages"' in head


def identify(path: PurePath, first: bytes) -> Identity:
    return identify_first(sessions, first)


RUNTIME = Runtime(
    name=NAME,
    title="Claude.ai (export)",
    home="",
    formats=(
        Format(
            name="export",
            patterns=(),
            recognises=recognises,
            identify=identify,
            read=read,
            state=Chat,
            mutable=True,
            split=split,
            sessions=sessions,
        ),
    ),
    evidence="public tests, not run",
)
