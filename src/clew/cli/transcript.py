"""A session as a transcript: blocks of text with names for their styles. showing.py formats them for a terminal.

Stored text is hostile, so all of it passes through `shown`. Long texts are folded before they are processed, so the
cost depends on what is shown, not on the size of the session.
"""

import difflib
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

import msgspec

from clew.cli.output import one_line
from clew.model import events as e
from clew.model.events import Event
from clew.model.plain import plain
from clew.runtimes.adapters.interchange import LAST, returned_text

# How many first and last lines of a folded text are shown.
OUTPUT, FAILURE, CHANGE, NEW_FILE, SUMMARY = (3, 3), (3, 12), (16, 4), (8, 0), (3, 3)
# Lines of a folded text are cut at this length; a terminal cuts them further.
LONGEST_LINE = 300
# A day before the last one with a four-digit year, because some time zones are a day ahead.
LATEST = LAST - 86_400_000_000
# A diff takes time in proportion to the product of both lengths; longer texts are shown as removed and added.
MOST_COMPARED_LINES = 1_000


class Span(msgspec.Struct, frozen=True):
    """A piece of a line. If the line is too long, the piece that `gives_way` is cut."""

    text: str
    style: str = ""
    gives_way: bool = False


class Line(msgspec.Struct, frozen=True):
    """One line; its block says whether it is cut or wrapped."""

    text: str
    style: str = ""


