"""`clew sessions` for people: the list of sessions, as many columns as the terminal has room for."""

import sys
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import click

from clew.cli.output import one_line, table
from clew.cli.results.counts import cost, number_if_any
from clew.cli.times import ago
from clew.model.errors import NotFound
from clew.model.plain import plain
from clew.views.contract import origin_of

if TYPE_CHECKING:
    from clew.service.find.activity import Activity
    from clew.service.find.saved_views import SavedView
    from clew.service.sessions.labels import Noted, TagCount
    from clew.service.sessions.line import SessionLine

# The most that one list can have.
MOST = 10_000


def print_sessions_count(plane: Any, lines: "list[SessionLine]", given: dict[str, Any]) -> None:
    """Print the list, how many more sessions there are and how to see them, and how many are hidden."""
    filters = {name: value for name, value in given.items() if name not in ("limit", "before", "empty", "sort")}
    try:
        counted = plane.call("sessions_count", **filters)
    except NotFound:
        # A server of an older version lists sessions and does not count them.
        print_sessions(lines)
        return
    hidden = 0 if given.get("empty") else counted.empty
    if lines or not hidden:
        print_sessions(lines)
    total = counted.sessions - hidden
    # The list and the count are two questions; a session may have come between them.
    if lines and total > len(lines):
        older = f"--before {lines[-1].id[:10]} shows older ones"
        more = f"--limit {min(total, MOST)} shows more" if "before" not in given else ""
        click.echo(f"{len(lines):,} of {total:,}; {', '.join(filter(None, (more, older)))}", err=True)
    if hidden:
        are_hidden = "1 empty session is" if hidden == 1 else f"{hidden:,} empty sessions are"
        click.echo(f"{are_hidden} hidden; --all shows {'it' if hidden == 1 else 'them'}", err=True)


def print_sessions(lines: "list[SessionLine]") -> None:
    if not lines:
        click.echo(
            "no such sessions; `clew capture` adds those of your agent programs, `clew open` opens a new one", err=True
        )
        return
    left_out = _left_out(lines)
    rows = [_session_row(line, depth) for line, depth in nested(lines)]
    columns = [name for name in rows[0] if name not in left_out]
    table(columns, ([row[name] for name in columns] for row in rows))


def nested(lines: "list[SessionLine]") -> "list[tuple[SessionLine, int]]":
    """The sessions in their order, but each fork below the session that it was forked from, and how deep it is."""
    listed = {line.id for line in lines}
    forks: dict[str | None, list[SessionLine]] = {}
    for line in lines:
        forks.setdefault(line.parent if line.parent in listed else None, []).append(line)
    by_id = {line.id: line for line in lines}
    placed: dict[str, tuple[SessionLine, int]] = {}
    for line in lines:
        # A fork that went on later than its parent brings the whole family up.
        root = line
        while root.parent in listed:
            root = by_id[root.parent]
        waiting = [(root, 0)] if root.id not in placed else []
        while waiting:
            member, depth = waiting.pop()
            placed[member.id] = (member, depth)
            waiting += [(fork, depth + 1) for fork in reversed(forks.get(member.id, []))]
    return [*placed.values()]


def _session_row(line: "SessionLine", depth: int) -> dict[str, str]:
    prefix = f"{'  ' * (depth - 1)}└ " if depth else ""
    prefix += "subagent: " if origin_of(line.metadata).parent else ""
    return {
        "id": line.id[:10], "last": ago(line.last_at), "state": line.status, "runtime": line.runtime,
        "agent": line.agent, "project": line.project, "person": line.person.removeprefix("person:"),
        "turns": number_if_any(line.turns), "calls": number_if_any(line.calls), "errors": number_if_any(line.errors),
        "cost": cost(line.cost_micros) if line.tokens else "", "title": prefix + titled(line),
    }  # fmt: skip


def titled(line: "SessionLine") -> str:
    """The title, with a star before it and the tags behind it."""
    star = "★ " if line.starred else ""
    return f"{star}{line.title or '(untitled)'}{''.join(f' #{tag}' for tag in line.tags)}"


def print_activity(rows: "list[Activity]") -> None:
    if not rows:
        click.echo("no activity in that time", err=True)
        return
    table(
        ["name", "last", "sessions", "active", "waiting", "turns", "calls", "errors"],
        (
            (row.name or "-", ago(row.last_at), f"{row.sessions:,}", number_if_any(row.active),
             number_if_any(row.waiting), f"{row.turns:,}", f"{row.calls:,}", number_if_any(row.errors))
            for row in rows
        ),
    )  # fmt: skip


def print_tags(tags: "list[TagCount]") -> None:
    if not tags:
        click.echo("no tags yet; `clew tag ID work` puts one on a session", err=True)
        return
    table(["tag", "sessions", "last"], ([tag.tag, f"{tag.sessions:,}", ago(tag.last_at)] for tag in tags))


def print_title(line: "SessionLine") -> None:
    click.echo(f"{line.id[:10]} {one_line(titled(line), 400)}")


print_tag = print_star = print_title


def print_note(noted: "Noted") -> None:
    """The notes about a session, each below its id, who wrote it and when."""
    if not noted.notes:
        click.echo("no notes; `clew note ID TEXT` adds one", err=True)
    for note in noted.notes:
        click.echo(f" {plain(note.note[:10])}   {plain(note.by.removeprefix('person:'))}   {ago(note.at)}")
        for line in plain(note.text).splitlines():
            click.echo(f"  {line}")


def _left_out(lines: "list[SessionLine]") -> set[str]:
    """Columns whose values are all alike, and on a narrow terminal those that matter less than the title."""
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
    if width < 60:
        columns |= {"runtime", "turns", "cost"}
    return columns


def print_view_list(views: "list[SavedView]") -> None:
    if views:
        table(["view", "lists"], [(view.name, view.filters) for view in views], wrapped="lists")
    else:
        click.echo("no saved views yet; `clew view save NAME FILTERS` saves one", err=True)


def print_view_save(view: "SavedView") -> None:
    print_view_list([view])


def print_view_remove(_: None) -> None:
    click.echo("removed; the sessions stay as they are")
