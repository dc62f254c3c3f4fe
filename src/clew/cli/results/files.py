"""`clew files` for people: the sessions that read or wrote a file."""

from typing import TYPE_CHECKING

import click

from clew.cli.output import table
from clew.cli.results.counts import number_if_any
from clew.cli.times import ago

if TYPE_CHECKING:
    from clew.service.find.files import FileTouch


def print_files(rows: "list[FileTouch]") -> None:
    if not rows:
        click.echo(
            "no session touched such a file; give a name, the end of a path, a folder or a pattern, as in: "
            "app/billing.py src/ '*.py'",
            err=True,
        )
        return
    if rows[0].sessions:
        _print_most_touched(rows)
        return
    table(
        ("id", "last", "read", "written", "by call", "runtime", "path", "title"),
        (
            (
                row.session[:10], ago(row.last_at), number_if_any(row.read), number_if_any(row.written),
                str(max(row.read_seq, row.written_seq)), row.runtime, row.path, row.title or "(untitled)",
            )
            for row in rows
        ),
    )  # fmt: skip


def _print_most_touched(rows: "list[FileTouch]") -> None:
    table(
        ("path", "sessions", "read", "written", "last", "id", "project"),
        (
            (
                row.path, str(row.sessions), number_if_any(row.read), number_if_any(row.written), ago(row.last_at),
                row.session[:10], row.project,
            )
            for row in rows
        ),
    )  # fmt: skip
    click.echo("`clew files PATH` shows the sessions that touched one", err=True)
