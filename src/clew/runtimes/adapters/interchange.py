"""Copilot session interchange v1: JSON lines that `copilot sessions import` reads; and functions that all exports use.

The format has texts, calls and results, and it is strict: ids are unique, a call follows an answer of its turn, a
result comes before the next message, a failure has an error and no content. It cannot hold thinking, the order of texts
and calls in an answer, or bytes: images and files become a line that names them.
"""

import re
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import PurePath
from typing import Any

import msgspec
from msgspec import Raw

from clew.model.errors import ClewError
from clew.model.events import (
    CallMade,
    CallReturned,
    Draft,
    FilePart,
    ImagePart,
    MessageAdded,
    Opaque,
    Part,
    RuntimeAttached,
    SessionTitled,
    TextPart,
)
from clew.model.outline import Read, nothing_is_outlined, whole_call, whole_part, whole_return
from clew.model.plain import plain as show_plainly
from clew.model.prompt_title import prompt_title
from clew.runtimes.contract import Format, Identity, Reading, Runtime, Unreadable, iso, micros, opaque, project_of, raw
from clew.runtimes.rounds import Answer, Prompt, Results, Round, images_of, output_text, text_of

NAME = "copilot-interchange"
# The last second of the year 9999.
LAST = 253_402_300_799_000_000


# What all exports share -----------------------------------------------------------------------------------------------


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """What a whole session did and used itself, as lists show it."""

    turns: int = 0
    calls: int = 0
    errors: int = 0
    tokens: int = 0
    cached_tokens: int = 0
    cost_micros: int | None = None


NOTHING = Totals()


