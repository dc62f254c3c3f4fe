"""Cursor keeps a session in up to three places, and each is read by itself: transcript, CLI store and IDE database.

* `transcript`: JSON lines in Anthropic's shape without ids, times or results of calls.
* `cli`: a SQLite file per session of content-addressed blobs. A root blob (protobuf) lists the messages in order.
* `ide`: one SQLite file for all sessions of the editor, keys and JSON values; in 2024 two keys held everything.

The transcript repeats a session of one of the other two and says less. Both databases hold keys and tokens of the
account: only what is named here is ever read.
"""

import base64
import re
from collections.abc import Iterator
from pathlib import PurePath
from sqlite3 import Connection
from typing import Any
from urllib.parse import unquote, urlparse

import msgspec
from blake3 import blake3
from msgspec import Raw

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
from clew.runtimes.contract import (
    Format,
    Identity,
    Reading,
    Record,
    Rows,
    Runtime,
    Tool,
    micros,
    opaque,
    project_of,
    raw,
)

NAME = "cursor"
SQLITE = b"SQLite format 3\0"
_QUERY = re.compile(r"<user_query>\n?(.*?)\n?</user_query>", re.DOTALL)
_TIMESTAMP = re.compile(r"<timestamp>.*?</timestamp>\s*", re.DOTALL)
# What the program puts before a prompt. A message of nothing else was not typed by anybody.
_CONTEXT = re.compile(
    r"\s*<(user_info|rules|project_layout|git_status|open_and_recently_viewed_files|attached_files|system_reminder|"
    r"system-reminder|additional_data|agent_transcripts|agent_skills|environment_context)[\s>]"
)


class State(msgspec.Struct, omit_defaults=True):
    attached: bool = False
    titled: bool = False
    created: int = 0
    model: str = ""


def typed(text: str) -> str:
    """What the person typed of a user's message; nothing if all of it is context."""
    if queries := _QUERY.findall(text):
        return "\n".join(queries)
    return "" if _CONTEXT.match(text) else _TIMESTAMP.sub("", text)


def _message(role: str, parts: list[Part], *, model: str = "", usage: Usage | None = None) -> MessageAdded:
    if len(parts) == 1 and isinstance(one := parts[0], TextPart):
        return MessageAdded(role=role, text=one.text, model=model, usage=usage)
    return MessageAdded(role=role, parts=tuple(parts), model=model, usage=usage)


def _drafts(bodies: list[Any], source: str, at: int | None) -> list[Draft]:
    return [Draft(body=body, source=f"{source}/{i}" if i else source, said_at=at) for i, body in enumerate(bodies)]


def _title(bodies: list[Any], source: str, at: int | None, state: State) -> list[Draft]:
    """A title from the first prompt, when the program has none."""
    first = bodies[0]
    if state.titled or not isinstance(first, MessageAdded) or first.role != "user":
        return []
    text = "\n".join(part.text for part in first.content if isinstance(part, TextPart))
    if not (words := text.strip().partition("\n")[0].strip()):
        return []
    state.titled = True
    return [Draft(body=SessionTitled(title=words[:80]), source=f"{source}/title", said_at=at)]


# Transcripts and the CLI's messages -----------------------------------------------------------------------------------


class Block(msgspec.Struct):
    """A block in either spelling: Anthropic's in transcripts, the AI SDK's in the CLI's store. An empty Raw is none."""

    type: str
    text: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw = Raw()
    toolCallId: str | None = None
    toolName: str | None = None
    args: Raw = Raw()
    result: Raw = Raw()
    output: Raw = Raw()
    isError: bool | None = None
    signature: str | None = None
    image: str | None = None
    mimeType: str | None = None
    mediaType: str | None = None


class Content(msgspec.Struct):
    content: str | list[Raw] = ""


class Line(msgspec.Struct):
    role: str = ""
    type: str = ""
    message: Content = msgspec.field(default_factory=Content)
    content: str | list[Raw] = ""


