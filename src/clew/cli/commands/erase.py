"""`clew erase`: remove a session's content after asking."""

import sys

import click

from clew.cli.options import json_option, session_argument
from clew.cli.output import print_json
from clew.cli.plane import LazyPlane
from clew.model.errors import InvalidInput


@click.command("erase")
@session_argument
@click.option("--with-forks", is_flag=True, help="Also erase the sessions forked from it.")
@click.option("--reason", default="", help="Kept in the record of the erasure.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
@click.pass_obj
def command(plane: LazyPlane, session: str, with_forks: bool, reason: str, yes: bool, as_json: bool) -> None:
    """Erase the content of a session for good. A record of the session and its erasure stays."""
    target = plane.call("show", session=session).session
    if not yes:
        if not sys.stdin.isatty():
            raise InvalidInput(f"erasing {target.id} cannot be undone; repeat the command with --yes")
        click.confirm(f"Erase {target.id} ({target.head} events) for good?", abort=True, err=True)
    result = plane.call("erase", session=target.id, with_forks=with_forks, reason=reason)
    if as_json:
        print_json(result)
    else:
        from clew.cli.results.maintenance import print_erased

        print_erased(result)
