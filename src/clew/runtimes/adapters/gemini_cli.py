"""Gemini CLI: a log of JSON lines below `tmp/<project>/chats/`, and the single JSON documents of older versions.

The program writes a message again under its id when it adds calls to it; `$set.messages` replaces the whole list (at a
resume, after a compression, when an answer was cancelled), and `$rewindTo` removes a message and all after it. The
reader compares a replaced list with the conversation before it: the list continues from the last message that both have
in common. The list repeats messages without their llm, tokens and thoughts, so a message with the same text gives no
new drafts. The result of a call is stored twice, in the call and as a message; both get the source of the call.
"""

import hashlib
import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import msgspec
from msgspec import Raw

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
    ThinkingPart,
    Usage,
    UsageCounted,
)
from clew.model.title import shortened
from clew.runtimes.adapters.gemini_cli_write import resume, write
from clew.runtimes.adapters.gemini_parts import UNKNOWN, Content, bodies, object_of, parts_of, words_of
from clew.runtimes.contract import Format, Identity, Proven, Reading, Record, Runtime, Tool, Writer, micros, opaque
from clew.runtimes.titles import title_drafts

NAME = "gemini-cli"
# Context that the program adds before a conversation, and omits again when it resumes one.
_INJECTED = re.compile(r"\s*<(session_context|hook_context)>.*</\1>\s*", re.DOTALL)
_WORKSPACE = re.compile(r"Workspace Directories:\*\*\n\s*- (.+)")


class Thought(msgspec.Struct):
    subject: str | None = None
    description: str | None = None


class ToolCall(msgspec.Struct):
    id: str
    name: str = ""
    args: Raw = Raw(b"{}")
    result: Content = None


class Tokens(msgspec.Struct):
    input: int | None = 0
    output: int | None = 0
    cached: int | None = 0
    thoughts: int | None = 0
    tool: int | None = 0


class Patch(msgspec.Struct):
    messages: list[Raw] | None = None
    summary: str | None = None


class Line(msgspec.Struct):
    """Any record: a header, a message, a patch or a rewind."""

    id: str | None = None
    type: str = ""
    timestamp: str | None = None
    content: Content = None
    displayContent: Content = None
    thoughts: list[Thought] | None = None
    toolCalls: list[ToolCall] | None = None
    tokens: Tokens | None = None
    model: str | None = None
    sessionId: str | None = None
    directories: list[str] | None = None
    summary: str | None = None
    messages: list[Raw] | None = None
    patch: Patch | None = msgspec.field(name="$set", default=None)
    rewind: str | None = msgspec.field(name="$rewindTo", default=None)


class Memory(msgspec.Struct, array_like=True):
    """A message that gave drafts: a digest of its content, its last piece (None without any), its source if not its id.

    `listed`: the message is in the current list.
    """

    mark: str = ""
    last: str | None = None
    source: str = ""
    listed: bool = True


class State(msgspec.Struct, omit_defaults=True):
    """`path` is the current list of messages, `lost` the list before the last replacement."""

    path: list[str] = []
    lost: list[str] = []
    memories: dict[str, Memory] = msgspec.field(name="known", default_factory=dict)
    returns: dict[str, str] = {}
    answer: str = ""
    spent: tuple[int, int, int, int] = (0, 0, 0, 0)
    titled: bool = False
    attached: bool = False
    cwd: str = ""


Piece = tuple[str, Body]
_decode = msgspec.json.Decoder(Line).decode


def read(record: bytes, key: str, reading: Reading[State]) -> list[Draft]:
    line = _decode(record)
    if line.rewind is not None:
        return [_rewind(line.rewind, key, reading.state)]
    if line.id is not None:
        return _message(line, record, key, reading)
    if line.patch is not None:
        return _patch(line.patch, record, key, reading)
    if not line.sessionId:
        return [opaque(f"{NAME}.record", record, key)]
    return _header(line, record, key, reading)


