"""Updates views before a command reads them, with a progress bar when that takes long."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

# The events of one step; more events than this show a progress bar.
AT_ONCE = 4000


def catch_up(plane: Any) -> int:
    """Update the views; returns how many events were new to them."""
    step = plane.call("views_step", limit=AT_ONCE)
    done = step.done
    if step.notice:
        click.secho(step.notice, fg="yellow", err=True)
    if not step.left:
        return int(done)
    with _bar(done + step.left) as advance:
        advance(done)
        while step.left:
            step = plane.call("views_step", limit=AT_ONCE)
            if not step.done:
                break
            done += step.done
            advance(step.done)
    return int(done)


@contextmanager
def _bar(total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar, if standard error is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("indexing"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=total)
        yield lambda count: progress.advance(task, count)
