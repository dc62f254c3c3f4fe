"""Updates views before a command reads them, with a progress bar when that takes long."""

from typing import Any

import click

from clew.cli.progress import progress

# The events of one step; the bar moves on after each.
AT_ONCE = 4000


def catch_up(plane: Any) -> int:
    """Update the views; returns how many events were new to them."""
    step = plane.call("views_step", limit=AT_ONCE)
    done = step.done
    if step.notice:
        click.secho(step.notice, fg="yellow", err=True)
    if not step.left:
        return int(done)
    total = done + step.left
    with progress("indexing") as on_progress:
        while step.left:
            if on_progress is not None:
                on_progress(done, total)
            step = plane.call("views_step", limit=AT_ONCE)
            if not step.done:
                break
            done += step.done
    return int(done)
