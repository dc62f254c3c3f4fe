"""GitHub Copilot CLI: events as JSON lines in `session-state/<id>/events.jsonl`; older builds wrote one flat file.

The calls of an answer are in `assistant.message`; `tool.execution_start` repeats them, and makes a call only if no
message did. `session.usage_record` reports the tokens per answer, and `session.shutdown` the total: the total adds only
what no record counted. `inputTokens` includes cache reads and cache writes.
"""

import base64
import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import PurePath
from typing import Any

import msgspec
from msgspec import Raw

from clew.model.conversation import SPOKEN
from clew.model.events import (
    CallMade,
    CallReturned,
    Compacted,
    Draft,
    FilePart,
    ImagePart,
    MessageAdded,
    Opaque,
    Part,
    Rewound,
    RuntimeAttached,
    TextPart,
    ThinkingPart,
    Usage,
    UsageCounted,
)
from clew.runtimes.adapters.copilot_cli_records import (
    Answered,
    Binary,
    Cleared,
    Completed,
    Context,
    Delivered,
    Event,
    Invoked,
    Metered,
    Prompted,
    Ran,
    Result,
    Shutdown,
    Started,
    Summarised,
    Tokens,
)
from clew.runtimes.adapters.copilot_cli_write import VERSION, exit_code_in, resume, write
from clew.runtimes.contract import (
    Format,
    Identity,
    Proven,
    Reading,
    Runtime,
    Tool,
    Writer,
    micros,
    opaque,
    project_of,
    raw,
)
from clew.runtimes.titles import prompt_text, title_drafts

NAME = "copilot-cli"
# The most bodies of skills that are remembered until the llm gets them: state stays small.
SKILLS = 4
# As many characters of the latest prompts are remembered for the next compaction.
PROMPTS = 50_000
NOTHING = [0, 0, 0, 0, 0]
_CLOCK = re.compile(r"<current_datetime(?:/>|>.*?</current_datetime>)\s*", re.DOTALL)


class State(msgspec.Struct, omit_defaults=True):
    """`calls` have no result yet; `kept` is the first message since a compaction began, None outside a compaction.

    `skills` are the bodies that were invoked last, by their digest. `prompts` are those since the beginning, which a
    compaction leaves in front of the llm, but for those `forgotten`; `summed` were there when the last one began.
    """

    where: tuple[str, str, str] = ("", "", "")
    titled: bool = False
    calls: set[str] = set()
    kept: str | None = None
    counted: dict[str, list[int]] = {}
    assets: dict[str, str] = {}
    skills: dict[str, str] = {}
    prompts: list[str] = []
    summed: int = 0
    forgotten: int = 0


_event = msgspec.json.Decoder(Event).decode


def read(record: bytes, key: str, reading: Reading[State]) -> list[Draft]:
    event = _event(record)
    source, at, state = event.id or key, micros(event.timestamp), reading.state
    reader = READERS.get(event.type)
    bodies = reader(event, reading) if reader else []
    if not bodies:
        return [opaque(f"{NAME}.{event.type}", record, source, at)]
    drafts = [Draft(body=body, source=f"{source}/{i}" if i else source, said_at=at) for i, body in enumerate(bodies)]
    first = bodies[0]
    if isinstance(first, SPOKEN) and not getattr(first, "side", ""):
        state.kept = state.kept if state.kept != "" else source
        drafts += title_drafts(prompt_text(first), state, source=source, at=at)
    return drafts


def _started(event: Event, reading: Reading[State]) -> list[Any]:
    started = msgspec.json.decode(event.data, type=Started)
    return _attached(started.context, started.copilotVersion, event, reading)


def _moved(event: Event, reading: Reading[State]) -> list[Any]:
    return _attached(msgspec.json.decode(event.data, type=Context), None, event, reading)


