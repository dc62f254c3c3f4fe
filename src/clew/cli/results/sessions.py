"""`clew sessions` for people: the list of sessions, as many columns as the terminal has room for."""

import sys
from shutil import get_terminal_size
from typing import TYPE_CHECKING

import click

from clew.cli.output import table
from clew.cli.results.counts import cost, number_if_any
from clew.cli.times import ago
from clew.views.contract import origin_of

if TYPE_CHECKING:
    from clew.service.sessions.line import SessionLine


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
        "cost": cost(line.cost_micros) if line.tokens else "", "title": prefix + (line.title or "(untitled)"),
    }  # fmt: skip


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
    return columns
