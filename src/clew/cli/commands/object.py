"""`clew object`: put a file into a session, open one, and list which there are."""

from pathlib import Path
from typing import Any

import click

from clew.cli.help import Summaries
from clew.cli.options import json_option, session_argument
from clew.cli.output import print_result
from clew.cli.progress import progress
from clew.cli.run import command as operation_command
from clew.cli.streams import opened_file, print_object, reported, write_new
from clew.model.errors import InvalidInput
from clew.service.kernel.registry import operation_named


@click.group("object", cls=Summaries)
def command() -> None:
    """Put files of any size into a session, and read them, images and artifacts."""


@command.command("put")
@session_argument
@click.argument("file", metavar="FILE")
@click.option("--name", default="", metavar="NAME", help="What to call it. [default: the name of the file]")
@click.option("--type", "media_type", default="", metavar="TYPE", help="Its type. [default: guessed from the name]")
@json_option
@click.pass_obj
def put(plane: Any, session: str, file: str, name: str, media_type: str, as_json: bool) -> None:
    """Store a file as an artifact of a session; - reads standard input.

    The same bytes under the same name are stored once.
    """
    if file == "-" and not name:
        raise InvalidInput("standard input has no name; add one, as in --name report.pdf")
    with opened_file(file) as source, progress("storing", shown=not as_json) as on_progress:
        pieces = reported(source, on_progress)
        stored = plane.client.put_object(session, name or Path(file).name, pieces, media_type=media_type)
    print_result(stored, "object_put", as_json=as_json)


@command.command("open")
@session_argument
@click.argument("object", metavar="OBJECT")
@click.option("--out", "-o", default="", metavar="FILE", help="A new file for it. [default: stdout]")
@click.pass_obj
def open_(plane: Any, session: str, object: str, out: str) -> None:
    """Read an object by its name, or by its digest or a beginning of it."""
    opened = plane.client.open_object(session, object)
    if not out:
        print_object(opened)
        return
    with progress("reading") as on_progress:
        info = opened.info
        name = Path(info.name).name or info.digest[:16]
        path = write_new(Path(out), name, opened.pieces, on_progress, info.size)
    click.echo(path)
    if not opened.is_exact:
        click.echo("secrets in it were masked by the server", err=True)


for name in ("list", "stat"):
    command.add_command(operation_command(operation_named(f"object_{name}")))
