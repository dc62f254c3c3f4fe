"""The confirmation before something that cannot be undone."""

import sys

import click

from clew.model.errors import InvalidInput
from clew.model.plain import plain

yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask.")


def confirm(will_happen: str, *, yes: bool, as_json: bool = False) -> None:
    """Say what will happen and ask on a terminal; elsewhere only `--yes` goes on."""
    if yes:
        return
    if as_json or not sys.stdin.isatty():
        raise InvalidInput(f"nothing was done, because nobody can be asked here. {will_happen}; --yes does it")
    click.echo(plain(will_happen), err=True)
    click.confirm("Go on?", abort=True, err=True)
