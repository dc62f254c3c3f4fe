"""Claude Code: JSON lines below `projects/<folder of the directory>/`, chained by `parentUuid`.

One answer of the llm is split over several records with the same `message.id`, each repeating the usage so far. A
record whose parent is not the last record of the chain rewinds the conversation to that parent. The result of a call is
the exception: the results of parallel calls have the record that made the call as their parent. A record without a
parent begins the conversation anew, as after `/clear`; a compaction names the record before it apart.

What the program itself says to the llm (the bodies of skills and slash commands) is a message of the system. An error
or a note that it writes in the place of an answer ends the turn.
"""

import base64
import re
from functools import lru_cache
from pathlib import PurePath
from typing import Any

import msgspec
from blake3 import blake3
from msgspec import Raw

from clew.model.events import (
    CallMade,
    CallReturned,
    Compacted,
    Draft,
    FilePart,
    ImagePart,
    MessageAdded,
    Part,
    Rewound,
    RuntimeAttached,
    SessionTitled,
    TextPart,
    ThinkingPart,
    TurnEnded,
    Usage,
    UsageCounted,
)
from clew.model.prompt_title import prompt_title
from clew.model.title import LONGEST, shortened
from clew.runtimes.adapters.claude_code_write import VERSION, resume, takes_thought, write
from clew.runtimes.contract import Format, Identity, Proven, Reading, Runtime, Tool, Writer, micros, opaque, raw

NAME = "claude-code"
# How many answers may still grow: answers of subagents come between the pieces of others. Of older answers the state
# holds only a short mark that they are counted. The limit is above what a session has, and bounds the state.
_GROWING = 16
_COUNTED = 20_000
# How many records without a parent the state holds, by the beginnings of their ids; a copied one begins nothing.
_ROOTS = 20
# What the program says in the place of an answer.
_NOT_ANSWERS = ("API Error", "Prompt is too long", "No response requested.")
_KEPT = re.compile(rb"saved to: [^\n]{0,3000}?/tool-results/([\w-][\w.-]{0,200})", re.ASCII)
# The priority of a title: the person's own, then the program's, then the first prompt.
_TITLES = {"custom-title": ("customTitle", 3), "ai-title": ("aiTitle", 2), "summary": ("summary", 1)}


class Source(msgspec.Struct):
    type: str | None = None
    data: str | None = None
    media_type: str | None = None


class Block(msgspec.Struct):
    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw = Raw(b"{}")
    tool_use_id: str | None = None
    content: Raw = Raw(b"null")
    is_error: bool | None = None
    source: Source | None = None
    data: str | None = None


class Tokens(msgspec.Struct):
    input_tokens: int | None = 0
    output_tokens: int | None = 0
    cache_creation_input_tokens: int | None = 0
    cache_read_input_tokens: int | None = 0
    cache_creation: Any = None
    speed: Any = None


class Message(msgspec.Struct):
    id: str | None = None
    model: str | None = None
    content: str | list[Block] | None = None
    usage: Tokens | None = None


class Line(msgspec.Struct):
    type: str
    uuid: str | None = None
    parentUuid: str | None = None
    logicalParentUuid: str | None = None
    isSidechain: bool | None = None
    isMeta: bool | None = None
    isCompactSummary: bool | None = None
    isApiErrorMessage: bool | None = None
    agentId: str | None = None
    timestamp: str | None = None
    cwd: str | None = None
    version: str | None = None
    gitBranch: str | None = None
    message: Message | None = None
    subtype: str | None = None
    content: Any = None
    compactMetadata: dict[str, Any] | None = None
    attachment: dict[str, Any] | None = None


class Owner(msgspec.Struct):
    sessionId: str | None = None


class State(msgspec.Struct, omit_defaults=True):
    """`answers` holds the usage of answers that may still grow; `counted` holds the marks of older answers.

    `roots` are the records without a parent; `is_anew`: the chain began with one, and no message followed yet.
    """

    leaf: str = ""
    roots: list[str] = []
    is_anew: bool = False
    where: tuple[str, str, str] = ("", "", "")
    answers: dict[str, tuple[int, ...]] = {}
    counted: dict[str, int] = {}
    title: int = -1
    keep: str = ""


_decode = msgspec.json.Decoder(Line).decode


