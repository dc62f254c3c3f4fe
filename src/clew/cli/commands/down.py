"""`clew down`: stop the `clew up` of this home."""

from typing import Any

import click

from clew.cli.options import json_option
from clew.cli.output import print_json


@click.command("down")
@json_option
@click.pass_obj
def command(plane: Any, as_json: bool) -> None:
    """Stop the clew that runs on this machine."""
    from clew.cli.running import stop

    stopped = stop(plane.settings.home)
    if as_json:
        print_json({"stopped": stopped is not None, "url": stopped.url if stopped else ""})
    else:
        click.echo(f"clew at {stopped.url} is stopped" if stopped else "clew does not run")
