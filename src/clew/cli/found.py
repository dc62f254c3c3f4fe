"""What was found, for people: hits with their words marked, the list of sessions, usage, and who touched a file."""

import csv
import sys
from collections.abc import Callable, Iterator
from shutil import get_terminal_size
from typing import Any

import click

from clew.cli.output import one_line, table
from clew.cli.pager import command, print_paged
from clew.cli.times import ago, moment
from clew.model.plain import plain
from clew.service.find.files import FileTouch
from clew.service.find.search import SearchHit, SearchPage, SessionHits
from clew.service.find.usage import UsageReport, UsageRow
from clew.service.sessions.list import SessionLine
from clew.views.contract import origin_of

# What the gutter of a hit takes: its seq, its role and the blanks between.
GUTTER = 19


def search(found: SearchPage) -> None:
    if found.notice:
        click.secho(found.notice, fg="yellow", err=True)
    if not found.sessions and not found.hits:
        further = f" in the newest; to look further: --after {found.next}" if found.next else ""
        click.echo(f"nothing found{further}{_cut_note(found)}", err=True)
        return
    width = max(40, get_terminal_size().columns) if sys.stdout.isatty() else 10_000
    lines = _grouped(found.sessions, width) if found.sessions else _flat(found.hits, width)
    if sys.stdout.isatty():
        print_paged((f"{line}\n" for line in lines), command(), rows=get_terminal_size().lines)
    else:
        for line in lines:
            click.echo(line)
    click.echo(_summary(found), err=True)


def _grouped(found: list[SessionHits], width: int) -> Iterator[str]:
    for i, one in enumerate(found):
        if i:
            yield ""
        about = [one.runtime or one.agent, one.project, ago(one.last_at)]
        title = one_line(one.title or "(untitled)", min(width - 14, 90))
        yield f"{click.style(one.session[:10], fg='yellow')}  {click.style(title, bold=True)}"
        yield click.style(f"            {plain(' · '.join(part for part in about if part))}", dim=True)
        for hit in one.hits:
            yield _line(hit, width)
        if one.more or one.count > len(one.hits):
            rest = "perhaps more" if one.more else f"{one.count - len(one.hits):,} more"
            yield click.style(f"{'':{GUTTER - 2}}+ {rest} in this session", dim=True)


def _flat(hits: list[SearchHit], width: int) -> Iterator[str]:
    for hit in hits:
        place = click.style(f"{hit.session[:10]}  {moment(hit.at)[:16]} ", dim=True)
        yield place + _line(hit, width - 30)


def _line(hit: SearchHit, width: int) -> str:
    role = "failed" if hit.failed else hit.role
    colour = {"failed": "red", "asked": "green", "answered": "cyan", "run": "blue"}.get(role)
    tool = f"{one_line(hit.tool, 30)}  " if hit.tool else ""
    text = _marked(hit, max(20, width - GUTTER - 1 - len(tool)))
    return f"{hit.seq:>7}  {click.style(f'{role:<8}', fg=colour)}  {click.style(tool, bold=True)}{text}"