def _attached(context: Context | None, version: str | None, event: Event, reading: Reading[State]) -> list[Any]:
    state, context = reading.state, context or Context()
    where = (context.cwd or state.where[0], version or state.where[1], context.branch or "")
    if event.agentId or where == state.where:
        return []
    state.where = where
    return [
        RuntimeAttached(runtime=NAME, native=reading.native, cwd=where[0], runtime_version=where[1], branch=where[2])
    ]


def _prompted(event: Event, reading: Reading[State]) -> list[Any]:
    prompted = msgspec.json.decode(event.data, type=Prompted)
    side = event.agentId or ""
    attached = msgspec.json.decode(prompted.attachments, type=list[Binary] | None) or []
    # A message with a source is from the program, except to a subagent: then the agent wrote it. The llm gets it.
    is_programs = prompted.isAutopilotContinuation or (prompted.source and not side)
    if is_programs or not (prompted.content or attached):
        text = _CLOCK.sub("", prompted.transformedContent or prompted.content or "").strip()
        return [MessageAdded(role="system", text=text, side=side)] if text else []
    parts = _binaries(attached, reading)
    bodies: list[Any] = []
    if prompted.content and not side:
        _note_prompt(prompted.content, reading.state)
    if prompted.content or parts:
        bodies.append(MessageAdded(role="user", text=prompted.content or "", parts=parts, side=side))
        if len(parts) < len(attached):
            bodies.append(Opaque(kind=f"{NAME}.attachments", raw=bytes(prompted.attachments).decode()))
    return bodies


def _answered(event: Event, reading: Reading[State]) -> list[Any]:
    answered = msgspec.json.decode(event.data, type=Answered)
    about: dict[str, Any] = {
        "message": answered.apiCallId or answered.messageId or "",
        "model": answered.model or "",
        "side": event.agentId or answered.parentToolCallId or "",
    }
    signature = answered.reasoningOpaque or answered.encryptedContent or ""
    bodies: list[Any] = []
    if answered.reasoningText or signature:
        parts: tuple[Part, ...] = (ThinkingPart(text=answered.reasoningText or "", signature=signature),)
        parts += (TextPart(text=answered.content),) if answered.content else ()
        bodies.append(MessageAdded(role="assistant", parts=parts, **about))
    elif answered.content:
        bodies.append(MessageAdded(role="assistant", text=answered.content, **about))
    requests = answered.toolRequests or []
    bodies += [
        CallMade(call=request.toolCallId, tool=request.name, input=_input(request.arguments), **about)
        for request in requests
    ]
    reading.state.calls.update(request.toolCallId for request in requests)
    return bodies


def _input(arguments: Raw) -> Raw:
    """The arguments of a call: some builds wrote their JSON into a string."""
    if not bytes(arguments).startswith(b'"'):
        return arguments
    text = msgspec.json.decode(arguments, type=str)
    try:
        msgspec.json.decode(text, type=dict[str, Raw])
    except msgspec.DecodeError:
        return arguments
    return Raw(text.encode())


def _ran(event: Event, reading: Reading[State]) -> list[Any]:
    ran = msgspec.json.decode(event.data, type=Ran)
    if ran.toolCallId in reading.state.calls:
        return []
    reading.state.calls.add(ran.toolCallId)
    side = event.agentId or ran.parentToolCallId or ""
    model = ran.model or ""
    return [CallMade(call=ran.toolCallId, tool=ran.toolName, input=_input(ran.arguments), model=model, side=side)]


def _completed(event: Event, reading: Reading[State]) -> list[Any]:
    completed = msgspec.json.decode(event.data, type=Completed)
    result = completed.result or Result()
    message = completed.error.message if completed.error else None
    content = msgspec.json.decode(result.content)
    returned = CallReturned(
        call=completed.toolCallId,
        output=raw(message) if completed.success is False and message is not None else result.content,
        parts=_binaries(result.binaryResultsForLlm or [], reading),
        failed=completed.success is False or (isinstance(content, str) and exit_code_in(content)),
        side=event.agentId or completed.parentToolCallId or "",
    )
    reading.state.calls.discard(completed.toolCallId)
    return [returned]


