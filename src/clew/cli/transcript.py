"""A session as a transcript: blocks of text with names for their styles. showing.py formats them for a terminal.

Stored text is hostile, so all of it passes through `shown`. Long texts are folded before they are processed, so the
cost depends on what is shown, not on the size of the session.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

import msgspec

from clew.cli.output import one_line
from clew.model import events as e
from clew.model.events import Event
from clew.model.plain import plain
from clew.model.remark import remark_of
from clew.model.transcript import Item, Subagent
from clew.runtimes.adapters.interchange import LAST
from clew.runtimes.calls import inputs_of, output_of, telling_of
from clew.runtimes.changes import Line, changes_of, count_of, lines_of

# How many first and last lines of a folded text are shown.
OUTPUT, FAILURE, CHANGE, NEW_FILE, SUMMARY = (3, 3), (3, 12), (16, 4), (8, 0), (3, 3)
# Lines of a folded text are cut at this length; a terminal cuts them further.
LONGEST_LINE = 300
# A day before the last one with a four-digit year, because some time zones are a day ahead.
LATEST = LAST - 86_400_000_000


class Span(msgspec.Struct, frozen=True):
    """A piece of a line. If the line is too long, the piece that `gives_way` is cut."""

    text: str
    style: str = ""
    gives_way: bool = False


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


# An item, or items that share one line.
Group = list[Item]


# Blocks ---------------------------------------------------------------------------------------------------------------


def blocks(entries: Iterable[Item | Subagent], manner: Manner) -> Iterator[Block]:
    """The items as blocks, with a line where a day begins, and the subagents between them."""
    day = ""
    for group in _grouped(entries):
        if isinstance(group, Subagent):
            yield _subagent(group, manner)
            continue
        at = _local(group[0].at)
        block = _block(group, at, manner)
        if block is None:
            continue
        if (today := f"{at:%Y-%m-%d}") != day:
            yield Block(head=(Span(today, "dim"),), ruled=True)
            day = today
        yield block


def _grouped(entries: Iterable[Item | Subagent]) -> Iterator[Group | Subagent]:
    group: Group = []
    for entry in entries:
        if group and (isinstance(entry, Subagent) or not _is_alike(group[-1], entry)):
            yield group
            group = []
        if isinstance(entry, Subagent):
            yield entry
        else:
            group.append(entry)
    if group:
        yield group


def _is_alike(before: Item, item: Item) -> bool:
    """Whether two items share one line."""
    if before.event is None or item.event is None or before.returned or item.returned:
        return False
    first, second = before.event.body, item.event.body
    if isinstance(first, e.Removed) and isinstance(second, e.Removed):
        return first.how == second.how
    return isinstance(first, e.Opaque) and isinstance(second, e.Opaque)


def _local(at: int) -> datetime:
    """The local time; a number out of range, as in a hostile record, becomes the nearest valid time."""
    return datetime.fromtimestamp(min(max(at, 0), LATEST) / 1e6)


def note(text: str) -> Block:
    """A note by clew that belongs to no event."""
    return Block(head=(Span(text, "dim"),), wrapped=True)


def _block(group: Group, at: datetime, manner: Manner) -> Block | None:
    item, asked = group[0], any(manner.at in member.seqs for member in group)
    if asked:
        manner = msgspec.structs.replace(manner, full=True, thinking=True)
    block = _block_of(group, manner)
    if block is None:
        return None
    gutter = f"{item.seq:>{manner.digits}} {at:%H:%M} {'▶' if asked else ' '} "
    return msgspec.structs.replace(block, gutter=gutter, side=bool(item.side), marked=asked)


def _block_of(group: Group, manner: Manner) -> Block | None:
    item, event = group[0], group[0].event
    if event is None:
        verb = "event was" if item.withdrawn == 1 else "events were"
        return _remark(f"{item.withdrawn:,} {verb} taken back by a rewind")
    match event.body:
        case e.MessageAdded() as body:
            return _message(event, body, manner)
        case e.CallMade() as body:
            return _call(body, item.returned.body if item.returned else None, manner)
        case e.CallReturned() as body:
            return _lost(body, manner, "the return of a call that is not here")
        case e.Removed(how=how) if item.returned and isinstance(item.returned.body, e.CallReturned):
            return _lost(item.returned.body, manner, f"the return of a call that was {how}")
        case e.Compacted(summary=summary):
            return Block(head=(Span("earlier conversation summarised"),), ruled=True, body=_summary(summary, manner))
        case e.SessionForked(parent=parent, upto=upto):
            return Block(head=(Span(f"forked from {one_line(parent)} at {upto}"),), ruled=True)
        case body:
            return _remark_on(body, group)


def _remark_on(body: e.AnyBody, group: Group) -> Block:
    """One line about events that are not part of the conversation."""
    match body:
        case e.Removed(how=how):
            verb = "event was" if len(group) == 1 else "events were"
            return _remark(f"{len(group):,} {verb} {how}")
        case e.Opaque():
            kinds = Counter(item.event.kind for item in group if item.event).items()
            return _remark(", ".join(f"{kind} ({times:,})" if times > 1 else kind for kind, times in kinds))
        case e.SessionErased(events=events, reason=reason):
            count = f"{events:,} event{'s' if events != 1 else ''}"
            return _remark(", ".join(filter(None, ("this session was erased", count, reason))), "missing")
        case body:
            return _remark(remark_of(body), "known" if body.step == "knowledge" else "dim")


def _subagent(subagent: Subagent, manner: Manner) -> Block:
    """The line of a subagent that has a session of its own."""
    about = f"subagent {one_line(subagent.title) or 'without a title'}: clew show {subagent.session[:10]}"
    return Block(head=(Span(about, "agent"),), gutter=" " * (manner.digits + 9), tight=True, wrapped=True)


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


# `plain` writes out all other control codes.
_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")


def _lost(back: e.CallReturned, manner: Manner, what: str) -> Block:
    """A return without its call."""
    lines = lines_of(_without_colours(back))
    head = (Span("● ", "dim"), Span(f"{what}  "), *_outcome(back, lines))
    return Block(head=head, body=_output(back, lines, manner), indent=2, wrapped=manner.full)


def _call_head(tool: str, telling: str, *, failed: bool) -> list[Span]:
    head = [Span("● ", "failed" if failed else "call"), Span(one_line(tool), "bold"), Span("  ")]
    return [*head, Span(one_line(telling, LONGEST_LINE), gives_way=True), Span("  ")] if telling else head


def _call(made: e.CallMade, returned: e.AnyBody | None, manner: Manner) -> Block:
    back = returned if isinstance(returned, e.CallReturned) else None
    values = inputs_of(made)
    changes = changes_of(values)
    lines = lines_of(_without_colours(back)) if back else []
    telling, in_head = telling_of(values, manner.cwd)
    head = _call_head(made.tool, telling, failed=bool(back and back.failed))
    head += _outcome(returned, lines, count_of(changes))
    body: list[Line | Prose] = []
    if changes:
        body += _fold(changes, NEW_FILE if all(line.style == "added" for line in changes) else CHANGE, manner)
    elif manner.full:
        body += _whole(telling, {name: value for name, value in values.items() if name not in in_head})
    # The output of a successful edit only says that it succeeded.
    if back and (manner.full or back.failed or not changes):
        body += _output(back, lines, manner)
    return Block(head=tuple(head), body=tuple(body), indent=2, wrapped=manner.full)


def _whole(telling: str, untold: dict[str, Any]) -> list[Line]:
    """The input that the head of a call does not show: a long script or one of several lines, and other fields."""
    lines = lines_of(telling) if "\n" in telling.strip() or len(telling) > LONGEST_LINE else []
    lines += msgspec.json.format(msgspec.json.encode(untold), indent=2).decode().split("\n") if untold else []
    return [Line(shown(line), "input") for line in lines]


def _outcome(back: e.AnyBody | None, lines: list[str], counted: str = "") -> list[Span]:
    if not isinstance(back, e.CallReturned):
        return [Span(f"its return was {back.how}" if isinstance(back, e.Removed) else "no return", "missing")]
    number = f"{len(lines):,} line{'s' if len(lines) != 1 else ''}" if lines else "" if back.parts else "no output"
    words = number if back.failed else counted or number
    outcome = Span("failed", "failed") if back.failed else Span("ok", "ok")
    return [outcome, Span(f", {words}", "dim")] if words else [outcome]


def _output(back: e.CallReturned, lines: list[str], manner: Manner) -> tuple[Line, ...]:
    fold, style = (FAILURE, "failed") if back.failed else (OUTPUT, "output")
    pictures = [part for part in back.parts if isinstance(part, e.ImagePart | e.FilePart)]
    folded = _fold([Line(line, style) for line in lines], fold, manner)
    return (*folded, *(Line(_attached(part), "attached") for part in pictures))


def _without_colours(back: e.CallReturned) -> str:
    return _COLOURS.sub("", output_of(back))


# Text -----------------------------------------------------------------------------------------------------------------


def shown(text: str) -> str:
    """Stored text without control codes."""
    return plain(text.replace("\r\n", "\n"))


def _folded(text: str, manner: Manner) -> list[Line]:
    return _fold([Line(line) for line in lines_of(text)], SUMMARY, manner)


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