_decode = msgspec.json.Decoder(Line).decode
_block = msgspec.json.Decoder(Block).decode


def read_transcript(record: bytes, key: str, reading: Reading[State]) -> list[Draft]:
    """One line of a transcript. A call has no id there, so its place is its name."""
    line, state = _decode(record), reading.state
    before = []
    if not state.attached:
        state.attached = True
        attached = RuntimeAttached(runtime=NAME, native=reading.native)
        before = [Draft(body=attached, source=f"{key}/runtime")]
    bodies = _said(line.role, line.message.content, key, reading)
    if not bodies:
        return [*before, opaque(f"{NAME}.{line.role or line.type or 'record'}", record, key)]
    return [*before, *_drafts(bodies, key, None), *_title(bodies, key, None, state)]


def read_cli(record: bytes, key: str, reading: Reading[State]) -> list[Draft]:
    """One message of the CLI's store, or what it says about the session."""
    if key == "about":
        return _about(msgspec.json.decode(record, type=About), key, reading)
    line = _decode(record)
    bodies = _said(line.role, line.content, key, reading)
    if not bodies:
        return [opaque(f"{NAME}.{line.role or line.type or 'record'}", record, key)]
    return [*_drafts(bodies, key, None), *_title(bodies, key, None, reading.state)]


def _said(role: str, contents: str | list[Raw], key: str, reading: Reading[State]) -> list[Any]:
    """A message's blocks in order; texts and thoughts that follow each other are one message."""
    if role not in ("user", "assistant", "tool"):
        return []
    if isinstance(contents, str):
        contents = [raw({"type": "text", "text": contents})] if contents else []
    bodies: list[Any] = []
    parts: list[Part] = []

    def flush() -> None:
        if parts:
            bodies.append(_message(role, parts, model=reading.state.model if role == "assistant" else ""))
        parts.clear()

    for content in contents:
        block = _block(content)
        call = block.toolCallId or block.id
        if block.type == "text" and block.text is not None:
            if text := typed(block.text) if role == "user" else block.text:
                parts.append(TextPart(text=text))
        elif block.type == "reasoning":
            parts.append(ThinkingPart(text=block.text or "", signature=block.signature or ""))
        elif block.type == "image" and block.image:
            data = base64.b64decode(block.image.rpartition(",")[2], validate=True)
            parts.append(ImagePart(blob=reading.blob(data), media_type=block.mimeType or block.mediaType or ""))
        elif block.type in ("tool_use", "tool-call") and (tool := block.toolName or block.name):
            flush()
            input = next((one for one in (block.args, block.input) if bytes(one)), Raw(b"{}"))
            bodies.append(CallMade(call=call or f"{key}/{len(bodies)}", tool=tool, input=input))
        elif block.type == "tool-result" and call:
            flush()
            bodies.append(_result(block, call))
        else:
            flush()
            bodies.append(opaque(f"{NAME}.{block.type}", bytes(content), "").body)
    flush()
    return bodies


def _result(block: Block, call: str) -> CallReturned:
    """A result is plain, or since the AI SDK's fifth version `{type, value}`."""
    output, failed = block.result, bool(block.isError)
    if not bytes(output):
        output = block.output if bytes(block.output) else Raw(b"null")
        value = msgspec.json.decode(output)
        if isinstance(value, dict) and isinstance(value.get("type"), str) and "value" in value:
            output, failed = raw(value["value"]), failed or value["type"].startswith("error")
    return CallReturned(call=call, output=output, failed=failed)


class About(msgspec.Struct):
    """What a database says about a session, in our words: of the program's own only what is safe to keep."""

    id: str
    name: str = ""
    created: float | str | None = None
    model: str = ""
    cwd: str = ""


