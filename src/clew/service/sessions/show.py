"""One session in full: its state, lineage, knowledge and working set."""

import msgspec

from clew.model import knowledge
from clew.model.access import Right
from clew.model.events import (
    CallMade,
    DecisionMade,
    FactLearned,
    ProgressNoted,
)
from clew.model.session import Session
from clew.model.working_set import Touched, working_set
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.knowledge.known import known_of
from clew.service.sessions.info import SessionInfo, info
from clew.service.sessions.subagents import caller, subagents


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """Which session wrote the events `first` to `last` of a history."""

    session: str
    first: int
    last: int


class SessionDetail(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session with what it knows and what it touched."""

    session: SessionInfo
    lineage: list[Stretch]
    forks: list[tuple[str, int]]
    subagent_of: str = ""
    """The session in which it was called; what the runtime calls that, if it was not captured."""
    subagents: list[str] = []
    facts: list[FactLearned]
    decisions: list[DecisionMade]
    progress: ProgressNoted | None
    scratch: dict[str, msgspec.Raw]
    working_set: list[Touched]


@operation(
    right=Right.READ, route="GET /sessions/{session}", reads_views=True, version=lambda detail: detail.session.head
)
def show(context: Context, session: Session) -> SessionDetail:
    """Show a session: its state, lineage, knowledge and working set."""
    store = context.store
    head = store.head(session)
    known = knowledge.knowledge(known_of(context, session))
    return SessionDetail(
        session=info(context, session, head),
        lineage=[
            Stretch(session=part.id, first=part.first, last=min(part.last, head.head))
            for part in store.lineage(session)
        ],
        forks=[(child.id, child.at) for child in store.children(session, context.reach(None))],
        subagent_of=caller(context, session),
        subagents=[subagent.session for subagent in subagents(context, session)],
        facts=list(known.facts.values()),
        decisions=list(known.decisions.values()),
        progress=known.progress,
        scratch=known.scratch,
        working_set=working_set(store.read(session, kinds=(CallMade.kind,))),
    )
