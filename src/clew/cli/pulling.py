"""Pull a session that is not on this machine when a command needs it."""

from typing import TYPE_CHECKING, Any

import click

from clew import app
from clew.model.errors import ClewError, NotFound
from clew.model.plain import plain

if TYPE_CHECKING:
    from clew.service.replication.remotes import Setting


def pull_missing(plane: Any, session: str, error: NotFound) -> None:
    """Pull a session that is not on this machine, if exactly one server is set; else raise the error with a hint."""
    remotes = _remotes(plane, error)
    if len(remotes) != 1:
        raise with_pull_hint(plane, session, error)
    [remote] = remotes
    click.echo(f"{plain(session)} is not on this machine; pulling it from {remote.name}", err=True)
    try:
        pulled = plane.call("pull", session=session, remote=remote.name)
    except ClewError as refusal:
        raise NotFound(f"{error} (and {remote.name} says: {refusal})", **error.details) from None
    from clew.cli.results.pull import print_pull

    print_pull(pulled)


def with_pull_hint(plane: Any, session: str, error: NotFound) -> NotFound:
    """The same error; it names `clew pull` if a server may have the session."""
    if not _remotes(plane, error):
        return error
    return NotFound(f"{error}; `clew pull {session}` may bring it from a server", **error.details)


def _remotes(plane: Any, error: NotFound) -> "list[Setting]":
    """The servers that may have the session that was not found."""
    if error.code != "not_found" or app.is_remote(plane.settings.store) or "session" not in error.details:
        return []
    if not (plane.settings.home / "remotes").is_dir():
        return []
    from clew.service.replication import remotes

    return remotes.all_of(plane.settings.home)
