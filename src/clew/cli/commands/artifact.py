"""`clew artifact`: save a named output of a session, fetch it, and list its versions."""

from pathlib import Path
from typing import Any

import click

from clew.cli.help import Summaries
from clew.cli.options import json_option
from clew.cli.output import print_result
from clew.cli.progress import progress as progress_bar
from clew.cli.run import command as operation_command
from clew.cli.streams import opened_file, print_object, reported, write_new
from clew.model.errors import InvalidInput, NotFound
from clew.service.kernel.registry import operation_named

session_option = click.option("--session", default="", metavar="ID", help="Of this session and its ancestors.")


@click.group("artifact", cls=Summaries)
def command() -> None:
    """Named outputs of sessions, with their versions: reports, builds, progress files."""


@command.command("save")
@click.argument("file", metavar="FILE")
@click.option("--session", required=True, metavar="ID", help="The session that made it.")
@click.option("--name", default="", metavar="NAME", help="What to call it. [default: the name of the file]")
@click.option("--type", "media_type", default="", metavar="TYPE", help="Its type. [default: guessed from the name]")
@click.option("--progress", is_flag=True, help="Show it to the next session of the project at its start.")
@json_option
@click.pass_obj
def save(
    plane: Any, file: str, session: str, name: str, media_type: str, progress: bool, as_json: bool
) -> None:  # fmt: skip
    """Save a file as a new version of an artifact; - reads standard input.

    A version that is the same as the last one is stored once.
    """
    if file == "-" and not name:
        raise InvalidInput("standard input has no name; add one, as in --name report.pdf")
    with opened_file(file) as source, progress_bar("storing", shown=not as_json) as on_progress:
        pieces = reported(source, on_progress)
        stored = plane.client.put_object(
            session, name or Path(file).name, pieces, media_type=media_type, progress=progress
        )  # fmt: skip
    print_result(stored, "object_put", as_json=as_json)


@command.command("get")
@click.argument("name", metavar="NAME")
@session_option
@click.option("--project", default="", metavar="NAME", help="The newest version in this project.")
@click.option("--at", type=int, default=None, metavar="SEQ", help="The version of this event. [default: the newest]")
@click.option("--out", "-o", default="", metavar="FILE", help="A new file for it. [default: stdout]")
@click.pass_obj
def get(plane: Any, name: str, session: str, project: str, at: int | None, out: str) -> None:
    """Fetch an artifact: of a session, or its newest version in a project."""
    given = {"name": name, **({"session": session} if session else {}), **({"project": project} if project else {})}
    limit = {"limit": 1} if at is None else {"limit": 10_000}
    versions = [version for version in plane.call("artifact_versions", **given, **limit) if at in (None, version.seq)]
    if not versions:
        which = "" if at is None else f" of event {at}"
        raise NotFound(f"there is no artifact {name[:80]!r}{which}", missing="artifact")
    opened = plane.client.open_object(versions[0].session, versions[0].blob)
    if not out:
        print_object(opened)
        return
    with progress_bar("reading") as on_progress:
        click.echo(write_new(Path(out), name, opened.pieces, on_progress, opened.info.size))
    if not opened.is_exact:
        click.echo("secrets in it were masked by the server", err=True)


for name in ("list", "versions"):
    command.add_command(operation_command(operation_named(f"artifact_{name}")))
