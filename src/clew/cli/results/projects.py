"""Results of the operations on projects, for people."""

from typing import TYPE_CHECKING

import click

from clew.cli.output import table
from clew.cli.results.counts import count
from clew.cli.times import ago
from clew.model.plain import plain

if TYPE_CHECKING:
    from clew.service.access.projects import ProjectChange, ProjectLine


def print_project_list(projects: "list[ProjectLine]") -> None:
    if not projects:
        click.echo("no projects yet; `clew capture` makes one for each repository or folder", err=True)
        return
    rows = [
        (line.project, str(line.sessions), ago(line.last_at) if line.last_at else "", _captured_from(line),
         ", ".join(line.formerly))
        for line in projects
    ]  # fmt: skip
    heading = ("project", "sessions", "last", "captured from", "formerly")
    width = 5 if any(line.formerly for line in projects) else 4
    table(heading[:width], [row[:width] for row in rows], wrapped="captured from")


def _captured_from(line: "ProjectLine") -> str:
    return ", ".join([*line.repositories, *line.folders])


def print_project_rename(change: "ProjectChange") -> None:
    will = "is" if change.is_done else "would be"
    click.echo(plain(f"{', '.join(change.formerly) or change.project} {will} {change.project} ({_sessions(change)})"))
    _print_notes(change)


def print_project_merge(change: "ProjectChange") -> None:
    will = "is" if change.is_done else "would be"
    click.echo(plain(f"{', '.join(change.formerly)} {will} a part of {change.project} ({_sessions(change)})"))
    _print_notes(change)


def print_project_move(change: "ProjectChange") -> None:
    will = "belongs" if change.is_done else "would belong"
    for folder in change.folders:
        click.echo(plain(f"{folder} {will} to {change.project}"))
    if change.formerly:
        print_project_merge(change)
    else:
        _print_notes(change)


def _sessions(change: "ProjectChange") -> str:
    return count(change.sessions, "session")


def _print_notes(change: "ProjectChange") -> None:
    for note in change.notes:
        click.echo(plain(f"note: {note}"))
