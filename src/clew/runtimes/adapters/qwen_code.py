"""Qwen Code: JSON lines below `projects/<folder of the directory>/chats/`, Claude's envelope around Gemini's messages.

Records are chained by `parentUuid`; a record whose parent is not the record before it rewinds the conversation to that
parent, as the program's own `rewind` does. A compression is a record with a copy of all that is left.
"""

import re
import uuid
from pathlib import PurePath
from typing import Any

import msgspec

from clew.model.events import (
    Body,
    CallMade,
    CallReturned,
    Compacted,
    Draft,
    MessageAdded,
    Rewound,
    RuntimeAttached,
    SessionTitled,
    Usage,
    UsageCounted,
)
from clew.model.prompt_title import prompt_title
from clew.model.title import LONGEST, shortened
from clew.runtimes.adapters.gemini_parts import UNKNOWN, Content, bodies, parts_of, returned, words_of, written
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
)
from clew.runtimes.rounds import Answer, Prompt, Round

NAME = "qwen-code"
VERSION = "0.24.4"


class Message(msgspec.Struct):
    role: str = "user"
    parts: Content = None


class Tokens(msgspec.Struct):
    promptTokenCount: int | None = 0
    candidatesTokenCount: int | None = 0
    thoughtsTokenCount: int | None = 0
    cachedContentTokenCount: int | None = 0
    totalTokenCount: int | None = 0


class Payload(msgspec.Struct):
    customTitle: str | None = None
    compressedHistory: list[Message] | None = None


class Line(msgspec.Struct):
    type: str = ""
    subtype: str | None = None
    uuid: str | None = None
    parentUuid: str | None = None
    sessionId: str | None = None
    timestamp: str | None = None
    cwd: str | None = None
    version: str | None = None
    gitBranch: str | None = None
    isSidechain: bool | None = None
    agentId: str | None = None
    model: str | None = None
    message: Message | None = None
    usageMetadata: Tokens | None = None
    systemPayload: Payload | None = None


class State(msgspec.Struct, omit_defaults=True):
    leaf: str = ""
    where: tuple[str, str, str] = ("", "", "")
    title: str = ""


_decode = msgspec.json.Decoder(Line).decode


def read(record: bytes, key: str, reading: Reading[State]) -> list[Draft]:
    line = _decode(record)
    state, at = reading.state, micros(line.timestamp)
    # A record that continues the one before has the same uuid.
    source = line.uuid if line.uuid and line.uuid != state.leaf else f"{line.uuid or ''}{key}"
    side = (line.agentId or "side") if line.isSidechain and not reading.native.startswith("agent-") else ""
    record_bodies = _record_bodies(line, reading, source)
    if side:
        record_bodies = [
            msgspec.structs.replace(body, side=side) if hasattr(body, "side") else body for body in record_bodies
        ]
    drafts = [] if side else [*_attach(line, source, at, reading), *_rewind(line, source, at, state)]
    # The last draft has the record's own source: a rewind to this record includes all of it.
    drafts += [
        Draft(body=body, source=f"{source}/{n}" if n < len(record_bodies) else source, said_at=at)
        for n, body in enumerate(record_bodies, 1)
    ]
    if not record_bodies or any(part == UNKNOWN for part in parts_of(line.message.parts if line.message else None)):
        name = f"{source}/record" if record_bodies else source
        drafts.append(opaque(f"{NAME}.{line.subtype or line.type or 'record'}", record, name, at))
    if not (state.title or side or line.subtype) and line.type == "user" and line.message:
        title, is_final = prompt_title(words_of(line.message.parts))
        state.title = title if is_final else ""
        if title:
            drafts.append(Draft(body=SessionTitled(title=title), source=f"{source}/title", said_at=at))
    return drafts


def _record_bodies(line: Line, reading: Reading[State], source: str) -> list[Body]:
    """The bodies of a record by itself, without the chain."""
    payload = line.systemPayload
    if line.type == "system" and payload and payload.compressedHistory:
        return _compacted(payload.compressedHistory, reading, source)
    if line.type == "system" and payload and payload.customTitle and payload.customTitle != reading.state.title:
        reading.state.title = payload.customTitle
        return [SessionTitled(title=shortened(" ".join(payload.customTitle.split()), LONGEST))]
    if line.type not in ("user", "assistant", "tool_result") or line.message is None:
        return []
    if line.type != "assistant":
        return bodies(parts_of(line.message.parts), "user", reading)
    model = line.model or ""
    answer = bodies(parts_of(line.message.parts), "assistant", reading, message=source, model=model)
    usage = _usage(line.usageMetadata) if line.usageMetadata else None
    if usage and answer and isinstance(answer[0], MessageAdded | CallMade):
        answer[0] = msgspec.structs.replace(answer[0], usage=usage)
    elif usage:
        answer.append(UsageCounted(usage=usage, model=model, message=source))
    return answer


def _compacted(history: list[Message], reading: Reading[State], source: str) -> list[Body]:
    """The summary that a compression begins with, and the messages that it kept."""
    summary_and_kept: list[Body] = [Compacted(summary=words_of(history[0].parts))]
    for n, kept in enumerate(history[1:], 1):
        answer = kept.role == "model"
        message = f"{source}/{n}" if answer else ""
        summary_and_kept += bodies(parts_of(kept.parts), "assistant" if answer else "user", reading, message=message)
    return summary_and_kept


