"""The views on the command line: brought up to date before they are read, with a bar when that takes long."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from clew.cli.options import json_option
from clew.cli.output import print_json

# Taken in at once; more than this is worth a bar.
AT_ONCE = 4000


def commands() -> list[click.Command]:
    @click.command()
    @click.argument("view", required=False, default="", metavar="[VIEW]")
    @json_option
    @click.pass_obj
    def rebuild(plane: Any, view: str, as_json: bool) -> None:
        """Build a view again from the log, or all: sessions, files, usage, text.

        The log is the truth and is not touched. A rebuild that is stopped goes on when a view is next read.
        """
        done = plane.call("views_rebuild", view=view).done + catch_up(plane)
        if as_json:
            print_json({"view": view or "all", "events": done})
        else:
            click.echo(f"{view or 'all views'} built again from {done:,} event{'s' if done != 1 else ''}")

    @click.command(hidden=True)
    @click.pass_obj
    def follow(plane: Any) -> None:
        """Take what comes into the log into the views, until standard input ends."""
        from clew.cli import follower

        follower.follow(plane)

    return [rebuild, follow]


def catch_up(plane: Any) -> int:
    """Bring the views up to date; returns how many events were new to them."""
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
    """A bar on the terminal that errors go to; nothing anywhere else."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("indexing"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=total)
        yield lambda count: progress.advance(task, count)