def _about(about: About, key: str, reading: Reading[State]) -> list[Draft]:
    state, at = reading.state, micros(about.created)
    state.created, state.model = at or 0, about.model
    bodies: list[Any] = [RuntimeAttached(runtime=NAME, native=reading.native, cwd=about.cwd)]
    if title := " ".join(about.name.split()):
        state.titled = True
        bodies.append(SessionTitled(title=title[:80]))
    return _drafts(bodies, key, at)


# The CLI's store ------------------------------------------------------------------------------------------------------


class Meta(msgspec.Struct):
    agentId: str
    latestRootBlobId: str = ""
    name: str | None = None
    createdAt: float | str | None = None
    lastUsedModel: str | None = None


def protobuf(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protobuf message and their values: numbers, or bytes whose meaning only its writer knows."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            if (shift := shift + 7) > 63:
                raise ValueError("a protobuf number of more than ten bytes")

    while at < len(data):
        field, kind = divmod(varint(), 8)
        if kind == 0:
            yield field, varint()
            continue
        size = varint() if kind == 2 else {1: 8, 5: 4}.get(kind, -1)
        if size < 0 or at + size > len(data):
            raise ValueError(f"a protobuf field of kind {kind} that does not fit")
        yield field, data[at : at + size]
        at += size


def _meta(connection: Connection) -> Meta | None:
    row = connection.execute("SELECT CAST(value AS BLOB) FROM meta WHERE key = '0'").fetchone()
    try:
        text = bytes(row[0])
        return msgspec.json.decode(text if text.startswith(b"{") else bytes.fromhex(text.decode()), type=Meta)
    except (TypeError, ValueError, RecursionError):
        return None


def _blob(connection: Connection, id: str) -> bytes | None:
    row = connection.execute("SELECT CAST(data AS BLOB) FROM blobs WHERE id = ?", (id,)).fetchone()
    return bytes(row[0]) if row and row[0] is not None else None


def _root(connection: Connection, meta: Meta) -> tuple[list[str], str]:
    """The messages of the session in order, and the directory it works in."""
    messages, cwd = [], ""
    try:
        for field, value in protobuf(_blob(connection, meta.latestRootBlobId) or b""):
            if field == 1 and isinstance(value, bytes) and len(value) == 32:
                messages.append(value.hex())
            elif field == 9 and isinstance(value, bytes):
                cwd = unquote(urlparse(value.decode()).path)
    except (ValueError, LookupError):
        # A newer root than we know: what was understood before it broke is still true.
        pass
    return messages, cwd


def cli_sessions(connection: Connection) -> Iterator[tuple[Identity, str]]:
    if _has(connection, "meta") and _has(connection, "blobs") and (meta := _meta(connection)):
        cwd = _root(connection, meta)[1]
        yield Identity(native=meta.agentId, project=project_of(cwd) if cwd else ""), _stamp(msgspec.json.encode(meta))


def cli_records(connection: Connection, native: str) -> Iterator[Record]:
    if (meta := _meta(connection)) is None:
        return
    messages, cwd = _root(connection, meta)
    yield (
        "about",
        msgspec.json.encode(
            About(
                id=meta.agentId, name=meta.name or "", created=meta.createdAt, model=meta.lastUsedModel or "", cwd=cwd
            )
        ),
    )
    # The same words twice are one blob, named twice.
    for key, id in _named(messages):
        yield key, _readable(_blob(connection, id))


# The IDE's database ---------------------------------------------------------------------------------------------------


class Used(msgspec.Struct):
    name: str | None = None
    toolCallId: str | None = None
    rawArgs: str | None = None
    params: str | None = None
    result: str | None = None
    status: str | None = None
    userDecision: str | None = None


class Thinking(msgspec.Struct):
    text: str | None = None
    signature: str | None = None


class TokenCount(msgspec.Struct):
    inputTokens: int | None = None
    outputTokens: int | None = None


class ModelInfo(msgspec.Struct):
    modelName: str | None = None


class Bubble(msgspec.Struct):
    type: int | str = 0
    text: str | None = None
    rawText: str | None = None
    content: str | None = None
    message: str | None = None
    createdAt: str | float | None = None
    thinking: Thinking | None = None
    toolFormerData: Used | None = None
    tokenCount: TokenCount | None = None
    modelInfo: ModelInfo | None = None
    modelType: str | None = None


_decode_bubble = msgspec.json.Decoder(Bubble).decode


def read_ide(record: bytes, key: str, reading: Reading[State]) -> list[Draft]:
    """One bubble of the editor's chat, or what it says about the session."""
    if key == "about":
        return _about(msgspec.json.decode(record, type=About), key, reading)
    bubble, state = _decode_bubble(record), reading.state
    at = micros(bubble.createdAt) or state.created or None
    text = bubble.text or bubble.rawText or bubble.content or bubble.message
    bodies: list[Any] = []
    if bubble.type in (1, "user") and text:
        bodies = [MessageAdded(role="user", text=text)]
    elif bubble.type in (2, "ai"):
        bodies = _answer(bubble, text, key, state.model)
    if not bodies:
        return [opaque(f"{NAME}.bubble", record, key, at)]
    return [*_drafts(bodies, key, at), *_title(bodies, key, at, state)]


def _answer(bubble: Bubble, text: str | None, key: str, model: str) -> list[Any]:
    parts: list[Part] = []
    if bubble.thinking and bubble.thinking.text:
        parts.append(ThinkingPart(text=bubble.thinking.text, signature=bubble.thinking.signature or ""))
    if text:
        parts.append(TextPart(text=text))
    model = bubble.modelType or (bubble.modelInfo and bubble.modelInfo.modelName) or model
    count = bubble.tokenCount or TokenCount()
    usage = Usage(input=count.inputTokens or 0, output=count.outputTokens or 0)
    bodies: list[Any] = []
    if parts:
        bodies.append(_message("assistant", parts, model=model, usage=usage if usage.tokens else None))
        usage = Usage()
    tool = bubble.toolFormerData
    if tool and tool.name:
        call = tool.toolCallId or key
        spent = usage if usage.tokens else None
        input = _json(tool.rawArgs or tool.params or "{}")
        bodies.append(CallMade(call=call, tool=tool.name, input=input, model=model, usage=spent))
        failed = tool.status in ("error", "cancelled") or tool.userDecision == "rejected"
        if tool.result or failed:
            bodies.append(CallReturned(call=call, output=_json(tool.result or '""'), failed=failed))
    return bodies


def _json(text: str) -> Raw:
    """Text that should be JSON; as a JSON text if it is not."""
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return raw(text)
    return Raw(text.encode())


class Header(msgspec.Struct):
    bubbleId: str


class ModelConfig(msgspec.Struct):
    modelName: str | None = None


class Place(msgspec.Struct):
    fsPath: str | None = None


class Workspace(msgspec.Struct):
    uri: Place | None = None


class Composer(msgspec.Struct):
    """A chat of the editor: a composer, or a tab of 2024. Its context, diffs and keys are not read."""

    composerId: str | None = None
    tabId: str | None = None
    name: str | None = None
    chatTitle: str | None = None
    createdAt: float | str | None = None
    lastSendTime: float | None = None
    fullConversationHeadersOnly: list[Header] | None = None
    conversation: list[Raw] | None = None
    bubbles: list[Raw] | None = None
    subComposerIds: list[str] | None = None
    modelConfig: ModelConfig | None = None
    workspaceIdentifier: Workspace | None = None

    @property
    def id(self) -> str:
        return self.composerId or self.tabId or ""

    @property
    def inline(self) -> list[Raw]:
        return self.conversation or self.bubbles or []

    @property
    def about(self) -> About:
        place = self.workspaceIdentifier.uri if self.workspaceIdentifier else None
        return About(
            id=self.id,
            name=self.name or self.chatTitle or "",
            created=self.createdAt or self.lastSendTime,
            model=(self.modelConfig.modelName if self.modelConfig else "") or "",
            cwd=(place.fsPath if place else "") or "",
        )


class Composers(msgspec.Struct):
    allComposers: list[Raw] = []
    tabs: list[Raw] = []


# The last of these may still be growing without their composer changing.
STAMPED = 4


def ide_sessions(connection: Connection) -> Iterator[tuple[Identity, str]]:
    found: list[tuple[str, str, str]] = []
    parents: dict[str, str] = {}
    for composer, value in _composers(connection):
        headers = composer.fullConversationHeadersOnly or []
        if headers or composer.inline:
            sizes = [len(_bubble(connection, composer.id, one.bubbleId) or b"") for one in headers[-STAMPED:]]
            project = project_of(composer.about.cwd) if composer.about.cwd else ""
            found.append((composer.id, project, _stamp(value + repr(sizes).encode())))
        parents |= dict.fromkeys(composer.subComposerIds or [], composer.id)
    for id, project, stamp in found:
        yield Identity(native=id, project=project, parent=parents.get(id, "")), stamp


def ide_records(connection: Connection, native: str) -> Iterator[Record]:
    composer = next((one for one, _ in _composers(connection, native) if one.id == native), None)
    if composer is None:
        return
    yield "about", msgspec.json.encode(composer.about)
    for key, id in _named([one.bubbleId for one in composer.fullConversationHeadersOnly or []]):
        yield key, _readable(_bubble(connection, native, id))
    if not composer.fullConversationHeadersOnly:
        bubbles = [_readable(bytes(one)) for one in composer.inline]
        names = [_bubble_id(one) or f"bubble-{i}" for i, one in enumerate(bubbles)]
        yield from ((key, bubble) for (key, _), bubble in zip(_named(names), bubbles, strict=True))


def _composers(connection: Connection, id: str = "") -> Iterator[tuple[Composer, bytes]]:
    """All chats of the database, or those that can have this id; each with the value it comes from."""
    if _has(connection, "cursorDiskKV"):
        first, last = (f"composerData:{id}", f"composerData:{id}") if id else ("composerData:", "composerData;")
        rows = connection.execute(
            "SELECT CAST(value AS BLOB) FROM cursorDiskKV WHERE key BETWEEN ? AND ? ORDER BY key", (first, last)
        )
        for (value,) in rows:
            yield from _composer(value)
    if _has(connection, "ItemTable"):
        rows = connection.execute(
            "SELECT CAST(value AS BLOB) FROM ItemTable WHERE key IN "
            "('composer.composerData', 'workbench.panel.aichat.view.aichat.chatdata') ORDER BY key"
        )
        for (value,) in rows:
            try:
                held = msgspec.json.decode(value or b"", type=Composers)
            except (msgspec.DecodeError, RecursionError):
                continue
            for one in [*held.allComposers, *held.tabs]:
                yield from _composer(bytes(one))


def _composer(value: bytes | None) -> Iterator[tuple[Composer, bytes]]:
    """One chat; what cannot be read is none."""
    try:
        found = msgspec.json.decode(value or b"", type=Composer)
    except (ValueError, RecursionError):
        return
    if found.id:
        yield found, value or b""


def _bubble(connection: Connection, composer: str, bubble: str) -> bytes | None:
    key = f"bubbleId:{composer}:{bubble}"
    row = connection.execute("SELECT CAST(value AS BLOB) FROM cursorDiskKV WHERE key = ?", (key,)).fetchone()
    return bytes(row[0]) if row and row[0] is not None else None


def _bubble_id(bubble: bytes) -> str:
    value = msgspec.json.decode(bubble)
    id = (value.get("bubbleId") or value.get("id")) if isinstance(value, dict) else ""
    return id if isinstance(id, str) else ""


# What both databases share --------------------------------------------------------------------------------------------


def _has(connection: Connection, table: str) -> bool:
    found = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)).fetchone()
    return found is not None


