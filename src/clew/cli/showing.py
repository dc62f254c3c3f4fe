"""`clew show`: reads a session, selects what is shown of it, and draws that for a terminal or writes it as text."""

import sys
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import groupby
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import msgspec

from clew.cli.transcript import Block, Manner, Prose, Span, blocks, note
from clew.model.errors import InvalidInput
from clew.model.plain import plain
from clew.model.transcript import Item, Subagent, Turn
from clew.runtimes.changes import Line

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from rich.console import Console, RenderableType
    from rich.markdown import Markdown
    from rich.segment import Segment
    from rich.text import Text

    from clew.service.sessions.show import SessionDetail
    from clew.service.sessions.transcript import Transcript

# How many events are shown before and after the event of --at.
REACH = 20
# How many events of a session are in memory at a time.
PAGE = 200
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


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The options: how much of the session, and how much of each event."""

    full: bool = False
    thinking: bool = False
    at: int | None = None
    last: int | None = None


def show(plane: Any, session: str, wanted: Wanted, *, paged: bool) -> bool:
    """Print a session as a transcript; returns whether a pager showed it."""
    transcript = transcript_blocks(plane, session, wanted)
    if not sys.stdout.isatty():
        for text in on_paper(transcript):
            sys.stdout.write(text)
            sys.stdout.flush()
        return False
    from clew.cli import pager

    command = pager.command() if paged else None
    columns, rows = get_terminal_size()
    drawn = on_screen(transcript, min(columns, WIDEST), colours=command is None or pager.keeps_colours(command))
    return pager.print_paged(drawn, command, rows=rows)


def transcript_blocks(plane: Any, session: str, wanted: Wanted) -> Iterator[Block]:
    """The blocks to show, in order; the state of the session comes first, before its events are read."""
    from clew.cli.results.session import knowledge_sections, state_lines

    detail = plane.call("show", session=session)
    info = detail.session
    if wanted.at is not None and not 1 <= wanted.at <= info.head:
        raise InvalidInput(f"there is no event {wanted.at} in {info.id}: its events are 1 to {info.head}")
    for label, value in state_lines(detail):
        yield Block(gutter=f"{label:<12} ", head=(Span(value),), tight=True, wrapped=True)
    yield from _conversation(plane, detail, wanted)
    if wanted.at is None:
        for title, lines in knowledge_sections(detail):
            yield Block(head=(Span(title, "bold"),), body=_listed(lines, wanted), indent=2, wrapped=True)


class _Reading:
    """Reads a transcript page by page, and remembers where it began and how far it has come."""

    def __init__(self, plane: Any, session: str, wanted: Wanted) -> None:
        self._plane = plane
        self._session = session
        if wanted.at is not None:
            self._page = self._read(at=wanted.at, limit=2 * REACH + 1)
        else:
            self._page = self._read(limit=PAGE, **({} if wanted.last is None else {"last": wanted.last}))
        self._is_part = wanted.at is not None
        self.first = self._page.first
        self.cwd = self._page.cwd

    @property
    def last(self) -> int:
        return self._page.last

    def turns(self) -> Iterator[Turn]:
        """The turns; one that is longer than a page comes in pieces."""
        yield from self._page.turns
        while self._page.next and not self._is_part:
            self._page = self._read(after=self._page.next, limit=PAGE)
            yield from self._page.turns

    def has(self, seq: int) -> bool:
        """Whether the first page shows an event."""
        shown = (item for turn in self._page.turns for item in turn.items if not item.is_bookkeeping)
        return any(seq in item.seqs for item in shown)

    def _read(self, **which: int) -> "Transcript":
        page: Transcript = self._plane.call("transcript", session=self._session, **which)
        return page


def _conversation(plane: Any, detail: "SessionDetail", wanted: Wanted) -> Iterator[Block]:
    info = detail.session
    reading = _Reading(plane, info.id, wanted)
    if wanted.at and not reading.has(wanted.at):
        whole = f"clew show {info.id[:10]} --events --after {wanted.at - 1} --upto {wanted.at}"
        yield note(f"event {wanted.at} is not part of the conversation as it is now; {whole} shows it")
    # The first event opens the session, and is not shown.
    if reading.first > 2:
        yield note(_left_out(reading.first - 2, "earlier", info.id, reading.first - 1 if wanted.at else 0))
    manner = Manner(
        you=plane.settings.principal, agent=info.agent, cwd=reading.cwd, full=wanted.full, thinking=wanted.thinking,
        at=wanted.at or 0, digits=max(3, len(str(info.head))),
    )  # fmt: skip
    is_empty = True
    for block in blocks(_entries(reading.turns()), manner):
        is_empty = False
        yield block
    if is_empty and wanted.last is None:
        yield note(f"nothing was said yet; append to it with: clew append {info.id[:10]}")
    if reading.last < info.head:
        yield note(_left_out(info.head - reading.last, "later", info.id, reading.last + 1))


def _entries(turns: Iterable[Turn]) -> Iterator[Item | Subagent]:
    """What is shown of the turns; the subagents of a turn come after its items."""
    for turn in turns:
        yield from (item for item in turn.items if not item.is_bookkeeping)
        yield from turn.subagents


def _left_out(number: int, when: str, session: str, next_to: int) -> str:
    """How many events are not shown, and the command that shows them."""
    events = f"… {number:,} {when} event{'s' if number != 1 else ''}"
    if not next_to:
        return f"{events}: clew show {session[:10]}"
    return f"{events}: clew show {session[:10]} --at {next_to} (without --at for all)"


def _listed(lines: list[str], wanted: Wanted) -> tuple[Line, ...]:
    if wanted.full or len(lines) <= MOST_LISTED:
        return tuple(map(Line, lines))
    more = Line(f"… {len(lines) - MOST_LISTED:,} more, --full shows them", "more")
    return (*map(Line, lines[:MOST_LISTED]), more)


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