def _header(line: Line, record: bytes, key: str, reading: Reading[State]) -> list[Draft]:
    """The header of a session; in older versions it is a whole document with all messages."""
    if line.messages is not None:
        record = msgspec.json.encode({**msgspec.json.decode(record, type=dict[str, Raw]), "messages": None})
    drafts = [opaque(f"{NAME}.header", record, key)]
    drafts += _title(line.summary, f"{key}/title", reading.state)
    drafts += _attach((line.directories or [""])[0], key, reading)
    for n, message in enumerate(line.messages or []):
        drafts += _message(_decode(message), bytes(message), f"{key}/{n}", reading)
    return drafts


def _message(line: Line, record: bytes, key: str, reading: Reading[State]) -> list[Draft]:
    """A message that is added at the end, or written again."""
    state, id = reading.state, line.id or key
    pieces = _pieces(line, reading)
    memory = state.memories.get(id)
    if memory is None or not memory.listed:
        memory = _replaced(id, key, state) if memory else Memory()
        state.path.append(id)
    return _message_drafts(line, record, key, reading, pieces, memory)


def _replaced(id: str, key: str, state: State) -> Memory:
    """The memory of a message that was removed and is listed again: at its new position it needs a new source."""
    # The replaced list can no longer be restored.
    state.lost = []
    return Memory(source=f"{id}{key}")


def _message_drafts(
    line: Line, record: bytes, key: str, reading: Reading[State], pieces: list[Piece], memory: Memory
) -> list[Draft]:
    """The drafts of a message; the state remembers the message."""
    state, id, at = reading.state, line.id or key, micros(line.timestamp)
    source = memory.source or id
    state.memories[id] = Memory(mark=_mark(line, pieces), last=_last(pieces), source=memory.source)
    drafts = _attach(_workspace(line), key, reading, at)
    _remember_returns(pieces, source, state)
    for name, body in pieces:
        return_source = state.returns.get(body.call) if isinstance(body, CallReturned) else None
        if isinstance(body, MessageAdded | CallMade) and body.message:
            # The pieces of an answer are one message, separate from those of the answer that was removed.
            body = msgspec.structs.replace(body, message=source)
        drafts.append(Draft(body=body, source=return_source or f"{source}{name}", said_at=at))
    if line.type == "user" and not state.titled and any(isinstance(body, MessageAdded) for _, body in pieces):
        words = words_of(line.displayContent) or words_of(line.content)
        drafts += title_drafts(words, state, source=source) if not words.startswith("System:") else []
    usage = _usage(line, source, at, state)
    if not (pieces or usage) or any(part == UNKNOWN for part in parts_of(line.content)):
        # The source is not its id: the program's first message has the same id in every session.
        drafts.append(opaque(f"{NAME}.{_record_kind(line)}", record, key, at))
    return drafts + usage


def _remember_returns(pieces: list[Piece], source: str, state: State) -> None:
    """Remember the sources for the returns of a message's calls."""
    if calls := [(name, body) for name, body in pieces if isinstance(body, CallMade)]:
        state.returns = {body.call: f"{source}{name.replace('call', 'return')}" for name, body in calls}


def _record_kind(line: Line) -> str:
    injected = _INJECTED.match(words_of(line.content))
    return injected.group(1) if injected else line.type or "message"


def _pieces(line: Line, reading: Reading[Any]) -> list[Piece]:
    """The bodies of a message, each with a name that stays the same when the message is written again."""
    parts = parts_of(line.content)
    if line.type == "user":
        if _INJECTED.fullmatch(words_of(line.content)) and parts[0].thought is None:
            return []
        return _named(bodies(parts, "user", reading))
    if line.type != "gemini":
        return []
    message, model = line.id or "", line.model or ""
    piece_bodies = bodies(parts, "assistant", reading, message=message, model=model)
    if line.thoughts and not any(part.thought for part in parts):
        thoughts = tuple(ThinkingPart(text=_thought(thought)) for thought in line.thoughts)
        piece_bodies.insert(0, MessageAdded(role="assistant", parts=thoughts, message=message, model=model))
    calls = {body.call for body in piece_bodies if isinstance(body, CallMade)}
    for tool in line.toolCalls or []:
        if tool.id not in calls:
            input = object_of(tool.args)
            piece_bodies.append(CallMade(call=tool.id, tool=tool.name, input=input, message=message, model=model))
    for tool in line.toolCalls or []:
        piece_bodies += _result(tool, reading)
    return _named(piece_bodies)


