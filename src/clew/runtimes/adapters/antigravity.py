"""Antigravity (Google): the transcript that its command line and its editor keep beside a conversation.

`brain/<id>/.system_generated/logs/transcript.jsonl` has a line per step. A call has no id; the steps after it are the
results of its calls, in their order. The conversation itself (`conversations/*.pb`, encrypted, or `*.db`) is not read.

Evidence: sample files of two public projects (agent-sessions, cross_agent_session_resumer), 2026-11-19. Not run.
"""

import re
from pathlib import PurePath

import msgspec
from msgspec import Raw

from clew.model.events import Draft
from clew.runtimes.adapters.message_bodies import Bodies, Chat, json_text, once_attached
from clew.runtimes.contract import Format, Identity, Reading, Runtime, Tool, micros, opaque

NAME = "antigravity"
_REQUEST = re.compile(r"\s*<USER_REQUEST>\n?(.*?)\n?</USER_REQUEST>", re.DOTALL)
# Steps of the model that are no result of a call.
_SAID = {"PLANNER_RESPONSE", "GENERIC"}


class Call(msgspec.Struct):
    name: str
    args: Raw = Raw(b"{}")


class Step(msgspec.Struct):
    type: str
    source: str = ""
    status: str = ""
    created_at: str | None = None
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[Call] | None = None


_decode = msgspec.json.Decoder(Step).decode


def read(record: bytes, key: str, reading: Reading[Chat]) -> list[Draft]:
    """One step."""
    step, state = _decode(record), reading.state
    at = micros(step.created_at)
    before = once_attached(reading, key, at)
    if step.type == "USER_INPUT":
        state.open_calls = []
        request = _REQUEST.match(step.content or "")
        bodies = Bodies(reading, "user")
        bodies.text(request[1] if request else step.content)
        return [*before, *bodies.drafts(key, at, record)]
    if step.source != "MODEL":
        return [*before, opaque(f"{NAME}.{step.type}", record, key, at)]
    bodies = Bodies(reading, "assistant", answer=f"{reading.native}/{key}")
    if step.type in _SAID:
        bodies.thinking(step.thinking)
        bodies.text(step.content)
        calls = [f"{key}/call/{number}" for number, _ in enumerate(step.tool_calls or [])]
        for id, call in zip(calls, step.tool_calls or [], strict=True):
            bodies.call(id, call.name, call.args)
        # Calls without a result by now have none.
        state.open_calls = calls or state.open_calls
    else:
        if not state.open_calls:  # The transcript leaves out some calls, but not what they returned.
            state.open_calls = [f"{key}/call/0"]
            bodies.call(f"{key}/call/0", step.type.lower(), Raw(b"{}"))
        failed = step.status in ("ERROR", "FAILED", "CANCELED")
        bodies.returned(state.open_calls[0], json_text(step.content), failed=failed)
        state.open_calls = state.open_calls[1:]
    return [*before, *bodies.drafts(key, at, record)]


def recognises(path: PurePath, head: bytes) -> bool:
    return path.suffix == ".jsonl" and re.match(rb'\s*\{"step_index":\s*\d+,\s*"source":', head) is not None


def identify(path: PurePath, first: bytes) -> Identity:
    """The folder below `brain` has the conversation's id."""
    folders = path.parts[:-1]
    return Identity(native=folders[folders.index("brain") + 1] if "brain" in folders[:-1] else path.stem)


RUNTIME = Runtime(
    name=NAME,
    title="Antigravity",
    home=".gemini",
    binary="agy",
    formats=(
        Format(
            name="transcript",
            patterns=tuple(
                f"{program}/brain/*/.system_generated/logs/transcript.jsonl"
                for program in ("antigravity-cli", "antigravity")
            ),
            recognises=recognises,
            identify=identify,
            read=read,
            state=Chat,
        ),
    ),
    tools={
        "shell": Tool("run_command", {"command": "CommandLine"}),
        "read": Tool("view_file", {"path": "AbsolutePath"}),
        "list": Tool("list_dir", {"path": "DirectoryPath"}),
    },
    evidence="public files, not run",
)
