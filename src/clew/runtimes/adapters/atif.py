"""ATIF, the Agent Trajectory Interchange Format: one JSON document of numbered steps, read in any 1.x, written as 1.7.

A step of the agent holds its texts, its calls and their results. What the format cannot hold (that a call failed, input
that is not an object, output that is not text) is written to `extra` and read from there.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import Any

import msgspec
from msgspec import Raw

from clew.model.errors import InvalidInput
from clew.model.events import (
    CallMade,
    CallReturned,
    Draft,
    ImagePart,
    MessageAdded,
    Part,
    RuntimeAttached,
    SessionTitled,
    TextPart,
    ThinkingPart,
    Usage,
)
from clew.model.outline import Read, nothing_is_outlined
from clew.model.title import LONGEST, shortened
from clew.runtimes.adapters.interchange import NOTHING, Totals
from clew.runtimes.contract import Format, Identity, Reading, Record, Runtime, iso, micros, opaque, raw
from clew.runtimes.rounds import Answer, Prompt, Results, Round, output_text, whole
from clew.runtimes.titles import title_drafts

NAME = "atif"
VERSION = "ATIF-v1.7"
_SESSION = re.compile(rb'"session_id"\s*:\s*"([^"\\]{1,200})"')
_ROLES = {"user": "user", "agent": "assistant", "system": "system"}
IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")


class Agent(msgspec.Struct):
    name: str = ""
    version: str = ""
    model_name: str | None = None


class Head(msgspec.Struct):
    schema_version: str
    session_id: str | None = None
    agent: Agent = msgspec.field(default_factory=Agent)
    extra: dict[str, Any] | None = None


class Content(msgspec.Struct):
    type: str
    text: str | None = None


class ToolCall(msgspec.Struct):
    tool_call_id: str
    function_name: str
    arguments: Raw = Raw(b"{}")
    extra: dict[str, Any] | None = None


class Result(msgspec.Struct):
    source_call_id: str | None = None
    content: str | list[Content] | None = None
    extra: dict[str, Any] | None = None


class Observation(msgspec.Struct):
    results: list[Result] = []


class Metrics(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    extra: dict[str, Any] | None = None


class Step(msgspec.Struct):
    step_id: int
    source: str
    message: str | list[Content] = ""
    timestamp: str | None = None
    model_name: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None
    observation: Observation | None = None
    metrics: Metrics | None = None
    is_copied_context: bool | None = None


class State(msgspec.Struct, omit_defaults=True):
    model: str = ""
    titled: bool = False


# Reading --------------------------------------------------------------------------------------------------------------


def split(data: bytes) -> Iterator[Record]:
    """The members around the steps, then each step by its number, then the subagents' whole trajectories."""
    # msgspec does not check the encoding of raw elements.
    members = msgspec.json.decode(data.decode("utf-8", "replace"), type=dict[str, Raw])
    steps = msgspec.json.decode(members.pop("steps", Raw(b"[]")), type=list[Raw])
    subagents = msgspec.json.decode(members.pop("subagent_trajectories", Raw(b"null")), type=list[Raw] | None)
    yield "head", msgspec.json.encode(members)
    for i, step in enumerate(steps, 1):
        yield f"step/{i}", bytes(step)
    for i, subagent in enumerate(subagents or [], 1):
        yield f"subagent/{i}", bytes(subagent)


def read(record: bytes, key: str, reading: Reading[State]) -> list[Draft]:
    """One record of the document; its key has its kind."""
    if key == "head":
        return _read_head(record, key, reading)
    if key.startswith("subagent/"):
        return [opaque(f"{NAME}.subagent", record, key)]
    step, state = msgspec.json.decode(record, type=Step), reading.state
    at = micros(step.timestamp)
    bodies = _step_bodies(step, f"{reading.native}/{key}", state)
    kept = [] if bodies and not _has_images(step) else [opaque(f"{NAME}.{step.source}", record, f"{key}/record", at)]
    drafts = [Draft(body=body, source=f"{key}/{i}" if i else key, said_at=at) for i, body in enumerate(bodies)]
    first = bodies[0] if bodies else None
    if not state.titled and isinstance(first, MessageAdded) and first.role == "user" and not step.is_copied_context:
        texts = [part.text for part in first.content if isinstance(part, TextPart)]
        drafts += title_drafts("\n".join(texts), state, source=key, at=at)
    return drafts + kept


