"""Record the commits that are made in the folder of a session, as they happen."""

from clew.model.events import CommitsMade, Draft
from clew.model.file_tree import shown
from clew.model.session import Session
from clew.service.kernel.context import Context
from clew.service.workspaces.git_state import commits_made, git_state
from clew.store.log.feed import readable_of_kind

SECOND_US = 1_000_000
# So many commits are in one event.
MOST_RECORDED = 100


def record_commits(context: Context, session: Session, folder: bytes, *, lease: int | None = None) -> list[str]:
    """Record the commits that were made in the folder since the session's last prompt; returns the new ones."""
    if not any(commits_made(folder, since=session.opened_at // SECOND_US)):
        return []
    since = _turn_began(context, session)
    upto = context.store.head(session).head
    known = {
        sha
        for event in readable_of_kind(context.store, session, CommitsMade.kind, upto=upto)
        if isinstance(event.body, CommitsMade)
        for sha in event.body.commits
    }
    new = [sha for sha in dict.fromkeys(commits_made(folder, since=since // SECOND_US)) if sha not in known]
    new = new[-MOST_RECORDED:]
    if new:
        body = CommitsMade(
            commits=tuple(new), branch=git_state(folder).branch, folder=shown(folder), machine=context.machine
        )
        context.store.append(session, [Draft(body=body)], actor=context.principal, lease=lease)
    return new


def _turn_began(context: Context, session: Session) -> int:
    """When the session was asked last; before that it was not at work."""
    context.views.catch_up()
    with context.views.read() as tx:
        rows = tx.run("turns_last", session=session.key, first=1, last=context.store.head(session).head, limit=1)
    return int(rows[0][1]) if rows else session.opened_at
