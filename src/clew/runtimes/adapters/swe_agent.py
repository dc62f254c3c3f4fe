"""SWE-agent: one `.traj` document per run, with the messages (`history`) and the steps (`trajectory`).

Both hold the same conversation, so the adapter reads the history and stores only what a step has beyond it. A document
without a history is read from its steps. A command of the llm is a call of `bash`, whether it was a native call or a
fenced block, and the next item is its result.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import PurePath
from typing import Any

import msgspec
from msgspec import Raw

from clew.model.events import (
    CallMade,
    CallReturned,
    Draft,
    MessageAdded,
    Part,
    RuntimeAttached,
    TextPart,
    ThinkingPart,
    TurnEnded,
    Usage,
)
from clew.runtimes.contract import Format, Identity, Reading, Record, Runtime, Tool, opaque, raw
from clew.runtimes.titles import prompt_text, title_drafts

NAME = "swe-agent"
MAIN = ("main", "primary", "")


class Document(msgspec.Struct):
    trajectory: list[Raw] | None = None
    history: list[Raw] | None = None
    info: dict[str, Raw] | None = None
    environment: str | None = None
    replay_config: Any = None


class Function(msgspec.Struct):
    name: str
    arguments: str | dict[str, Any] | None = None


class Call(msgspec.Struct):
    id: str
    function: Function


class Thought(msgspec.Struct):
    thinking: str | None = None
    signature: str | None = None


class Block(msgspec.Struct):
    type: str = ""
    text: str | None = None


class Item(msgspec.Struct):
    role: str
    content: str | list[Block] | None = None
    message_type: str | None = None
    thought: str | None = None
    action: str | None = None
    tool_calls: list[Call] | None = None
    tool_call_ids: list[str] | None = None
    thinking_blocks: list[Thought] | None = None
    is_demo: bool | None = None
    agent: str | None = None


class Step(msgspec.Struct):
    action: str | None = None
    observation: str | None = None
    response: str | None = None
    thought: str | None = None


class Stats(msgspec.Struct):
    instance_cost: float | None = None
    tokens_sent: int | None = None
    tokens_received: int | None = None


class Info(msgspec.Struct):
    exit_status: str | None = None
    model_stats: Stats | None = None


class About(msgspec.Struct):
    version: str | None = None
    environment: str | None = None
    model: str = ""


class Model(msgspec.Struct):
    name: str = ""


class Agent(msgspec.Struct):
    model: Model = msgspec.field(default_factory=Model)


class Config(msgspec.Struct):
    """The configuration of the run."""

    agent: Agent = msgspec.field(default_factory=Agent)


class State(msgspec.Struct, omit_defaults=True):
    """`call` is the command whose result is the next item."""

    call: str = ""
    titled: bool = False
    model: str = ""


def split(data: bytes) -> Iterator[Record]:
    """First the program and its llm, then the history and the steps, last the end of the run."""
    # msgspec does not check the encoding of raw elements.
    document = msgspec.json.decode(data.decode("utf-8", "replace"), type=Document)
    info = document.info or {}
    version = info.get("swe_agent_version", Raw(b"null"))
    model = _model(document.replay_config)
    yield "about", msgspec.json.encode({"version": version, "environment": document.environment, "model": model})
    for i, item in enumerate(document.history or []):
        yield f"history/{i}", bytes(item)
    steps = document.trajectory or []
    for i, step in enumerate(steps):
        # `query` and `messages` repeat the whole history at every step.
        omitted = {"query", "messages"} | (
            {"action", "observation", "response", "thought"} if document.history else set()
        )
        if i == len(steps) - 1:
            # No message has the result of the last command, so the history lacks it.
            omitted -= {"observation"}
        members: dict[str, Raw] = msgspec.json.decode(step, type=dict[str, Raw])
        yield f"step/{i}", msgspec.json.encode({name: value for name, value in members.items() if name not in omitted})
    if info:
        yield "info", msgspec.json.encode(info)


def _model(config: Any) -> str:
    """The llm of a run; its configuration is an object, or JSON in a string."""
    with suppress(msgspec.DecodeError, RecursionError):
        if isinstance(config, str):
            return msgspec.json.decode(config, type=Config).agent.model.name
        return msgspec.convert(config, Config).agent.model.name
    return ""


def read(record: bytes, key: str, reading: Reading[State]) -> list[Draft]:
    """One record of the document; its key has its kind."""
    if key == "about":
        about = msgspec.json.decode(record, type=About)
        version, reading.state.model = about.version or "", about.model
        return [Draft(body=RuntimeAttached(runtime=NAME, native=reading.native, runtime_version=version), source=key)]
    if key == "info":
        return [*_ended(record, key, reading.state.model), opaque(f"{NAME}.info", record, f"{key}/record")]
    bodies: list[Any]
    if key.startswith("history/"):
        item = msgspec.json.decode(record, type=Item)
        bodies, kind = _item_bodies(item, key, reading.state), "demo" if item.is_demo else item.role
    else:
        bodies, kind = _done(msgspec.json.decode(record, type=Step), key, reading.state), "step"
    if not bodies:
        return [opaque(f"{NAME}.{kind}", record, key)]
    drafts = [Draft(body=body, source=f"{key}/{i}" if i else key) for i, body in enumerate(bodies)]
    return [*drafts, *title_drafts(prompt_text(bodies[0]), reading.state, source=key)]


def _item_bodies(item: Item, key: str, state: State) -> list[Any]:
    text, side = _text(item.content), "" if (item.agent or "") in MAIN else item.agent or ""
    # The instructions and the worked example are not messages of this session.
    if item.is_demo or item.role == "system":
        return []
    if item.role == "assistant":
        thoughts: list[Part] = [
            ThinkingPart(text=thought.thinking or "", signature=thought.signature or "")
            for thought in item.thinking_blocks or []
        ]
        calls = [_call(call, key, side) for call in item.tool_calls or []]
        if not calls and item.action and item.action.strip():
            calls = [_command(item.action, f"{key}/call", key, side)]
            text = item.thought or text
        state.call = calls[0].call if calls else ""
        messages = _message(text, thoughts, key, side)
        return [*messages, *calls]
    if item.tool_call_ids:
        state.call = ""
        return [CallReturned(call=item.tool_call_ids[0], output=raw(text), side=side)]
    if state.call:
        call, state.call = state.call, ""
        return [CallReturned(call=call, output=raw(text), side=side)]
    return [MessageAdded(role="user", text=text, side=side)] if item.role == "user" and text else []


def _done(step: Step, key: str, state: State) -> list[Any]:
    """A step of a document without a history, or the last step of one with a history."""
    if state.call and not step.action and step.observation is not None:
        call, state.call = state.call, ""
        return [CallReturned(call=call, output=raw(step.observation))]
    messages = _message(step.thought or step.response or "", [], key, "")
    if not step.action or not step.action.strip():
        return messages
    call = f"{key}/call"
    return [
        *messages,
        _command(step.action, call, key, ""),
        CallReturned(call=call, output=raw(step.observation or "")),
    ]


def _message(text: str, thoughts: list[Part], key: str, side: str) -> list[Any]:
    if thoughts:
        parts = (*thoughts, *([TextPart(text=text)] if text else []))
        return [MessageAdded(role="assistant", parts=parts, message=key, side=side)]
    return [MessageAdded(role="assistant", text=text, message=key, side=side)] if text else []


def _command(action: str, call: str, key: str, side: str) -> CallMade:
    return CallMade(call=call, tool="bash", input=raw({"command": action}), message=key, side=side)


def _call(call: Call, key: str, side: str) -> CallMade:
    arguments = call.function.arguments
    if isinstance(arguments, str):
        # The llm's arguments may not be valid JSON: then they stay a string.
        with suppress(msgspec.DecodeError, RecursionError):
            arguments = msgspec.json.decode(arguments)
    return CallMade(call=call.id, tool=call.function.name, input=raw(arguments or {}), message=key, side=side)


def _text(content: str | list[Block] | None) -> str:
    if isinstance(content, list):
        return "\n".join(block.text for block in content if block.text)
    return content or ""


def _ended(record: bytes, key: str, model: str) -> list[Draft]:
    """The end of the run. Before it the totals still grow and must not be counted."""
    info = msgspec.json.decode(record, type=Info)
    if not info.exit_status:
        return []
    stats = info.model_stats or Stats()
    usage = Usage(
        input=stats.tokens_sent or 0,
        output=stats.tokens_received or 0,
        cost_micros=round((stats.instance_cost or 0) * 1_000_000),
    )
    spent = usage if usage.tokens or usage.cost_micros else None
    return [Draft(body=TurnEnded(stop_reason=info.exit_status, usage=spent, model=model), source=key)]


def recognises(path: PurePath, head: bytes) -> bool:
    return path.suffix == ".traj" and head.lstrip().startswith(b"{")


def identify(path: PurePath, first: bytes) -> Identity:
    """The run and the instance: an instance can have many runs."""
    folder = path.parent.parent if path.parent.name == path.stem else path.parent
    return Identity(native=f"{folder.name}/{path.stem}" if folder.name else path.stem)


RUNTIME = Runtime(
    name=NAME,
    title="SWE-agent",
    home="",
    binary="sweagent",
    formats=(
        Format(
            name="trajectory",
            patterns=(),
            recognises=recognises,
            identify=identify,
            read=read,
            state=State,
            mutable=True,
            split=split,
        ),
    ),
    tools={"shell": Tool("bash", {"command": "command"})},
    evidence="a public file, not run",
)
