"""`clew mcp`: the MCP server for the agent program that starts it."""

import sys
from typing import Any

import click

from clew.model.errors import InvalidInput


@click.command("mcp")
@click.pass_obj
def command(plane: Any) -> None:
    """Serve an agent program over MCP on standard input and output. `clew connect` sets it up."""
    try:
        from clew.mcp.server import serve_stdio
    except ModuleNotFoundError as error:
        raise InvalidInput(f"{error.name} is not installed; install clew with its server: clew[server]") from None
    if sys.stdin.isatty():
        click.echo("waiting for an agent program that speaks MCP; `clew connect` sets one up, Ctrl-C stops", err=True)
    serve_stdio(plane.client.context)