def _read_head(record: bytes, key: str, reading: Reading[State]) -> list[Draft]:
    head = msgspec.json.decode(record, type=Head)
    reading.state.model = head.agent.model_name or ""
    runtime, native = head.agent.name or NAME, head.session_id or reading.native
    version = "" if head.agent.version == "unknown" else head.agent.version
    drafts = [Draft(body=RuntimeAttached(runtime=runtime, native=native, runtime_version=version), source=key)]
    title = (head.extra or {}).get("title")
    if isinstance(title, str) and title.strip():
        reading.state.titled = True
        drafts.append(Draft(body=SessionTitled(title=shortened(title.strip(), LONGEST)), source=f"{key}/title"))
    return [*drafts, opaque(f"{NAME}.head", record, f"{key}/record")]


def _step_bodies(step: Step, answer: str, state: State) -> list[Any]:
    """The bodies of a step. `answer` is unique among all sessions; a step's number is unique only in its trajectory."""
    role = _ROLES[step.source]
    parts: list[Part] = [ThinkingPart(text=step.reasoning_content)] if step.reasoning_content else []
    texts = [step.message] if isinstance(step.message, str) else [part.text for part in step.message]
    parts += [TextPart(text=text) for text in texts if text]
    # The usage of a copied step is counted in its own trajectory.
    usage = None if step.is_copied_context else _usage(step.metrics)
    about: dict[str, Any] = {"message": answer, "model": step.model_name or state.model} if role == "assistant" else {}
    bodies: list[Any] = []
    if len(parts) == 1 and isinstance(part := parts[0], TextPart):
        bodies.append(MessageAdded(role=role, text=part.text, usage=usage, **about))
    elif parts:
        bodies.append(MessageAdded(role=role, parts=tuple(parts), usage=usage, **about))
    for call in step.tool_calls or []:
        input = raw(msgspec.json.decode(call.arguments)["input"]) if _marked(call.extra, "wrapped") else call.arguments
        spent = None if bodies else usage
        bodies.append(CallMade(call=call.tool_call_id, tool=call.function_name, input=input, usage=spent, **about))
    for result in step.observation.results if step.observation else []:
        call_id = result.source_call_id or (result.extra or {}).get("call")
        if isinstance(call_id, str):
            bodies.append(_returned(call_id, result))
        elif text := _text(result.content):
            # An observation without a call is a message of the environment.
            bodies.append(MessageAdded(role="user", text=text))
    return bodies


def _returned(call: str, result: Result) -> CallReturned:
    text = _text(result.content)
    output = Raw(text.encode()) if _marked(result.extra, "json") and _is_json(text) else raw(text)
    return CallReturned(call=call, output=output, failed=_marked(result.extra, "is_error"))


def _text(content: str | list[Content] | None) -> str:
    if isinstance(content, list):
        return "\n".join(block.text for block in content if block.text)
    return content or ""


def _has_images(step: Step) -> bool:
    """Whether the step names images, which are separate files."""
    contents = [step.message, *(item.content for item in (step.observation or Observation()).results)]
    return any(item.type != "text" for blocks in contents if isinstance(blocks, list) for item in blocks)


def _usage(metrics: Metrics | None) -> Usage | None:
    """The usage of a step. The format includes cached tokens in the prompt's; the other counts are in `extra`."""
    if metrics is None:
        return None
    extra = metrics.extra or {}
    cached, write = metrics.cached_tokens or 0, _count(extra, "cache_creation_input_tokens")
    return Usage(
        input=max((metrics.prompt_tokens or 0) - cached - write, 0),
        output=metrics.completion_tokens or 0,
        cache_read=cached,
        cache_write=write,
        cache_write_hour=min(_count(extra.get("cache_creation"), "ephemeral_1h_input_tokens"), write),
        reasoning=_count(extra, "reasoning_tokens"),
        cost_micros=round((metrics.cost_usd or 0) * 1_000_000),
    )


def _count(counts: Any, name: str) -> int:
    count = counts.get(name) if isinstance(counts, dict) else None
    return count if isinstance(count, int) else 0


def _marked(extra: dict[str, Any] | None, name: str) -> bool:
    return (extra or {}).get(name) is True


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def recognises(path: PurePath, head: bytes) -> bool:
    return re.search(rb'"schema_version"\s*:\s*"ATIF-v1\.', head) is not None


def identify(path: PurePath, first: bytes) -> Identity:
    """The session that the document names, or the file's path; many files have the name `trajectory.json`."""
    if match := _SESSION.search(first):
        return Identity(native=match[1].decode("utf-8", "replace"))
    return Identity(native=f"{path.parent.name}/{path.stem}" if path.parent.name else path.stem)


# Writing --------------------------------------------------------------------------------------------------------------


