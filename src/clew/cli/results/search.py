"""`clew search` for people: hits with their words marked, under their sessions or one by one."""

import sys
from collections.abc import Iterator
from shutil import get_terminal_size
from typing import TYPE_CHECKING

import click

from clew.cli.output import one_line
from clew.cli.pager import command, print_paged
from clew.cli.times import ago, moment
from clew.model.plain import plain

# The width of what comes before the text of a hit: its seq, its role and the blanks between.
GUTTER = 19

if TYPE_CHECKING:
    from clew.service.find.search import SearchHit, SearchPage, SessionHits


def print_search(result: "SearchPage") -> None:
    if result.notice:
        click.secho(result.notice, fg="yellow", err=True)
    if not result.sessions and not result.hits:
        older = f" in the newest; to search older ones: --after {result.next}" if result.next else ""
        click.echo(f"nothing found{older}", err=True)
        return
    width = max(40, get_terminal_size().columns) if sys.stdout.isatty() else 10_000
    lines = _by_session(result.sessions, width) if result.sessions else _one_by_one(result.hits, width)
    if sys.stdout.isatty():
        print_paged((f"{line}\n" for line in lines), command(), rows=get_terminal_size().lines)
    else:
        for line in lines:
            click.echo(line)
    click.echo(_summary(result), err=True)


def _by_session(sessions: "list[SessionHits]", width: int) -> Iterator[str]:
    for i, session in enumerate(sessions):
        if i:
            yield ""
        about = [session.runtime or session.agent, session.project, ago(session.last_at)]
        title = one_line(session.title or "(untitled)", min(width - 14, 90))
        yield f"{click.style(session.session[:10], fg='yellow')}  {click.style(title, bold=True)}"
        yield click.style(f"            {plain(' · '.join(part for part in about if part))}", dim=True)
        for hit in session.hits:
            yield _line(hit, width)
        if session.more or session.count > len(session.hits):
            rest = "perhaps more" if session.more else f"{session.count - len(session.hits):,} more"
            yield click.style(f"{'':{GUTTER - 2}}+ {rest} in this session", dim=True)


def _one_by_one(hits: "list[SearchHit]", width: int) -> Iterator[str]:
    for hit in hits:
        origin = click.style(f"{hit.session[:10]}  {moment(hit.at)[:16]} ", dim=True)
        yield origin + _line(hit, width - 30)


def _line(hit: "SearchHit", width: int) -> str:
    role = "failed" if hit.failed else hit.role
    colour = {"failed": "red", "asked": "green", "answered": "cyan", "run": "blue"}.get(role)
    tool = f"{one_line(hit.tool, 30)}  " if hit.tool else ""
    text = _marked(hit, max(20, width - GUTTER - 1 - len(tool)))
    return f"{hit.seq:>7}  {click.style(f'{role:<8}', fg=colour)}  {click.style(tool, bold=True)}{text}"


def _marked(hit: "SearchHit", width: int) -> str:
    """The snippet with the words of the query marked, cut to the width around the first of them."""
    text, marks = hit.snippet.text, hit.snippet.marks
    first = 0
    if len(text) > width and marks:
        first = max(0, min(marks[0][0] - width // 3, len(text) - width))
    last = min(len(text), first + width)
    pieces: list[str] = []
    at = first
    for start, end in marks:
        if start >= at and end <= last:
            pieces += plain(text[at:start]), click.style(plain(text[start:end]), fg="yellow", bold=True)
            at = end
    pieces.append(plain(text[at:last]))
    return "".join(pieces)


def _summary(result: "SearchPage") -> str:
    if result.partial:
        words = "partial: no passage has all the words, and these have the most of them"
    elif result.total is None:
        count = "there are more" if result.next else "no more"
        words = f"phrases are compared with the text itself, so hits are not counted: {count}" if result.next else ""
    else:
        more = "" if result.total_is_exact else "more than "
        words = f"{more}{result.total:,} hit{'s' if result.total != 1 else ''}"
    first = (result.sessions[0].hits if result.sessions else result.hits)[0]
    show = f"clew show {first.session[:10]} --at {first.seq} shows the place"
    following = f"the next page: --after {result.next}" if result.next else ""
    return "; ".join(part for part in (words, show, following) if part)
