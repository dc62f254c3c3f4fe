"""Sessions: open, list, show, and their lifecycle."""

from typing import Annotated, Any

import msgspec

from clew.model import knowledge
from clew.model.access import Right
from clew.model.errors import WrongState
from clew.model.events import (
    Body,
    Budget,
    BudgetSet,
    CallMade,
    DecisionMade,
    Draft,
    FactLearned,
    ProgressNoted,
    SessionArchived,
    SessionClosed,
    SessionPaused,
    SessionResumed,
)
from clew.model.session import Head, Session, State
from clew.model.working_set import Touched, working_set
from clew.service.registry import Context, operation

Reason = Annotated[str, msgspec.Meta(description="Why; kept in the log.")]
Runtime = Annotated[str, msgspec.Meta(description="The program it goes on in.")]
Epoch = Annotated[int, msgspec.Meta(description="The epoch of the lease you hold.")]


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
    facts: list[FactLearned]
    decisions: list[DecisionMade]
    progress: ProgressNoted | None
    scratch: dict[str, msgspec.Raw]
    working_set: list[Touched]


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """A session after a change of state."""

    id: str
    state: str
    seq: int


def info(context: Context, session: Session, head: Head) -> SessionInfo:
    budget = head.budget
    held = head.holder is not None and head.lease_until > context.store.database.now()
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
    )


def budget_of(tokens: int | None, usd: float | None) -> Budget | None:
    if tokens is None and usd is None:
        return None
    return Budget(tokens=tokens, cost_micros=None if usd is None else round(usd * 1_000_000))


@operation(right=Right.APPEND, name="open")
def open_session(
    context: Context,
    *,
    title: Annotated[str, msgspec.Meta(description="What it is about.")] = "",
    agent: Annotated[str, msgspec.Meta(description="Which agent does the work.")] = "",
    project: Annotated[str, msgspec.Meta(description="What it belongs to.")] = "default",
    metadata: Annotated[dict[str, Any], msgspec.Meta(description="Anything else, as a JSON object.")] | None = None,
    budget_tokens: Annotated[int, msgspec.Meta(ge=1, description="Tokens it may use.")] | None = None,
    budget_usd: Annotated[float, msgspec.Meta(ge=0, description="US dollars it may cost.")] | None = None,
) -> SessionInfo:
    """Open a session."""
    opened = context.store.open_session(
        project=project,
        agent=agent,
        title=title,
        metadata=msgspec.json.encode(metadata or {}).decode(),
        budget=budget_of(budget_tokens, budget_usd),
        actor=context.principal,
    )
    return info(context, opened.session, context.store.head(opened.session))


@operation(right=Right.SEE)
def sessions(
    context: Context,
    *,
    project: Annotated[str, msgspec.Meta(description="Only this project.")] = "",
    agent: Annotated[str, msgspec.Meta(description="Only this agent.")] = "",
    state: State | None = None,
    limit: Annotated[int, msgspec.Meta(ge=1, description="How many at the most.")] = 50,
    before: Session | None = None,
) -> list[SessionInfo]:
    """List sessions, newest first."""
    found = context.store.sessions(project=project, agent=agent, state=state or "", before=before, limit=limit)
    return [info(context, one.session, one.head) for one in found]


@operation(right=Right.READ)
def show(context: Context, session: Session) -> SessionDetail:
    """Show a session: its state, lineage, knowledge and working set."""
    store = context.store
    head = store.head(session)
    known = knowledge.fold(store.read_kinds(session, knowledge.KINDS))
    return SessionDetail(
        session=info(context, session, head),
        lineage=[
            Stretch(session=part.id, first=part.first, last=min(part.last, head.head))
            for part in store.lineage(session)
        ],
        forks=store.children(session),
        facts=list(known.facts.values()),
        decisions=list(known.decisions.values()),
        progress=known.progress,
        scratch=known.scratch,
        working_set=working_set(store.read_kinds(session, (CallMade.kind,))),
    )


@operation(right=Right.APPEND)
def pause(context: Context, session: Session, *, reason: Reason = "", lease: Epoch | None = None) -> Changed:
    """Pause a session; it takes nothing more until it is resumed."""
    return _change(context, session, SessionPaused(reason=reason), lease)


@operation(right=Right.APPEND)
def resume(
    context: Context,
    session: Session,
    *,
    reason: Reason = "",
    runtime: Runtime = "",
    lease: Epoch | None = None,
) -> Changed:
    """Resume a paused or closed session, exactly as it was left."""
    head = context.store.head(session)
    if head.over_budget:
        raise WrongState(
            f"session {session.id} is over its budget ({head.spent_tokens:,} tokens, "
            f"${head.spent_cost_micros / 1e6:.2f} used); raise it first (`clew budget ID --tokens N` or `--usd X`)",
            session=session.id,
            state=str(head.state),
        )
    return _change(context, session, SessionResumed(reason=reason, runtime=runtime), lease)


@operation(right=Right.APPEND)
def close(
    context: Context, session: Session, *, outcome: str = "completed", summary: str = "", lease: Epoch | None = None
) -> Changed:
    """Close a session with an outcome."""
    return _change(context, session, SessionClosed(outcome=outcome, summary=summary), lease)


@operation(right=Right.APPEND)
def archive(context: Context, session: Session, *, reason: Reason = "", lease: Epoch | None = None) -> Changed:
    """Archive a closed session: from then on it is read-only."""
    return _change(context, session, SessionArchived(reason=reason), lease)


@operation(right=Right.ADMINISTER)
def budget(
    context: Context,
    session: Session,
    *,
    tokens: Annotated[int, msgspec.Meta(ge=1, description="Tokens it may use.")] | None = None,
    usd: Annotated[float, msgspec.Meta(ge=0, description="US dollars it may cost.")] | None = None,
    unlimited: Annotated[bool, msgspec.Meta(description="Remove the budget.")] = False,
) -> SessionInfo:
    """Show or set what a session may use, in tokens and US dollars."""
    wanted = Budget() if unlimited else budget_of(tokens, usd)
    if wanted is not None:
        context.store.append(session, [Draft(body=BudgetSet(budget=wanted))], actor=context.principal)
    return info(context, session, context.store.head(session))


def _change(context: Context, session: Session, body: Body, lease: int | None) -> Changed:
    appended = context.store.append(session, [Draft(body=body)], actor=context.principal, lease=lease)
    return Changed(id=session.id, state=str(context.store.head(session).state), seq=appended.seqs[0])
