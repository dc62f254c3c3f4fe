"""`clew worker`: the background work alone."""

import signal
import sys
from typing import Any

import click

from clew import app
from clew.model.errors import InvalidInput
from clew.model.plain import plain


@click.command("worker")
@click.option("--once", is_flag=True, help="Do what is due and exit.")
@click.pass_obj
def command(plane: Any, once: bool) -> None:
    """Run the background work of a store until stopped: jobs, retention, tidying.

    `clew up` and `clew serve` do this by themselves. Any number of workers may run on one store.
    """
    if app.is_remote(plane.settings.store):
        raise InvalidInput("a server runs its own worker; run `clew worker` on the server's machine, on its store")
    runner = app.runner(plane.client.context, report=lambda text: click.echo(plain(text), err=True))
    if once:
        runner.once()
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    click.echo(f"working on {plane.settings.home}; stop with Ctrl-C", err=True)
    try:
        runner.run()
    except KeyboardInterrupt:
        return
