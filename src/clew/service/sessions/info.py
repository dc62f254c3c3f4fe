"""A session and where it stands, as every surface shows it."""

import msgspec

from clew.model.events import (
    Budget,
)
from clew.model.session import Head, Session
from clew.service.kernel.context import Context


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session and where it stands."""

    id: str
    project: str
    agent: str
    title: str
    state: str
    head: int
    opened_at: int
    last_at: int
    parent: str | None = None
    upto: int = 0
    holder: str | None = None
    lease_until: int = 0
    spent_tokens: int = 0
    spent_cost_micros: int = 0
    budget: Budget | None = None
    metadata: msgspec.Raw = msgspec.Raw(b"{}")
    owner: str = ""
    private: bool = False


def info(context: Context, session: Session, head: Head) -> SessionInfo:
    budget = head.budget
    held = head.holder is not None and head.lease_until > context.store.now()
    return SessionInfo(
        id=session.id,
        project=session.project,
        agent=session.agent,
        title=session.title,
        state=str(head.state),
        head=head.head,
        opened_at=session.opened_at,
        last_at=head.at,
        parent=session.parent,
        upto=session.upto,
        holder=head.holder if held else None,
        lease_until=head.lease_until if held else 0,
        spent_tokens=head.spent_tokens,
        spent_cost_micros=head.spent_cost_micros,
        budget=budget if budget != Budget() else None,
        metadata=msgspec.Raw((session.metadata or "{}").encode()),
        owner=session.owner,
        private=session.private,
    )
