"""`clew import`: session files named by a person."""

from typing import Any

import click

from clew.cli import capturing
from clew.cli.options import complete_runtime, json_option


@click.command("import")
@click.argument("paths", nargs=-1, required=True, metavar="FILE...", type=click.Path())
@click.option(
    "--runtime",
    default="",
    metavar="RUNTIME",
    help="The program that wrote the files.",
    shell_complete=complete_runtime,
)
@json_option
@click.pass_obj
def command(plane: Any, paths: tuple[str, ...], runtime: str, as_json: bool) -> None:
    """Import session files of any agent program, of ATIF, of Copilot's interchange, or clew's own JSON lines."""
    capturing.capture(plane, list(paths), runtime, "", as_json=as_json)