def _result(tool: ToolCall, reading: Reading[Any]) -> list[Body]:
    """The result that the program stores with the call; nothing while the call is running."""
    if isinstance(tool.result, str):
        return [CallReturned(call=tool.id, output=Raw(msgspec.json.encode(tool.result)))]
    result_bodies = bodies(parts_of(tool.result), "user", reading)
    return [body for body in result_bodies if isinstance(body, CallReturned) and body.call == tool.id]


def _named(unnamed: list[Body]) -> list[Piece]:
    counts = {"": 0, "/thought": 0, "/call": 0, "/return": 0}
    pieces = []
    for body in unnamed:
        name = "/call" if isinstance(body, CallMade) else "/return" if isinstance(body, CallReturned) else ""
        if isinstance(body, MessageAdded) and body.parts and isinstance(body.parts[0], ThinkingPart):
            name = "/thought"
        n, counts[name] = counts[name], counts[name] + 1
        pieces.append((f"{name}{n}" if name else f"/text{n}" if n else "", body))
    return pieces


def _thought(thought: Thought) -> str:
    return "\n".join(words for words in (thought.subject, thought.description) if words)


def _mark(line: Line, pieces: list[Piece]) -> str:
    """A short digest of a message's content, without its thoughts and the name of the llm."""
    contents: list[Any] = []
    for name, body in pieces:
        if isinstance(body, CallMade):
            # The program may reformat arguments.
            contents.append([body.tool, msgspec.json.decode(body.input)])
        elif isinstance(body, CallReturned):
            # A list does not repeat the return inside a call.
            contents += [[body.output, body.failed]] if line.type == "user" else []
        elif isinstance(body, MessageAdded) and not name.startswith("/thought"):
            contents.append(body.content)
    return hashlib.blake2b(msgspec.json.encode(contents or words_of(line.content)), digest_size=5).hexdigest()


def _last(pieces: list[Piece]) -> str | None:
    """The piece that the conversation continues from; returns follow their calls and are not considered."""
    return next((name for name, body in reversed(pieces) if not isinstance(body, CallReturned)), None)


def _usage(line: Line, source: str, at: int | None, state: State) -> list[Draft]:
    """The usage of an answer, minus what is already counted."""
    tokens = line.tokens
    if tokens is None:
        return []
    cached, thoughts = tokens.cached or 0, tokens.thoughts or 0
    fresh = max((tokens.input or 0) - cached, 0) + (tokens.tool or 0)
    now = (fresh, (tokens.output or 0) + thoughts, cached, thoughts)
    before = state.spent if state.answer == source else (0, 0, 0, 0)
    new = [max(much - was, 0) for much, was in zip(now, before, strict=True)]
    state.answer, state.spent = source, (
        max(now[0], before[0]), max(now[1], before[1]), max(now[2], before[2]), max(now[3], before[3]),
    )  # fmt: skip
    if not any(new):
        return []
    usage = Usage(input=new[0], output=new[1], cache_read=new[2], reasoning=new[3])
    counted = UsageCounted(usage=usage, model=line.model or "", message=line.id or "")
    return [Draft(body=counted, source=f"{source}/usage{sum(now)}", said_at=at)]


def _title(words: str | None, source: str, state: State) -> list[Draft]:
    title = shortened(next((row.strip() for row in (words or "").splitlines() if row.strip()), ""))
    if not title:
        return []
    state.titled = True
    return [Draft(body=SessionTitled(title=title), source=source)]


