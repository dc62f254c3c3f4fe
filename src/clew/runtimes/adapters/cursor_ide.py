"""The database of Cursor's IDE."""

from collections.abc import Iterator
from sqlite3 import Connection
from typing import Any

import msgspec
from msgspec import Raw

from clew.model.events import CallMade, CallReturned, Draft, MessageAdded, Part, TextPart, ThinkingPart, Usage
from clew.runtimes.adapters.cursor_agent_rows import call_name, result_of, results
from clew.runtimes.adapters.cursor_rows import NAME, named, readable
from clew.runtimes.adapters.cursor_transcript import (
    About,
    State,
    about_of,
    drafts_of,
    message_of,
    read_cli,
    title_of,
)
from clew.runtimes.adapters.database_rows import has, stamp_of
from clew.runtimes.contract import Identity, Reading, Record, micros, opaque, project_of, raw


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
    """One bubble of the editor's chat, or the record about the session."""
    if key == "about":
        return about_of(msgspec.json.decode(record, type=About), key, reading)
    if key.endswith("/result"):
        return read_cli(record, key, reading)
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
    return [*drafts_of(bodies, key, at), *title_of(bodies, key, at, state)]


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
        bodies.append(message_of("assistant", parts, model=model, usage=usage if usage.tokens else None))
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
    """Text that should be JSON; a JSON string of it if it is not."""
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return raw(text)
    return Raw(text.encode())


class Header(msgspec.Struct):
    bubbleId: str


class ModelConfig(msgspec.Struct):
    modelName: str | None = None


class Uri(msgspec.Struct):
    fsPath: str | None = None


class Workspace(msgspec.Struct):
    uri: Uri | None = None


class Composer(msgspec.Struct):
    """A chat of the editor: a composer, or a tab of 2024. The adapter does not read its context, diffs and keys."""

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
    conversationState: str | None = None

    @property
    def id(self) -> str:
        return self.composerId or self.tabId or ""

    @property
    def inline(self) -> list[Raw]:
        return self.conversation or self.bubbles or []

    @property
    def about(self) -> About:
        uri = self.workspaceIdentifier.uri if self.workspaceIdentifier else None
        return About(
            id=self.id,
            name=self.name or self.chatTitle or "",
            created=self.createdAt or self.lastSendTime,
            model=(self.modelConfig.modelName if self.modelConfig else "") or "",
            cwd=(uri.fsPath if uri else "") or "",
        )


class Composers(msgspec.Struct):
    allComposers: list[Raw] = []
    tabs: list[Raw] = []


# The last bubbles can grow while their composer stays unchanged: the stamp includes this many.
STAMPED = 4


def ide_sessions(connection: Connection) -> Iterator[tuple[Identity, str]]:
    chats: list[tuple[str, str, str]] = []
    parents: dict[str, str] = {}
    for composer, value in _composers(connection):
        headers = composer.fullConversationHeadersOnly or []
        if headers or composer.inline:
            sizes = [len(_bubble(connection, composer.id, header.bubbleId) or b"") for header in headers[-STAMPED:]]
            project = project_of(composer.about.cwd) if composer.about.cwd else ""
            chats.append((composer.id, project, stamp_of(value + repr(sizes).encode())))
        parents |= dict.fromkeys(composer.subComposerIds or [], composer.id)
    for id, project, stamp in chats:
        yield Identity(native=id, project=project, parent=parents.get(id, "")), stamp


def ide_records(connection: Connection, native: str) -> Iterator[Record]:
    composer = next((chat for chat, _ in _composers(connection, native) if chat.id == native), None)
    if composer is None:
        return
    yield "about", msgspec.json.encode(composer.about)
    returned = results(connection, composer.conversationState or "")
    for key, id in named([header.bubbleId for header in composer.fullConversationHeadersOnly or []]):
        bubble = readable(_bubble(connection, native, id))
        yield key, bubble
        call = _open_call(bubble) if returned else ""
        if call_name(call) in returned:
            yield f"{key}/result", result_of(call, returned[call_name(call)])
    if not composer.fullConversationHeadersOnly:
        bubbles = [readable(bytes(value)) for value in composer.inline]
        names = [_bubble_id(bubble) or f"bubble-{i}" for i, bubble in enumerate(bubbles)]
        yield from ((key, bubble) for (key, _), bubble in zip(named(names), bubbles, strict=True))


def _open_call(bubble: bytes) -> str:
    """The call of a bubble that does not hold what it returned."""
    try:
        used = _decode_bubble(bubble).toolFormerData
    except (ValueError, RecursionError):
        return ""
    return used.toolCallId or "" if used is not None and not used.result else ""


def _composers(connection: Connection, id: str = "") -> Iterator[tuple[Composer, bytes]]:
    """All chats of the database, or those that can have this id, each with its stored value."""
    if has(connection, "cursorDiskKV"):
        first, last = (f"composerData:{id}", f"composerData:{id}") if id else ("composerData:", "composerData;")
        rows = connection.execute(
            "SELECT CAST(value AS BLOB) FROM cursorDiskKV WHERE key BETWEEN ? AND ? ORDER BY key", (first, last)
        )
        for (value,) in rows:
            yield from _composer(value)
    if has(connection, "ItemTable"):
        rows = connection.execute(
            "SELECT CAST(value AS BLOB) FROM ItemTable WHERE key IN "
            "('composer.composerData', 'workbench.panel.aichat.view.aichat.chatdata') ORDER BY key"
        )
        for (value,) in rows:
            try:
                composers = msgspec.json.decode(value or b"", type=Composers)
            except (msgspec.DecodeError, RecursionError):
                continue
            for chat in [*composers.allComposers, *composers.tabs]:
                yield from _composer(bytes(chat))


def _composer(value: bytes | None) -> Iterator[tuple[Composer, bytes]]:
    """One chat; nothing if the value cannot be decoded."""
    try:
        composer = msgspec.json.decode(value or b"", type=Composer)
    except (ValueError, RecursionError):
        return
    if composer.id:
        yield composer, value or b""


def _bubble(connection: Connection, composer: str, bubble: str) -> bytes | None:
    key = f"bubbleId:{composer}:{bubble}"
    row = connection.execute("SELECT CAST(value AS BLOB) FROM cursorDiskKV WHERE key = ?", (key,)).fetchone()
    return bytes(row[0]) if row and row[0] is not None else None


def _bubble_id(bubble: bytes) -> str:
    value = msgspec.json.decode(bubble)
    id = (value.get("bubbleId") or value.get("id")) if isinstance(value, dict) else ""
    return id if isinstance(id, str) else ""
