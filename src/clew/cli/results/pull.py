"""`clew pull` for people: what was copied from the server."""

from typing import TYPE_CHECKING

import click

from clew.cli.output import one_line

if TYPE_CHECKING:
    from clew.service.replication.pull import Pulled


def print_pull(pulled: "Pulled") -> None:
    counts = f"{pulled.events:,} event{'s' if pulled.events != 1 else ''}"
    counts += f", {pulled.blobs:,} blob{'s' if pulled.blobs != 1 else ''}" if pulled.blobs else ""
    counts += f", {pulled.files:,} native file{'s' if pulled.files != 1 else ''}" if pulled.files else ""
    click.echo(f"{pulled.session} {one_line(pulled.title, 60)}".rstrip())
    click.echo(f"{counts} from {pulled.remote}" if pulled.events or pulled.is_new else "nothing new", err=True)
    if pulled.flat:
        click.echo("note: you may not read the session it was forked from; it holds a copy of that history", err=True)
    if pulled.masked:
        click.echo(
            "note: the server masked secrets in its native files, so they are not byte for byte what was captured",
            err=True,
        )
    if pulled.left_out:
        click.echo(
            f"note: {pulled.left_out:,} files of snapshots stay on the server: they hold a secret, or are lost there",
            err=True,
        )