def steps(rounds: Iterable[Round], read: Read = nothing_is_outlined) -> Iterator[bytes]:
    """The steps of a conversation, which can be an outline, each as JSON. Images are named by their digest."""
    number = 0
    step: dict[str, Any] = {}
    for round in rounds:
        round = whole(round, read)
        if isinstance(round, Results):
            for back in round.returns:
                if not _is_of(back, step):
                    if step:
                        yield _numbered(step, number := number + 1)
                    step = {"timestamp": iso(round.at), "source": "system", "message": ""}
                _observe(back, step)
            continue
        if step:
            yield _numbered(step, number := number + 1)
        if isinstance(round, Prompt):
            source = "system" if round.role == "system" else "user"
            step = {"timestamp": iso(round.at), "source": source, "message": _message(round.parts)}
        else:
            step = _answer(round)
    if step:
        yield _numbered(step, number + 1)


def _numbered(step: dict[str, Any], number: int) -> bytes:
    return msgspec.json.encode({"step_id": number, **step})


def document(
    steps: Iterable[bytes], *, session: str, agent: str, model: str, title: str, totals: Totals = NOTHING
) -> Iterator[bytes]:
    """An ATIF document around its steps, a piece at a time; raises before the first piece if there is no step."""
    head = {
        "schema_version": VERSION,
        "session_id": session,
        "agent": {"name": agent, "version": "unknown"} | ({"model_name": model} if model else {}),
    }
    total = 0
    for total, step in enumerate(steps, 1):
        yield (b"," if total > 1 else msgspec.json.encode(head)[:-1] + b',"steps":[') + step
    if not total:
        raise InvalidInput("a trajectory has at least one step, and this conversation has none; export another session")
    metrics: dict[str, Any] = {"total_steps": total}
    if totals.tokens or totals.cached_tokens:
        metrics |= {"total_cached_tokens": totals.cached_tokens}
        metrics |= {} if totals.cost_micros is None else {"total_cost_usd": totals.cost_micros / 1e6}
    tail = {"final_metrics": metrics} | ({"extra": {"title": title}} if title else {})
    yield b"]," + msgspec.json.encode(tail)[1:]


def _answer(answer: Answer) -> dict[str, Any]:
    step: dict[str, Any] = {"timestamp": iso(answer.at), "source": "agent", "message": _message(answer.parts)}
    if answer.model:
        step["model_name"] = answer.model
    if thoughts := [part.text for part in answer.parts if isinstance(part, ThinkingPart)]:
        step["reasoning_content"] = "\n".join(thoughts)
    if answer.calls:
        step["tool_calls"] = [_call(call) for call in answer.calls]
    return step


def _call(call: CallMade) -> dict[str, Any]:
    input = msgspec.json.decode(call.input)
    named = {"tool_call_id": call.call, "function_name": call.tool}
    if isinstance(input, dict):
        return named | {"arguments": call.input}
    return named | {"arguments": {"input": input}, "extra": {"wrapped": True}}


def _message(parts: tuple[Part | CallMade, ...]) -> str | list[dict[str, Any]]:
    """Plain text, or content parts if there are several."""
    contents: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, TextPart):
            contents.append({"type": "text", "text": part.text})
        elif isinstance(part, ImagePart) and part.media_type in IMAGES:
            source = {"media_type": part.media_type, "path": f"images/{part.blob}"}
            contents.append({"type": "image", "source": source})
    if all(content["type"] == "text" for content in contents) and len(contents) < 2:
        return contents[0]["text"] if contents else ""
    return contents


def _is_of(back: CallReturned, step: dict[str, Any]) -> bool:
    """Whether a step made the call of this result."""
    return any(call["tool_call_id"] == back.call for call in step.get("tool_calls", []))


def _observe(back: CallReturned, step: dict[str, Any]) -> None:
    """Add a result to a step: the step that called, or a step of the system."""
    result: dict[str, Any] = {"source_call_id": back.call, "content": output_text(back)}
    extra: dict[str, Any] = {"is_error": True} if back.failed else {}
    if not isinstance(msgspec.json.decode(back.output), str | None):
        # Not `output_text`: content that is marked as JSON must be JSON.
        result["content"], extra["json"] = bytes(back.output).decode(), True
    if not _is_of(back, step):
        result["source_call_id"], extra["call"] = None, back.call
    if extra:
        result["extra"] = extra
    step.setdefault("observation", {"results": []})["results"].append(result)


RUNTIME = Runtime(
    name=NAME,
    title="ATIF",
    home="",
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
    evidence="public schema",
)
