"""`clew watch`: the process that captures beside `clew up`."""

import sys
from typing import Any

import click

from clew.model.plain import plain


@click.command("watch", hidden=True)
@click.pass_obj
def command(plane: Any) -> None:
    """Capture what agent programs do, until standard input ends."""
    import threading

    from watchfiles import watch as changes

    from clew.cli.pushing import push_meanwhile
    from clew.runtimes import runtimes
    from clew.service.capture.discovery import home_of

    ended = threading.Event()

    def wait_for_end_of_input() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait_for_end_of_input, daemon=True).start()
    folders = [str(home) for runtime in runtimes() if runtime.home and (home := home_of(runtime, "")).exists()]
    with push_meanwhile(plane):
        failures = _capture(plane, [])
        if folders:
            for _ in changes(*folders, debounce=400, step=100, stop_event=ended, raise_interrupt=False):
                failures = _capture(plane, failures)


def _capture(plane: Any, known_failures: list[str]) -> list[str]:
    """Capture what is new and update the views; print failures that are not known yet, and return all of them."""
    from clew.cli import background

    def update_views(_: list[Any]) -> None:
        while plane.call("views_step").left:
            pass

    failures = [background.describe(failure) for failure in background.capture(plane, "", update_views)]
    for text in failures:
        if text not in known_failures:
            click.echo(f"capture: {plain(text)}", err=True)
    return failures