def read(record: bytes, key: str, reading: Reading[State]) -> list[Draft]:
    line = _decode(record)
    state, source, at = reading.state, line.uuid or key, micros(line.timestamp)
    side = (line.agentId or "side") if line.isSidechain and not reading.native.startswith("agent-") else ""
    drafts = _record_drafts(line, record, source, at, side, reading)
    before: list[Draft] = []
    is_message = line.type in ("user", "assistant")
    if (
        is_message
        and line.cwd
        and not side
        and (where := (line.cwd, line.version or "", line.gitBranch or "")) != state.where
    ):
        state.where = where
        attached = RuntimeAttached(
            runtime=NAME, native=reading.native, cwd=where[0], runtime_version=where[1], branch=where[2]
        )
        before.append(Draft(body=attached, source=f"{source}/runtime", said_at=at))
    if line.uuid and not side:
        to = _rewound(line, drafts, state, is_message=is_message)
        if to is not None:
            before.append(Draft(body=Rewound(to=to), source=f"{source}/rewound", said_at=at))
        state.leaf = line.uuid
    return before + drafts if before else drafts


def _rewound(line: Line, drafts: list[Draft], state: State, *, is_message: bool) -> str | None:
    """The record that the conversation goes back to before this one: "" is its beginning, None is no rewind."""
    parent = line.parentUuid or line.logicalParentUuid
    if parent and state.leaf and parent != state.leaf and not isinstance(drafts[-1].body, CallReturned):
        state.is_anew = False
        return parent
    root = (line.uuid or "")[:13]
    if not parent and root not in state.roots:
        state.is_anew = bool(state.leaf) and not line.isCompactSummary
        state.roots = [*state.roots[1 - _ROOTS :], root]
    # Records that are no messages can follow each other at the beginning, or stand alone at the end of a file.
    if state.is_anew and is_message:
        state.is_anew = False
        return ""
    return None


def _record_drafts(
    line: Line, record: bytes, source: str, at: int | None, side: str, reading: Reading[State]
) -> list[Draft]:
    """The drafts of a record by itself, without the chain."""
    state, message = reading.state, line.message
    if line.type == "assistant" and message is not None and line.uuid:
        reason = _text(message) if _is_no_answer(line, message) else ""
        bodies: list[Any] = [TurnEnded(stop_reason=reason)] if reason else _answer(message, side, state)
    elif line.type == "user" and message is not None and line.uuid:
        if line.isCompactSummary and not side:
            bodies, state.keep = [Compacted(summary=_text(message), keep=state.keep)], ""
        else:
            bodies = _prompt(message, side, reading, role="system" if line.isMeta else "user")
    elif line.subtype == "local_command" and isinstance(line.content, str) and line.uuid:
        # What a command of the client printed: the client sends it to the model like a prompt.
        bodies = [MessageAdded(role="user", text=line.content, side=side)]
    elif line.type == "attachment" and (prompt := _queued(line.attachment)):
        message = prompt
        bodies = _prompt(message, side, reading)
    elif line.type in _TITLES:
        bodies = _title(line.type, record, state)
    else:
        if line.subtype == "compact_boundary":
            state.keep = _first_kept(line.compactMetadata)
        bodies = []
    if not bodies:
        return [opaque(f"{NAME}.{line.type}", record, source, at)]
    drafts = [Draft(body=body, source=f"{source}/{i}" if i else source, said_at=at) for i, body in enumerate(bodies)]
    if message is not None and isinstance(message.content, list) and not all(map(_is_known, message.content)):
        drafts.append(opaque(f"{NAME}.{line.type}", record, f"{source}/record", at))
    if state.title < 0 and not side and isinstance(first := bodies[0], MessageAdded) and first.role == "user":
        words, is_final = prompt_title(first.text or _text(message))
        state.title = 0 if is_final else -1
        if words:
            drafts.append(Draft(body=SessionTitled(title=words), source=f"{source}/title", said_at=at))
    return drafts


def _answer(message: Message, side: str, state: State) -> list[Any]:
    if isinstance(message.content, str):
        message.content = [Block(type="text", text=message.content)]
    about: dict[str, Any] = {"message": message.id or "", "model": message.model or ""}
    usage = _spent(message, state)
    bodies: list[Any] = []
    for block in message.content or []:
        if block.type == "text" and block.text is not None:
            body: Any = MessageAdded(role="assistant", text=block.text, side=side, usage=usage, **about)
        elif block.type in ("thinking", "redacted_thinking"):
            thought = ThinkingPart(text=block.thinking or "", signature=block.signature or block.data or "")
            body = MessageAdded(role="assistant", parts=(thought,), side=side, usage=usage, **about)
        elif block.type in ("tool_use", "server_tool_use") and block.id and block.name:
            body = CallMade(call=block.id, tool=block.name, input=block.input, side=side, usage=usage, **about)
        elif (block.type or "").endswith("_tool_result") and block.tool_use_id:
            bodies.append(CallReturned(call=block.tool_use_id, output=block.content, side=side))
            continue
        else:
            continue
        bodies.append(body)
        usage = None
    if usage is not None:
        bodies.append(UsageCounted(usage=usage, **about))
    return bodies


