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
from clew.service.sessions.labels import Note, notes_among
from clew.service.sessions.line import SessionLine, labels_of, session_line
from clew.service.sessions.subagents import caller, subagents
from clew.store.log.feed import readable_of_kind


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """Which session wrote the events `first` to `last` of a history."""

    session: str
    first: int
    last: int


class SessionDetail(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session with what it knows and what it touched."""

    session: SessionLine
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
    notes: list[Note] = []


@operation(
    right=Right.READ, route="GET /sessions/{session}", reads_views=True, version=lambda detail: detail.session.head
)
def show(context: Context, session: Session) -> SessionDetail:
    """Show a session: its state, lineage, knowledge and working set."""
    store = context.store
    line = session_line(context, session)
    known = knowledge.knowledge(known_of(context, session))
    return SessionDetail(
        session=line,
        lineage=[
            Stretch(session=part.id, first=part.first, last=min(part.last, line.head))
            for part in store.lineage(session)
        ],
        forks=[(child.id, child.at) for child in store.children(session, context.reach(None))],
        subagent_of=caller(context, session),
        subagents=[subagent.session for subagent in subagents(context, session)],
        facts=list(known.facts.values()),
        decisions=list(known.decisions.values()),
        progress=known.progress,
        scratch=known.scratch,
        working_set=_working_set(context, session),
        notes=notes_among(labels_of(context, session)),
    )


def _working_set(context: Context, session: Session) -> list[Touched]:
    """What a session touched itself, from the view, and what its ancestors had touched when it was forked."""
    with context.views.read() as tx:
        rows = tx.run("files_of", session=session.key)
    touched = {
        (type, what): Touched(what=what, type=type, read=read, written=written, last_seq=max(seqs))
        for type, what, read, written, *seqs in rows
    }
    if session.parent is not None:
        inherited = readable_of_kind(context.store, session, CallMade.kind, upto=session.upto)
        for before in working_set(inherited):
            own = touched.get((before.type, before.what), before)
            touched[before.type, before.what] = (
                before
                if own is before
                else msgspec.structs.replace(own, read=own.read + before.read, written=own.written + before.written)
            )
    return sorted(touched.values(), key=lambda one: -one.last_seq)
