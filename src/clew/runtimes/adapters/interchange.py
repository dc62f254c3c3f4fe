"""Copilot session interchange v1: JSON lines that `copilot sessions import` takes; and what all exports share.

The format knows texts, calls and results, and it is strict: ids are unique, a call follows an answer of its turn, a
result comes before the next message, a failure has an error and no content. It has no words for thinking, for the
order of texts and calls within an answer, or for bytes: images and files become a line that names them.
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
from clew.model.plain import plain as shown
from clew.runtimes.contract import Format, Identity, Reading, Runtime, Unreadable, iso, micros, opaque, project_of, raw
from clew.runtimes.rounds import Answer, Prompt, Results, Round, images_of, output_text, text_of

NAME = "copilot-interchange"
# The last second a four-digit year can tell.
LAST = 253_402_300_799_000_000


# What all exports share -----------------------------------------------------------------------------------------------


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What an export says of its session beside the conversation. Times are in microseconds.

    `blob` gives the bytes that a part names, `read` the events of rounds that are only an outline.
    """

    session: str
    title: str = ""
    project: str = ""
    agent: str = ""
    runtime: str = ""
    cwd: str = ""
    opened_at: int = 0
    exported_at: int = 0
    head: int = 0
    blob: Callable[[str], bytes]
    read: Read = nothing_is_outlined


