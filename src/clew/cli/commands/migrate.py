"""`clew migrate`: bring the store to the current schema."""

import click

from clew import app
from clew.cli.options import json_option
from clew.cli.output import print_json
from clew.cli.plane import LazyPlane


@click.command("migrate")
@json_option
@click.pass_obj
def command(plane: LazyPlane, as_json: bool) -> None:
    """Migrate the store to the schema of this version of clew."""
    done = app.migrate(plane.settings)
    if as_json:
        print_json({"steps": done})
    else:
        click.echo(f"migrated: {', '.join(done)}" if done else "the schema is up to date")
