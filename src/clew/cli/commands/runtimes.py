"""`clew runtimes`: the agent programs that clew knows."""

from typing import Any

import click

from clew.cli.options import json_option
from clew.cli.output import print_result


@click.command("runtimes")
@json_option
@click.pass_obj
def command(plane: Any, as_json: bool) -> None:
    """List the agent programs that clew knows: installed, connected, and what clew can do with each."""
    print_result(plane.call("runtimes"), "runtimes", as_json=as_json)
