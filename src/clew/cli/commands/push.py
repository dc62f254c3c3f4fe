"""`clew push`: send shared sessions to a server."""

from typing import Any

import click

from clew.cli.options import SessionId, complete_id, json_option, remote_option
from clew.model.errors import InvalidInput


@click.command("push")
@click.argument("sessions", nargs=-1, metavar="[ID]...", type=SessionId(), shell_complete=complete_id)
@remote_option
@click.option("--watch", is_flag=True, help="Keep pushing new events until stopped.")
@click.option("--again", is_flag=True, help="Send everything once more; the server stores each event once.")
@json_option
@click.pass_obj
def command(plane: Any, sessions: tuple[str, ...], name: str, watch: bool, again: bool, as_json: bool) -> None:
    """Send the new events of shared projects to the server, with secrets masked.

    With IDs, push these sessions from now on, shared or not; a private session stays private on the server.
    """
    if watch and (sessions or again):
        raise InvalidInput("--watch pushes only what is shared; first push without --watch, then with it")
    from clew.cli import pushing

    if watch:
        pushing.watch(plane, name, as_json=as_json)
    else:
        pushing.push(plane, list(sessions), name, again=again, as_json=as_json)