def _marked(hit: SearchHit, width: int) -> str:
    """The snippet with its words marked, cut to a width around the first of them."""
    text, marks = hit.snippet.text, hit.snippet.marks
    first = 0
    if len(text) > width and marks:
        first = max(0, min(marks[0][0] - width // 3, len(text) - width))
    last = min(len(text), first + width)
    found: list[str] = []
    at = first
    for start, end in marks:
        if start >= at and end <= last:
            found += plain(text[at:start]), click.style(plain(text[start:end]), fg="yellow", bold=True)
            at = end
    found.append(plain(text[at:last]))
    return "".join(found)


def _summary(found: SearchPage) -> str:
    if found.total is None:
        count = "more than one look could tell" if found.next else "no more"
        words = f"phrases are looked up in the text: {count}" if found.next else ""
    else:
        more = "" if found.total_is_exact else "more than "
        words = f"{more}{found.total:,} hit{'s' if found.total != 1 else ''}"
    first = (found.sessions[0].hits if found.sessions else found.hits)[0]
    show = f"clew show {first.session[:10]} --at {first.seq} shows the place"
    following = f"the next page: --after {found.next}" if found.next else ""
    return "; ".join(part for part in (words, show, following) if part) + _cut_note(found)


def _cut_note(found: SearchPage) -> str:
    if not found.cut:
        return ""
    texts = "1 long text was" if found.cut == 1 else f"{found.cut:,} long texts were"
    return f"; {texts} searched only at the beginning and the end"


def sessions(lines: list[SessionLine]) -> None:
    if not lines:
        click.echo(
            "no such sessions; `clew capture` takes in those of your agent programs, `clew open` begins one", err=True
        )
        return
    left_out = _left_out(lines)
    rows = [_session_row(line) for line in lines]
    columns = [name for name in rows[0] if name not in left_out]
    table(columns, ([row[name] for name in columns] for row in rows))


def _session_row(line: SessionLine) -> dict[str, str]:
    prefix = "subagent: " if origin_of(line.metadata).parent else ""
    return {
        "id": line.id[:10], "last": ago(line.last_at), "state": line.state, "runtime": line.runtime,
        "agent": line.agent, "project": line.project, "person": line.person.removeprefix("person:"),
        "turns": _number(line.turns), "calls": _number(line.calls), "errors": _number(line.errors),
        "cost": _cost(line.cost_micros) if line.tokens else "", "title": prefix + (line.title or "(untitled)"),
    }  # fmt: skip


def _left_out(lines: list[SessionLine]) -> set[str]:
    """The columns that say nothing here, or that a narrow terminal has no room for: the title is worth more."""
    columns = set()
    if all(line.agent in ("", line.runtime) for line in lines):
        columns.add("agent")
    if len({line.person for line in lines}) == 1:
        columns.add("person")
    width = get_terminal_size().columns if sys.stdout.isatty() else 1000
    if width < 130:
        columns |= {"calls", "errors"}
    if width < 100:
        columns |= {"state", "project", "agent", "person"}
    return columns


def files(found: list[FileTouch]) -> None:
    if not found:
        click.echo("no session touched that; give a name or the end of a path, as in: app/billing.py", err=True)
        return
    table(
        ("id", "last", "read", "written", "by call", "runtime", "path", "title"),
        (
            (
                one.session[:10], ago(one.last_at), _number(one.read), _number(one.written),
                str(max(one.read_seq, one.written_seq)), one.runtime, one.path, one.title or "(untitled)",
            )
            for one in found
        ),
    )  # fmt: skip


def usage(found: UsageReport) -> None:
    if found.notice:
        click.secho(found.notice, fg="yellow", err=True)
    if not found.rows:
        click.echo("no usage in that time", err=True)
        return
    budgets = any(row.budget_used is not None for row in found.rows)
    columns = [*found.by, "answers", "input", "output", "cache read", "cache write", "cost"]
    rows = [[*_names(row, found.by), *_counts(row)] for row in found.rows]
    if budgets:
        columns.append("of budget")
        for line, row in zip(rows, found.rows, strict=True):
            line.append("" if row.budget_used is None else f"{row.budget_used:.0%}")
    if found.by == ["session"]:
        columns.append("title")
        for line, row in zip(rows, found.rows, strict=True):
            line.append(row.title)
    total = ["total", *[""] * (len(found.by) - 1), *_counts(found.total)]
    table(columns, [*rows, total + [""] * (len(columns) - len(total))])
    if found.unpriced:
        models = ", ".join(f"{plain(model)} ({count:,} tokens)" for model, count in sorted(found.unpriced.items()))
        click.echo(f"not in the cost, because there is no price for: {models}", err=True)
    click.echo(f"list prices of {found.prices_of}; your own go into prices.json in CLEW_HOME", err=True)


def as_csv(rows: list[list[Any]]) -> None:
    """A table as comma-separated values."""
    out = csv.writer(sys.stdout, lineterminator="\n")
    for row in rows:
        out.writerow([_harmless(cell) if isinstance(cell, str) else cell for cell in row])


def _harmless(text: str) -> str:
    """A cell that no spreadsheet takes for a formula."""
    text = plain(text)
    return f"'{text}" if text.lstrip()[:1] in ("=", "+", "-", "@") else text


def _names(row: UsageRow, by: list[str]) -> list[str]:
    return [(row.by[name][:10] if name == "session" else row.by[name]) or "-" for name in by]


def _counts(row: UsageRow) -> list[str]:
    numbers = (row.answers, row.input, row.output, row.cache_read, row.cache_write)
    return [
        *(f"{number:,}" for number in numbers),
        _cost(row.cost_micros if row.cost_micros or not row.unpriced else None),
    ]


def _number(count: int) -> str:
    return f"{count:,}" if count else ""


def _cost(micros: int | None) -> str:
    if micros is None:
        return "-"
    return f"${micros / 1e6:,.2f}" if micros >= 5000 or not micros else "<$0.01"


RENDER: dict[str, Callable[[Any], None]] = {"search": search, "sessions": sessions, "usage": usage, "files": files}
