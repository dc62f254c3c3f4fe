"""`clew runtimes`: the agent programs that clew knows."""

from typing import Any

import click

from clew.cli.options import json_option
from clew.cli.output import print_result


@click.command("runtimes")
@click.option("--drift", is_flag=True, help="Show what the programs write that no reader knows yet, with an example.")
@json_option
@click.pass_obj
def command(plane: Any, drift: bool, as_json: bool) -> None:
    """List the agent programs that clew knows: installed, connected, and what clew can do with each."""
    name = "drift" if drift else "runtimes"
    print_result(plane.call(name), name, as_json=as_json)
