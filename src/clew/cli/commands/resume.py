"""`clew resume`: continue a session here, or in another agent program."""

import os
from typing import Any

import click

from clew.cli.fidelity import print_fidelity
from clew.cli.options import complete_runtime, json_option, session_argument
from clew.cli.output import print_json, print_result
from clew.model.errors import InvalidInput, NotFound
from clew.model.plain import plain


@click.command("resume")
@session_argument
@click.option("--in", "runtime", metavar="RUNTIME", default="", help="Continue in this program.",
              shell_complete=complete_runtime)  # fmt: skip
@click.option("--cwd", default="", metavar="DIR", help="The working directory. [default: the session's own]")
@click.option("--at", type=int, metavar="SEQ", help="Continue after this event instead of the last.")
@click.option("--print", "print_only", is_flag=True, help="Print the command instead of running it.")
@click.option("--strict", is_flag=True, help="Refuse to resume if the program's format would drop anything.")
@click.option("--flatten", is_flag=True, help="Write calls and results as text.")
@click.option("--reason", default="", help="The reason; the log keeps it.")
@click.option("--lease", type=int, metavar="EPOCH", help="The epoch of the lease you hold.")
@json_option
@click.pass_obj
def command(
    plane: Any, session: str, runtime: str, cwd: str, at: int | None, print_only: bool, strict: bool,
    flatten: bool, reason: str, lease: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Continue a session in another agent program (--in), or reopen it after a pause.

    With --in, clew writes the session in that program's own format and runs the program's own resume command.
    """
    if not runtime:
        if cwd or at or print_only or strict or flatten:
            raise InvalidInput("--cwd, --at, --print, --strict and --flatten need --in RUNTIME")
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
    """Print what was carried over to standard error, and the command to standard output."""
    click.echo(f"session: {made.session}", err=True)
    print_fidelity(made.fidelity)
    for path in made.files:
        click.echo(f"file: {plain(path)}", err=True)
    for note in made.notes:
        click.echo(f"note: {plain(note)}", err=True)
    settings = "".join(f"{name}={_quoted(value)} " for name, value in made.env.items())
    click.echo(f"cd {_quoted(made.cwd)} && {settings}{' '.join(map(_quoted, made.command))}")


def _quoted(word: str) -> str:
    """The word quoted for a shell; control characters are escaped."""
    import shlex

    if plain(word) == word:
        return shlex.quote(word)
    spelled = (chr(byte) if 32 <= byte < 127 and byte not in b"'\\" else f"\\x{byte:02x}" for byte in os.fsencode(word))
    return f"$'{''.join(spelled)}'"


def _run(plane: Any, made: Any) -> None:
    """Run the program, then capture its new events."""
    import subprocess

    from clew.cli import capturing

    if not os.path.isdir(made.cwd):
        raise InvalidInput(f"the directory {made.cwd} does not exist; name another with --cwd")
    try:
        done = subprocess.run(made.command, cwd=made.cwd, env={**os.environ, **made.env}, check=False)
    except FileNotFoundError:
        raise InvalidInput(f"{made.command[0]} is not on the PATH; install it, or use --print") from None
    capturing.capture(plane, [], made.runtime, "", as_json=False, quiet=True)
    raise click.exceptions.Exit(done.returncode)
