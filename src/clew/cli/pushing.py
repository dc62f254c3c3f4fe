"""Pushes with a progress bar and a table, and pushes beside a capture."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clew import app
from clew.cli.output import print_json, table
from clew.cli.progress import progress
from clew.model.errors import InvalidInput
from clew.model.plain import plain

if TYPE_CHECKING:
    from clew.consumers.push import Pushes
    from clew.service.replication.push import Pushed


def push(plane: Any, ids: list[str], name: str, *, again: bool, as_json: bool) -> None:
    """Push once, and print a row for each remote."""
    from clew.service.replication import remotes

    with progress("pushing", shown=not as_json) as on_progress:
        results: list[Pushed] = plane.call_reporting(
            on_progress, "push", sessions=ids or None, remote=name, again=again
        )
    reached = {pushed.remote for pushed in results}
    for setting in [] if ids else remotes.all_of(plane.settings.home):
        if name in ("", setting.name) and setting.name not in reached:
            click.echo(f"nothing is shared with {setting.name} yet; `clew remote share PROJECT` shares one", err=True)
    if as_json:
        print_json(results)
    elif results:
        _print_results(results)
    if any(pushed.refused for pushed in results):
        raise click.exceptions.Exit(4)


def watch(plane: Any, name: str, *, as_json: bool) -> None:
    """Push whenever the log has grown, until interrupted."""
    from clew.service.replication import remotes

    home: Path = plane.settings.home
    wanted = [remotes.named(home, name)] if name else remotes.all_of(home) or [remotes.named(home)]
    if not any(remote.projects or remote.sessions for remote in wanted):
        raise InvalidInput("nothing is shared yet; `clew remote share PROJECT` shares a project")
    from clew.consumers.runner import Runner

    pushes = _pushes(plane, name, as_json=as_json)
    click.echo(f"pushing new events to {', '.join(remote.name for remote in wanted)}; stop with Ctrl-C", err=True)
    with suppress(KeyboardInterrupt):
        Runner(plane.client.context.store, [pushes], lambda text: click.echo(plain(text), err=True)).run()


def pushes_if_wanted(plane: Any) -> "list[Pushes]":
    """The consumer that pushes, if anything is shared."""
    if app.is_remote(plane.settings.store) or not (plane.settings.home / "remotes").is_dir():
        return []
    from clew.consumers.push import is_wanted

    return [_pushes(plane, "", as_json=False)] if is_wanted(plane.settings.home) else []


def print_refusals(remote: str, reasons: dict[str, str]) -> None:
    """Print which sessions a remote refused, and why."""
    for id, why in reasons.items():
        click.echo(f"{remote} refused {plain(id)}: {plain(why)}", err=True)


def _pushes(plane: Any, name: str, *, as_json: bool) -> "Pushes":
    from clew.consumers.push import Pushes

    printed: set[str] = set()

    def print_pushed(pushed: "Pushed") -> None:
        if as_json and (pushed.events or pushed.erased or pushed.files):
            print_json(pushed)
        elif pushed.events or pushed.erased:
            click.echo(f"pushed to {pushed.remote}: {pushed.sessions:,} sessions, {pushed.events:,} events", err=True)
        print_refusals(pushed.remote, {id: why for id, why in pushed.refused.items() if id not in printed})
        printed.update(pushed.refused)

    return Pushes(
        plane.client.context, plane.settings.home, name=name, pushed=print_pushed,
        report=lambda text: click.echo(plain(text), err=True),
    )  # fmt: skip


def _print_results(results: "list[Pushed]") -> None:
    names = ("sessions", "events", "blobs", "files", "erased")
    rows = [
        (pushed.remote, *(f"{getattr(pushed, name):,}" for name in names), f"{sum(pushed.masked.values()):,}")
        for pushed in results
    ]
    table(("remote", *names, "masked"), rows)
    for pushed in results:
        if pushed.left_out:
            click.echo(
                f"note: {pushed.left_out:,} files of snapshots were not sent to {pushed.remote}: they hold a secret, "
                "or are lost here",
                err=True,
            )
        print_refusals(pushed.remote, pushed.refused)
