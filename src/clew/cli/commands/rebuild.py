"""`clew rebuild`: build views again from the log."""

from typing import Any

import click

from clew.cli.options import json_option
from clew.cli.output import print_json
from clew.cli.progress import progress
from clew.cli.upkeep import catch_up


@click.command("rebuild")
@click.argument("view", required=False, default="", metavar="[VIEW]")
@json_option
@click.pass_obj
def command(plane: Any, view: str, as_json: bool) -> None:
    """Rebuild a view from the log, or all views: artifacts, files, sessions, text, usage.

    The log does not change. A stopped rebuild continues with the next read of a view.
    """
    with progress("clearing", shown=not as_json):
        done = plane.call("views_rebuild", view=view).done
    done += catch_up(plane)
    if as_json:
        print_json({"view": view or "all", "events": done})
    else:
        click.echo(f"{view or 'all views'} built again from {done:,} event{'s' if done != 1 else ''}")
