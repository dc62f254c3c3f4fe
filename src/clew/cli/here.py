"""The sessions of the folder that a command is run in."""

import os
from typing import TYPE_CHECKING, Any

import click

from clew.cli.output import one_line
from clew.model.errors import NotFound

if TYPE_CHECKING:
    from clew.service.sessions.line import SessionLine

# A folder may have run this many subagents after its newest session.
LOOKED_AT = 200


def here() -> str:
    """The folder that is worked in: the repository around the current folder, else the current folder."""
    try:
        current = os.getcwd()
    except OSError:
        return ""  # It was deleted.
    folder = current
    while not os.path.exists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return current
        folder = parent
    return folder


def newest(plane: Any, *, folder: str = "") -> "SessionLine | None":
    """The newest session below a folder, or of all; subagents and erased sessions do not count."""
    from clew.views.contract import origin_of

    lines: list[SessionLine] = plane.call("sessions", folder=folder, limit=LOOKED_AT)
    whole = (line for line in lines if line.state != "erased" and not origin_of(line.metadata).parent)
    return next(whole, None)


def latest(plane: Any) -> str:
    """The id of the newest session of this folder, or else of all; says on standard error which it is."""
    folder = here()
    line = newest(plane, folder=folder) if folder else None
    line = line or newest(plane)
    if line is None:
        raise NotFound("there is no session yet", session="latest")
    click.echo(f"latest: {line.id[:10]} {one_line(line.title or '(untitled)', 60)}", err=True)
    return line.id
