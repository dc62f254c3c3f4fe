"""Forks: a child that shares history, and what became of two of them."""

from typing import Annotated

import msgspec

from clew.model import knowledge
from clew.model.access import Right
from clew.model.events import CallMade, Event
from clew.model.lineage import parting
from clew.model.session import Session
from clew.model.working_set import working_set
from clew.service.kernel.call import permit
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.knowledge.known import known_of
from clew.service.privacy.mask_on_write import text_masked_if_required
from clew.service.sessions.events import within_an_answer
from clew.service.sessions.info import SessionInfo, info
from clew.store.log.opening import Forking


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """What one of two sessions has that the other has not."""

    session: str
    total: int
    """How many events it has that the other has not; `events` can be fewer."""
    events: list[Event]
    facts: list[str]
    decisions: list[str]
    scratch: dict[str, msgspec.Raw]
    files: list[str]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Where two sessions part, and what each has since."""

    shared: int
    left: Side
    right: Side
    files_of_both: list[str] = []
    """The files that both touched since they part."""


@operation(right=Right.FORK, route="POST /sessions/{session}/forks")
def fork(
    context: Context,
    session: Session,
    *,
    at: Annotated[int, msgspec.Meta(ge=1, description="The last event to share. [default: the last there is]")]
    | None = None,
    title: Annotated[str, msgspec.Meta(description="[default: that of its parent]")] | None = None,
) -> SessionInfo:
    """Fork a session at an event (default: the last); the child shares everything up to it."""
    # The child reads all that its parent says.
    permit(context, Right.READ, session)
    title = None if title is None else text_masked_if_required(context, session.project, title)
    forking = Forking(parent=session, at=at, title=title, unmetered=_unmetered(context, session))
    child = context.store.open(forking, actor=context.principal)
    return info(context, child, context.store.head(child))


def _unmetered(context: Context, session: Session) -> int:
    """The money that its budget counts and that no program reported; without a budget in money, none."""
    head = context.store.head(session)
    if head.budget_cost_micros is None:
        return 0
    from clew.service.sessions.budget import unmetered

    return unmetered(context, session, head)


@operation(right=Right.READ, route="GET /sessions/{left}/diff/{right}", reads_views=True)
def diff(
    context: Context,
    left: Session,
    right: Session,
    *,
    limit: Annotated[int, msgspec.Meta(ge=0, description="At most so many events of each side. [default: all]")]
    | None = None,
) -> Difference:
    """Compare two sessions: where they part and what differs since."""
    store = context.store
    heads = {session.id: store.head(session).head for session in (left, right)}
    lines = [
        [msgspec.structs.replace(part, last=min(part.last, heads[session.id])) for part in store.lineage(session)]
        for session in (left, right)
    ]
    shared = parting(*lines)
    sides = [_side(context, session, shared, heads[session.id], limit) for session in (left, right)]
    both = sorted(set(sides[0].files) & set(sides[1].files))
    return Difference(shared=shared, left=_without(*sides), right=_without(*reversed(sides)), files_of_both=both)


def _side(context: Context, session: Session, shared: int, head: int, limit: int | None) -> Side:
    store = context.store
    total = head - shared
    most = total if limit is None else limit
    known = knowledge.knowledge(known_of(context, session))
    calls = store.read(session, after=shared, upto=head, kinds=(CallMade.kind,))
    return Side(
        session=session.id,
        total=total,
        events=within_an_answer(context, store.read(session, after=shared, upto=head, limit=most)),
        facts=[fact.text for fact in known.facts.values()],
        decisions=[decision.choice for decision in known.decisions.values()],
        scratch=known.scratch,
        files=[touched.what for touched in working_set(calls)],
    )


def _without(side: Side, other: Side) -> Side:
    facts, decisions = set(other.facts), set(other.decisions)
    return msgspec.structs.replace(
        side,
        facts=[fact for fact in side.facts if fact not in facts],
        decisions=[choice for choice in side.decisions if choice not in decisions],
        scratch={
            name: value
            for name, value in side.scratch.items()
            if bytes(value) != bytes(other.scratch.get(name, msgspec.Raw(b"")))
        },
        files=sorted(set(side.files) - set(other.files)),
    )