_KNOWN = {"text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "tool_result", "image", "document"}


def _is_known(block: Block) -> bool:
    return block.type in _KNOWN or (block.type or "").endswith("_tool_result")


def _spent(message: Message, state: State) -> Usage | None:
    """The usage that this record adds to its answer: the answer's records repeat it, and it can grow."""
    tokens, id = message.usage, message.id or ""
    if tokens is None or (id not in state.answers and _mark(id) in state.counted):
        return None
    write = tokens.cache_creation_input_tokens or 0
    now = (
        tokens.input_tokens or 0,
        tokens.output_tokens or 0,
        tokens.cache_read_input_tokens or 0,
        write,
        min(_hour(tokens.cache_creation), write),
    )
    last = state.answers.pop(id, (0,) * len(now))
    # The state of an older reader has fewer counts: the missing ones are taken as counted.
    last += now[len(last) :]
    most = tuple(map(max, now, last))
    if id:
        _remember(id, most, state)
    new = [current - before for current, before in zip(most, last, strict=True)]
    if not any(new):
        return None
    return Usage(
        input=new[0], output=new[1], cache_read=new[2], cache_write=new[3], cache_write_hour=new[4],
        fast=tokens.speed == "fast",
    )  # fmt: skip


def _hour(cache_creation: Any) -> int:
    """The cache-write tokens with a lifetime of one hour; the others live for five minutes."""
    hour = cache_creation.get("ephemeral_1h_input_tokens") if isinstance(cache_creation, dict) else None
    return hour if isinstance(hour, int) else 0


def _remember(id: str, cost: tuple[int, ...], state: State) -> None:
    state.answers[id] = cost
    if len(state.answers) > _GROWING:
        oldest = next(iter(state.answers))
        del state.answers[oldest]
        state.counted[_mark(oldest)] = 1
        if len(state.counted) > _COUNTED:
            del state.counted[next(iter(state.counted))]


@lru_cache(64)  # An answer is looked up when it begins, and marked a few answers later.
def _mark(id: str) -> str:
    return base64.b64encode(blake3(id.encode()).digest(6)).decode()


def _is_no_answer(line: Line, message: Message) -> bool:
    """Whether the program wrote an error or a note in the place of an answer."""
    is_own = message.model == "<synthetic>" and _text(message).startswith(_NOT_ANSWERS)
    return bool(line.isApiErrorMessage) or is_own


def _prompt(message: Message, side: str, reading: Reading[State], role: str = "user") -> list[Any]:
    if isinstance(message.content, str):
        return [MessageAdded(role=role, text=message.content, side=side)]
    bodies: list[Any] = []
    parts: list[Part] = []
    for block in message.content or []:
        if block.type == "tool_result" and block.tool_use_id:
            bodies.append(_returned(block, side, reading))
        elif block.type == "text" and block.text is not None:
            parts.append(TextPart(text=block.text))
        elif block.type in ("image", "document") and block.source is not None and block.source.data:
            parts.append(_file(block, block.source, reading))
    if len(parts) == 1 and isinstance(parts[0], TextPart):
        bodies.append(MessageAdded(role=role, text=parts[0].text, side=side))
    elif parts:
        bodies.append(MessageAdded(role=role, parts=tuple(parts), side=side))
    return bodies


def _returned(block: Block, side: str, reading: Reading[State]) -> CallReturned:
    output = block.content
    parts: list[Part] = []
    if bytes(output).startswith(b"[") and b'"source"' in bytes(output):
        rest: list[Raw] = []
        for piece in msgspec.json.decode(output, type=list[Raw]):
            inner = msgspec.json.decode(piece, type=Block)
            if inner.type in ("image", "document") and inner.source is not None and inner.source.data:
                parts.append(_file(inner, inner.source, reading))
            else:
                rest.append(piece)
        output = raw(rest) if rest else Raw(b"null")
    return CallReturned(
        call=block.tool_use_id or "", output=output, parts=tuple(parts), failed=bool(block.is_error), side=side
    )


def kept_in(back: CallReturned) -> str:
    """The file with the whole of a result that was too large for the llm: it got the beginning and the path."""
    if b"<persisted-output>" not in bytes(back.output)[:100]:
        return ""
    match = _KEPT.search(bytes(back.output)[:4000])
    return f"tool-results/{match[1].decode()}" if match else ""


def _file(block: Block, source: Source, reading: Reading[State]) -> ImagePart | FilePart:
    # A document may be plain text.
    data = (source.data or "").encode() if source.type == "text" else base64.b64decode(source.data or "", validate=True)
    kind = ImagePart if block.type == "image" else FilePart
    return kind(blob=reading.blob(data), media_type=source.media_type or "")


def _text(message: Message | None) -> str:
    content = message.content if message else None
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content or [] if block.text)


