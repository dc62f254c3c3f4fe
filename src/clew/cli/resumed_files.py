"""The files of a session that is resumed: whether they are here, and bringing them back before its program runs."""

import sys
from typing import TYPE_CHECKING, Any

import click

from clew.cli.progress import progress
from clew.model.errors import ClewError
from clew.model.plain import plain

if TYPE_CHECKING:
    from clew.service.handover.files_here import WorkspaceHere


def is_wanted(here: "WorkspaceHere", *, wanted: bool | None, asks: bool) -> bool:
    """Whether the files are to be restored; asks on a terminal, where nobody said."""
    if here.state not in ("missing", "differs"):
        return False
    if wanted is not None or not (asks and sys.stdin.isatty()):
        return bool(wanted)
    folder = plain(here.folder)
    if here.state == "missing":
        return click.confirm(
            f"Its files are not in {folder}. Write them there, as at event {here.seq}?", True, err=True
        )
    return click.confirm(
        f"{here.changes:,} files in {folder} are others than at event {here.seq}. Restore them? What is there is kept.",
        default=False, err=True,
    )  # fmt: skip


def bring_back(plane: Any, here: "WorkspaceHere", session: str, *, at: int | None, as_json: bool) -> None:
    """Write the files. The session is written already, so an error says how to go on."""
    operation = "workspace_checkout" if here.state == "missing" else "workspace_restore"
    point = {"at": at} if at is not None and session == here.session else {}
    try:
        with progress("writing", shown=not as_json) as on_progress:
            done = plane.call_reporting(on_progress, operation, session=session, folder=here.folder, **point)
    except ClewError:
        click.echo(f"the session is written, its files are not; clew undo {session[:10]} takes it back", err=True)
        raise
    if as_json:
        return
    if here.state == "missing":
        words = f"{done.files:,} written into {plain(here.folder)}"
    else:
        words = f"{done.written:,} written and {done.removed:,} removed in {plain(here.folder)}"
        words += f"; clew workspace restore {session[:10]} --at {done.undo} undoes it" if done.undo is not None else ""
    click.echo(f"files: {words}", err=True)


def say(here: "WorkspaceHere", *, is_restored: bool) -> None:
    """Say what is with the files, where they are not as they were."""
    if is_restored or here.state not in ("missing", "differs"):
        return
    what = f"{here.changes:,} are others" if here.state == "differs" else "they are not there"
    click.echo(f"files: in {plain(here.folder)} {what}; --workspace restores them", err=True)
