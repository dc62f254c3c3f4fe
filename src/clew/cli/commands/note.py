"""`clew note`: what people note about a session."""

import click

from clew.cli.options import json_option, session_argument
from clew.cli.output import print_result
from clew.cli.plane import LazyPlane
from clew.model.errors import InvalidInput


@click.command("note")
@session_argument
@click.argument("words", nargs=-1, metavar="[TEXT]")
@click.option("--remove", default="", metavar="NOTE", help="Remove the note with this id.")
@json_option
@click.pass_obj
def command(plane: LazyPlane, session: str, words: tuple[str, ...], remove: str, as_json: bool) -> None:
    """Add a note to a session; without a text, list its notes."""
    if words and remove:
        raise InvalidInput("a text adds a note and --remove takes one away; use one of them")
    if words:
        noted = plane.call("note", session=session, text=" ".join(words))
    elif remove:
        noted = plane.call("note_remove", session=session, note=remove)
    else:
        noted = plane.call("notes", session=session)
    print_result(noted, "note", as_json=as_json)
