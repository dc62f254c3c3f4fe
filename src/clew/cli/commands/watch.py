"""`clew watch`: the old name of the worker beside `clew up`."""

import click

from clew.cli.commands.worker import command as worker


@click.command("watch", hidden=True)
@click.pass_context
def command(context: click.Context) -> None:
    """Capture what agent programs do, until standard input ends."""
    context.invoke(worker, capture=True, no_checkpoints=True, beside=True)
