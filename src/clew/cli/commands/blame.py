"""`clew blame`: which call of which session last wrote each line of a file."""

import os
from typing import Any

import click

from clew.cli.options import complete_id, json_option
from clew.cli.output import print_result


@click.command("blame")
@click.argument("path", metavar="FILE", type=click.Path())
@click.option("--session", default="", metavar="ID", shell_complete=complete_id, help="FILE is in its snapshot.")
@click.option("--at", type=int, metavar="SEQ", help="As the file was at this event; with --session.")
@json_option
@click.pass_obj
def command(plane: Any, path: str, session: str, at: int | None, as_json: bool) -> None:
    """Show which call of which session last wrote each line of a file.

    FILE is a file of this machine as it is now, or with --session one in the session's snapshot. Lines that are older
    than the first snapshot, and lines that no call can have written, are marked as such.
    """
    if session:
        given = {"session": session, "path": path} | ({} if at is None else {"at": at})
    else:
        given = {"path": os.path.abspath(path)} | ({} if at is None else {"at": at})
    print_result(plane.call("blame", **given, with_text=not as_json), "blame", as_json=as_json)
