"""gptme: `~/.local/share/gptme/logs/<name>/conversation.jsonl`, a message per line.

A call is text of the answer (a code block, or `@tool(id): {...}` at its end); what a tool returned is a message of the
system, which in newer versions names the call. Messages have no id. Branches (`branches/`) are not read.

Evidence: gptme's public sources and a sample file of a public project, 2026-11-19. Not run.
"""

import re
from pathlib import PurePath
from typing import Any

import msgspec
from msgspec import Raw

from clew.model.events import Draft, Usage
from clew.runtimes.adapters.message_bodies import Bodies, Chat, json_text, once_attached, whole_number
from clew.runtimes.contract import Format, Identity, Reading, Runtime, Tool, micros, opaque

NAME = "gptme"
_CALL = re.compile(r"^@(\w+)\(([\w.-]+)\): *(\{.*\})\s*\Z", re.DOTALL | re.MULTILINE)
_FIRST = re.compile(rb'\s*\{"role":\s*"(?:system|user|assistant)",\s*"content":')


class Metadata(msgspec.Struct):
    model: str = ""
    usage: dict[str, Any] = {}
    cost: float | None = None


class Message(msgspec.Struct):
    role: str
    content: str = ""
    timestamp: str | None = None
    pinned: bool = False
    hide: bool = False
    call_id: str | None = None
    metadata: Metadata | None = None


_decode = msgspec.json.Decoder(Message).decode


def read(record: bytes, key: str, reading: Reading[Chat]) -> list[Draft]:
    """One message."""
    message = _decode(record)
    at, about = micros(message.timestamp), message.metadata or Metadata()
    before = once_attached(reading, key, at)
    if message.pinned or message.hide:
        return [*before, opaque(f"{NAME}.{message.role}", record, key, at)]
    bodies = Bodies(reading, message.role, answer=f"{reading.native}/{key}", model=about.model)
    if message.call_id and message.role in ("system", "tool"):
        bodies.returned(message.call_id, json_text(message.content))
    elif message.role == "assistant":
        _add_answer(bodies, message.content)
    elif message.role == "user":
        bodies.text(message.content)
    elif message.role in ("system", "tool"):
        # The result of a call that is text, or a notice.
        bodies = Bodies(reading, "system")
        bodies.text(message.content)
    return [*before, *bodies.drafts(key, at, record, usage=_usage(about))]


def _add_answer(bodies: Bodies, text: str) -> None:
    call = _CALL.search(text)
    if call is not None:
        try:
            msgspec.json.decode(call[3])
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            call = None
    bodies.text(text[: call.start()].rstrip() if call else text)
    if call is not None:
        bodies.call(call[2], call[1], Raw(call[3].encode()))


def _usage(about: Metadata) -> Usage:
    """The usage of an answer; its input excludes the cached tokens."""
    tokens = {name: whole_number(value) for name, value in about.usage.items()}
    return Usage(
        input=tokens.get("input_tokens", 0),
        output=tokens.get("output_tokens", 0),
        cache_read=tokens.get("cache_read_tokens", 0),
        cache_write=tokens.get("cache_creation_tokens", 0),
        cost_micros=round(about.cost * 1_000_000) if about.cost and 0 < about.cost < 1e6 else 0,
    )


def recognises(path: PurePath, head: bytes) -> bool:
    first = head.lstrip().partition(b"\n")[0]
    return path.name == "conversation.jsonl" and _FIRST.match(first) is not None and b'"timestamp"' in first


def identify(path: PurePath, first: bytes) -> Identity:
    """The folder has the conversation's name."""
    return Identity(native=path.parent.name or path.stem)


RUNTIME = Runtime(
    name=NAME,
    title="gptme",
    home="",
    binary="gptme",
    formats=(
        Format(
            name="conversation",
            patterns=(
                ".local/share/gptme/logs/*/conversation.jsonl",
                "Library/Application Support/gptme/logs/*/conversation.jsonl",
            ),
            recognises=recognises,
            identify=identify,
            read=read,
            state=Chat,
        ),
    ),
    tools={"shell": Tool("shell", {"command": "command"})},
    evidence="public sources and a public file, not run",
)
