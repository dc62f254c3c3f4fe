"""`clew privacy`: who may see a session."""

from typing import Any

import click

from clew.cli.options import json_option, session_argument
from clew.cli.output import print_json
from clew.model.plain import plain


@click.command("privacy")
@session_argument
@click.option("--private/--open", default=None, help="Only for you and whom you share it with, or for its project.")
@json_option
@click.pass_obj
def command(plane: Any, session: str, private: bool | None, as_json: bool) -> None:
    """Show who may see a session; change it with --private or --open."""
    if private is None:
        about = plane.call("show", session=session).session
    else:
        about = plane.call("privacy", session=session, private=private)
    if as_json:
        print_json(about)
        return
    owner = about.owner.removeprefix("person:") or "its owner"
    who = f"{owner} and whom it is shared with" if about.private else f"all who may see {about.project}"
    click.echo(f"{about.id} is {'private' if about.private else 'open'}: {plain(who)} can see it")
