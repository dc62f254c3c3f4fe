"""`clew workspace`: keep the files of a session, look at them, and go back to them."""

import os
import sys
from pathlib import Path
from typing import Any

import click

from clew.cli.checking_out import check_out, worktree_options
from clew.cli.help import Summaries
from clew.cli.options import complete_id, json_option, session_argument
from clew.cli.output import print_result
from clew.cli.progress import progress
from clew.cli.run import command as operation_command
from clew.cli.streams import write_new, write_out
from clew.model.errors import InvalidInput
from clew.model.plain import plain
from clew.service.kernel.registry import operation_named

at_option = click.option("--at", type=int, metavar="SEQ", help="As the files were at this event.")


@click.group("workspace", cls=Summaries)
def command() -> None:
    """Keep the files of a session, compare them, and go back to them."""


@command.command("snapshot")
@click.argument("folder", metavar="[DIR]", default="", type=click.Path())
@click.option("--session", required=True, metavar="ID", shell_complete=complete_id, help="Whose files they are.")
@click.option("--label", default="", metavar="TEXT", help="A word about it.")
@click.option("--with-secrets", is_flag=True, help="Take in files that look like secrets, too.")
@click.option("--largest", type=int, metavar="BYTES", help="Leave out larger files. [default: 8 GiB]")
@click.option("--most", type=int, metavar="BYTES", help="Refuse a folder of more. [default: 32 GiB]")
@json_option
@click.pass_obj
def snapshot(plane: Any, /, folder: str, as_json: bool, **values: Any) -> None:
    """Keep the files of a folder as they are now, as an event of a session.

    Left out is what .gitignore and .clewignore name, what programs make again, such as node_modules, and what looks
    like a secret. Without DIR it is the folder of the session, or else the current one.
    """
    given = {name: value for name, value in values.items() if value not in (None, "", False)}
    with progress("reading", shown=not as_json) as on_progress:
        folder = os.path.abspath(folder) if folder else _own_folder(plane, given["session"])
        taken = plane.call_reporting(on_progress, "workspace_snapshot", folder=folder, **given)
    print_result(taken, "workspace_snapshot", as_json=as_json)


@command.command("diff")
@click.argument("left", metavar="ID[@SEQ]", shell_complete=complete_id)
@click.argument("right", metavar="[ID[@SEQ]]", default="", shell_complete=complete_id)
@click.option("--path", default="", metavar="PATH", help="Only this file or folder.")
@click.option("--names", "flat", is_flag=True, help="Only names, without lines.")
@json_option
@click.pass_obj
def diff(plane: Any, left: str, right: str, path: str, flat: bool, as_json: bool) -> None:
    """Compare the files of two points, of one session or of two; ID alone shows what its last snapshot changed.

    ID@SEQ is as the files were at this event.
    """
    session, at = _point(left)
    other, upto = _point(right) if right else ("", None)
    given = {"right": other, "at": at, "upto": upto, "path": path, "flat": flat}
    if at is not None and not right:
        given |= {"right": session}
    found = plane.call("workspace_diff", left=session, **{k: v for k, v in given.items() if v not in (None, "", False)})
    print_result(found, "workspace_diff", as_json=as_json)


@command.command("tree")
@session_argument
@click.argument("path", metavar="[PATH]", default="")
@at_option
@click.option("--after", default="", metavar="NAME", help="Go on after this name.")
@click.option("--limit", type=int, default=1000, show_default=True, help="How many entries at the most.")
@json_option
@click.pass_obj
def tree(plane: Any, session: str, path: str, at: int | None, after: str, limit: int, as_json: bool) -> None:
    """List a folder of a session as it was at an event."""
    given = {"path": path, "after": after, **({} if at is None else {"at": at})}
    found = plane.call("workspace_tree", session=session, limit=limit, **{k: v for k, v in given.items() if v})
    print_result(found, "workspace_tree", as_json=as_json)