def _invoked(event: Event, reading: Reading[State]) -> list[Any]:
    """A skill is invoked: its body is kept for the record that says how the llm got it."""
    content, skills = msgspec.json.decode(event.data, type=Invoked).content, reading.state.skills
    if content:
        skills[f"sha256:{sha256(content.encode('utf-8', 'surrogatepass')).hexdigest()}"] = content
        reading.state.skills = dict(list(skills.items())[-SKILLS:])
    return []


def _delivered(event: Event, reading: Reading[State]) -> list[Any]:
    delivered = msgspec.json.decode(event.data, type=Delivered)
    content = reading.state.skills.get(delivered.contentId or "")
    if content is None:
        return []
    text = f"{delivered.prefix or ''}{content}{delivered.suffix or ''}"
    return [MessageAdded(role="system", text=text, side=event.agentId or "")]


def _asset(event: Event, reading: Reading[State]) -> list[Any]:
    asset = msgspec.json.decode(event.data, type=Binary)
    if asset.assetId and asset.data:
        reading.state.assets[asset.assetId] = reading.blob(base64.b64decode(asset.data, validate=True))
    return []


def _binaries(binaries: list[Binary], reading: Reading[State]) -> tuple[Part, ...]:
    """The images and files whose bytes are in the session."""
    parts: list[Part] = []
    for binary in binaries:
        if binary.data:
            blob = reading.blob(base64.b64decode(binary.data, validate=True))
        else:
            blob = reading.state.assets.get(binary.assetId or "", "")
        if blob:
            is_image = binary.type == "image" or (binary.mimeType or "").startswith("image/")
            kind = ImagePart if is_image else FilePart
            parts.append(kind(blob=blob, media_type=binary.mimeType or "", name=binary.displayName or ""))
    return tuple(parts)


def _note_prompt(prompt: str, state: State) -> None:
    state.prompts = [*state.prompts, prompt]
    while len(state.prompts) > 1 and sum(map(len, state.prompts)) > PROMPTS:
        state.prompts = state.prompts[1:]
        state.summed = max(state.summed - 1, 0)
        state.forgotten += 1


def _compacting(event: Event, reading: Reading[State]) -> list[Any]:
    if not event.agentId:
        reading.state.kept = ""
        reading.state.summed = len(reading.state.prompts)
    return []


def _compacted(event: Event, reading: Reading[State]) -> list[Any]:
    """The prompts and the summary replace what was said before the compaction began; the agent continues meanwhile."""
    done = msgspec.json.decode(event.data, type=Summarised)
    if event.agentId:
        return []
    kept, reading.state.kept = reading.state.kept, None
    if not (done.success and done.summaryContent):
        return []
    state = reading.state
    prompts = [f"<user_message>\n{prompt}\n</user_message>" for prompt in state.prompts[: state.summed]]
    if state.forgotten:
        prompts.insert(0, f"[{state.forgotten:,} earlier left out]")
    summary = "\n".join(["Prompts so far:", *prompts, "", done.summaryContent]) if prompts else done.summaryContent
    return [Compacted(summary=summary, keep=kept or "")]


def _cleared(event: Event, reading: Reading[State]) -> list[Any]:
    cleared = msgspec.json.decode(event.data, type=Cleared)
    if event.agentId:
        return []
    opening = [MessageAdded(role="user", text=cleared.initialMessage)] if cleared.initialMessage else []
    reading.state.forgotten = 0
    reading.state.prompts = [cleared.initialMessage] if cleared.initialMessage else []
    return [Rewound(to=""), *opening]


