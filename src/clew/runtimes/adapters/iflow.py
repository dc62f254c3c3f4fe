"""iFlow CLI: `~/.iflow/projects/<folder>/session-<id>.jsonl`, in Claude Code's envelope with other links and bodies.

Records of one answer repeat the calls of the one before, all hang on the prompt, and a result is Gemini's: so neither
of the two readers can be used. A call counts once, and `parentUuid` says nothing.

Evidence: a sample file of a public project (agentsview), 2026-11-19: 6 calls with 6 results in 16 records. Not run.
"""

from pathlib import PurePath
from typing import Any

import msgspec
from msgspec import Raw

from clew.model.events import Draft
from clew.runtimes.adapters import claude_code
from clew.runtimes.adapters.message_bodies import Bodies, Chat, attached
from clew.runtimes.contract import Format, Identity, Reading, Runtime, Tool, micros, opaque, raw

NAME = "iflow"
# How many of the last calls are remembered, to read each once.
RECENT = 200


class State(Chat, omit_defaults=True):
    calls: list[str] = []  # noqa: RUF012  # msgspec copies it.


class Block(msgspec.Struct):
    type: str
    text: str | None = None
    id: str = ""
    name: str = ""
    input: Raw = Raw(b"{}")
    tool_use_id: str = ""
    content: Raw = Raw(b"null")


class Message(msgspec.Struct):
    content: str | list[Raw] = ""
    id: str = ""
    model: str = ""


class Result(msgspec.Struct):
    status: str = ""


class Line(msgspec.Struct):
    type: str
    uuid: str = ""
    timestamp: str | None = None
    message: Message | None = None
    cwd: str = ""
    version: str = ""
    toolUseResult: Result | None = None


_decode = msgspec.json.Decoder(Line).decode


def read(record: bytes, key: str, reading: Reading[State]) -> list[Draft]:
    """One record."""
    line, state = _decode(record), reading.state
    at, source = micros(line.timestamp), line.uuid or key
    if line.message is None or line.type not in ("user", "assistant"):
        return [opaque(f"{NAME}.{line.type}", record, source, at)]
    bodies = Bodies(reading, line.type, answer=source, model=line.message.model)
    if isinstance(line.message.content, str):
        bodies.text(line.message.content)
    else:
        for content in line.message.content:
            block = msgspec.json.decode(content, type=Block)
            if block.type == "text":
                bodies.text(block.text)
            elif block.type == "tool_use" and block.id:
                if block.id not in state.calls:
                    state.calls = [*state.calls, block.id][-RECENT:]
                    bodies.call(block.id, block.name, block.input)
            elif block.type == "tool_result" and block.tool_use_id:
                failed = line.toolUseResult is not None and line.toolUseResult.status not in ("", "success")
                bodies.returned(block.tool_use_id, _output(block.content), failed=failed)
            else:
                bodies.other(block.type, bytes(content))
    before = [] if state.attached else attached(reading, source, at, cwd=line.cwd, version=line.version)
    return [*before, *bodies.drafts(source, at, record)]


def _output(content: Raw) -> Raw:
    """What the model got of a result: the response to the function, without what the screen shows."""
    value: Any = msgspec.json.decode(content)
    for name in ("responseParts", "functionResponse", "response"):
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, dict):
        return raw(value.get("output", value.get("error", value)))
    return content


def recognises(path: PurePath, head: bytes) -> bool:
    """Whether a file in Claude Code's envelope is iFlow's: its folder, its name in the records, or a result says so."""
    is_iflow = ".iflow" in path.parts or b'"sessionId":"session-' in head or b'"responseParts":' in head
    return is_iflow and claude_code.recognises(path, head)


def identify(path: PurePath, first: bytes) -> Identity:
    return claude_code.identify(path, first)


RUNTIME = Runtime(
    name=NAME,
    title="iFlow CLI",
    home=".iflow",
    binary="iflow",
    formats=(
        Format(
            name="lines",
            patterns=("projects/*/session-*.jsonl",),
            recognises=recognises,
            identify=identify,
            read=read,
            state=State,
        ),
    ),
    tools={
        "shell": Tool("run_shell_command", {"command": "command"}),
        "read": Tool("read_file", {"path": "absolute_path"}),
        "write": Tool("write_file", {"path": "file_path", "content": "content"}),
        "edit": Tool("replace", {"path": "file_path", "old": "old_string", "new": "new_string"}),
    },
    evidence="a public file, not run",
)
