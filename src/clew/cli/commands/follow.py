"""`clew follow`: the process beside a large capture."""

from typing import Any

import click


@click.command("follow", hidden=True)
@click.pass_obj
def command(plane: Any) -> None:
    """Take what comes into the log into the views, until standard input ends."""
    from clew.cli import follower

    follower.follow(plane)
