"""The operation `remotes`: the servers that this machine shares sessions with, for pages and programs."""

from pathlib import Path

import msgspec

from clew.model.access import Right
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.replication.push import pending_events
from clew.service.replication.remotes import all_of
from clew.store.cursors import read_cursor

# A list counts no more events that wait than these.
MOST_COUNTED = 1000


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
    return [
        RemoteInfo(
            name=remote.name, url=remote.url, who=remote.who, projects=remote.projects, sessions=remote.sessions,
            refused={id: refusal.why for id, refusal in remote.refused.items()},
            behind=pending_events(context, remote, most=MOST_COUNTED),
            pushed_at=read_cursor(context.store, f"pushed:{remote.server}"),
        )
        for remote in all_of(Path(context.home))
    ]  # fmt: skip