def _workspace(line: Line) -> str:
    injected = line.type == "user" and _WORKSPACE.search(words_of(line.content))
    return injected.group(1).strip() if injected and _record_kind(line) == "session_context" else ""


def _attach(cwd: str, key: str, reading: Reading[State], at: int | None = None) -> list[Draft]:
    """The working directory, with the first message, and again when it becomes known or changes."""
    state = reading.state
    if state.attached and (not cwd or cwd == state.cwd):
        return []
    if not cwd and not state.path:
        return []
    state.attached, state.cwd = True, cwd
    body = RuntimeAttached(runtime=NAME, native=reading.native, cwd=cwd)
    return [Draft(body=body, source=f"{key}/runtime", said_at=at)]


def _rewind(id: str, key: str, state: State) -> Draft:
    memory = state.memories.get(id)
    if memory is None or not memory.listed:
        _unlist(state, 0)
    else:
        # Search from the end, so that many rewinds cost only what they remove.
        _unlist(state, len(state.path) - 1 - next(n for n, listed in enumerate(reversed(state.path)) if listed == id))
    spoken = next((listed for listed in reversed(state.path) if state.memories[listed].last is not None), "")
    return Draft(body=Rewound(to=_last_source(spoken, state)), source=key)


def _unlist(state: State, first: int) -> None:
    """Remove the messages from this one on from the list."""
    for id in state.path[first:]:
        state.memories[id].listed = False
    del state.path[first:]


def _last_source(id: str, state: State) -> str:
    """The source of a message's last piece."""
    return f"{state.memories[id].source or id}{state.memories[id].last}" if id else ""


def _patch(patch: Patch, record: bytes, key: str, reading: Reading[State]) -> list[Draft]:
    drafts = _title(patch.summary, f"{key}/title", reading.state)
    if patch.messages is None:
        return [*drafts, opaque(f"{NAME}.set", record, key)]
    # A list of nothing but context takes nothing back: a resume writes it into a file of its own beside the session's.
    return [*drafts, *(_replace(patch.messages, key, reading) or [opaque(f"{NAME}.set", record, key)])]


def _replace(messages: list[Raw], key: str, reading: Reading[State]) -> list[Draft]:
    """The drafts of a replaced list: a rewind to where it differs from the conversation, then what is new."""
    state = reading.state
    lines = {
        line.id: (line, bytes(raw_message)) for raw_message in messages if (line := _decode(raw_message)).id is not None
    }
    pieces = {id: _pieces(line, reading) for id, (line, _) in lines.items()}
    spoken = [id for id, some in pieces.items() if _last(some) is not None]
    shared, more = _common_prefix(spoken, state.path, state)
    before, _ = _common_prefix(spoken, state.lost, state)
    fresh = bool(spoken) and not max(shared, before) and spoken[0] not in state.memories
    summary = spoken[0] if fresh and _is_summary(pieces[spoken[0]]) else None
    drafts: list[Draft] = []
    if not summary and (more or before > shared):
        shared = max(shared, before)
        drafts.append(Draft(body=Rewound(to=_last_source(spoken[shared - 1] if shared else "", state)), source=key))
    kept = set(spoken[:shared])
    if more:
        state.lost = list(state.path)
    _unlist(state, 0)
    for n, (id, (line, record)) in enumerate(lines.items()):
        memory, mark = state.memories.get(id), _mark(line, pieces[id])
        stays = memory is not None and (id in kept or memory.last is None)
        if memory and not stays:
            memory = _replaced(id, key, state)
        state.path.append(id)
        if memory and stays and memory.mark == mark:
            memory.listed = True
            _remember_returns(pieces[id], memory.source or id, state)
            continue
        if stays:
            line.tokens = None
        some: list[Piece] = [("", Compacted(summary=words_of(line.content)))] if id == summary else pieces[id]
        drafts += _message_drafts(line, record, f"{key}/{n}", reading, some, memory or Memory())
        state.memories[id].mark = mark
    if not drafts and spoken:
        drafts.append(Draft(body=Rewound(to=_last_source(spoken[-1], state)), source=key))
    return drafts


