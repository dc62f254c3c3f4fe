"""The family of a session: what it was forked from or called by, and everything that came of those."""

from collections import deque
from typing import Annotated

import msgspec

from clew.model.access import Right
from clew.model.errors import NotFound
from clew.model.ids import LENGTH
from clew.model.session import Session
from clew.model.steps import end_step
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.sessions.line import SessionLine, session_lines
from clew.service.sessions.subagents import caller, subagents
from clew.views.sessions import SessionRow, session_row

FIRST, FORK, ELSEWHERE, SUBAGENT = "first", "fork", "elsewhere", "subagent"
# More than a person looks through; a family that is larger is cut, and says so.
MOST = 1000


class Relative(msgspec.Struct, frozen=True, kw_only=True):
    """A member of a family, and how it came about: it is the first, or it was forked from its parent, went on from
    there elsewhere, or is a subagent that its parent called."""

    session: SessionLine
    how: str
    parent: str = ""
    """The member that it came of; empty for the first."""
    at: int = 0
    """The last event that it shares with its parent; 0 for a subagent, which shares none."""


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """The members of a family that the caller may see, each after its parent."""

    session: str
    """The session that was asked about."""
    members: list[Relative]
    is_whole: bool
    """Whether there are no more than these."""


class _Member(msgspec.Struct):
    session: Session
    how: str
    parent: str
    at: int


@operation(right=Right.READ, route="GET /sessions/{session}/family", reads_views=True, hidden=True)
def family(
    context: Context,
    session: Session,
    *,
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST, description="How many members at the most.")] = 200,
) -> Family:
    """List the family of a session: what it came of, and every fork, subagent and resume elsewhere below that."""
    context.views.catch_up()
    first = _first(context, session)
    members = {first.id: _Member(first, FIRST, "", 0)}
    waiting, is_whole = deque([first]), True
    while waiting and is_whole:
        for child in _children(context, waiting.popleft()):
            end_step()
            if child.session.id in members:
                continue
            if len(members) == limit:
                is_whole = False
                break
            members[child.session.id] = child
            waiting.append(child.session)
    lines = {line.id: line for line in session_lines(context, _rows(context, list(members.values())))}
    return Family(
        session=session.id, is_whole=is_whole,
        members=[
            Relative(session=lines[id], how=member.how, parent=member.parent, at=member.at)
            for id, member in members.items()
        ],
    )  # fmt: skip


def _first(context: Context, session: Session) -> Session:
    """The oldest session that it came of, as far as the caller may see."""
    seen = {session.id}
    while True:
        above = session.parent or caller(context, session)
        # A session that was not captured is known by the id that its program has for it.
        if len(above) != LENGTH or above in seen:
            return session
        try:
            session = context.store.session(above, context.reach(Right.SEE))
        except NotFound:
            return session  # The caller has no right on it.
        seen.add(session.id)


def _children(context: Context, session: Session) -> list[_Member]:
    reach = context.reach(Right.SEE)
    forks = [(context.store.session(child.id, reach), child.at) for child in context.store.children(session, reach)]
    called = [context.store.session(subagent.session, reach) for subagent in subagents(context, session)]
    return [
        *(_Member(fork, _how(fork), session.id, at) for fork, at in forks),
        *(_Member(subagent, SUBAGENT, session.id, 0) for subagent in called),
    ]  # fmt: skip


def _how(fork: Session) -> str:
    """A fork that a resume in another program made has the native session that it was written as."""
    from clew.service.handover.resumed import mark_of  # It loads what captures files.

    return ELSEWHERE if mark_of(fork.metadata).resumed else FORK


def _rows(context: Context, members: list[_Member]) -> list[SessionRow]:
    rows = []
    with context.views.read() as tx:
        for member in members:
            session = member.session
            found = [session_row(row) for row in tx.run("sessions_row", session=session.key)]
            unlisted = SessionRow(session=session.key, project=session.project_key, id=session.id, title=session.title)
            rows.append(found[0] if found else unlisted)
    return rows
