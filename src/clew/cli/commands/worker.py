"""`clew worker`: the background work alone."""

import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import click
import msgspec

from clew import app
from clew.model.errors import InvalidInput
from clew.model.plain import plain

if TYPE_CHECKING:
    from clew.consumers.runner import Runner


@click.command("worker")
@click.option("--once", is_flag=True, help="Do what is due and exit.")
@click.option("--capture", is_flag=True, help="Also capture what agent programs on this machine do.")
@click.option("--no-checkpoints", is_flag=True, help="Sign no checkpoints.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line, on standard error.")
@click.option("--beside", is_flag=True, hidden=True, help="End with standard input, and leave others the processor.")
@click.pass_obj
def command(plane: Any, once: bool, capture: bool, no_checkpoints: bool, as_json: bool, beside: bool) -> None:
    """Run the background work of a store until stopped: views, pushes, checkpoints and jobs.

    `clew up` and `clew serve` start a worker themselves. Any number of workers may run on one store.
    """
    if app.is_remote(plane.settings.store):
        raise InvalidInput("a server runs its own worker; run `clew worker` on the server's machine, on its store")
    report = _report_json if as_json else _report
    runner = app.runner(
        plane.settings, plane.client.context, report, captures=capture, signs=not no_checkpoints, once=once
    )  # fmt: skip
    if once:
        runner.once()
        return
    if beside:
        os.nice(10)
        threading.Thread(target=_stop_with_input, args=(runner,), daemon=True).start()
    else:
        report("working; stop with Ctrl-C")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        runner.run()
    except KeyboardInterrupt:
        return


def _stop_with_input(runner: "Runner") -> None:
    # Not through `sys.stdin`: its lock would keep the interpreter from ending.
    while os.read(0, 1024):
        pass
    runner.stop()


def _report(text: str) -> None:
    click.echo(plain(text), err=True)


def _report_json(text: str) -> None:
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    click.echo(msgspec.json.encode({"at": at, "level": "info", "event": "worker", "message": text}), err=True)