def _common_prefix(spoken: list[str], path: list[str], state: State) -> tuple[int, bool]:
    """How many of these messages a path begins with, and whether the path has more."""
    n = 0
    for id in path:
        if state.memories[id].last is None:
            continue
        if n == len(spoken) or id != spoken[n]:
            return n, True
        n += 1
    return n, False


def _is_summary(pieces: list[Piece]) -> bool:
    """Whether the message is the summary of a compression."""
    body = pieces[0][1]
    return isinstance(body, MessageAdded) and body.role == "user" and "<state_snapshot>" in body.text


def is_lines(path: PurePath, head: bytes) -> bool:
    """Whether the first line is a complete header; the name proves nothing: documents can be named .jsonl."""
    try:
        line = _decode(head.lstrip().split(b"\n", 1)[0])
    except (ValueError, RecursionError):
        return False
    return line.sessionId is not None and line.messages is None and b'"projectHash"' in head


def is_document(path: PurePath, head: bytes) -> bool:
    begins = re.match(rb'\s*\{\s*"sessionId"\s*:', head) and re.search(rb'"projectHash"\s*:', head[:4096])
    return bool(begins) and not is_lines(path, head)


def identify(path: PurePath, first: bytes) -> Identity:
    """The header has the session's id; a subagent's file is in a folder with the id of its parent session."""
    named = re.search(rb'"sessionId"\s*:\s*"([^"\\]+)"', first[:4096])
    folders = path.parts
    at = len(folders) - 1 - folders[::-1].index("chats") if "chats" in folders else 0
    project = folders[at - 1] if at else ""
    return Identity(
        native=named.group(1).decode(errors="replace") if named else path.stem,
        # In older versions the folder was a hash of the directory.
        project="" if re.fullmatch("[0-9a-f]{64}", project) else project,
        folder_file=str(PurePath(*folders[:at], ".project_root")) if at else "",
        parent=folders[at + 1] if at and at + 2 < len(folders) else "",
    )


def split(data: bytes) -> Iterator[Record]:
    """The header of a document, then its messages."""
    document = msgspec.json.decode(data, type=dict[str, Raw])
    messages = msgspec.json.decode(document.pop("messages"), type=list[Raw])
    yield "@header", msgspec.json.encode(document)
    for n, message in enumerate(messages):
        fields = msgspec.json.decode(message)
        yield f"@{fields.get('id', n) if isinstance(fields, dict) else n}", bytes(message)


RUNTIME = Runtime(
    name=NAME,
    title="Gemini CLI",
    home=".gemini",
    home_variable="GEMINI_CLI_HOME",
    home_below=".gemini",
    binary="gemini",
    formats=(
        Format(
            name="lines",
            patterns=("tmp/*/chats/session-*.jsonl", "tmp/*/chats/*/*.jsonl"),
            recognises=is_lines,
            identify=identify,
            read=read,
            state=State,
            mutable=True,
        ),
        Format(
            name="document",
            patterns=("tmp/*/chats/session-*.json", "tmp/*/chats/*/*.json"),
            recognises=is_document,
            identify=identify,
            read=read,
            state=State,
            mutable=True,
            split=split,
        ),
    ),
    tools={
        "shell": Tool("run_shell_command", {"command": "command"}),
        "read": Tool("read_file", {"path": "file_path"}),
        "write": Tool("write_file", {"path": "file_path", "content": "content"}),
        "edit": Tool("replace", {"path": "file_path", "old": "old_string", "new": "new_string"}),
        "list": Tool("list_directory", {"path": "dir_path"}),
        "glob": Tool("glob", {"pattern": "pattern", "path": "dir_path"}),
        "search": Tool("grep_search", {"pattern": "pattern", "path": "dir_path"}),
    },
    writer=Writer(write=write, resume=resume, images=True, context_tokens=900_000),
    proven=Proven("0.61.0", "2026-11-19"),
)