class About(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a session that an export shows beside the conversation. Times are in microseconds.

    `began_at` and `last_at` are when things happened, `opened_at` is when the log took the first of them. The
    totals are zero when only a part of the session is exported.

    `blob` returns the bytes that a part names, `read` the events of rounds that are only an outline.
    """

    session: str
    title: str = ""
    project: str = ""
    agent: str = ""
    runtime: str = ""
    cwd: str = ""
    began_at: int = 0
    last_at: int = 0
    opened_at: int = 0
    totals: Totals = NOTHING
    exported_at: int = 0
    head: int = 0
    blob: Callable[[str], bytes]
    read: Read = nothing_is_outlined


def plain(text: str) -> str:
    """Text with its control characters shown: only line feeds and tabs keep their effect."""
    return show_plainly(text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    return plain(" ".join(text.split()))


def moment(at: int) -> str:
    """A time as ISO 8601, limited to a valid range: a hostile record can hold any number."""
    return iso(min(max(at, 0), LAST))


def returned_text(back: CallReturned) -> str:
    """The result of a call as text; its JSON if the text cannot be made."""
    try:
        text = output_text(back)
    except (ValueError, TypeError, RecursionError):
        text = bytes(back.output).decode(errors="replace")
    # Without an output the texts among the parts are the output.
    return text if bytes(back.output) == b"null" else "\n".join(filter(None, (text, text_of(back.parts))))


def content_of(part: ImagePart | FilePart, about: About) -> bytes | None:
    """The bytes of an image or a file; None if they are no longer stored."""
    try:
        return about.blob(part.blob)
    except (ClewError, LookupError, OSError):
        return None


def named(part: ImagePart | FilePart, data: bytes | None) -> str:
    """A line that names an image or a file."""
    what = "image" if isinstance(part, ImagePart) else "file"
    size = "no longer kept" if data is None else f"{len(data):,} bytes"
    return f"[{what} {', '.join(one_line(word) for word in (part.name, part.media_type, size) if word)}]"


def file_text(part: ImagePart | FilePart, data: bytes | None) -> str | None:
    """The text of a text file; None for any other part."""
    if data is None or not isinstance(part, FilePart) or not part.media_type.startswith("text/"):
        return None
    return data.decode(errors="replace")


class Called(msgspec.Struct, kw_only=True):
    """A call and its result, wherever in the conversation the result is; `gone` says why a result cannot be read."""

    made: CallMade
    back: CallReturned | None = None
    gone: str = ""


class Exchange(msgspec.Struct, kw_only=True):
    """A round with its calls and their returns. `lost` are returns without a call, `side` is the subagent."""

    round: Round
    calls: list[Called] = []
    lost: list[CallReturned] = []
    side: str = ""


def exchanges(rounds: list[Round]) -> list[Exchange]:
    """The rounds, each return beside its call; a round of results remains only for lost returns."""
    grouped: list[Exchange] = []
    waiting: dict[str, list[Called]] = {}
    for round in rounds:
        exchange = Exchange(round=round)
        if isinstance(round, Answer):
            exchange.calls = [Called(made=call) for call in round.calls]
            for call in exchange.calls:
                waiting.setdefault(call.made.call, []).append(call)
        elif isinstance(round, Results):
            for back in round.returns:
                # Some programs restart call numbers in every answer: a return belongs to the newest open call.
                if calls := waiting.get(back.call):
                    calls.pop().back = back
                else:
                    exchange.lost.append(back)
            if not exchange.lost:
                continue
        grouped.append(exchange)
    return grouped


def whole_exchanges(rounds: list[Round], read: Read) -> Iterator[Exchange]:
    """The exchanges of rounds that can be an outline, with their full texts, one at a time."""
    for exchange in exchanges(rounds):
        round = exchange.round
        if not isinstance(round, Results):
            parts = (part if isinstance(part, CallMade) else whole_part(part, read) for part in round.parts)
            round = msgspec.structs.replace(round, parts=tuple(parts))
        yield Exchange(
            round=round,
            calls=[
                Called(made=whole_call(call.made, read), back=call.back and whole_return(call.back, read))
                for call in exchange.calls
            ],
            lost=[whole_return(back, read) for back in exchange.lost],
        )


# Writing --------------------------------------------------------------------------------------------------------------


class _Ids:
    """Unique ids."""

    def __init__(self) -> None:
        self._given: dict[str, int] = {}

    def new(self, wanted: str) -> str:
        wanted = "call" if _is_blank(wanted) else wanted
        id = wanted
        while id in self._given:
            self._given[wanted] += 1
            id = f"{wanted}-{self._given[wanted]}"
        self._given[id] = 1
        return id


def pieces(rounds: list[Round], about: About) -> Iterator[bytes]:
    """The session as a file that `copilot sessions import` reads, a line at a time."""
    for record in _records(rounds, about):
        # A line feed in verbatim JSON can only be between its tokens.
        yield msgspec.json.encode(record).replace(b"\n", b" ").replace(b"\r", b" ") + b"\n"


def _records(rounds: list[Round], about: About) -> Iterator[dict[str, Any]]:
    yield _header(rounds, about)
    ids = _Ids()
    turn = 0
    for exchange in whole_exchanges(rounds, about.read):
        round = exchange.round
        turn += isinstance(round, Prompt)
        record = {"timestamp": moment(round.at), "turnId": f"turn-{turn}"}
        if isinstance(round, Answer):
            yield from _answer(round, exchange.calls, record, ids, about)
            continue
        parts = round.parts if isinstance(round, Prompt) else tuple(chain.from_iterable(map(_lost, exchange.lost)))
        content = _content(parts, about) or [{"type": "text", "text": ""}]
        yield {"type": "message", "id": ids.new(f"message-{round.key}"), **record, "role": "user", "content": content}


def _is_blank(text: str) -> bool:
    """Whether the client treats a text as empty: a byte order mark counts as a space."""
    return not text.replace("\ufeff", "").strip()


def _header(rounds: list[Round], about: About) -> dict[str, Any]:
    header: dict[str, Any] = {
        "type": "session",
        "version": 1,
        "externalId": about.session,
        "createdAt": moment(about.began_at or about.opened_at),
        "source": {"application": "clew"},
    }
    if rounds:
        header["updatedAt"] = moment(max(round.at for round in rounds))
    if title := _title(about.title):
        header["title"] = title
    if not _is_blank(about.cwd):
        header["workspace"] = {"workingDirectory": about.cwd}
    return header


def _title(title: str) -> str:
    """A title that the client accepts: one line of at most 100 UTF-16 units."""
    return one_line(title).encode("utf-16-le")[:200].decode("utf-16-le", "ignore").strip()


def _answer(
    answer: Answer, calls: list[Called], record: dict[str, Any], ids: _Ids, about: About
) -> Iterator[dict[str, Any]]:
    content = _content(tuple(part for part in answer.parts if not isinstance(part, CallMade)), about)
    if not content and not calls:
        return
    message = {"type": "message", "id": ids.new(f"message-{answer.key}"), **record, "role": "assistant"}
    if not _is_blank(answer.model):
        message["model"] = answer.model
    yield {**message, "content": content or [{"type": "text", "text": ""}]}
    call_ids = [ids.new(call.made.call) for call in calls]
    for id, call in zip(call_ids, calls, strict=True):
        name = "unnamed" if _is_blank(call.made.tool) else call.made.tool
        yield {"type": "tool-call", "id": id, **record, "name": name, "arguments": call.made.input}
    for id, call in zip(call_ids, calls, strict=True):
        if call.back is not None:
            yield _result(call.back, id, record, ids, about)


def _result(back: CallReturned, call: str, record: dict[str, Any], ids: _Ids, about: About) -> dict[str, Any]:
    text = "\n".join(filter(None, (returned_text(back), *_named(back.parts, about))))
    result = {"type": "tool-result", "id": ids.new(f"{call}-result"), **record, "toolCallId": call}
    if back.failed:
        return {**result, "success": False, "error": {"message": "failed" if _is_blank(text) else text}}
    return {**result, "success": True, "content": text}


def _content(parts: tuple[Part, ...], about: About) -> list[dict[str, str]]:
    texts: list[str] = []
    for part in parts:
        texts += [part.text] if isinstance(part, TextPart) else _named((part,), about)
    return [{"type": "text", "text": text} for text in texts if text]


def _named(parts: tuple[Part, ...], about: About) -> Iterator[str]:
    """A line for each image and file, and the full text of a text file."""
    for part in parts:
        if isinstance(part, ImagePart | FilePart):
            data = content_of(part, about)
            text = file_text(part, data)
            yield named(part, data) + ("" if text is None else f"\n{text}")


def _lost(back: CallReturned) -> list[Part]:
    text = f"[{'failure' if back.failed else 'result'} of a call that is not here: {back.call}]\n{returned_text(back)}"
    return [TextPart(text=text), *images_of(back.parts)]


# Reading --------------------------------------------------------------------------------------------------------------


class Fault(msgspec.Struct):
    message: str = ""


class Source(msgspec.Struct):
    version: str | None = None


class Workspace(msgspec.Struct):
    workingDirectory: str | None = None
    branch: str | None = None


class Block(msgspec.Struct):
    type: str
    text: str | None = None


class Record(msgspec.Struct):
    type: str
    id: str | None = None
    timestamp: str | None = None
    createdAt: str | None = None
    externalId: str | None = None
    version: int | None = None
    title: str | None = None
    source: Source | None = None
    workspace: Workspace | None = None
    role: str | None = None
    model: str | None = None
    content: Raw = Raw(b"null")
    name: str | None = None
    arguments: Raw = Raw(b"{}")
    toolCallId: str | None = None
    success: bool | None = None
    error: Fault | None = None


class State(msgspec.Struct, omit_defaults=True):
    """The answer that calls belong to, and whether the session has a title."""

    message: str = ""
    model: str = ""
    titled: bool = False


_record = msgspec.json.Decoder(Record).decode


def read(record: bytes, key: str, reading: Reading[State]) -> list[Draft]:
    parsed = _record(record)
    source, at = parsed.id or key, micros(parsed.timestamp or parsed.createdAt)
    bodies = _bodies(parsed, source, record, reading)
    if not bodies:
        return [opaque(f"{NAME}.{parsed.type}", record, source, at)]
    return [Draft(body=body, source=f"{source}/{i}" if i else source, said_at=at) for i, body in enumerate(bodies)]


def _bodies(fields: Record, source: str, record: bytes, reading: Reading[State]) -> list[Any]:
    state = reading.state
    match fields.type:
        case "session":
            return _opened(fields, record, reading)
        case "message" if fields.role == "user":
            state.message = state.model = ""
            return _prompted(fields, reading)
        case "message" if fields.role == "assistant":
            state.message, state.model = source, fields.model or ""
            content = _message_content(fields) | {"message": state.message, "model": state.model}
            return [MessageAdded(role="assistant", **content), *_attached(fields)] if _message_content(fields) else []
        case "tool-call" if fields.id and fields.name:
            made = CallMade(
                call=fields.id, tool=fields.name, input=fields.arguments, message=state.message, model=state.model
            )
            return [made]
        case "tool-result" if fields.toolCallId:
            return [_returned(fields, fields.toolCallId)]
    return []


def _opened(header: Record, record: bytes, reading: Reading[State]) -> list[Any]:
    """The directory of the session; the verbatim header has its repository and the program that wrote it."""
    workspace, version = header.workspace or Workspace(), (header.source or Source()).version or ""
    cwd, branch = workspace.workingDirectory or "", workspace.branch or ""
    attached = RuntimeAttached(runtime=NAME, native=reading.native, runtime_version=version, cwd=cwd, branch=branch)
    bodies: list[Any] = [attached, Opaque(kind=f"{NAME}.session", raw=record.decode())]
    if header.title and header.title.strip():
        reading.state.titled = True
        bodies.append(SessionTitled(title=header.title.strip()))
    return bodies


def _prompted(prompt: Record, reading: Reading[State]) -> list[Any]:
    content = _message_content(prompt)
    bodies: list[Any] = [MessageAdded(role="user", **content), *_attached(prompt)] if content else []
    text = "\n".join(_texts(prompt)).strip()
    if not reading.state.titled:
        title, reading.state.titled = prompt_title(text)
        bodies += [SessionTitled(title=title)] if title else []
    return bodies


def _texts(message: Record) -> list[str]:
    blocks = msgspec.json.decode(message.content, type=list[Block] | None) or []
    return [block.text for block in blocks if block.type == "text" and block.text]


def _message_content(message: Record) -> dict[str, Any]:
    """The text or the texts of a message; empty if it has none."""
    texts = _texts(message)
    if len(texts) > 1:
        return {"parts": tuple(TextPart(text=text) for text in texts)}
    return {"text": texts[0]} if texts else {}


def _attached(message: Record) -> list[Opaque]:
    """The attachments, which are separate files that the reader must not open."""
    blocks = msgspec.json.decode(message.content, type=list[Raw])
    others = [block for block in blocks if msgspec.json.decode(block, type=Block).type != "text"]
    return [Opaque(kind=f"{NAME}.attachments", raw=msgspec.json.encode(others).decode())] if others else []


def _returned(result: Record, call: str) -> CallReturned:
    """The result of a call; the content of a failure follows its error, as in the program."""
    text = msgspec.json.decode(result.content, type=str | None) or ""
    if result.success is False and result.error is not None:
        text = "\n\n".join(filter(None, (result.error.message, text)))
    return CallReturned(call=call, output=raw(text), failed=result.success is False)


def recognises(path: PurePath, head: bytes) -> bool:
    first = head.split(b"\n", 1)[0]
    if not re.match(rb"\s*\{", first) or b'"externalId"' not in first:
        return False
    try:
        header = _record(first)
    except (ValueError, RecursionError):
        return False
    return header.type == "session" and header.version == 1 and bool(header.externalId)


def identify(path: PurePath, first: bytes) -> Identity:
    try:
        header = _record(first)
    except RecursionError as error:
        raise Unreadable("the header nests too deeply to be read") from error
    workspace = header.workspace or Workspace()
    return Identity(native=header.externalId or path.stem, project=project_of(workspace.workingDirectory or ""))


RUNTIME = Runtime(
    name=NAME,
    title="Copilot session interchange",
    home="",
    formats=(Format(name="lines", patterns=(), recognises=recognises, identify=identify, read=read, state=State),),
    evidence="v1, imported and resumed with GitHub Copilot CLI 1.0.102 against a scripted model",
)
