"""Continue: a JSON document for each session, `~/.continue/sessions/<id>.json`; `sessions.json` beside them is a list.

An item of `history` has the message, and beside it the state of each of its calls with what that returned. A message
has no time; it is named by the id that newer versions give it, or by its place.

Evidence: descriptions and tests of public readers of Continue's `Session` type, 2026-11-19. No real file, not run.
"""

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import msgspec
from msgspec import Raw

from clew.model.events import Draft, Usage
from clew.runtimes.adapters.message_bodies import Bodies, Chat, attached, directory, document, json_or_text
from clew.runtimes.contract import Format, Identity, Reading, Record, Runtime, Tool, identity_in, micros, opaque, raw

NAME = "continue"


class About(msgspec.Struct):
    sessionId: str = ""
    title: str = ""
    workspaceDirectory: str = ""
    chatModelTitle: str | None = None
    usage: Any = None


class Text(msgspec.Struct):
    """What is thought is `text`, what a call returned is `content`."""

    text: str = ""
    content: str = ""


class Function(msgspec.Struct):
    name: str = ""
    arguments: str | None = None


class Call(msgspec.Struct):
    id: str = ""
    function: Function = msgspec.field(default_factory=Function)


class CallState(msgspec.Struct):
    toolCallId: str = ""
    toolCall: Call | None = None
    status: str = ""
    output: list[Text] | str | None = None


class Tokens(msgspec.Struct):
    promptTokens: int = 0
    completionTokens: int = 0


class Message(msgspec.Struct):
    role: str
    content: str | list[Raw] = ""
    toolCalls: list[Call] | None = None
    toolCallId: str = ""
    signature: str | None = None
    usage: Tokens | None = None


class Item(msgspec.Struct):
    message: Message
    id: str | None = None
    timestamp: str | float | None = None
    toolCallStates: list[CallState] | None = None
    reasoning: Text | None = None


class Part(msgspec.Struct):
    type: str
    text: str | None = None
    imageUrl: dict[str, str] | None = None


def split(data: bytes) -> Iterator[Record]:
    return document(data, "history")


def read(record: bytes, key: str, reading: Reading[Chat]) -> list[Draft]:
    """One item of the history, or what the session says about itself."""
    if key == "about":
        about = msgspec.json.decode(record, type=About)
        reading.state.model = about.chatModelTitle or ""
        title = "" if about.title == "New Session" else about.title
        drafts = attached(reading, key, None, cwd=directory(about.workspaceDirectory), title=title)
        return [*drafts, opaque(f"{reading.runtime}.session", record, f"{key}/record")]
    item = msgspec.json.decode(record, type=Item)
    message, at = item.message, micros(item.timestamp)
    role = "assistant" if message.role == "thinking" else message.role
    bodies = Bodies(reading, role, answer=f"{reading.native}/{key}", model=reading.state.model)
    if message.role == "tool" and message.toolCallId:
        # The state beside the call repeats it; one call has one result.
        if message.toolCallId not in reading.state.open_calls:
            return [opaque(f"{reading.runtime}.tool", record, key, at)]
        reading.state.open_calls.remove(message.toolCallId)
        bodies.returned(message.toolCallId, raw(_text(message.content)))
        return bodies.drafts(key, at, record)
    if message.role not in ("user", "assistant", "thinking"):
        return [opaque(f"{reading.runtime}.{message.role}", record, key, at)]
    bodies.thinking(item.reasoning.text if item.reasoning else "")
    _add_parts(bodies, message)
    _add_calls(bodies, item, key, reading)
    usage = message.usage or Tokens()
    spent = Usage(input=max(0, usage.promptTokens), output=max(0, usage.completionTokens))
    return bodies.drafts(key, at, record, usage=spent)


def _add_parts(bodies: Bodies, message: Message) -> None:
    if message.role == "thinking":
        bodies.thinking(_text(message.content), message.signature)
        return
    if isinstance(message.content, str):
        bodies.text(message.content)
        return
    for content in message.content:
        part = msgspec.json.decode(content, type=Part)
        if part.type == "text":
            bodies.text(part.text)
        elif (url := (part.imageUrl or {}).get("url", "")).startswith("data:"):
            bodies.image(url)
        else:
            bodies.other(part.type, bytes(content))


def _add_calls(bodies: Bodies, item: Item, key: str, reading: Reading[Chat]) -> None:
    """The calls of an answer, then their results, as far as the item has them."""
    states = [state for state in item.toolCallStates or [] if state.toolCall or state.toolCallId]
    calls = item.message.toolCalls or [state.toolCall for state in states if state.toolCall]
    ids = {id(call): call.id or f"{key}/call/{number}" for number, call in enumerate(calls)}
    for call in calls:
        bodies.call(ids[id(call)], call.function.name, json_or_text(call.function.arguments))
        reading.state.open_calls.append(ids[id(call)])
    for state in states:
        name = state.toolCallId or (ids.get(id(state.toolCall), "") if state.toolCall else "")
        ended = state.output is not None or state.status in ("errored", "canceled")
        if name in reading.state.open_calls and ended:
            reading.state.open_calls.remove(name)
            output = state.output or ""
            text = output if isinstance(output, str) else "\n".join(one.content for one in output)
            bodies.returned(name, raw(text), failed=state.status in ("errored", "canceled"))
    reading.state.open_calls = reading.state.open_calls[-100:]


def _text(content: str | list[Raw]) -> str:
    if isinstance(content, str):
        return content
    parts = (msgspec.json.decode(part, type=Part) for part in content)
    return "\n".join(part.text for part in parts if part.text)


def recognises(path: PurePath, head: bytes) -> bool:
    has_members = b'"history"' in head and (b'"message"' in head or b'"workspaceDirectory"' in head)
    begins = re.match(rb'\s*\{\s*"(sessionId|title|history)"\s*:', head) is not None
    return path.suffix == ".json" and has_members and begins


def identify(path: PurePath, first: bytes) -> Identity:
    """The document has the session's id, and so has the file's name."""
    try:
        about = msgspec.json.decode(first, type=About)
    except (ValueError, RecursionError):
        about = About()
    return identity_in(directory(about.workspaceDirectory), about.sessionId or path.stem)


RUNTIME = Runtime(
    name=NAME,
    title="Continue",
    home=".continue",
    home_variable="CONTINUE_GLOBAL_DIR",
    binary="cn",
    formats=(
        Format(
            name="session",
            # `sessions.json` is the list of all.
            patterns=("sessions/*-*.json",),
            recognises=recognises,
            identify=identify,
            read=read,
            state=Chat,
            mutable=True,
            split=split,
        ),
    ),
    tools={
        "shell": Tool("run_terminal_command", {"command": "command"}),
        "read": Tool("read_file", {"path": "filepath"}),
        "write": Tool("create_new_file", {"path": "filepath", "content": "contents"}),
    },
    evidence="public descriptions, not run",
)
