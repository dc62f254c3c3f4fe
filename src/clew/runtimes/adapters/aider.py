"""Aider: `.aider.chat.history.md` in the project's folder, Markdown that is appended to.

`# aider chat started at` opens a chat, `#### ` marks what the person typed, `> ` the output of the program, and every
other line is the llm's answer. All chats of a project are one file and so one session. The file has only the start time
of each chat, in the machine's local time; every event of that chat gets this time.
"""

import re
import uuid
from collections.abc import Iterator
from pathlib import PurePath

import msgspec

from clew.model.events import Draft, MessageAdded, RuntimeAttached, Usage, UsageCounted
from clew.runtimes.contract import Format, Identity, Reading, Record, Runtime, micros, opaque, project_of
from clew.runtimes.titles import title_drafts

NAME = "aider"
_START = "# aider chat started at "
_FENCE = re.compile(r"\s*(```|~~~)")
_VERSION = re.compile(r"^Aider v(\S+)", re.MULTILINE)
_MODEL = re.compile(r"^(?:Main model|Models?): (\S+)", re.MULTILINE)
_TOKENS = re.compile(r"^Tokens: (.*?received\.?)(?:\s*Cost: \$([\d.]+))?", re.MULTILINE)
_COST = re.compile(r"Cost: \$[\d.]+ message, \$[\d.]+ session\.\s*$")
_COUNT = re.compile(r"([\d.,]+)(k|M)? (sent|received|cache write|cache hit)")


class Piece(msgspec.Struct):
    """A part of the file: the start of a chat, or the text of one speaker."""

    type: str
    text: str


class State(msgspec.Struct, omit_defaults=True):
    started: int | None = None
    version: str = ""
    model: str = ""
    titled: bool = False


def split(data: bytes) -> Iterator[Record]:
    """The pieces of the file, each with its offset as the key."""
    held: list[str] = []
    kind, start, at, fenced = "", 0, 0, False
    for line in data.splitlines(keepends=True):
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        if kind == "program" and held[-1].startswith("> Tokens: ") and _COST.match(text):
            # The program marks only the first line of its output, and this is the second.
            text = f"> {text}"
        now = _kind(text, fenced=fenced)
        # Inside a fence of the llm a quote is part of the answer. A prompt is a prompt even there: an interrupted
        # answer never closes its fence.
        fenced = now == "assistant" and fenced != bool(_FENCE.match(text))
        if now == "assistant" and kind != "assistant" and not text.strip():
            # Blank lines around the text of another speaker are layout.
            now = ""
        if now != kind or now == "start":
            yield from _piece(kind, held, start)
            kind, held, start = now, [], at
        held.append(text)
        at += len(line)
    yield from _piece(kind, held, start)


def _kind(line: str, *, fenced: bool) -> str:
    if line.startswith(_START):
        return "start"
    if line.startswith("#### ") or line == "####":
        return "user"
    if line.startswith("> ") or line == ">":
        return "assistant" if fenced else "program"
    return "assistant"


def _piece(kind: str, lines: list[str], at: int) -> Iterator[Record]:
    if not kind:
        return
    marks = {"start": len(_START), "user": 5, "program": 2, "assistant": 0}
    # A line of the program or the person ends in two blanks, which is Markdown's line break.
    texts = [line[marks[kind] :].rstrip(" ") if marks[kind] else line for line in lines]
    text = "\n".join(texts).strip("\n")
    if text or kind != "assistant":
        yield f"@{at}", msgspec.json.encode(Piece(kind, text))


def read(record: bytes, key: str, reading: Reading[State]) -> list[Draft]:
    """One piece of the file."""
    piece, state = msgspec.json.decode(record, type=Piece), reading.state
    if piece.type == "start":
        state.started = micros(piece.text.strip())
        attached = RuntimeAttached(runtime=NAME, native=reading.native, runtime_version=state.version)
        return [Draft(body=attached, source=key, said_at=state.started)]
    at = state.started
    if piece.type == "program":
        return [opaque(f"{NAME}.program", record, key, at), *_read_program_text(piece.text, key, reading)]
    if piece.type == "user" and piece.text.strip():
        drafts = [Draft(body=MessageAdded(role="user", text=piece.text), source=key, said_at=at)]
        return [*drafts, *title_drafts(piece.text, state, source=key, at=at)]
    if piece.type == "assistant":
        body = MessageAdded(role="assistant", text=piece.text, message=key, model=state.model)
        return [Draft(body=body, source=key, said_at=at)]
    return [opaque(f"{NAME}.{piece.type}", record, key, at)]


def _read_program_text(text: str, key: str, reading: Reading[State]) -> list[Draft]:
    """The version, the llm and the token counts in the program's output."""
    state, drafts = reading.state, []
    if match := _MODEL.search(text):
        state.model = match[1]
    if (match := _VERSION.search(text)) and match[1] != state.version:
        state.version = match[1]
        attached = RuntimeAttached(runtime=NAME, native=reading.native, runtime_version=match[1])
        drafts.append(Draft(body=attached, source=f"{key}/runtime", said_at=state.started))
    for i, counted in enumerate(_TOKENS.finditer(text)):
        usage = _usage(counted[1], counted[2] or "0")
        body = UsageCounted(usage=usage, model=state.model)
        drafts.append(Draft(body=body, source=f"{key}/usage/{i}", said_at=state.started))
    return drafts


def _usage(counts: str, cost: str) -> Usage:
    """Tokens as the program rounds them: `12k sent, 1.5k received`. `sent` includes cache reads, and writes twice."""
    tokens = {
        what: round(float(number.replace(",", "")) * {"k": 1_000, "M": 1_000_000}.get(unit, 1))
        for number, unit, what in _COUNT.findall(counts)
    }
    read, write = tokens.get("cache hit", 0), tokens.get("cache write", 0)
    return Usage(
        input=max(tokens.get("sent", 0) - read - 2 * write, 0),
        output=tokens.get("received", 0),
        cache_read=read,
        cache_write=write,
        cost_micros=round(float(cost.rstrip(".")) * 1_000_000),
    )


def recognises(path: PurePath, head: bytes) -> bool:
    return path.suffix == ".md" and head.lstrip().startswith(_START.encode())


def identify(path: PurePath, first: bytes) -> Identity:
    """The project's folder; a digest of its path distinguishes folders of the same name."""
    folder = path.parent.as_posix()
    return Identity(
        native=f"{project_of(folder)}-{uuid.uuid5(uuid.NAMESPACE_URL, folder).hex[:12]}",
        project=project_of(folder),
        folder=folder,
    )


RUNTIME = Runtime(
    name=NAME,
    title="Aider",
    home="",
    binary="aider",
    formats=(
        Format(
            name="history",
            patterns=(".aider.chat.history.md",),
            recognises=recognises,
            identify=identify,
            read=read,
            state=State,
            mutable=True,
            split=split,
        ),
    ),
    evidence="public sources, not run",
)
