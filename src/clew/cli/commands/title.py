"""`clew title`: what a person calls a session."""

import click

from clew.cli.options import json_option, session_argument
from clew.cli.output import print_result
from clew.cli.plane import LazyPlane


@click.command("title")
@session_argument
@click.argument("words", nargs=-1, required=True, metavar="TITLE")
@json_option
@click.pass_obj
def command(plane: LazyPlane, session: str, words: tuple[str, ...], as_json: bool) -> None:
    """Give a session a title; no title that its program writes later replaces it."""
    print_result(plane.call("title", session=session, title=" ".join(words)), "title", as_json=as_json)
