"""`clew show`: reads a session, selects what is shown of it, and draws that for a terminal or writes it as text."""

import sys
from collections import deque
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import groupby
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import msgspec

from clew.cli.transcript import Block, Item, Line, Manner, Prose, Span, blocks, note
from clew.model import events as e
from clew.model.conversation import SPOKEN, conversation
from clew.model.course import identity
from clew.model.errors import InvalidInput
from clew.model.events import Event
from clew.model.plain import plain

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from rich.console import Console, RenderableType
    from rich.markdown import Markdown
    from rich.segment import Segment
    from rich.text import Text

    from clew.service.sessions.info import SessionInfo

# How many items are shown before and after the event of --at.
REACH = 20
# How many decisions, facts or files are listed.
MOST_LISTED = 20
# Longer lines are hard to read; the terminal wraps lines in a narrower window.
WIDEST, MOST_NARROW = 120, 20
# Longer texts are not formatted, because that takes seconds.
LONGEST_MARKDOWN, LONGEST_CODE = 100_000, 20_000
STYLES = {
    "dim": "dim", "bold": "bold", "person": "bold green", "agent": "bold cyan", "system": "bold magenta",
    "call": "cyan", "ok": "green", "failed": "red", "missing": "yellow", "known": "yellow", "attached": "magenta",
    "added": "green", "removed": "red", "output": "dim", "input": "", "more": "dim italic", "": "",
}  # fmt: skip
MARKDOWN = {
    "markdown.h2": "bold underline", "markdown.h3": "bold", "markdown.h4": "bold", "markdown.h5": "italic",
    "markdown.code": "cyan", "markdown.block_quote": "italic", "markdown.item.number": "bold",
    "markdown.link": "", "markdown.link_url": "underline", "markdown.table.border": "dim",
    "markdown.table.header": "bold",
}  # fmt: skip
# Events that help no reader of the conversation; `clew show --events` prints all.
NOT_SHOWN = (
    e.SessionOpened, e.TurnStarted, e.TurnEnded, e.UsageCounted, e.Rewound, e.ScratchSet, e.ScratchCleared,
    e.BodiesPruned, e.LeaseTaken, e.LeaseReleased,
)  # fmt: skip


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The options: how much of the session, and how much of each event."""

    full: bool = False
    thinking: bool = False
    at: int | None = None
    last: int | None = None


def show(plane: Any, session: str, wanted: Wanted, *, paged: bool) -> None:
    """Print a session as a transcript."""
    transcript = transcript_blocks(plane, session, wanted)
    if not sys.stdout.isatty():
        for text in on_paper(transcript):
            sys.stdout.write(text)
            sys.stdout.flush()
        return
    from clew.cli import pager

    command = pager.command() if paged else None
    columns, rows = get_terminal_size()
    drawn = on_screen(transcript, min(columns, WIDEST), colours=command is None or pager.keeps_colours(command))
    pager.print_paged(drawn, command, rows=rows)


def transcript_blocks(plane: Any, session: str, wanted: Wanted) -> Iterator[Block]:
    """The blocks to show, in order; the state of the session comes first, before its events are read."""
    from clew.cli.results.session import knowledge_sections, state_lines

    detail = plane.call("show", session=session)
    info = detail.session
    if wanted.at is not None and not 1 <= wanted.at <= info.head:
        raise InvalidInput(f"there is no event {wanted.at} in {info.id}: its events are 1 to {info.head}")
    for label, value in state_lines(detail):
        yield Block(gutter=f"{label:<12} ", head=(Span(value),), tight=True, wrapped=True)
    yield from _conversation(_read(plane, info.id), info, wanted, you=plane.settings.principal)
    if wanted.at is None:
        for title, lines in knowledge_sections(detail):
            yield Block(head=(Span(title, "bold"),), body=_listed(lines, wanted), indent=2, wrapped=True)


def _read(plane: Any, session: str) -> list[Event]:
    """Every event, page by page, because one read is bounded."""
    events: list[Event] = []
    while page := plane.call("events", session=session, after=events[-1].seq if events else 0):
        events += page
    return events


def _conversation(events: list[Event], info: "SessionInfo", wanted: Wanted, *, you: str) -> Iterator[Block]:
    shown = items(events)
    first, end = 0, len(shown)
    if wanted.at is not None:
        first, end = around(shown, wanted.at, REACH)
    elif wanted.last is not None:
        first = last_turns(shown, wanted.last)
    if not shown:
        yield note(f"nothing was said yet; append to it with: clew append {info.id[:10]}")
    if wanted.at and not any(event.seq == wanted.at for item in shown for event in item):
        whole = f"clew show {info.id[:10]} --events --after {wanted.at - 1} --upto {wanted.at}"
        yield note(f"event {wanted.at} is not part of the conversation as it is now; {whole} shows it")
    if first:
        yield note(_left_out(shown[:first], "earlier", info.id, shown[first - 1][0].seq if wanted.at else 0))
    cwds = (event.body.cwd for event in reversed(events) if isinstance(event.body, e.RuntimeAttached))
    manner = Manner(
        you=you, agent=info.agent, cwd=next(cwds, ""), full=wanted.full, thinking=wanted.thinking, at=wanted.at or 0,
        digits=max(3, len(str(info.head))),
    )  # fmt: skip
    yield from blocks(shown[first:end], manner)
    if end < len(shown):
        yield note(_left_out(shown[end:], "later", info.id, shown[end][0].seq))


def _left_out(hidden: list[Item], when: str, session: str, next_to: int) -> str:
    """How many events are not shown, and the command that shows them."""
    number = sum(map(len, hidden))
    events = f"… {number:,} {when} event{'s' if number != 1 else ''}"
    if not next_to:
        return f"{events}: clew show {session[:10]}"
    return f"{events}: clew show {session[:10]} --at {next_to} (without --at for all)"


def _listed(lines: list[str], wanted: Wanted) -> tuple[Line, ...]:
    if wanted.full or len(lines) <= MOST_LISTED:
        return tuple(map(Line, lines))
    more = Line(f"… {len(lines) - MOST_LISTED:,} more, --full shows them", "more")
    return (*map(Line, lines[:MOST_LISTED]), more)


# What there is to show ------------------------------------------------------------------------------------------------


def items(events: list[Event]) -> list[Item]:
    """The current conversation, with returns at their calls and other events of interest in order."""
    kept: list[Item] = []
    waiting: dict[str, list[Item]] = {}
    for event in _in_place(events):
        body = event.body
        if isinstance(body, e.CallReturned) and waiting.get(body.call):
            # Some programs restart the numbers of calls in every answer: a return belongs to the newest open call.
            waiting[body.call].pop().append(event)
            continue
        if kept and _is_alike(kept[-1][-1].body, body):
            kept[-1].append(event)
            continue
        kept.append([event])
        if isinstance(body, e.CallMade):
            waiting.setdefault(body.call, []).append(kept[-1])
    return kept


def _in_place(events: list[Event]) -> Iterator[Event]:
    first: dict[tuple[str, str], int] = {}
    newest: dict[tuple[str, str], int] = {}
    for event in events:
        if event.source:
            first.setdefault(_record(event), event.seq)
            newest[_record(event)] = event.seq
    others = deque(
        event
        for event in events
        if not isinstance(event.body, SPOKEN + NOT_SHOWN) and newest.get(_record(event), event.seq) == event.seq
    )
    for event in conversation(events, sides=True):
        # A corrected record keeps the place of its first version.
        position = first.get(_record(event), event.seq)
        while others and others[0].seq < position:
            yield others.popleft()
        yield event
    yield from others


def _record(event: Event) -> tuple[str, str]:
    return event.session, identity(event.source)


def _is_alike(before: e.AnyBody, body: e.AnyBody) -> bool:
    """Whether two bodies share one line."""
    if isinstance(before, e.Removed) and isinstance(body, e.Removed):
        return before.how == body.how
    return isinstance(before, e.Opaque) and isinstance(body, e.Opaque)


def around(shown: list[Item], at: int, reach: int) -> tuple[int, int]:
    """The slice of items around an event; for an event that is not shown, around the item before it."""
    inside = (i for i, item in enumerate(shown) if any(event.seq == at for event in item))
    before = (i for i, item in enumerate(shown) if item[0].seq <= at)
    index = next(inside, max(before, default=0))
    return max(0, index - reach), min(len(shown), index + reach + 1)


def last_turns(shown: list[Item], number: int) -> int:
    """The index of the first of the last turns; a turn begins with a message of the user."""
    starts = [i for i, item in enumerate(shown) if _is_prompt(item[0].body)]
    if number == 0:
        return len(shown)
    return starts[-number] if len(starts) > number else 0


def _is_prompt(body: e.AnyBody) -> bool:
    return isinstance(body, e.MessageAdded) and body.role == "user" and not body.side


# On a pipe ------------------------------------------------------------------------------------------------------------


def on_paper(transcript: Iterable[Block]) -> Iterator[str]:
    """The blocks as plain text, without wrapping and with Markdown as written."""
    for gap, block in _spaced(transcript):
        bar = "│ " if block.side else ""
        margin = " " * len(block.gutter) + bar + " " * block.indent
        head = "".join(span.text for span in block.head)
        lines = [f"{block.gutter}{bar}" + (f"── {head} ──" if block.ruled else head)]
        for piece in block.body:
            lines += [f"{margin}{line}" if line else margin.rstrip() for line in piece.text.split("\n")]
        yield "\n" * gap + "".join(f"{plain(line)}\n" for line in lines)


def _spaced(transcript: Iterable[Block]) -> Iterator[tuple[bool, Block]]:
    """Each block, and whether a blank line comes before it."""
    before: Block | None = None
    for block in transcript:
        yield before is not None and not (before.tight and block.tight), block
        before = block


# On a terminal --------------------------------------------------------------------------------------------------------


def on_screen(transcript: Iterable[Block], width: int, *, colours: bool) -> Iterator[str]:
    """The blocks formatted for a terminal of this width."""
    from rich.console import Console
    from rich.segment import Segment, Segments
    from rich.theme import Theme

    console = Console(
        width=width, force_terminal=True, color_system="auto" if colours else None, highlight=False, markup=False,
        emoji=False, theme=Theme(MARKDOWN),
    )  # fmt: skip
    for gap, block in _spaced(transcript):
        drawn = [Segment(plain(part.text), part.style) for line in _drawn(console, block, width) for part in line]
        with console.capture() as captured:
            console.print(Segments(drawn), end="")
        yield "\n" * gap + captured.get()


def _drawn(console: "Console", block: Block, width: int) -> Iterator[list["Segment"]]:
    """The lines of a block, behind its gutter and its bar."""
    from rich.segment import Segment
    from rich.style import Style

    gutter = Style.parse("bold yellow" if block.marked else "dim")
    bar = [Segment("│ ", Style.parse("magenta"))] if block.side else []
    room = max(MOST_NARROW, width - len(block.gutter) - 2 * block.side)
    lines = console.render_lines(_head(block, room), console.options.update(width=room), pad=False)
    inner = console.options.update(width=max(MOST_NARROW, room - block.indent))
    for piece in _pieces(block):
        for line in console.render_lines(piece, inner, pad=False):
            lines.append([Segment(" " * block.indent), *line])
    for number, line in enumerate(lines):
        margin = Segment(" " * len(block.gutter)) if number else Segment(block.gutter, gutter)
        yield [*_stripped([margin, *bar, *line]), Segment.line()]


def _stripped(line: list["Segment"]) -> list["Segment"]:
    """The line without trailing spaces, which get in the way when a user copies it."""
    from rich.segment import Segment

    while line and not line[-1].text.strip(" "):
        line.pop()
    return [*line[:-1], Segment(line[-1].text.rstrip(" "), line[-1].style)] if line else line


def _head(block: Block, room: int) -> "RenderableType":
    from rich.text import Text

    if block.ruled:
        title = "".join(span.text for span in block.head)
        return Text.assemble("── ", (title, "bold"), " ", "─" * room, style="dim", no_wrap=True, overflow="crop")
    texts = [(Text(span.text, STYLES[span.style], end=""), span.gives_way) for span in block.head]
    if not block.wrapped:
        over = sum(text.cell_len for text, _ in texts) - room
        for text, gives_way in texts:
            if gives_way and over > 0:
                text.truncate(max(1, text.cell_len - over), overflow="ellipsis")
    return _laid(Text.assemble(*(text for text, _ in texts)), wrapped=block.wrapped)


def _pieces(block: Block) -> Iterator["RenderableType"]:
    """The body: consecutive lines as one text, Markdown formatted."""
    from rich.text import Text

    for is_prose, pieces in groupby(block.body, lambda piece: isinstance(piece, Prose)):
        if is_prose:
            yield from (_prose(piece) for piece in pieces)
        else:
            lines = Text("\n").join(Text(piece.text, STYLES[piece.style]) for piece in pieces)
            yield _laid(lines, wrapped=block.wrapped)


def _laid(text: "Text", *, wrapped: bool) -> "Text":
    text.no_wrap, text.overflow = not wrapped, "fold" if wrapped else "ellipsis"
    return text


def _prose(piece: Line | Prose) -> "RenderableType":
    from rich.text import Text

    if len(piece.text) > LONGEST_MARKDOWN:
        return Text(piece.text, STYLES[piece.style], overflow="fold")
    markdown = _markdown_type()("", hyperlinks=False, style=STYLES[piece.style])
    markdown.parsed = _parsed(piece.text)
    return markdown


def _parsed(text: str) -> list["Token"]:
    """Parsed Markdown that loses nothing: HTML, images and definitions become text, and line breaks stay."""
    tokens = _parser().parse(text)
    for token in tokens:
        if token.tag == "h1":
            token.tag = "h2"  # rich centres h1.
        if token.type == "fence" and len(token.content) > LONGEST_CODE:
            token.info = ""
        for child in token.children or ():
            if child.type == "softbreak":
                child.type = "hardbreak"
    return tokens


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    rules = ["entity", "image", "reference"]
    return MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).disable(rules)


@cache
def _markdown_type() -> type["Markdown"]:
    """Markdown whose code uses the colours of the terminal and has no padding above and below."""
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.markdown import CodeBlock, Markdown
    from rich.syntax import Syntax

    class Code(CodeBlock):
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            code = str(self.text).rstrip()
            yield Syntax(code, self.lexer_name, theme="ansi_dark", word_wrap=True, padding=(0, 2))

    class Shown(Markdown):
        elements = {**Markdown.elements, "fence": Code, "code_block": Code}  # noqa: RUF012

    return Shown
