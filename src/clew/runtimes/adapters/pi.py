"""pi: JSON lines below `sessions/--<directory>--/`, a tree in one file by `id` and `parentId`.

An entry whose parent is not the entry before it rewinds the conversation to that parent. Files of version 1 have
neither ids nor a tree. If a session begins without an answer, the program appends the whole session again, with the
header, when the first answer comes: the header restarts the chain, and the repeated entries have known sources.

In versions 1.x of the program a `context_edit` replaces what the llm sees of an earlier entry, or hides it: the reader
gives a revision of that entry. It remembers the last entries only, so an edit of an older one is stored, not applied.
"""

import base64
import re
from pathlib import PurePath
from typing import Annotated, Any

import msgspec
from msgspec import Raw

from clew.model.conversation import SPOKEN
from clew.model.events import (
    CallMade,
    CallReturned,
    Compacted,
    Draft,
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
from clew.runtimes.contract import (
    Command,
    Format,
    Identity,
    Native,
    Proven,
    Reading,
    Runtime,
    Target,
    Tool,
    Writer,
    Written,
    iso,
    micros,
    opaque,
    project_of,
    raw,
)
from clew.runtimes.rounds import Answer, Prompt, Round, output_text
from clew.runtimes.titles import prompt_text, title_drafts

NAME = "pi"
# How many entries the state holds for rewinds and compactions, which refer to recent ones.
REMEMBERED = 500
NO_USAGE = {
    "input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0,
    "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
}  # fmt: skip


class Block(msgspec.Struct):
    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    thinkingSignature: str | None = None
    id: str | None = None
    name: str | None = None
    arguments: Raw = Raw(b"{}")
    data: str | None = None
    mimeType: str | None = None


Content = str | list[Block] | None
# No count is higher; a larger number does not fit the database's integers.
Count = Annotated[float, msgspec.Meta(ge=0, le=1e12)] | None


class Cost(msgspec.Struct):
    total: Count = 0


class Tokens(msgspec.Struct):
    input: Count = 0
    output: Count = 0
    cacheRead: Count = 0
    cacheWrite: Count = 0
    reasoning: Count = 0
    cost: Cost | Count = None


class Message(msgspec.Struct):
    role: str
    content: Content = None
    model: str | None = None
    responseId: str | None = None
    usage: Tokens | None = None
    stopReason: str | None = None
    errorMessage: str | None = None
    toolCallId: str | None = None
    isError: bool | None = None
    command: str | None = None
    output: str | None = None
    exitCode: int | None = None
    cancelled: bool | None = None
    truncated: bool | None = None
    fullOutputPath: str | None = None
    excludeFromContext: bool | None = None
    display: bool | None = None


class Entry(msgspec.Struct):
    type: str
    id: str | None = None
    parentId: str | None = None
    timestamp: str | None = None
    cwd: str | None = None
    parentSession: str | None = None
    message: Message | None = None
    summary: str | None = None
    firstKeptEntryId: str | None = None
    name: str | None = None
    content: Content = None
    display: bool | None = None
    model: str | None = None
    usage: Tokens | None = None
    targetId: str | None = None
    replacement: Content = None


class State(msgspec.Struct, omit_defaults=True):
    """`last` counts the further drafts of an entry; `next` has the first message after an entry without one.

    `pieces` has what an entry said, for edits: the role of each message, `call`, or `return` and the call's id.
    """

    leaf: str = ""
    titled: bool = False
    last: dict[str, int] = {}
    pieces: dict[str, list[str]] = {}
    next: dict[str, str] = {}
    silent: list[str] = []


_decode = msgspec.json.Decoder(Entry).decode


def read(record: bytes, key: str, reading: Reading[State]) -> list[Draft]:
    entry = _decode(record)
    source, at = entry.id or key, micros(entry.timestamp)
    if entry.type == "context_edit":
        drafts = _edited(entry, source, at, reading)
    else:
        bodies = _entry_bodies(entry, source, reading)
        drafts = [
            Draft(body=body, source=f"{source}/{i}" if i else source, said_at=at) for i, body in enumerate(bodies)
        ]
        if pieces := list(map(_piece, bodies)):
            _remember(reading.state.pieces, source, pieces)
    if not drafts or entry.type == "context_edit":
        drafts.append(opaque(f"{NAME}.{entry.message.role if entry.message else entry.type}", record, source, at))
    if entry.type == "session":
        reading.state.leaf = ""
        if entry.parentSession:
            drafts.append(opaque(f"{NAME}.parent_session", record, f"{source}/parent", at))
        return drafts
    before = _follow(entry, drafts, reading.state) if entry.id else []
    return [*before, *drafts, *_title(entry, drafts[0], reading.state)]


def _follow(entry: Entry, drafts: list[Draft], state: State) -> list[Draft]:
    """Follow the tree: a rewind if the entry's parent is not the entry before it."""
    source, parent, rewound = entry.id or "", entry.parentId or "", []
    if parent != state.leaf:
        to = f"{parent}/{state.last[parent]}" if parent in state.last else parent
        rewound = [Draft(body=Rewound(to=to), source=f"{source}/rewound", said_at=drafts[0].said_at)]
        state.silent = []
    state.leaf = source
    spoken = [i for i, draft in enumerate(drafts) if isinstance(draft.body, SPOKEN)]
    if spoken:
        for silent in state.silent:
            _remember(state.next, silent, source)
        state.silent = []
    else:
        state.silent = [*state.silent[-REMEMBERED:], source]
    if spoken and spoken[-1]:
        _remember(state.last, source, spoken[-1])
    return rewound


def _piece(body: Any) -> str:
    """What an edit has to know of a body that it replaces."""
    match body:
        case MessageAdded():
            return body.role
        case CallMade():
            return "call"
        case CallReturned():
            return f"return {body.call}"
    return ""


def _edited(entry: Entry, source: str, at: int | None, reading: Reading[State]) -> list[Draft]:
    """The revisions of an earlier entry: its first message has the replacement, and the rest of it says nothing."""
    target = entry.targetId or ""
    content: list[Part] = _parts(entry.replacement, reading)
    drafts = []
    for number, piece in enumerate(reading.state.pieces.get(target, [])):
        body: Any
        if piece.startswith("return "):
            texts = "\n".join(part.text for part in content if isinstance(part, TextPart))
            body = CallReturned(call=piece.removeprefix("return "), output=raw(texts))
        elif piece:
            role = "assistant" if piece == "call" else piece
            [body] = _message(role, content) or [MessageAdded(role=role)]
            content = []
        else:
            continue
        name = f"{target}/{number}" if number else target
        drafts.append(Draft(body=body, source=f"{name}~{source}", said_at=at))
    return drafts


def _remember(memory: dict[str, Any], name: str, value: Any) -> None:
    memory[name] = value
    if len(memory) > REMEMBERED:
        del memory[next(iter(memory))]


def _title(entry: Entry, first: Draft, state: State) -> list[Draft]:
    """The session's title from its first prompt, unless it has one."""
    if entry.message is None or entry.message.role != "user":
        return []
    return title_drafts(prompt_text(first.body), state, source=first.source or "", at=first.said_at)


def _entry_bodies(entry: Entry, source: str, reading: Reading[State]) -> list[Any]:
    """The bodies of an entry by itself; empty if there is no event kind for it."""
    if entry.type == "session":
        return [RuntimeAttached(runtime=NAME, native=reading.native, cwd=entry.cwd or "")]
    if entry.type == "message" and entry.message is not None:
        return _message_bodies(entry.message, source, reading)
    if entry.type == "compaction" and entry.summary is not None:
        kept = entry.firstKeptEntryId or ""
        compacted = Compacted(summary=entry.summary, keep=reading.state.next.get(kept, kept))
        return [compacted, *_counted(entry, source, reading)]
    if entry.type == "branch_summary" and entry.summary:
        text = f"The following is a summary of a branch that this conversation came back from:\n\n{entry.summary}"
        return [MessageAdded(role="system", text=text), *_counted(entry, source, reading)]
    if entry.type == "usage":
        return _counted(entry, source, reading)
    if entry.type == "custom_message":
        return _custom(entry.content, entry.display, reading)
    if entry.type == "session_info" and entry.name and entry.name.strip():
        reading.state.titled = True
        return [SessionTitled(title=entry.name.strip())]
    return []


def _message_bodies(message: Message, source: str, reading: Reading[State]) -> list[Any]:
    match message.role:
        case "user":
            return _message("user", _parts(message.content, reading))
        case "assistant":
            return _answer(message, source, reading)
        case "toolResult" if message.toolCallId:
            return [_returned(message, message.toolCallId, reading)]
        case "bashExecution" if message.command is not None and not message.excludeFromContext:
            return [MessageAdded(role="user", text=_ran(message))]
        case "custom" | "hookMessage":
            return _custom(message.content, message.display, reading)
    return []


def _custom(content: Content, display: bool | None, reading: Reading[State]) -> list[Any]:
    """A message of an extension to the llm; if it is hidden from the person, it is context and not conversation."""
    return _message("system", _parts(content, reading)) if display else []


def _message(role: str, parts: list[Part], **about: Any) -> list[Any]:
    if len(parts) == 1 and isinstance(part := parts[0], TextPart):
        return [MessageAdded(role=role, text=part.text, **about)]
    return [MessageAdded(role=role, parts=tuple(parts), **about)] if parts else []


def _parts(content: Content, reading: Reading[State]) -> list[Part]:
    if isinstance(content, str):
        return [TextPart(text=content)]
    parts: list[Part] = []
    for block in content or []:
        if block.type == "text" and block.text is not None:
            parts.append(TextPart(text=block.text))
        elif block.type == "image" and block.data:
            data = base64.b64decode(block.data, validate=True)
            parts.append(ImagePart(blob=reading.blob(data), media_type=block.mimeType or ""))
        elif block.type == "thinking":
            parts.append(ThinkingPart(text=block.thinking or "", signature=block.thinkingSignature or ""))
    return parts


def _answer(message: Message, source: str, reading: Reading[State]) -> list[Any]:
    """The texts and calls in order; the first of them has the usage of the answer."""
    # An entry's id is unique only in its session.
    answer = message.responseId or f"{reading.native}/{source}"
    about: dict[str, Any] = {"message": answer, "model": message.model or ""}
    usage = _usage(message.usage)
    if isinstance(message.content, str):
        message.content = [Block(type="text", text=message.content)]
    bodies: list[Any] = []
    pending: list[Block] = []
    for block in message.content or []:
        if block.type == "toolCall" and block.id and block.name:
            bodies += _message("assistant", _parts(pending, reading), usage=None if bodies else usage, **about)
            spent = None if bodies else usage
            bodies.append(CallMade(call=block.id, tool=block.name, input=block.arguments, usage=spent, **about))
            pending = []
        else:
            pending.append(block)
    bodies += _message("assistant", _parts(pending, reading), usage=None if bodies else usage, **about)
    if message.stopReason in ("error", "aborted") or not bodies:
        reason = ": ".join(filter(None, (message.stopReason, message.errorMessage)))
        bodies.append(TurnEnded(stop_reason=reason, usage=None if bodies else usage, model=message.model or ""))
    return bodies


def _counted(entry: Entry, source: str, reading: Reading[State]) -> list[Any]:
    """What an entry cost that is not an answer: a summary, a cache that was kept warm."""
    usage = _usage(entry.usage)
    if usage is None:
        return []
    return [UsageCounted(usage=usage, model=entry.model or "", message=f"{reading.native}/{source}")]


def _usage(tokens: Tokens | None) -> Usage | None:
    if tokens is None:
        return None
    cost = tokens.cost.total if isinstance(tokens.cost, Cost) else tokens.cost
    usage = Usage(
        input=int(tokens.input or 0),
        output=int(tokens.output or 0),
        cache_read=int(tokens.cacheRead or 0),
        cache_write=int(tokens.cacheWrite or 0),
        reasoning=int(tokens.reasoning or 0),
        cost_micros=round((cost or 0) * 1_000_000),
    )
    return usage if usage != Usage() else None


def _returned(message: Message, call: str, reading: Reading[State]) -> CallReturned:
    parts = _parts(message.content, reading)
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    output = (
        raw(texts[0] if texts else "") if len(texts) < 2 else raw([{"type": "text", "text": text} for text in texts])
    )
    images = tuple(part for part in parts if isinstance(part, ImagePart))
    return CallReturned(call=call, output=output, parts=images, failed=bool(message.isError))


def _ran(message: Message) -> str:
    """A command that the person ran, in the text that the program sends to the llm."""
    text = f"Ran `{message.command}`\n" + (f"```\n{message.output}\n```" if message.output else "(no output)")
    if message.cancelled:
        text += "\n\n(command cancelled)"
    elif message.exitCode:
        text += f"\n\nCommand exited with code {message.exitCode}"
    if message.truncated and message.fullOutputPath:
        text += f"\n\n[Output truncated. Full output: {message.fullOutputPath}]"
    return text


# Finding and recognising ----------------------------------------------------------------------------------------------


def recognises(path: PurePath, head: bytes) -> bool:
    first = head.split(b"\n", 1)[0]
    return path.suffix == ".jsonl" and bool(re.match(rb'\s*\{"type":\s*"session",', first)) and b'"cwd"' in first


def identify(path: PurePath, first: bytes) -> Identity:
    try:
        header = _decode(first)
    except (ValueError, RecursionError):
        header = Entry(type="")
    return Identity(native=header.id or path.stem.rpartition("_")[2], project=project_of(header.cwd or ""))


# Writing --------------------------------------------------------------------------------------------------------------


def write(rounds: list[Round], target: Target) -> Native:
    lines: list[dict[str, Any]] = [
        {"type": "session", "version": 3, "id": target.id, "timestamp": iso(target.at), "cwd": target.cwd}
    ]

    def add(at: int, entry: dict[str, Any]) -> None:
        parent = lines[-1]["id"] if len(lines) > 1 else None
        lines.append({**entry, "id": f"{len(lines):08x}", "parentId": parent, "timestamp": iso(at)})

    if target.title:
        add(target.at, {"type": "session_info", "name": target.title})
    names: dict[str, str] = {}
    for round in rounds:
        for message in _messages(round, names, target):
            add(round.at, {"type": "message", "message": {**message, "timestamp": round.at // 1000}})
    data = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    stamp = re.sub("[:.]", "-", iso(target.at))
    return Native(
        id=target.id, files=[Written(path=f"sessions/{folder(target.cwd)}/{stamp}_{target.id}.jsonl", data=data)]
    )


def folder(cwd: str) -> str:
    """The name of the folder that holds a directory's sessions."""
    name = re.sub(r"[/\\:]", "-", re.sub(r"^[/\\]", "", cwd))
    return f"--{name}--"


def _messages(round: Round, names: dict[str, str], target: Target) -> list[dict[str, Any]]:
    """A round as the program's messages; `names` maps calls to their tools, which results repeat."""
    if isinstance(round, Prompt):
        return [{"role": "user", "content": [_block(part, target) for part in round.parts]}]
    if isinstance(round, Answer):
        names.update((call.call, call.tool) for call in round.calls)
        blocks = [
            {"type": "toolCall", "id": part.call, "name": part.tool, "arguments": part.input}
            if isinstance(part, CallMade)
            else _block(part, target)
            for part in round.parts
        ]
        about = {"api": "openai-completions", "provider": "clew", "model": round.model or "unknown", "usage": NO_USAGE}
        stop = "toolUse" if round.calls else "stop"
        return [{"role": "assistant", "content": blocks, **about, "stopReason": stop}] if blocks else []
    return [
        {
            "role": "toolResult",
            "toolCallId": back.call,
            "toolName": names.get(back.call, ""),
            "content": [{"type": "text", "text": output_text(back)}]
            + [_block(part, target) for part in back.parts if isinstance(part, ImagePart)],
            "isError": back.failed,
        }
        for back in round.returns
    ]


def _block(part: Part, target: Target) -> dict[str, Any]:
    if isinstance(part, TextPart | ThinkingPart):
        return {"type": "text", "text": part.text if isinstance(part, TextPart) else ""}
    data = target.blob(part.blob)
    if isinstance(part, ImagePart) or part.media_type.startswith("image/"):
        media_type = part.media_type or "image/png"
        return {"type": "image", "data": base64.b64encode(data).decode(), "mimeType": media_type}
    # The program has no files: a text file becomes its text, any other file its name.
    shown = data.decode(errors="replace") if part.media_type.startswith("text/") else ""
    return {"type": "text", "text": "\n".join(filter(None, (f"[file {part.name}]", shown)))}


def resume(native: str, file: str) -> Command:
    return Command(argv=["pi", "--session", file])


RUNTIME = Runtime(
    name=NAME,
    title="pi",
    home=".pi/agent",
    home_variable="PI_CODING_AGENT_DIR",
    binary="pi",
    formats=(
        Format(
            name="lines",
            patterns=("sessions/*/*.jsonl",),
            elsewhere={"PI_CODING_AGENT_SESSION_DIR": ("*.jsonl",)},
            recognises=recognises,
            identify=identify,
            read=read,
            state=State,
        ),
    ),
    tools={
        "shell": Tool("bash", {"command": "command"}),
        "read": Tool("read", {"path": "path", "offset": "offset", "limit": "limit"}),
        "write": Tool("write", {"path": "path", "content": "content"}),
        "edit": Tool("edit", {"path": "path", "old": "oldText", "new": "newText"}),
        "list": Tool("ls", {"path": "path"}),
        "glob": Tool("find", {"pattern": "pattern", "path": "path"}),
        "search": Tool("grep", {"pattern": "pattern", "path": "path"}),
    },
    writer=Writer(write=write, resume=resume, images=True),
    unsent=frozenset({"error", "aborted"}),
    proven=Proven("1.5.2", "2026-11-19"),
)
