"""Chat messages as the OpenAI API takes them: JSON lines with `role` and `content`, as many tools save and export them.

Evidence: the public API reference for chat completions, 2026-11-18. The lines have no ids and no times.
"""

import re
from pathlib import PurePath

import msgspec
from msgspec import Raw

from clew.model.events import CallMade, CallReturned, Draft, MessageAdded
from clew.runtimes.contract import Format, Identity, NoState, Reading, Runtime, Unreadable, opaque

NAME = "openai-chat"
ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
_FIRST = re.compile(rb'\s*\{\s*"role"\s*:\s*"(?:user|assistant|system|developer)"\s*,\s*"content"\s*:')


class Function(msgspec.Struct):
    name: str
    arguments: str = "{}"


class ToolCall(msgspec.Struct):
    id: str
    function: Function


class TextBlock(msgspec.Struct):
    type: str = ""
    text: str = ""


class Message(msgspec.Struct):
    role: str
    content: str | list[TextBlock] | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str = ""


def read(record: bytes, key: str, reading: Reading[NoState]) -> list[Draft]:
    """One message: its text, and the calls in it, or what a call returned."""
    message = msgspec.json.decode(record, type=Message)
    text = _text_of(message.content)
    if message.role == "tool":
        if not message.tool_call_id:
            raise Unreadable("a tool message without a tool_call_id")
        output = Raw(msgspec.json.encode(text))
        return [Draft(body=CallReturned(call=message.tool_call_id, output=output), source=key)]
    if message.role not in ROLES:
        return [opaque(f"{NAME}.message", record, key)]
    drafts = []
    if text:
        body = MessageAdded(role=ROLES[message.role], text=text, message=key)
        drafts.append(Draft(body=body, source=key))
    for number, call in enumerate(message.tool_calls or []):
        call_made = CallMade(call=call.id, tool=call.function.name, input=_input_of(call.function), message=key)
        drafts.append(Draft(body=call_made, source=f"{key}/call/{number}"))
    return drafts or [opaque(f"{NAME}.message", record, key)]


def _text_of(content: str | list[TextBlock] | None) -> str:
    if isinstance(content, list):
        return "\n".join(block.text for block in content if block.text)
    return content or ""


def _input_of(function: Function) -> Raw:
    """The arguments, which the API sends as JSON in a string; an llm does not always write valid JSON there."""
    try:
        msgspec.json.decode(function.arguments)
    except (msgspec.DecodeError, RecursionError):
        return Raw(msgspec.json.encode(function.arguments))
    return Raw(function.arguments.encode())


def recognises(path: PurePath, head: bytes) -> bool:
    return path.suffix in (".jsonl", ".ndjson") and _FIRST.match(head) is not None


def identify(path: PurePath, first: bytes) -> Identity:
    return Identity(native=path.stem)


RUNTIME = Runtime(
    name=NAME,
    title="Chat messages",
    home="",
    formats=(Format(name="messages", patterns=(), recognises=recognises, identify=identify, read=read),),
    evidence="public sources, not run",
)
