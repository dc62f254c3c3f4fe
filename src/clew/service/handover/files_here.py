"""The operation `workspace_here`: where the files of a session belong on this machine, and whether they are there."""

from typing import Annotated

import msgspec

from clew.model.access import Right
from clew.model.events import WorkspaceRestored, WorkspaceSnapshotted
from clew.model.session import Session
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.store.log.feed import readable_of_kind

NONE, SAME, MISSING, DIFFERS = "none", "same", "missing", "differs"


class WorkspaceHere(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a session on this machine."""

    session: str
    state: str
    """none: no snapshot has them; same; missing: the folder is not there, or empty; differs."""
    folder: str = ""
    """The folder that they belong in."""
    cwd: str = ""
    """The folder to work in: that one, or the one below it in which the program worked."""
    was: str = ""
    """The folder that they were in."""
    snapshot: str = ""
    seq: int = 0
    files: int = 0
    changes: int = 0
    """How many differ, up to a thousand."""


@operation(right=Right.APPEND, hidden=True)
def workspace_here(
    context: Context,
    session: Session,
    *,
    at: Annotated[int, msgspec.Meta(ge=1, description="As they were at this event. [default: the last snapshot]")]
    | None = None,
    folder: Annotated[str, msgspec.Meta(description="Where they shall be. [default: where they were]")] = "",
) -> WorkspaceHere:
    """Tell where the files of a session belong on this machine, and whether they are there; it changes no file."""
    upto = context.store.head(session).head
    kinds = (WorkspaceSnapshotted.kind, WorkspaceRestored.kind)
    if not any(True for kind in kinds for _ in readable_of_kind(context.store, session, kind, upto=upto)):
        return WorkspaceHere(session=session.id, state=NONE)
    # Most sessions have no snapshot, and a resume loads nothing for those that have.
    from clew.service.workspaces.whereabouts import whereabouts

    return whereabouts(context, session, at, folder)