def _usage(tokens: Tokens) -> Usage | None:
    prompt, cached = tokens.promptTokenCount or 0, tokens.cachedContentTokenCount or 0
    # Whether the candidates include the thoughts differs by provider; the total shows it.
    output = max((tokens.totalTokenCount or 0) - prompt, tokens.candidatesTokenCount or 0, 0)
    usage = Usage(
        input=max(prompt - cached, 0), output=output, cache_read=cached, reasoning=tokens.thoughtsTokenCount or 0
    )
    return usage if usage != Usage() else None


def _attach(line: Line, source: str, at: int | None, reading: Reading[State]) -> list[Draft]:
    # Only prompts have the branch.
    where = (line.cwd or "", line.version or "", line.gitBranch or reading.state.where[2])
    if line.type == "system" or not line.cwd or where == reading.state.where:
        return []
    reading.state.where = where
    body = RuntimeAttached(runtime=NAME, native=reading.native, cwd=where[0], runtime_version=where[1], branch=where[2])
    return [Draft(body=body, source=f"{source}/runtime", said_at=at)]


def _rewind(line: Line, source: str, at: int | None, state: State) -> list[Draft]:
    if not line.uuid:
        return []
    before, state.leaf = state.leaf, line.uuid
    if not before or line.uuid == before or (line.parentUuid or "") == before:
        return []
    return [Draft(body=Rewound(to=line.parentUuid or ""), source=f"{source}/rewound", said_at=at)]


# Finding and recognising ----------------------------------------------------------------------------------------------


def recognises(path: PurePath, head: bytes) -> bool:
    """Claude's envelope, but the body of a message is a list of parts."""
    body = re.search(rb'"message":\s*\{[^{}]{0,80}"parts"\s*:|"systemPayload":', head)
    return bool(body) and b'"parentUuid"' in head and b'"sessionId"' in head


def identify(path: PurePath, first: bytes) -> Identity:
    """The file's name is the session's id; a subagent's file is in a folder with the id of its parent session."""
    try:
        line = _decode(first)
    except (ValueError, RecursionError):
        line = Line()
    parent = path.parent.name if path.parent.parent.name == "subagents" else ""
    project = project_of(line.cwd) if line.cwd else ""
    return Identity(native=path.stem, project=project, parent=line.sessionId or parent if parent else "")


# Writing --------------------------------------------------------------------------------------------------------------


def write(rounds: list[Round], target: Target) -> Native:
    lines: list[dict[str, Any]] = []
    tools: dict[str, str] = {}

    def add(type: str, key: str, at: int, **more: Any) -> None:
        lines.append({
            "uuid": str(uuid.uuid5(uuid.UUID(target.id), key)), "parentUuid": lines[-1]["uuid"] if lines else None,
            "sessionId": target.id, "timestamp": iso(at), "type": type, "cwd": target.cwd, "version": VERSION, **more,
        })  # fmt: skip

    for round in rounds:
        if isinstance(round, Prompt):
            add("user", round.key, round.at, message={"role": "user", "parts": written(round.parts, target)})
        elif isinstance(round, Answer):
            tools |= {call.call: call.tool for call in round.calls}
            message = {"role": "model", "parts": written(round.parts, target)}
            add("assistant", round.key, round.at, model=round.model, message=message)
        else:
            for n, back in enumerate(round.returns):
                _add_result(back, tools.get(back.call, ""), f"{round.key}/{n}", round.at, target, add)
    if target.title:
        title = {"customTitle": target.title, "titleSource": "manual"}
        add("system", "title", target.at, subtype="custom_title", systemPayload=title)
    data = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    path = f"projects/{re.sub('[^a-zA-Z0-9]', '-', target.cwd)}/chats/{target.id}.jsonl"
    return Native(id=target.id, files=[Written(path=path, data=data)])


def _add_result(back: CallReturned, tool: str, key: str, at: int, target: Target, add: Any) -> None:
    """A record for each call, as the program writes them."""
    status = {"callId": back.call, "status": "error" if back.failed else "success"}
    add("tool_result", key, at, message={"role": "user", "parts": returned(back, tool, target)}, toolCallResult=status)


def resume(native: str, file: str) -> Command:
    return Command(argv=["qwen", "-r", native])


RUNTIME = Runtime(
    name=NAME,
    title="Qwen Code",
    home=".qwen",
    home_variable="QWEN_HOME",
    binary="qwen",
    formats=(
        Format(
            name="lines",
            patterns=("projects/*/chats/*.jsonl", "projects/*/subagents/*/*.jsonl"),
            recognises=recognises,
            identify=identify,
            read=read,
            state=State,
        ),
    ),
    tools={
        "shell": Tool("run_shell_command", {"command": "command"}),
        "read": Tool("read_file", {"path": "file_path", "offset": "offset", "limit": "limit"}),
        "write": Tool("write_file", {"path": "file_path", "content": "content"}),
        "edit": Tool("edit", {"path": "file_path", "old": "old_string", "new": "new_string"}),
        "list": Tool("list_directory", {"path": "path"}),
        "glob": Tool("glob", {"pattern": "pattern", "path": "path"}),
        "search": Tool("grep_search", {"pattern": "pattern", "path": "path"}),
        "fetch": Tool("web_fetch", {"url": "url"}),
    },
    writer=Writer(write=write, resume=resume, images=True, context_tokens=200_000),
    proven=Proven(VERSION, "2026-11-19"),
)