def _queued(attachment: dict[str, Any] | None) -> Message | None:
    """A prompt that was typed while the agent was working."""
    if not attachment or attachment.get("type") != "queued_command" or not attachment.get("prompt"):
        return None
    return Message(content=msgspec.json.decode(msgspec.json.encode(attachment["prompt"]), type=str | list[Block]))


def _first_kept(about: dict[str, Any] | None) -> str:
    segment = (about or {}).get("preservedSegment")
    head = segment.get("headUuid") if isinstance(segment, dict) else ""
    return head if isinstance(head, str) else ""


def _title(type: str, record: bytes, state: State) -> list[Any]:
    field, worth = _TITLES[type]
    title = msgspec.json.decode(record).get(field)
    if not isinstance(title, str) or not title.strip() or worth < state.title:
        return []
    state.title = worth
    return [SessionTitled(title=shortened(" ".join(title.split()), LONGEST))]


_OWN = {"summary", "file-history-snapshot", "queue-operation", "custom-title", "ai-title", "last-prompt", "mode"}


def recognises(path: PurePath, head: bytes) -> bool:
    """Whether the body of a record is Claude Code's: other programs use the same envelope."""
    if path.suffix != ".jsonl":
        return False
    for line in head.split(b"\n")[:200]:
        try:
            fields = msgspec.json.decode(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(fields, dict):
            continue
        message = fields.get("message")
        if isinstance(message, dict):
            return "content" in message and ("uuid" in fields or "sessionId" in fields) and "parts" not in message
        if str(fields.get("type")) in _OWN and ("sessionId" in fields or "leafUuid" in fields or "snapshot" in fields):
            return True
    return False


def identify(path: PurePath, first: bytes) -> Identity:
    """The file's name is the session's id; each record in a subagent's file has the id of the parent session."""
    folders = path.parts
    at = len(folders) - 1 - folders[::-1].index("projects") if "projects" in folders else -1
    project = folders[at + 1] if 0 <= at < len(folders) - 2 else ""
    parent: str | None = None
    if path.stem.startswith("agent-"):
        try:
            parent = msgspec.json.decode(first, type=Owner).sessionId
        except (ValueError, RecursionError):
            parent = None
    return Identity(native=path.stem, project=project, parent=parent or "")


RUNTIME = Runtime(
    name=NAME,
    title="Claude Code",
    home=".claude",
    home_variable="CLAUDE_CONFIG_DIR",
    binary="claude",
    formats=(
        Format(
            name="lines",
            patterns=("projects/*/*.jsonl", "projects/*/*/subagents/**/*.jsonl"),
            recognises=recognises,
            identify=identify,
            read=read,
            state=State,
            bookkeeping=frozenset(_OWN | {"progress", "system", "permission-mode"}),
            kept_in=kept_in,
        ),
    ),
    tools={
        "shell": Tool("Bash", {"command": "command"}),
        "read": Tool("Read", {"path": "file_path", "offset": "offset", "limit": "limit"}),
        "write": Tool("Write", {"path": "file_path", "content": "content"}),
        "edit": Tool("Edit", {"path": "file_path", "old": "old_string", "new": "new_string"}),
        "glob": Tool("Glob", {"pattern": "pattern", "path": "path"}),
        "search": Tool("Grep", {"pattern": "pattern", "path": "path"}),
        "fetch": Tool("WebFetch", {"url": "url"}),
    },
    writer=Writer(write=write, resume=resume, images=True, takes_thought=takes_thought, context_tokens=180_000),
    proven=Proven(VERSION, "2026-11-19"),
)
