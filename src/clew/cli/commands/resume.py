"""`clew resume`: continue a session here, or in another agent program."""

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from clew import app
from clew.cli.fidelity import print_fidelity
from clew.cli.here import latest
from clew.cli.options import SessionId, complete_id, complete_runtime, json_option
from clew.cli.output import print_json, print_result
from clew.cli.progress import progress
from clew.model.errors import InvalidInput, NotFound, Unavailable
from clew.model.plain import plain
from clew.views.contract import origin_of

if TYPE_CHECKING:
    from clew.service.handover.files_here import WorkspaceHere

# How long a command that prepares a session may take.
PREPARE_SECONDS = 120
T = TypeVar("T")


@click.command("resume")
@click.argument("session", metavar="[ID]", required=False, type=SessionId(), shell_complete=complete_id)
@click.option("--in", "runtime", metavar="RUNTIME", default="", shell_complete=complete_runtime,
              help="Go on in this program: claude, codex, gemini ... [default: the session's own]")  # fmt: skip
@click.option("--cwd", default="", metavar="DIR", help="The working directory. [default: the session's own]")
@click.option("--at", type=int, metavar="SEQ", help="Continue after this event instead of the last.")
@click.option("--workspace/--no-workspace", default=None,
              help="Restore its files first, or leave them. [default: ask, where they are not here]")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Show what would become of the session, and write nothing.")
