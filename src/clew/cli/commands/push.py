"""`clew push`."""

from typing import Any

import click

from clew.cli.options import complete_id, json_option
from clew.cli.remotes import push_and_watch, push_once
from clew.model.errors import InvalidInput


@click.command("push")
@click.argument("sessions", nargs=-1, metavar="[ID]...", shell_complete=complete_id)
@click.option("--to", "name", default="", metavar="NAME", help="Which remote. [default: the only one]")
@click.option("--watch", is_flag=True, help="Go on pushing what comes.")
@click.option("--again", is_flag=True, help="Send everything once more; what is there already is stored once.")
@json_option
@click.pass_obj
def command(plane: Any, sessions: tuple[str, ...], name: str, watch: bool, again: bool, as_json: bool) -> None:
    """Send what is new of the shared projects to the server, its secrets masked.

    With IDs, these sessions, from now on and whatever is shared; a private one stays private there.
    """
    if watch and (sessions or again):
        raise InvalidInput("--watch goes on with what is shared; push these first, without it")
    if watch:
        push_and_watch(plane, name, as_json=as_json)
    else:
        push_once(plane, list(sessions), name, again=again, as_json=as_json)
