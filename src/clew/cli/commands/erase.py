"""`clew erase`: remove a session's content after asking."""

import click

from clew.cli.confirming import confirm, yes_option
from clew.cli.options import json_option, session_argument
from clew.cli.output import one_line, print_json
from clew.cli.plane import LazyPlane
from clew.cli.progress import progress
from clew.cli.results.counts import count


@click.command("erase")
@session_argument
@click.option("--with-forks", is_flag=True, help="Also erase the sessions forked from it.")
@click.option("--reason", default="", help="Kept in the record of the erasure.")
@yes_option
@json_option
@click.pass_obj
def command(plane: LazyPlane, session: str, with_forks: bool, reason: str, yes: bool, as_json: bool) -> None:
    """Erase the content of a session for good. A record of the session and its erasure stays."""
    detail = plane.call("show", session=session)
    target = detail.session
    forks = f", and its {count(len(detail.forks), 'fork')}" if with_forks and detail.forks else ""
    title = one_line(target.title or "(untitled)", 60)
    confirm(
        f"This erases {target.id} {title} ({count(target.head, 'event')}{forks}) for good", yes=yes, as_json=as_json
    )
    with progress("erasing", shown=not as_json):
        result = plane.call("erase", session=target.id, with_forks=with_forks, reason=reason)
    if as_json:
        print_json(result)
    else:
        from clew.cli.results.maintenance import print_erase

        print_erase(result)
