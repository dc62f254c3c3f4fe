"""`clew verify`: recompute chains, or with --objects read every object and repair what has another copy."""

from typing import Any

import click

from clew.cli.run import command as operation_command
from clew.model.errors import InvalidInput
from clew.service.kernel.registry import operation_named

_chains = operation_command(operation_named("verify"))


def _verify(is_of_objects: bool, dry_run: bool, session: str | None = None, **values: Any) -> None:
    if not is_of_objects:
        if dry_run:
            raise InvalidInput("--dry-run is for --objects; without it nothing is changed")
        click.get_current_context().invoke(_chains, session=session, **values)
        return
    if session:
        raise InvalidInput("--objects looks at all objects, which sessions share; leave the session out")
    click.get_current_context().invoke(
        operation_command(operation_named("verify_objects")), dry_run=dry_run or None, **values
    )


command = click.Command(
    "verify",
    callback=_verify,
    params=[
        *_chains.params[:-1],
        click.Option(["--objects", "is_of_objects"], is_flag=True, help="Read every object; repair what has a copy."),
        click.Option(["--dry-run"], is_flag=True, help="With --objects: only say what could be repaired."),
        _chains.params[-1],
    ],
    help=(_chains.help or "")
    + "\n\nWith --objects read every object instead, say who needs those that are damaged or missing, and repair them "
    "from another copy: in the packs, in the original files on this machine, or on a server that this home knows.",
)
