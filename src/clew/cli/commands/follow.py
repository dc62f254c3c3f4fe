"""`clew follow`: the process that updates views beside a large capture."""

from typing import Any

import click


@click.command("follow", hidden=True)
@click.pass_obj
def command(plane: Any) -> None:
    """Update the views with new events, until standard input ends."""
    from clew.cli import follower

    follower.follow(plane)