@command.command("tar")
@session_argument
@click.argument("path", metavar="[PATH]", default="")
@at_option
@click.option("--out", "-o", default="", metavar="FILE", help="A new file for it. [default: stdout]")
@click.pass_obj
def tar(plane: Any, session: str, path: str, at: int | None, out: str) -> None:
    """Write the files of a session, as they were at an event, as a tar archive; from a server, too."""
    opened = plane.client.open_tar(session, path, at=at)
    if not out and sys.stdout.isatty():
        raise InvalidInput("an archive is nothing for a terminal; write it to a file with --out, or into a pipe")
    if not out:
        write_out(opened.pieces)
        return
    with progress("writing") as on_progress:
        click.echo(write_new(Path(out), opened.name, opened.pieces, on_progress, 0))


@command.command("cat")
@session_argument
@click.argument("path", metavar="PATH")
@at_option
@json_option
@click.pass_obj
def cat(plane: Any, session: str, path: str, at: int | None, as_json: bool) -> None:
    """Print a file of a session as it was at an event."""
    given = {} if at is None else {"at": at}
    found = plane.call("workspace_cat", session=session, path=path, **given)
    if as_json:
        print_result(found, "workspace_cat", as_json=True)
    elif not found.is_binary:
        text = found.text if not sys.stdout.isatty() else plain(found.text)
        sys.stdout.write(text if text.endswith("\n") or not sys.stdout.isatty() else f"{text}\n")
    elif sys.stdout.isatty():
        raise InvalidInput(f"{path} is no text, or large; send it into a file or a pipe")
    else:
        write_out(plane.client.open_file(session, path, **given).pieces)


@command.command("restore")
@session_argument
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@at_option
@click.option("--dir", "folder", default="", metavar="D", help="Restore into this folder. [default: the session's]")
@click.option("--force", is_flag=True, help="Also when another session's agent is at work there.")
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
@click.pass_obj
def restore(
    plane: Any,
    session: str,
    paths: tuple[str, ...],
    at: int | None,
    folder: str,
    force: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Make files as they were at an event; what is there before is kept, so that every restore can be undone.

    Content, modes and links are as they were, and files that were not there are removed. What no snapshot takes in
    stays as it is. On a terminal it shows what will change, and asks.
    """
    given: dict[str, Any] = {"session": session, "paths": [*paths]}
    given |= {} if at is None else {"at": at}
    given |= {"folder": os.path.abspath(folder)} if folder else {}
    is_asked = sys.stdin.isatty() and not (yes or as_json)
    if dry_run or is_asked:
        changes = plane.call("workspace_preview", **given)
        print_result(changes, "workspace_preview", as_json=as_json)
        if dry_run or not changes:
            return
        click.confirm("Go on?", abort=True, err=True)
    with progress("restoring", shown=not as_json) as on_progress:
        restored = plane.call_reporting(on_progress, "workspace_restore", **given, force=force)
    print_result(restored, "workspace_restore", as_json=as_json)
    if restored.undo is not None and not as_json:
        click.echo(f"undo it with: clew workspace restore {session[:10]} --at {restored.undo}", err=True)


@command.command("checkout")
@session_argument
@click.option("--dir", "folder", required=True, metavar="D", help="A new folder, or an empty one.")
@at_option
@worktree_options
@json_option
@click.pass_obj
def checkout(plane: Any, /, session: str, folder: str, at: int | None, as_json: bool, **git: Any) -> None:
    """Write the files of a session into a new folder, which is the session's own from then on.

    A folder that was a repository of git is one again: at the same commit and branch, with the same files staged. With
    --worktree it is a worktree of the repository that it was in. The other repository's index, stash and branches stay
    as they are.
    """
    point: dict[str, Any] = {} if at is None else {"at": at}
    check_out(plane, session, os.path.abspath(folder), as_json=as_json, **point, **git)


for name in ("log", "usage", "thin", "gc"):
    command.add_command(operation_command(operation_named(f"workspace_{name}")))


def _point(text: str) -> tuple[str, int | None]:
    """A session, and the event after the @."""
    session, mark, seq = text.partition("@")
    if mark and not seq.isdecimal():
        raise InvalidInput(f"{text!r} is no point of a session; write ID@SEQ, as in {session or 'x9v89m'}@12")
    return session, int(seq) if mark else None


def _own_folder(plane: Any, session: str) -> str:
    """The folder of a session on this machine, or else the one that is worked in."""
    from clew.cli.here import here

    lines = [line for line in plane.call("workspace_log", session=session) if line.folder]
    known = next((line.folder for line in lines if os.path.isdir(line.folder)), "")
    return known or here()
