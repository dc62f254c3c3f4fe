"""`clew audit witness`: let others countersign the checkpoints of this log, and countersign those of others."""

from typing import Any

import click

from clew.cli.confirming import confirm, yes_option
from clew.cli.exits import exit_code
from clew.cli.help import Summaries
from clew.cli.options import json_option
from clew.cli.output import print_json
from clew.model.plain import plain


@click.group("witness", cls=Summaries, invoke_without_command=True)
@json_option
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Let the witnesses of this log countersign its newest checkpoint now.

    A witness is a folder elsewhere or another clew. It countersigns only a log that continues what it saw before, so it
    finds a log that was rolled back or rewritten. A running `clew up`, `clew serve` or `clew worker` does this
    automatically.
    """
    if context.invoked_subcommand is not None:
        return
    states = context.obj.call("audit_witness")
    if as_json:
        print_json(states)
    else:
        from clew.cli.results import audit

        audit.print_witnesses(states)
    if any(state.refused for state in states):
        raise click.exceptions.Exit(exit_code("damaged"))
    if any(state.problem for state in states):
        raise click.exceptions.Exit(exit_code("unavailable"))


@command.command()
@click.argument("address")
@click.option("--key", default="", metavar="KEY", help="The public key that the witness must have.")
@json_option
@click.pass_obj
def add(plane: Any, address: str, key: str, as_json: bool) -> None:
    """Add a witness: a folder elsewhere, or the address of another clew.

    A folder is made if it is missing, with a key of its own. Another clew must trust this log first: run
    `clew audit witness trust KEY` there, with the KEY that `clew audit key` prints here, and `clew remote add ADDRESS`
    here, with an API key of that clew.
    """
    state = plane.call("audit_witness_add", address=address, key=key)
    if as_json:
        print_json(state)
        return
    click.echo(plain(state.key))
    click.echo(f"{plain(state.address)} is a witness of this log; write its key down elsewhere", err=True)


@command.command("list")
@json_option
@click.pass_obj
def list_(plane: Any, as_json: bool) -> None:
    """List the witnesses: the last checkpoint each countersigned, when, and how many came after it."""
    from clew.cli.results import audit

    states = plane.call("audit_witnesses")
    if as_json:
        print_json(states)
    else:
        audit.print_witnesses(states)


@command.command()
@click.argument("address")
@yes_option
@json_option
@click.pass_obj
def remove(plane: Any, address: str, yes: bool, as_json: bool) -> None:
    """Stop asking a witness. What it countersigned stays."""
    confirm(f"This log is then no longer shown to the witness {plain(address)}", yes=yes, as_json=as_json)
    plane.call("audit_witness_remove", address=address)
    if as_json:
        print_json({"address": address})
    else:
        click.echo(f"{plain(address)} is no longer a witness of this log")


@command.command()
@click.argument("key")
@json_option
@click.pass_obj
def trust(plane: Any, key: str, as_json: bool) -> None:
    """Be a witness of another log: KEY is what `clew audit key` prints there. Prints the public key of this witness."""
    countersigned = plane.call("audit_trust", key=key)
    if as_json:
        print_json(countersigned)
        return
    click.echo(plain(countersigned.witness))
    click.echo(
        f"this clew countersigns checkpoints of {plain(countersigned.origin)} from now on; the line above is its key",
        err=True,
    )
