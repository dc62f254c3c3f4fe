"""`clew capture`: the sessions of every agent program on this machine."""

from typing import Any

import click

from clew.cli import capturing
from clew.cli.options import complete_runtime, json_option


@click.command("capture")
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path())
@click.option("--runtime", default="", metavar="RUNTIME", help="Only this program.", shell_complete=complete_runtime)
@click.option("--home", default="", metavar="DIR", help="The home directory to search. [default: yours]")
@click.option("--watch", is_flag=True, help="Keep capturing new events until stopped.")
@click.option("--spool", is_flag=True, help="Capture what hooks have reported.", hidden=True)
@json_option
@click.pass_obj
def command(
    plane: Any, paths: tuple[str, ...], runtime: str, home: str, watch: bool, spool: bool, as_json: bool
) -> None:
    """Capture what is new in the sessions of every agent program on this machine.

    With PATHs, capture only these files and folders; clew recognises the program by their content.
    """
    if spool:
        from clew.cli.spool import drain

        drain(plane)
        return
    capturing.capture(plane, list(paths), runtime, home, as_json=as_json)
    if watch:
        capturing.watch(plane, list(paths), runtime, home, as_json=as_json)