class Prose(msgspec.Struct, frozen=True):
    """Markdown source."""

    text: str
    style: str = ""


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown of one item: a head right of the gutter, and the body under it, indented.

    A block of a subagent stands behind a bar (`side`). The head may be a line across (`ruled`). `tight` ones follow
    each other without a gap, lines that are not `wrapped` are cut, and `marked` is the event somebody asked for.
    """

    head: tuple[Span, ...]
    body: tuple[Line | Prose, ...] = ()
    gutter: str = ""
    indent: int = 0
    side: bool = False
    ruled: bool = False
    tight: bool = False
    wrapped: bool = False
    marked: bool = False


class Manner(msgspec.Struct, frozen=True, kw_only=True):
    """How a session is shown: the names of the speakers, what is folded, the event of --at, and the width of a seq."""

    you: str = ""
    agent: str = ""
    cwd: str = ""
    full: bool = False
    thinking: bool = False
    at: int = 0
    digits: int = 3


# A call with its return, events that share one line, or a single event.
Item = list[Event]


# Blocks ---------------------------------------------------------------------------------------------------------------


def blocks(items: list[Item], manner: Manner) -> Iterator[Block]:
    """The items as blocks, with a line where a day begins."""
    day = ""
    said_at = next((item[0].said_at for item in items if item[0].said_at is not None), None)
    for item in items:
        event = item[0]
        said_at = said_at if event.said_at is None else event.said_at
        # A captured record without a time of its own gets the time of the record before.
        is_captured = event.said_at is not None or event.source
        at = _local(said_at if is_captured and said_at is not None else event.at)
        block = _block(item, at, manner)
        if block is None:
            continue
        if (today := f"{at:%Y-%m-%d}") != day:
            yield Block(head=(Span(today, "dim"),), ruled=True)
            day = today
        yield block


def _local(at: int) -> datetime:
    """The local time; a number out of range, as in a hostile record, becomes the nearest valid time."""
    return datetime.fromtimestamp(min(max(at, 0), LATEST) / 1e6)


def note(text: str) -> Block:
    """A note by clew that belongs to no event."""
    return Block(head=(Span(text, "dim"),), wrapped=True)


def _block(item: Item, at: datetime, manner: Manner) -> Block | None:
    event, asked = item[0], any(member.seq == manner.at for member in item)
    if asked:
        manner = msgspec.structs.replace(manner, full=True, thinking=True)
    block = _block_of(item, manner)
    if block is None:
        return None
    gutter = f"{event.seq:>{manner.digits}} {at:%H:%M} {'▶' if asked else ' '} "
    side = bool(getattr(event.body, "side", ""))
    return msgspec.structs.replace(block, gutter=gutter, side=side, marked=asked)


def _block_of(item: Item, manner: Manner) -> Block | None:
    event = item[0]
    match event.body:
        case e.MessageAdded() as body:
            return _message(event, body, manner)
        case e.CallMade() as body:
            back = item[1].body if len(item) > 1 else None
            return _call(body, back if isinstance(back, e.CallReturned) else None, manner)
        case e.CallReturned() as body:
            lines = _lines(_returned(body))
            head = (Span("● ", "dim"), Span("the return of a call that is not here  "), *_outcome(body, lines))
            return Block(head=head, body=_output(body, lines, manner), indent=2, wrapped=manner.full)
        case e.Compacted(summary=summary):
            return Block(head=(Span("earlier conversation summarised"),), ruled=True, body=_summary(summary, manner))
        case e.SessionForked(parent=parent, upto=upto):
            return Block(head=(Span(f"forked from {one_line(parent)} at {upto}"),), ruled=True)
        case _:
            return _remark_on(item)


def _remark_on(item: Item) -> Block:
    """One line about events that are not part of the conversation."""
    match item[0].body:
        case e.Removed(how=how):
            verb = "event was" if len(item) == 1 else "events were"
            return _remark(f"{len(item):,} {verb} {how}")
        case e.Opaque():
            kinds = Counter(event.kind for event in item).items()
            return _remark(", ".join(f"{kind} ({times:,})" if times > 1 else kind for kind, times in kinds))
        case e.SessionErased(events=events, reason=reason):
            count = f"{events:,} event{'s' if events != 1 else ''}"
            return _remark(", ".join(filter(None, ("this session was erased", count, reason))), "missing")
        case body:
            return _remark(_remarked(body), "known" if body.step == "knowledge" else "dim")


def _remark(text: str, style: str = "dim") -> Block:
    return Block(head=(Span(one_line(text, 400), style),), tight=True, wrapped=True)


# Messages -------------------------------------------------------------------------------------------------------------


def _message(event: Event, body: e.MessageAdded, manner: Manner) -> Block | None:
    pieces = [piece for part in body.content for piece in _part(part, manner)]
    if body.role == "system" and not manner.full:
        pieces = [line for piece in pieces for line in _folded(piece.text, manner)]
    if not pieces:
        return None
    thoughts = [part for part in body.content if isinstance(part, e.ThinkingPart)]
    if len(thoughts) == len(body.content) and not manner.thinking:
        return _remark(", ".join(piece.text for piece in pieces))
    return Block(head=_speaker(event, body, manner), body=tuple(pieces), wrapped=True)


def _speaker(event: Event, body: e.MessageAdded, manner: Manner) -> tuple[Span, ...]:
    agent, said_by = one_line(manner.agent), one_line(body.model)
    model = (Span(f"  {said_by}", "dim"),) if said_by else ()
    if body.side:
        name = "subagent" if body.side == "side" else one_line(body.side)
        return (Span(name, "agent"), *model) if body.role == "assistant" else (Span(f"to {name}", "agent"),)
    if body.role == "assistant":
        return (Span(agent, "agent"), *model) if agent else (Span(said_by or "assistant", "agent"),)
    if body.role == "user":
        person = one_line(event.actor.partition(":")[2] or event.actor)
        return (Span("you" if event.actor == manner.you else person, "person"),)
    return (Span(one_line(body.role), "system"),)


def _part(part: e.Part, manner: Manner) -> list[Line | Prose]:
    match part:
        case e.TextPart(text=text):
            return [Prose(shown(text).strip("\n"))] if text.strip() else []
        case e.ThinkingPart(text=text):
            if not text.strip():
                return []  # Some providers encrypt thinking, so there is no text.
            words = len(text.split())
            summary = Line(f"thinking ({words:,} word{'s' if words != 1 else ''})", "dim")
            return [summary, Prose(shown(text).strip("\n"), "dim")] if manner.thinking else [summary]
        case e.ImagePart() | e.FilePart():
            return [Line(_attached(part), "attached")]


def _attached(part: e.ImagePart | e.FilePart) -> str:
    what = "image" if isinstance(part, e.ImagePart) else "file"
    about = ", ".join(one_line(word) for word in (part.media_type.removeprefix("image/"), part.name) if word)
    return f"[{what} {about}]" if about else f"[{what}]"


def _summary(text: str, manner: Manner) -> tuple[Line | Prose, ...]:
    return (Prose(shown(text).strip("\n")),) if manner.full else tuple(_folded(text, manner))


# Calls ----------------------------------------------------------------------------------------------------------------

_COMMANDS = ("command", "cmd")
_PATTERNS = ("pattern", "regex")
_PATHS = (
    "file_path", "path", "filePath", "absolute_path", "notebook_path", "target_file", "filename", "file", "dir_path",
    "directory_path",
)  # fmt: skip
_OTHERS = ("url", "query", "description", "subject", "title", "prompt", "name")
_OLD_NEW = (
    ("old_string", "new_string"), ("old_str", "new_str"), ("oldString", "newString"), ("oldText", "newText"),
    ("old", "new"),
)  # fmt: skip
_CONTENTS = ("content", "contents", "file_text", "code_edit", "new_source")
_PATCHES = ("patch", "patchText", "diff", "input", "command", "cmd")
_PATCHED = re.compile(r"^(?:\*\*\* (?:Add|Update|Delete) File: |\+\+\+ (?:b/)?)(.+)", re.MULTILINE)
_PATCH = re.compile(r"^(\*\*\* Begin Patch|--- .*\n\+\+\+ |<<<<<<< SEARCH|-{7} SEARCH)", re.MULTILINE)
# Colours are removed; `plain` writes out all other control codes.
_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")
_ELSEWHERE = Line("⋯", "dim")


def _call(made: e.CallMade, back: e.CallReturned | None, manner: Manner) -> Block:
    values = _inputs(made)
    changes = _changes(values)
    lines = _lines(_returned(back)) if back else []
    telling, in_head = _telling(values, manner)
    head = [Span("● ", "failed" if back and back.failed else "call"), Span(one_line(made.tool), "bold"), Span("  ")]
    head += [Span(one_line(telling, LONGEST_LINE), gives_way=True), Span("  ")] if telling else []
    head += _outcome(back, lines, _counted(changes))
    body: list[Line | Prose] = []
    if changes:
        body += _fold(changes, NEW_FILE if all(line.style == "added" for line in changes) else CHANGE, manner)
    elif manner.full:
        body += _whole(telling, {name: value for name, value in values.items() if name not in in_head})
    # The output of a successful edit only says that it succeeded.
    if back and (manner.full or back.failed or not changes):
        body += _output(back, lines, manner)
    return Block(head=tuple(head), body=tuple(body), indent=2, wrapped=manner.full)


def _inputs(made: e.CallMade) -> dict[str, Any]:
    values = _json(bytes(made.input))
    inner = values.get("input") if isinstance(values, dict) and len(values) == 1 else values
    # Some programs store the text that their llm wrote, even if it is not a JSON object.
    if isinstance(inner, str):
        parsed = _json(inner.encode())
        return parsed if isinstance(parsed, dict) else {"input": inner}
    return values if isinstance(values, dict) else {"input": values}


def _json(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text.decode(errors="replace")


def _telling(values: dict[str, Any], manner: Manner) -> tuple[str, set[str]]:
    """The most telling part of the input of a call, and the names of its fields."""
    if patch := _patch(values):
        return ", ".join(_PATCHED.findall(patch)), set(values)
    command, pattern, path = (_named(values, names) for names in (_COMMANDS, _PATTERNS, _PATHS))
    shortened = str(values.get(path, "")).removeprefix(f"{manner.cwd}/" if manner.cwd else "")
    if command:
        return " ".join(filter(None, (_command(values[command]), shortened))), {command, path}
    if pattern or path:
        return " in ".join(filter(None, (str(values.get(pattern, "")), shortened))), {pattern, path}
    if other := _named(values, _OTHERS):
        return str(values[other]), {other}
    plainly = {name for name, value in values.items() if not isinstance(value, dict | list)}
    return " ".join(f"{name}={_brief(value)}" for name, value in values.items()), plainly


def _named(values: dict[str, Any], names: Iterable[str]) -> str:
    """The first of these names that has a text, or a list of words; none is the empty name."""
    return next((name for name in names if isinstance(value := values.get(name), str | list) and value), "")


def _command(value: Any) -> str:
    if not isinstance(value, list):
        return str(value)
    words = [str(word) for word in value]
    # A shell that is given a script is not worth telling.
    return words[2] if len(words) == 3 and words[1] in ("-c", "-lc") else shlex.join(words)


def _brief(value: Any) -> str:
    if isinstance(value, list):
        return f"[{len(value)}]"
    return f"{{{len(value)}}}" if isinstance(value, dict) else str(value)


def _whole(telling: str, untold: dict[str, Any]) -> list[Line]:
    """The input that the head of a call does not show: a long script or one of several lines, and other fields."""
    lines = _lines(telling) if "\n" in telling.strip() or len(telling) > LONGEST_LINE else []
    lines += msgspec.json.format(msgspec.json.encode(untold), indent=2).decode().split("\n") if untold else []
    return [Line(shown(line), "input") for line in lines]


def _outcome(back: e.CallReturned | None, lines: list[str], counted: str = "") -> list[Span]:
    if back is None:
        return [Span("no return", "missing")]
    number = f"{len(lines):,} line{'s' if len(lines) != 1 else ''}" if lines else "" if back.parts else "no output"
    words = number if back.failed else counted or number
    outcome = Span("failed", "failed") if back.failed else Span("ok", "ok")
    return [outcome, Span(f", {words}", "dim")] if words else [outcome]


def _output(back: e.CallReturned, lines: list[str], manner: Manner) -> tuple[Line, ...]:
    fold, style = (FAILURE, "failed") if back.failed else (OUTPUT, "output")
    pictures = [part for part in back.parts if isinstance(part, e.ImagePart | e.FilePart)]
    folded = _fold([Line(line, style) for line in lines], fold, manner)
    return (*folded, *(Line(_attached(part), "attached") for part in pictures))


def _returned(back: e.CallReturned) -> str:
    """The output of a call as text: known wrappers are removed, other JSON is indented."""
    text = _COLOURS.sub("", returned_text(back))
    if not text.lstrip().startswith(("{", "[")):
        return text
    value = _json(text.encode())
    if (inner := _unwrapped(value)) is not None:
        return inner
    return msgspec.json.format(text, indent=2) if isinstance(value, dict | list) and "\n" not in text.strip() else text


def _unwrapped(value: Any) -> str | None:
    """The text inside a known wrapper; None for any other output."""
    if not isinstance(value, dict):
        return None
    name = next((name for name in ("output", "text") if isinstance(value.get(name), str)), "")
    if {other for other, held in value.items() if held} - {name, "type", "metadata"} or not name:
        return None
    about = value.get("metadata")
    code = about.get("exit_code") if isinstance(about, dict) else None
    return f"{value[name].rstrip()}\n[exit code {code}]" if code else str(value[name])


# Changes to files -----------------------------------------------------------------------------------------------------


def _changes(values: dict[str, Any]) -> list[Line]:
    """The changes that a call made to a file, as the lines of a diff; empty if there are none."""
    pairs = [pair for edit in _edits(values) if (pair := _old_new(edit))]
    if pairs:
        hunks = [_compared(old, new) for old, new in pairs]
        return [line for i, hunk in enumerate(hunks) for line in ([_ELSEWHERE] if i else []) + hunk]
    if patch := _patch(values):
        names = ("--- ", "+++ ")
        return [Line(line, "dim") if line.startswith(names) else _changed(line) for line in _lines(patch)]
    content = values.get(_named(values, _CONTENTS))
    if not _named(values, _PATHS) or not isinstance(content, str):
        return []
    return [Line(f"+{line}", "added") for line in _lines(content)]


def _edits(values: dict[str, Any]) -> list[dict[str, Any]]:
    """The edits of a call: those in a list, the one in a field of its own, or the call itself."""
    edits = next((values[name] for name in ("edits", "changes", "edit") if values.get(name)), None)
    if isinstance(edits, list):
        return [edit for edit in edits if isinstance(edit, dict)]
    return [edits if isinstance(edits, dict) else values]


def _patch(values: dict[str, Any]) -> str:
    """The text of a patch, without a shell command before it."""
    given = (values[name] for name in _PATCHES if values.get(name))
    texts = ("\n".join(map(str, value)) if isinstance(value, list) else str(value) for value in given)
    return next((text[match.start() :] for text in texts if (match := _PATCH.search(text))), "")


def _old_new(values: dict[str, Any]) -> tuple[str, str] | None:
    for old, new in _OLD_NEW:
        before, after = values.get(old), values.get(new, "")
        if isinstance(before, str) and isinstance(after, str):
            return before, after
    inserted = values.get("insert_text", values.get("new_str")) if values.get("command") == "insert" else None
    return ("", inserted) if isinstance(inserted, str) else None


def _compared(old: str, new: str) -> list[Line]:
    before, after = (text.replace("\r\n", "\n").split("\n") if text else [] for text in (old, new))
    if max(len(before), len(after)) > MOST_COMPARED_LINES:
        differences = [f"-{line}" for line in before] + [f"+{line}" for line in after]
    else:
        # Without the names and the first line numbers, which are those of a piece and not of the file.
        differences = list(difflib.unified_diff(before, after, lineterm=""))[3:]
    lines = [_ELSEWHERE if line.startswith("@@") else _changed(line) for line in differences]
    return lines or [Line("no line is another", "dim")]


def _changed(line: str) -> Line:
    styles = {"+": "added", "-": "removed", "@": "dim", "*": "dim"}
    return Line(line, styles.get(line[:1], "output"))


def _counted(changes: list[Line]) -> str:
    styles = Counter(line.style for line in changes)
    counts = (f"{sign}{styles[style]:,}" for sign, style in (("+", "added"), ("-", "removed")) if styles[style])
    return " ".join(counts)


# Text -----------------------------------------------------------------------------------------------------------------


def shown(text: str) -> str:
    """Stored text without control codes."""
    return plain(text.replace("\r\n", "\n"))


def _lines(text: str) -> list[str]:
    text = text.replace("\r\n", "\n").rstrip("\n")
    return text.split("\n") if text.strip() else []


def _folded(text: str, manner: Manner) -> list[Line]:
    return _fold([Line(line) for line in _lines(text)], SUMMARY, manner)


def _fold(lines: list[Line], fold: tuple[int, int], manner: Manner) -> list[Line]:
    """The first and the last lines, and the number of lines between them; only the shown lines are processed."""
    first, last = fold
    more = len(lines) - first - last
    if manner.full:
        return [Line(shown(line.text), line.style) for line in lines]
    if more <= 1:
        return [_cut(line) for line in lines]
    left_out = Line(f"… {more:,} lines more, --full shows them", "more")
    return [*map(_cut, lines[:first]), left_out, *map(_cut, lines[len(lines) - last :])]


def _cut(line: Line) -> Line:
    text = shown(line.text[: LONGEST_LINE + 1])
    return Line(text if len(text) <= LONGEST_LINE else text[: LONGEST_LINE - 1] + "…", line.style)


# All other events -----------------------------------------------------------------------------------------------------

# Fields that are of no use to a person.
_UNREAD = {"fact", "decision", "handoff", "approval", "call", "blob", "evidence", "scope", "native", "epoch"}


def _remarked(body: e.Body) -> str:
    """An event that is not part of the conversation, in one line: its kind in words and its fields."""
    words = [_field(name, getattr(body, name)) for name in body.__struct_fields__ if name not in _UNREAD]
    fields = ", ".join(word for word in words if word)
    kind = body.kind.replace("_", " ")
    return f"{kind}: {fields}" if fields else kind


def _field(name: str, value: Any) -> str:
    match value:
        case bool():
            return name if value else f"not {name}"
        case str():
            return value
        case int():
            return f"{name} {value:,}"
        case e.Budget():
            return " ".join(filter(None, (_field(part, getattr(value, part)) for part in value.__struct_fields__)))
        case tuple():
            return f"{name} {', '.join(map(str, value))}" if value else ""
        case _:
            return ""