@click.option("--no-run", "--print", "no_run", is_flag=True, help="Write the session and print the command.")
@click.option("--strict", is_flag=True, help="Refuse to resume if the program's format would drop anything.")
@click.option("--flatten", is_flag=True, help="Write calls and results as text.")
@click.option("--reason", default="", help="Why a paused session is reopened; the log keeps it.")
@click.option("--lease", type=int, metavar="EPOCH", help="The epoch of the lease you hold.")
@json_option
@click.pass_obj
def command(
    plane: Any, session: str | None, runtime: str, cwd: str, at: int | None, workspace: bool | None, dry_run: bool,
    no_run: bool, strict: bool, flatten: bool, reason: str, lease: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Go on with a session in its own program, or in another with --in. Without an ID: the newest session here.

    In another program, clew writes the session in that program's own form, opens a fork for it, and runs the
    program's own resume command; `clew undo` takes that back. A paused or closed session is reopened first.

    Where its files are not as they were, as on another machine, they are restored first if you say so, and their paths
    in the conversation follow.
    """
    id = session or latest(plane)
    wanted = {"runtime": runtime, "cwd": cwd, "at": at, "strict": strict, "flatten": flatten}
    writes_only = dry_run or no_run
    if not (writes_only or any(wanted.values()) or workspace) and _is_reopened(
        plane, id, reason, lease, as_json=as_json
    ):
        return
    here = _after_pull(plane, id, lambda: _files_here(plane, id, cwd=cwd, at=at, wanted=workspace))
    is_restored = here is not None and _restores(here, wanted=workspace, asks=not (as_json or dry_run))
    if here is not None and is_restored:
        wanted |= {"cwd": here.cwd, "files_in": here.folder}
    wanted |= {"dry_run": dry_run, "to_run": not writes_only}
    with progress("writing", shown=not as_json):
        made = _after_pull(plane, id, lambda: plane.call("materialise", session=id, **wanted))
    if here is not None and is_restored and not dry_run:
        from clew.cli.resumed_files import bring_back

        bring_back(plane, here, made.session, at=at, as_json=as_json)
    _print_made(made, here, is_restored=is_restored, dry_run=dry_run, as_json=as_json)
    if not writes_only:
        _run(plane, made)


def _files_here(plane: Any, id: str, *, cwd: str, at: int | None, wanted: bool | None) -> "WorkspaceHere | None":
    """Where the files are; None where nobody looks, and without a snapshot."""
    if wanted is False or app.is_remote(plane.settings.store):
        return None
    given: dict[str, Any] = ({"at": at} if at is not None else {}) | ({"folder": cwd} if cwd else {})
    here: WorkspaceHere = plane.call("workspace_here", session=id, **given)
    if here.state != "none":
        return here
    if wanted:
        raise InvalidInput(f"session {id} has no snapshot of its files; leave out --workspace to go on without them")
    return None


def _restores(here: "WorkspaceHere", *, wanted: bool | None, asks: bool) -> bool:
    from clew.cli.resumed_files import is_wanted

    return is_wanted(here, wanted=wanted, asks=asks)


def _is_reopened(plane: Any, id: str, reason: str, lease: int | None, *, as_json: bool) -> bool:
    """Reopen a paused or closed session; True if that is all, because it has no program or there is no terminal."""
    is_all = bool(reason) or lease is not None or app.is_remote(plane.settings.store)
    if not is_all:
        try:
            found = plane.call("show", session=id).session
        except NotFound:
            return False  # It may be on a server.
        has_program = bool(found.metadata and origin_of(found.metadata).runtime)
        if has_program and found.state not in ("paused", "closed"):
            return False
        is_all = not (has_program and sys.stdin.isatty())
    print_result(plane.call("resume", session=id, reason=reason, lease=lease), "resume", as_json=as_json)
    return is_all


def _after_pull(plane: Any, id: str, call: Callable[[], T]) -> T:
    """What the call gives; a session that is not here is pulled from a server first."""
    try:
        return call()
    except NotFound as error:
        from clew.cli.pulling import pull_missing

        pull_missing(plane, id, error)
        return call()


def _with_files(made: Any, here: Any, *, is_restored: bool) -> dict[str, Any]:
    """What was made, with where its files are."""
    import msgspec

    files = {name: getattr(here, name) for name in here.__struct_fields__ if name != "session"}
    return {**msgspec.to_builtins(made), "workspace": files | {"restored": is_restored}}


def _print_made(made: Any, here: Any, *, is_restored: bool, dry_run: bool, as_json: bool) -> None:
    if as_json:
        print_json(made if here is None else _with_files(made, here, is_restored=is_restored and not dry_run))
    else:
        _print_materialised(made, dry_run=dry_run)
        if here is not None:
            from clew.cli.resumed_files import say

            say(here, is_restored=is_restored)


def _print_materialised(made: Any, *, dry_run: bool) -> None:
    """Print what was carried over to standard error, and the command to standard output."""
    from clew.service.handover.materialised import command_line

    click.echo(f"session: {made.session or 'a new fork'}", err=True)
    print_fidelity(made.fidelity)
    for path in made.files:
        click.echo(f"file: {plain(path)}", err=True)
    if dry_run:
        click.echo("dry run: nothing was written", err=True)
    for note in made.notes:
        click.echo(f"note: {plain(note)}", err=True)
    click.echo(command_line(made))


def _run(plane: Any, made: Any) -> None:
    """Run the commands that prepare the session, then the program, then capture its new events."""
    import subprocess

    from clew.cli import capturing

    for step in made.prepare:
        _prepare(made, step)
    try:
        done = subprocess.run(made.command, cwd=made.cwd, env={**os.environ, **made.env}, check=False)
    except FileNotFoundError:
        raise InvalidInput(f"{made.command[0]} is not on the PATH; install it, or use --no-run") from None
    capturing.capture(plane, [], made.runtime, "", as_json=False, quiet=True)
    raise click.exceptions.Exit(done.returncode)


def _prepare(made: Any, step: list[str]) -> None:
    """Run a command that comes before the program; if it fails, say so and how to go on."""
    import shlex
    import subprocess

    by_hand = f"the session is written; run it yourself, in {plain(made.cwd)}: {plain(shlex.join(step))}"
    try:
        done = subprocess.run(
            step, cwd=made.cwd, env={**os.environ, **made.env}, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, errors="replace", check=False, timeout=PREPARE_SECONDS,
        )  # fmt: skip
    except FileNotFoundError:
        raise InvalidInput(f"{step[0]} is not on the PATH; install it, or use --no-run") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{plain(str(error))}; {by_hand}") from error
    if done.returncode:
        output = plain((done.stderr or done.stdout).strip())[-400:]
        raise Unavailable(f"{plain(shlex.join(step))} ended with {done.returncode}: {output}; {by_hand}")