def _recorded(event: Event, reading: Reading[State]) -> list[Any]:
    tokens = msgspec.json.decode(event.data, type=Metered).usage
    if tokens is None:
        return []
    model, spent = tokens.model or "", _counts(tokens)
    before = reading.state.counted.get(model, NOTHING)
    reading.state.counted[model] = [was + new for was, new in zip(before, spent, strict=True)]
    return [UsageCounted(usage=_usage(spent), model=model, message=tokens.apiCallId or "")]


def _stopped(event: Event, reading: Reading[State]) -> list[Any]:
    """The total usage of the session, minus what is already counted."""
    bodies = []
    for model, metered in (msgspec.json.decode(event.data, type=Shutdown).modelMetrics or {}).items():
        total, before = _counts(metered.usage or Tokens()), reading.state.counted.get(model, NOTHING)
        more = [max(0, now - was) for now, was in zip(total, before, strict=True)]
        reading.state.counted[model] = [was + new for was, new in zip(before, more, strict=True)]
        if any(more):
            bodies.append(UsageCounted(usage=_usage(more), model=model))
    return bodies


def _counts(tokens: Tokens) -> list[int]:
    return [
        tokens.inputTokens or 0,
        tokens.outputTokens or 0,
        tokens.cacheReadTokens or 0,
        tokens.cacheWriteTokens or 0,
        tokens.reasoningTokens or 0,
    ]


def _usage(spent: list[int]) -> Usage:
    taken, output, cache_read, cache_write, reasoning = spent
    fresh = max(0, taken - cache_read - cache_write)
    return Usage(input=fresh, output=output, cache_read=cache_read, cache_write=cache_write, reasoning=reasoning)


READERS: dict[str, Callable[[Event, Reading[State]], list[Any]]] = {
    "session.start": _started,
    "session.resume": _started,
    "session.context_changed": _moved,
    "user.message": _prompted,
    "assistant.message": _answered,
    "tool.user_requested": _ran,
    "tool.execution_start": _ran,
    "tool.execution_complete": _completed,
    "session.binary_asset": _asset,
    "skill.invoked": _invoked,
    "skill.context_delivered_ref": _delivered,
    "session.compaction_start": _compacting,
    "session.compaction_complete": _compacted,
    "session.context_cleared": _cleared,
    "session.usage_record": _recorded,
    "session.shutdown": _stopped,
}


def recognises(path: PurePath, head: bytes) -> bool:
    first = head.split(b"\n", 1)[0]
    return (
        path.suffix == ".jsonl" and bool(re.search(rb'"type":\s*"session\.start"', first)) and b'"sessionId"' in first
    )


def identify(path: PurePath, first: bytes) -> Identity:
    """The folder's name is the session's id; the first event of a flat file has the id."""
    try:
        started = msgspec.json.decode(_event(first).data, type=Started)
    except (ValueError, RecursionError):
        started = Started()
    native = path.parent.name if path.name == "events.jsonl" else started.sessionId or path.stem
    context = started.context or Context()
    return Identity(native=native, project=project_of(context.cwd or ""))


RUNTIME = Runtime(
    name=NAME,
    title="GitHub Copilot CLI",
    home=".copilot",
    home_variable="COPILOT_HOME",
    binary="copilot",
    formats=(
        Format(
            name="lines",
            patterns=("session-state/*/events.jsonl", "session-state/*.jsonl"),
            recognises=recognises,
            identify=identify,
            read=read,
            state=State,
        ),
    ),
    tools={
        "shell": Tool("bash", {"command": "command"}),
        "read": Tool("view", {"path": "path"}),
        "write": Tool("create", {"path": "path", "content": "file_text"}),
        "edit": Tool("edit", {"path": "path", "old": "old_str", "new": "new_str"}),
        "glob": Tool("glob", {"pattern": "pattern", "path": "paths"}),
        "search": Tool("grep", {"pattern": "pattern", "path": "paths"}),
        "fetch": Tool("web_fetch", {"url": "url"}),
    },
    writer=Writer(write=write, resume=resume, images=True),
    proven=Proven(VERSION, "2026-11-19"),
)
