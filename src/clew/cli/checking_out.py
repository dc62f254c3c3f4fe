"""Write the files of a session into a folder of their own, for the commands that do."""

import os
from collections.abc import Callable
from typing import Any

import click

from clew.cli.output import print_result
from clew.cli.progress import progress


def worktree_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say what the folder is in git."""
    options = (
        click.option("--worktree", is_flag=True, help="Make it a git worktree of the files' repository."),
        click.option("--branch", default="", metavar="NAME", help="With --worktree: on a new branch."),
        click.option("--repository", default="", metavar="DIR", type=click.Path(),
                     help="A repository with the commit. [default: that of the files]"),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def check_out(
    plane: Any, session: str, folder: str, *, as_json: bool, worktree: bool, branch: str, repository: str, **given: Any
) -> Any:
    """Write the files, and say where they are."""
    if worktree:
        given |= {"worktree": True}
    if branch:
        given |= {"branch": branch}
    if repository:
        given |= {"repository": os.path.abspath(repository)}
    with progress("writing", shown=not as_json) as on_progress:
        out = plane.call_reporting(on_progress, "workspace_checkout", session=session, folder=folder, **given)
    print_result(out, "workspace_checkout", as_json=as_json)
