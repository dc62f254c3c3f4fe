"""`clew jobs`: the background jobs, and one of them again or now."""

from typing import Any

import click

from clew.cli.help import Summaries
from clew.cli.options import json_option
from clew.cli.output import print_json
from clew.cli.run import command as operation_command
from clew.service.kernel.registry import operation_named


@click.group("jobs", cls=Summaries, invoke_without_command=True)
@click.option("--kind", default="", metavar="KIND", help="Only this kind, such as retention.")
@click.option("--state", type=click.Choice(["waiting", "running", "done", "parked"]), help="Only jobs in this state.")
@click.option("--project", default="", metavar="NAME", help="Only this project.")
@click.option(
    "-n", "--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many at the most."
)
@json_option
@click.pass_context
def command(context: click.Context, kind: str, state: str | None, project: str, limit: int, as_json: bool) -> None:
    """List the background jobs, newest first; retry a parked one, or run one now."""
    if context.invoked_subcommand is not None:
        return
    plane: Any = context.obj
    listed = plane.call("jobs", kind=kind, state=state or "", project=project, limit=limit)
    if as_json:
        print_json(listed)
    else:
        from clew.cli.results.jobs import print_jobs

        print_jobs(listed)


for name in ("retry", "run"):
    command.add_command(operation_command(operation_named(f"jobs_{name}")))