def _stamp(data: bytes) -> str:
    return blake3(data).hexdigest()[:32]


def _named(ids: list[str]) -> Iterator[tuple[str, str]]:
    """Each id with a key that is used once."""
    times: dict[str, int] = {}
    for id in ids:
        times[id] = times.get(id, 0) + 1
        yield id if times[id] == 1 else f"{id}#{times[id]}", id


def _readable(value: bytes | None) -> bytes:
    """A value as JSON: itself, or what it is instead."""
    if value is None:
        return b'{"type":"missing"}'
    try:
        if isinstance(msgspec.json.decode(value), dict):
            return value
    except (ValueError, RecursionError):
        pass
    return msgspec.json.encode({"type": "binary", "base64": base64.b64encode(value).decode()})


def assemble(native: str, records: list[Record]) -> bytes:
    """The records under their keys: the program has no export of its own."""
    held = [{"key": key, "record": Raw(record)} for key, record in records]
    return msgspec.json.encode({"session": native, "records": held})


# Finding and recognising ----------------------------------------------------------------------------------------------


def recognises_transcript(path: PurePath, head: bytes) -> bool:
    opens = re.match(rb'\s*\{"role":\s*"(user|assistant)",\s*"message":\s*\{"content"', head)
    return path.suffix == ".jsonl" and opens is not None