def plain(text: str) -> str:
    """Text that shows what it would rather do: only line feeds and tabs keep their meaning."""
    return shown(text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    return plain(" ".join(text.split()))


def moment(at: int) -> str:
    """A time as ISO 8601, whatever number a hostile record gave it."""
    return iso(min(max(at, 0), LAST))


def returned_text(back: CallReturned) -> str:
    """What a call gave back, as text; its JSON if it cannot be told otherwise."""
    try:
        text = output_text(back)
    except (ValueError, TypeError, RecursionError):
        text = bytes(back.output).decode(errors="replace")
    # Without an output the texts among the parts are the output.
    return text if bytes(back.output) == b"null" else "\n".join(filter(None, (text, text_of(back.parts))))


def content_of(part: ImagePart | FilePart, about: About) -> bytes | None:
    """The bytes of an image or a file; None if they are no longer kept."""
    try:
        return about.blob(part.blob)
    except (ClewError, LookupError, OSError):
        return None


def named(part: ImagePart | FilePart, data: bytes | None) -> str:
    """A line that stands for an image or a file."""
    what = "image" if isinstance(part, ImagePart) else "file"
    size = "no longer kept" if data is None else f"{len(data):,} bytes"
    return f"[{what} {', '.join(one_line(word) for word in (part.name, part.media_type, size) if word)}]"


def file_text(part: ImagePart | FilePart, data: bytes | None) -> str | None:
    """The text of a file that is one."""
    if data is None or not isinstance(part, FilePart) or not part.media_type.startswith("text/"):
        return None
    return data.decode(errors="replace")


class Called(msgspec.Struct, kw_only=True):
    """A call, and what it gave back, wherever in the conversation that came."""

    made: CallMade
    back: CallReturned | None = None


class Exchange(msgspec.Struct, kw_only=True):
    """A round with its calls taken together with their returns. `lost` are returns of calls that nobody made."""

    round: Round
    calls: list[Called] = []
    lost: list[CallReturned] = []


def exchanges(rounds: list[Round]) -> list[Exchange]:
    """The rounds, each return beside its call; what is left of results are the lost ones, if any."""
    found: list[Exchange] = []
    waiting: dict[str, list[Called]] = {}
    for one in rounds:
        exchange = Exchange(round=one)
        if isinstance(one, Answer):
            exchange.calls = [Called(made=call) for call in one.calls]
            for call in exchange.calls:
                waiting.setdefault(call.made.call, []).append(call)
        elif isinstance(one, Results):
            for back in one.returns:
                # Some programs number the calls of every answer anew: a return belongs to the newest that waits.
                if calls := waiting.get(back.call):
                    calls.pop().back = back
                else:
                    exchange.lost.append(back)
            if not exchange.lost:
                continue
        found.append(exchange)
    return found


def whole_exchanges(rounds: list[Round], read: Read) -> Iterator[Exchange]:
    """The exchanges of rounds that may be an outline, with all their texts, one at a time."""
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
    """Ids, each given out once."""

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
    """The session as a file that `copilot sessions import` takes, a line at a time."""
    for record in _records(rounds, about):
        # A line feed in verbatim JSON can only lie between its tokens.
        yield msgspec.json.encode(record).replace(b"\n", b" ").replace(b"\r", b" ") + b"\n"


def _records(rounds: list[Round], about: About) -> Iterator[dict[str, Any]]:
    yield _header(rounds, about)
    ids = _Ids()
    turn = 0
    for exchange in whole_exchanges(rounds, about.read):
        one = exchange.round
        turn += isinstance(one, Prompt)
        record = {"timestamp": moment(one.at), "turnId": f"turn-{turn}"}
        if isinstance(one, Answer):
            yield from _answer(one, exchange.calls, record, ids, about)
            continue
        parts = one.parts if isinstance(one, Prompt) else tuple(chain.from_iterable(map(_lost, exchange.lost)))
        content = _content(parts, about) or [{"type": "text", "text": ""}]
        yield {"type": "message", "id": ids.new(f"message-{one.key}"), **record, "role": "user", "content": content}


def _is_blank(text: str) -> bool:
    """Whether the client takes a text for empty: to it a byte order mark is a space."""
    return not text.replace("\ufeff", "").strip()


def _header(rounds: list[Round], about: About) -> dict[str, Any]:
    header: dict[str, Any] = {
        "type": "session",
        "version": 1,
        "externalId": about.session,
        "createdAt": moment(about.opened_at),
        "source": {"application": "clew"},
    }
    if rounds:
        header["updatedAt"] = moment(max(one.at for one in rounds))
    if title := _title(about.title):
        header["title"] = title
    if not _is_blank(about.cwd):
        header["workspace"] = {"workingDirectory": about.cwd}
    return header


def _title(title: str) -> str:
    """A title as the client takes it: one line of at most 100 UTF-16 units."""
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
    """Images and files in words; a text in full."""
    for part in parts:
        if isinstance(part, ImagePart | FilePart):
            data = content_of(part, about)
            text = file_text(part, data)
            yield named(part, data) + ("" if text is None else f"\n{text}")


def _lost(back: CallReturned) -> list[Part]:
    said = f"[{'failure' if back.failed else 'result'} of a call that is not here: {back.call}]\n{returned_text(back)}"
    return [TextPart(text=said), *images_of(back.parts)]


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
    one = _record(record)
    source, at = one.id or key, micros(one.timestamp or one.createdAt)
    bodies = _bodies(one, source, record, reading)
    if not bodies:
        return [opaque(f"{NAME}.{one.type}", record, source, at)]
    return [Draft(body=body, source=f"{source}/{i}" if i else source, said_at=at) for i, body in enumerate(bodies)]


def _bodies(one: Record, source: str, record: bytes, reading: Reading[State]) -> list[Any]:
    state = reading.state
    match one.type:
        case "session":
            return _opened(one, record, reading)
        case "message" if one.role == "user":
            state.message = state.model = ""
            return _prompted(one, reading)
        case "message" if one.role == "assistant":
            state.message, state.model = source, one.model or ""
            said = _said(one) | {"message": state.message, "model": state.model}
            return [MessageAdded(role="assistant", **said), *_attached(one)] if _said(one) else []
        case "tool-call" if one.id and one.name:
            made = CallMade(call=one.id, tool=one.name, input=one.arguments, message=state.message, model=state.model)
            return [made]
        case "tool-result" if one.toolCallId:
            return [_returned(one, one.toolCallId)]
    return []


def _opened(one: Record, record: bytes, reading: Reading[State]) -> list[Any]:
    """Where the session was; the header itself tells of its repository and the program it comes from."""
    place, version = one.workspace or Workspace(), (one.source or Source()).version or ""
    cwd, branch = place.workingDirectory or "", place.branch or ""
    attached = RuntimeAttached(runtime=NAME, native=reading.native, runtime_version=version, cwd=cwd, branch=branch)
    bodies: list[Any] = [attached, Opaque(kind=f"{NAME}.session", raw=record.decode())]
    if one.title and one.title.strip():
        reading.state.titled = True
        bodies.append(SessionTitled(title=one.title.strip()))
    return bodies


def _prompted(one: Record, reading: Reading[State]) -> list[Any]:
    said = _said(one)
    bodies: list[Any] = [MessageAdded(role="user", **said), *_attached(one)] if said else []
    text = "\n".join(_texts(one)).strip()
    if text and not reading.state.titled:
        reading.state.titled = True
        bodies.append(SessionTitled(title=text.splitlines()[0].strip()[:80]))
    return bodies


def _texts(one: Record) -> list[str]:
    blocks = msgspec.json.decode(one.content, type=list[Block] | None) or []
    return [block.text for block in blocks if block.type == "text" and block.text]


def _said(one: Record) -> dict[str, Any]:
    """A message's text, or its texts; nothing if it has none."""
    texts = _texts(one)
    if len(texts) > 1:
        return {"parts": tuple(TextPart(text=text) for text in texts)}
    return {"text": texts[0]} if texts else {}


def _attached(one: Record) -> list[Opaque]:
    """The attachments, which are files beside this one that nobody here may open."""
    blocks = msgspec.json.decode(one.content, type=list[Raw])
    others = [block for block in blocks if msgspec.json.decode(block, type=Block).type != "text"]
    return [Opaque(kind=f"{NAME}.attachments", raw=msgspec.json.encode(others).decode())] if others else []


def _returned(one: Record, call: str) -> CallReturned:
    """A failure's content follows its error, as the program itself reads the two."""
    text = msgspec.json.decode(one.content, type=str | None) or ""
    if one.success is False and one.error is not None:
        text = "\n\n".join(filter(None, (one.error.message, text)))
    return CallReturned(call=call, output=raw(text), failed=one.success is False)


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
    place = header.workspace or Workspace()
    return Identity(native=header.externalId or path.stem, project=project_of(place.workingDirectory or ""))


RUNTIME = Runtime(
    name=NAME,
    title="Copilot session interchange",
    home="",
    formats=(Format(name="lines", patterns=(), recognises=recognises, identify=identify, read=read, state=State),),
    evidence="v1, imported and resumed with GitHub Copilot CLI 1.0.102 against a scripted model",
)
