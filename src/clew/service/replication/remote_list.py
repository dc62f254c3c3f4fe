"""The servers that this machine shares sessions with, for pages and programs: listing, adding, sharing, removing.

They are about this machine's own files, so no other machine can call them; the command `clew remote` does the same.
"""

from pathlib import Path
from typing import Annotated

import msgspec

from clew.model.access import Right
from clew.model.errors import Unavailable
from clew.service.kernel.context import Context
from clew.service.kernel.registry import Secret, operation
from clew.service.replication.push import pending_events
from clew.service.replication.remotes import Setting, add, all_of, checked_name, named, remove, share, unshare
from clew.service.replication.server import checked_url
from clew.store.cursors import read_cursor
from clew.store.projects import list_projects

# A list counts no more events that wait than these.
MOST_COUNTED = 1000

Name = Annotated[str, msgspec.Meta(max_length=100, description="Its name here. [default: the only one]")]


class RemoteInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A server: who you are there, what is shared with it, what waits to be pushed, and what it refused and why."""

    name: str
    url: str
    who: str
    projects: list[str]
    sessions: list[str]
    refused: dict[str, str]
    behind: int
    pushed_at: int


@operation(right=Right.SEE, hidden=True)
def remotes(context: Context) -> list[RemoteInfo]:
    """List the servers that this machine shares sessions with; never their keys."""
    return [_info(context, remote) for remote in all_of(Path(context.home))]


@operation(right=Right.ADMINISTER, repeatable=True, hidden=True)
def remote_add(
    context: Context,
    url: Annotated[str, msgspec.Meta(max_length=1000, description="Its address, such as https://clew.example.org.")],
    key: Secret,
    *,
    name: Name = "team",
) -> RemoteInfo:
    """Add a server, if it takes the API key; the key is kept in a file that only its owner can read."""
    address = checked_url(url)
    if context.open_server is None:
        raise Unavailable("this process cannot open other servers; add it on your own machine")
    return _info(context, add(Path(context.home), name, address, key.strip(), context.open_server))


@operation(right=Right.ADMINISTER, repeatable=True, hidden=True)
def remote_remove(context: Context, name: Name) -> None:
    """Remove a server and its API key from this machine; what was pushed stays on the server."""
    home = Path(context.home)
    remove(home, named(home, checked_name(name)).name)


@operation(right=Right.ADMINISTER, repeatable=True, hidden=True)
def remote_share(
    context: Context, project: Annotated[str, msgspec.Meta(description="The project.")], *, name: Name = ""
) -> RemoteInfo:
    """Share a project: a push sends its sessions from now on, except private ones."""
    return _info(context, share(Path(context.home), name, project, set(list_projects(context.store).values())))


@operation(right=Right.ADMINISTER, repeatable=True, hidden=True)
def remote_unshare(
    context: Context,
    what: Annotated[str, msgspec.Meta(description="The project, or the id of a session.")],
    *,
    name: Name = "",
) -> RemoteInfo:
    """Stop sharing a project or a session; what was pushed stays on the server."""
    return _info(context, unshare(Path(context.home), name, what))


def _info(context: Context, remote: Setting) -> RemoteInfo:
    return RemoteInfo(
        name=remote.name, url=remote.url, who=remote.who, projects=remote.projects, sessions=remote.sessions,
        refused={id: refusal.why for id, refusal in remote.refused.items()},
        behind=pending_events(context, remote, most=MOST_COUNTED),
        pushed_at=read_cursor(context.store, f"pushed:{remote.server}"),
    )  # fmt: skip
