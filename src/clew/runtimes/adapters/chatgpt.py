"""ChatGPT: `conversations.json` of a data export (newer ones: `conversations-000.json` ...), with all conversations.

A conversation is a tree of messages, `mapping`. What was said last is the branch that ends in `current_node`; other
branches (edited prompts, answers given again) are kept verbatim. What a tool of ChatGPT did is told in messages: a call
of a tool is an answer to `recipient`, its result a message of `tool`.

Evidence: a sample file and tests of two public projects, 2026-11-19. The vendor publishes no schema. No real export.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePath
from typing import Any

import msgspec
from msgspec import Raw

from clew.model.events import Draft
from clew.runtimes.adapters.message_bodies import Bodies, Chat, attached, json_or_text, keyed
from clew.runtimes.contract import Format, Identity, Reading, Record, Runtime, Unreadable, from_seconds, opaque, raw
from clew.runtimes.records import without_halves

NAME = "chatgpt"


class Node(msgspec.Struct):
    parent: str | None = None
    children: list[str] = []
    message: Raw = Raw(b"null")


class About(msgspec.Struct):
    title: str | None = None
    create_time: float | None = None
    conversation_id: str | None = None
    id: str | None = None
    current_node: str | None = None


class Author(msgspec.Struct):
    role: str = ""
    name: str | None = None


class Content(msgspec.Struct):
    content_type: str = ""
    parts: list[Any] | None = None
    text: str | None = None
    thoughts: list[dict[str, Any]] | None = None


class Metadata(msgspec.Struct):
    model_slug: str | None = None
    is_visually_hidden_from_conversation: bool = False


class Message(msgspec.Struct):
    id: str = ""
    author: Author = msgspec.field(default_factory=Author)
    create_time: float | None = None
    content: Content = msgspec.field(default_factory=Content)
    recipient: str | None = None
    metadata: Metadata = msgspec.field(default_factory=Metadata)


def sessions(data: bytes) -> Iterator[tuple[Identity, bytes]]:
    """Every conversation of an export. A file with one conversation is one, too."""
    for conversation in conversations(data):
        about = msgspec.json.decode(without_halves(conversation), type=About)
        yield Identity(native=about.conversation_id or about.id or "", project="chatgpt"), conversation


def conversations(data: bytes) -> Iterator[bytes]:
    """The elements of a document that is a list, or the document."""
    whole = data.decode("utf-8", "replace").encode()
    if not whole.lstrip().startswith(b"["):
        yield whole
        return
    for element in msgspec.json.decode(whole, type=list[Raw]):
        yield bytes(element)


def split(data: bytes) -> Iterator[Record]:
    """The messages of one conversation: those of the current branch in order, then what is left of the tree."""
    whole = next(conversations(data), b"null")
    members = msgspec.json.decode(whole, type=dict[str, Raw])
    nodes = msgspec.json.decode(without_halves(bytes(members.pop("mapping"))), type=dict[str, Node])
    yield "about", msgspec.json.encode(members)
    current = msgspec.json.decode(members.get("current_node", Raw(b"null")))
    branch = _branch(nodes, current if isinstance(current, str) else "")
    others = [name for name in nodes if name not in branch]
    messages = [(name, bytes(nodes[name].message)) for name in branch]
    messages += [(f"other/{name}", bytes(nodes[name].message)) for name in others]
    yield from keyed((name, message) for name, message in messages if message != b"null")


def _branch(nodes: dict[str, Node], current: str) -> list[str]:
    """The names of the nodes from the root to the current one; the last child of each if none is current."""
    branch: dict[str, None] = {}
    if current in nodes:
        name: str | None = current
        while name in nodes and name not in branch:
            branch[name] = None
            name = nodes[name].parent
        return list(branch)[::-1]
    name = next((name for name, node in nodes.items() if node.parent not in nodes), None)
    while name in nodes and name not in branch:
        branch[name] = None
        name = nodes[name].children[-1] if nodes[name].children else None
    return list(branch)


def read(record: bytes, key: str, reading: Reading[Chat]) -> list[Draft]:
    """One message, or what the conversation says about itself."""
    if key == "about":
        about = msgspec.json.decode(record, type=About)
        at = from_seconds(about.create_time)
        drafts = attached(reading, key, at, title=about.title or "")
        return [*drafts, opaque(f"{NAME}.conversation", record, f"{key}/record", at)]
    message = msgspec.json.decode(record, type=Message)
    at, role, content = from_seconds(message.create_time), message.author.role, message.content
    about_message = message.metadata
    if key.startswith("other/") or about_message.is_visually_hidden_from_conversation:
        return [opaque(f"{NAME}.{role or 'message'}", record, key, at)]
    state = reading.state
    bodies = Bodies(reading, role, answer=key, model=about_message.model_slug or "")
    text = _text(content)
    if role == "assistant" and message.recipient not in (None, "all"):
        state.open_calls = [key]
        bodies.call(key, message.recipient or "", json_or_text(text))
    elif role == "tool":
        if not state.open_calls:  # What the tool was asked is not in the export.
            bodies.call(f"{key}/call", message.author.name or "tool", Raw(b"{}"))
        bodies.returned(state.open_calls[0] if state.open_calls else f"{key}/call", raw(text))
        state.open_calls = []
    elif role == "assistant" and content.content_type in ("thoughts", "reasoning_recap"):
        thoughts = [str(thought.get("content") or "") for thought in content.thoughts or []]
        bodies.thinking("\n".join(thoughts))
    elif role in ("user", "assistant") and content.content_type != "user_editable_context":
        bodies.text(text)
    return bodies.drafts(key, at, record)


def _text(content: Content) -> str:
    """The texts of a message; an image is a pointer into the export, named in its place."""
    pieces = [content.text or ""]
    for part in content.parts or []:
        if isinstance(part, str):
            pieces.append(part)
        elif isinstance(part, dict):
            named = part.get("text") or part.get("asset_pointer")
            pieces.append(f"[{named}]" if part.get("asset_pointer") else str(named or ""))
    return "\n".join(piece for piece in pieces if piece)


def recognises(path: PurePath, head: bytes) -> bool:
    begins = re.match(rb'\s*\[?\s*\{\s*"', head) is not None
    of_messages = re.search(rb'"(create_time|author)"', head) is not None
    return path.suffix == ".json" and begins and b'"mapping"' in head and of_messages


def identify(path: PurePath, first: bytes) -> Identity:
    return identify_first(sessions, first)


def identify_first(sessions: Callable[[bytes], Iterable[tuple[Identity, bytes]]], data: bytes) -> Identity:
    """The identity of the first session of an export; ValueError if there is none."""
    try:
        found = next(iter(sessions(data)), None)
    except RecursionError as error:
        raise Unreadable("an export that nests too deeply") from error
    if found is None:
        raise Unreadable("an export without a conversation")
    return found[0]


RUNTIME = Runtime(
    name=NAME,
    title="ChatGPT (export)",
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
    evidence="public files, not run",
)