def identify_transcript(path: PurePath, first: bytes) -> Identity:
    folders = path.parts
    at = folders.index("agent-transcripts") if "agent-transcripts" in folders else 0
    return Identity(native=path.stem, project=folders[at - 1] if at else "")


def recognises_cli(path: PurePath, head: bytes) -> bool:
    return path.name == "store.db" and head.startswith(SQLITE)


def recognises_ide(path: PurePath, head: bytes) -> bool:
    return path.suffix == ".vscdb" and head.startswith(SQLITE)


def identify_database(path: PurePath, first: bytes) -> Identity:
    """The database names its sessions itself."""
    return Identity(native=path.parent.name or path.stem)


_USER = (".config/Cursor/User", "Library/Application Support/Cursor/User", "AppData/Roaming/Cursor/User")

RUNTIME = Runtime(
    name=NAME,
    title="Cursor",
    home="",
    binary="cursor-agent",
    formats=(
        Format(
            name="transcript",
            patterns=tuple(
                f"{root}/projects/*/agent-transcripts/{name}"
                for root in (".cursor", ".cursor-server")
                for name in ("*.jsonl", "*/*.jsonl")
            ),
            recognises=recognises_transcript,
            identify=identify_transcript,
            read=read_transcript,
            state=State,
        ),
        Format(
            name="cli",
            patterns=(".cursor/chats/*/*/store.db",),
            recognises=recognises_cli,
            identify=identify_database,
            read=read_cli,
            state=State,
            mutable=True,
            rows=Rows(sessions=cli_sessions, records=cli_records, assemble=assemble),
        ),
        Format(
            name="ide",
            patterns=tuple(
                f"{user}/{place}/state.vscdb" for user in _USER for place in ("globalStorage", "workspaceStorage/*")
            ),
            recognises=recognises_ide,
            identify=identify_database,
            read=read_ide,
            state=State,
            mutable=True,
            rows=Rows(sessions=ide_sessions, records=ide_records, assemble=assemble),
        ),
    ),
    tools={
        "shell": Tool("Shell", {"command": "command"}),
        "read": Tool("Read", {"path": "path"}),
        "write": Tool("Write", {"path": "path", "content": "contents"}),
        "edit": Tool("StrReplace", {"path": "path"}),
        "glob": Tool("Glob"),
        "search": Tool("Grep"),
    },
    evidence="public files, not run",
)
