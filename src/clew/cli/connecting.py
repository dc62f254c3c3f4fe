"""`clew connect` and `clew disconnect`: show the change to a program's settings, ask, then make it."""

from typing import Any

import click

from clew.cli.confirming import confirm, yes_option
from clew.cli.options import json_option, runtime_argument
from clew.cli.output import print_json
from clew.model.plain import plain


def settings_command(name: str, help: str) -> click.Command:
    @click.command(name=name, help=help)
    @runtime_argument
    @click.option("--dry-run", is_flag=True, help="Show the changes and make none.")
    @yes_option
    @json_option
    @click.pass_obj
    def run(plane: Any, runtime: str, dry_run: bool, yes: bool, as_json: bool) -> None:
        edit(plane, name, runtime, dry_run=dry_run, yes=yes, as_json=as_json)

    return run


def edit(plane: Any, name: str, runtime: str, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    planned = plane.call(name, runtime=runtime, dry_run=True)
    if not as_json:
        for change in planned.changes:
            click.echo(plain(change.diff))
        for line in planned.runs if planned.changes else ():
            click.echo(plain(line), err=True)
        if not planned.changes:
            click.echo(f"nothing to do: {runtime} is {name}ed already")
    if planned.changes and not dry_run:
        confirm(f"This changes the settings of {runtime} as shown", yes=yes, as_json=as_json)
        planned = plane.call(name, runtime=runtime)
    if as_json:
        print_json(planned)
    elif planned.by_hand and not dry_run:
        click.echo(plain(planned.by_hand))
