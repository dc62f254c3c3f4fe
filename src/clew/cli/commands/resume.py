"""`clew resume`: continue a session here, or in another agent program."""

import os
from typing import Any

import click

from clew.cli import capturing
from clew.cli.fidelity import print_fidelity
from clew.cli.options import complete_runtime, json_option, session_argument
from clew.cli.output import print_json, print_result
from clew.model.errors import InvalidInput, NotFound
from clew.model.plain import plain


@click.command("resume")
@session_argument
@click.option("--in", "runtime", metavar="RUNTIME", default="", help="Go on in this program.",
              shell_complete=complete_runtime)  # fmt: skip
@click.option("--cwd", default="", metavar="DIR", help="The directory to work in. [default: the session's own]")
@click.option("--at", type=int, metavar="SEQ", help="Go on from this event instead of the last.")
@click.option("--print", "print_only", is_flag=True, help="Print the command instead of running it.")
@click.option("--strict", is_flag=True, help="Refuse if anything would be dropped.")
@click.option("--flatten", is_flag=True, help="Tell calls and results as text.")
@click.option("--reason", default="", help="Why; kept in the log.")
@click.option("--lease", type=int, metavar="EPOCH", help="The epoch of the lease you hold.")
@json_option
@click.pass_obj
def command(
    plane: Any, session: str, runtime: str, cwd: str, at: int | None, print_only: bool, strict: bool,
    flatten: bool, reason: str, lease: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Go on with a session: in another agent program (--in), or here after a pause.

    With --in, the session is written in that program's own form and the program's own resume command is run.
    """
    if not runtime:
        if cwd or at or print_only or strict or flatten:
            raise InvalidInput("--cwd, --at, --print, --strict and --flatten belong to --in RUNTIME")
        result = plane.call("resume", session=session, reason=reason, lease=lease)
        print_result(result, "resume", as_json=as_json)
        return
    wanted = {"runtime": runtime, "cwd": cwd, "at": at, "strict": strict, "flatten": flatten}
    try:
        made = plane.call("materialise", session=session, **wanted)
    except NotFound as error:
        from clew.cli.pulling import pull_missing

        pull_missing(plane, session, error)
        made = plane.call("materialise", session=session, **wanted)
    if as_json:
        print_json(made)
    else:
        _print_materialised(made)
    if not print_only:
        _run(plane, made)


def _print_materialised(made: Any) -> None:
    """What became of the conversation, to a person; the command itself to stdout."""
    click.echo(f"session: {made.session}", err=True)
    print_fidelity(made.fidelity)
    for path in made.files:
        click.echo(f"file: {plain(path)}", err=True)
    for note in made.notes:
        click.echo(f"note: {plain(note)}", err=True)
    settings = "".join(f"{name}={_quoted(value)} " for name, value in made.env.items())
    click.echo(f"cd {_quoted(made.cwd)} && {settings}{' '.join(map(_quoted, made.command))}")


def _quoted(word: str) -> str:
    """A word for the shell; what a terminal would obey is spelled out."""
    import shlex

    if plain(word) == word:
        return shlex.quote(word)
    spelled = (chr(byte) if 32 <= byte < 127 and byte not in b"'\\" else f"\\x{byte:02x}" for byte in os.fsencode(word))
    return f"$'{''.join(spelled)}'"


def _run(plane: Any, made: Any) -> None:
    """Run the program, then capture what it added."""
    import subprocess

    if not os.path.isdir(made.cwd):
        raise InvalidInput(f"{made.cwd} is not there; name the directory with --cwd")
    try:
        done = subprocess.run(made.command, cwd=made.cwd, env={**os.environ, **made.env}, check=False)
    except FileNotFoundError:
        raise InvalidInput(f"{made.command[0]} is not on the PATH; install it, or use --print") from None
    capturing.capture(plane, [], made.runtime, "", as_json=False, quiet=True)
    raise click.exceptions.Exit(done.returncode)
