"""`clew migrate`: bring the store to the current schema."""

import click
import msgspec

from clew import app
from clew.cli.options import json_option
from clew.cli.output import print_json
from clew.cli.plane import LazyPlane


@click.command("migrate")
@click.option(
    "--runtime-role", default="", metavar="NAME",
    help="Also make or repair the PostgreSQL role that servers connect as: it uses the tables and owns none.",
)  # fmt: skip
@json_option
@click.pass_obj
def command(plane: LazyPlane, runtime_role: str, as_json: bool) -> None:
    """Migrate the store to the schema of this version of clew.

    With --runtime-role, CLEW_RUNTIME_PASSWORD sets the password of that role; without it the password stays as it is.
    """
    done = app.migrate(plane.settings, runtime_role=runtime_role)
    if as_json:
        print_json(msgspec.to_builtins(done))
        return
    click.echo(f"migrated: {', '.join(done.steps)}" if done.steps else "the schema is up to date")
    if done.runtime_role:
        made = "made" if done.is_new_role else "there already, with its rights renewed"
        password = ", with the password from CLEW_RUNTIME_PASSWORD" if done.has_new_password else ""
        click.echo(f"role {done.runtime_role}: {made}{password}; let servers connect as this role")
