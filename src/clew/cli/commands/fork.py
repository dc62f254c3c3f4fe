"""`clew fork`: a child that shares a session's history, and with `--workspace` its files in a folder of their own."""

import os
from typing import Any

import click

from clew.cli.checking_out import check_out, worktree_options
from clew.cli.options import json_option, session_argument
from clew.cli.output import print_result
from clew.model.errors import ClewError, Conflict, InvalidInput


@click.command("fork")
@session_argument
@click.option("--at", type=int, metavar="SEQ", help="The last event to share. [default: the last there is]")
@click.option("--title", default=None, metavar="TEXT", help="[default: that of its parent]")
@click.option("--workspace", is_flag=True, help="Write the files as they were then into a new folder for the fork.")
@click.option("--dir", "folder", default="", metavar="D", help="That folder. [default: beside the one of the session]")
@worktree_options
@json_option
@click.pass_obj
def command(
    plane: Any,
    /,
    session: str,
    at: int | None,
    title: str | None,
    workspace: bool,
    folder: str,
    as_json: bool,
    **git: Any,
) -> None:
    """Fork a session at an event (default: the last); the child shares everything up to it."""
    _refuse_unfit(folder, git, workspace=workspace)
    point = {} if at is None else {"at": at}
    own = ""
    if workspace:
        # Without a snapshot there is nothing to write, and then no fork is made either.
        plane.call("workspace_cat", session=session, path=".", **point)
        own = next((line.folder for line in plane.call("workspace_log", session=session) if line.folder), "")
    child = plane.call("fork", session=session, **point, **({} if title is None else {"title": title}))
    print_result(child, "fork", as_json=as_json)
    if workspace:
        folder = os.path.abspath(folder or f"{own or session}-{child.id[:8]}")
        try:
            check_out(plane, child.id, folder, as_json=as_json, **git)
        except ClewError:
            click.echo(f"the fork is there without its files: clew workspace checkout {child.id[:10]}", err=True)
            raise


def _refuse_unfit(folder: str, git: dict[str, Any], *, workspace: bool) -> None:
    if folder and not workspace:
        raise InvalidInput("--dir is the folder for the files; add --workspace")
    if any(git.values()) and not workspace:
        raise InvalidInput("--worktree, --branch and --repository are about the files; add --workspace")
    if folder and os.path.isdir(folder) and os.listdir(folder):
        raise Conflict(f"{folder} exists and is not empty; name a new folder")
