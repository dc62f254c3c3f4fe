"""Sessions: open, list, show, and their lifecycle."""

from typing import Annotated, Any

import msgspec

from clew.model import knowledge
from clew.model.access import Right
from clew.model.errors import NotFound, WrongState
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
from clew.service.find import filters
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.privacy.mask_on_write import masked_if_required, text_masked_if_required
from clew.service.sessions.subagents import caller, subagents
from clew.store.access.agents import list_agents
from clew.store.log.opening import Opening
from clew.store.log.rows import EVERYTHING
from clew.views.contract import storable
from clew.views.sessions import SessionRow, session_row

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
    owner: str = ""
    private: bool = False


class SessionLine(SessionInfo, frozen=True, kw_only=True, omit_defaults=True):
    """A session in a list. `last_at` and `began_at` are when things happened, as the runtime's clock says.

    Turns, calls, errors, tokens and cost are the session's own; what it shares with the session it was forked from
    counts there. `cost_micros` is None when no price is known.
    """

    runtime: str = ""
    person: str = ""
    machine: str = ""
    folder: str = ""
    outcome: str = ""
    turns: int = 0
    calls: int = 0
    errors: int = 0
    began_at: int = 0
    tokens: int = 0
    cost_micros: int | None = None


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


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """A session after a change of state."""

    id: str
    state: str
    seq: int


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


def budget_of(tokens: int | None, usd: float | None) -> Budget | None:
    if tokens is None and usd is None:
        return None
    return Budget(tokens=tokens, cost_micros=None if usd is None else round(usd * 1_000_000))


@operation(right=Right.APPEND, route="POST /sessions", name="open")
def open_session(
    context: Context,
    *,
    title: Annotated[str, msgspec.Meta(description="What it is about.")] = "",
    agent: Annotated[str, msgspec.Meta(description="Which agent does the work.")] = "",
    project: Annotated[str, msgspec.Meta(description="What it belongs to.")] = "default",
    metadata: Annotated[dict[str, Any], msgspec.Meta(description="Anything else, as a JSON object.")] | None = None,
    budget_tokens: Annotated[int, msgspec.Meta(ge=1, description="Tokens it may use.")] | None = None,
    budget_usd: Annotated[float, msgspec.Meta(ge=0, le=1e9, description="US dollars it may cost.")] | None = None,
    private: Annotated[bool, msgspec.Meta(description="Only for you, and whom you share it with.")] = False,
) -> SessionInfo:
    """Open a session."""
    opened = context.store.open(
        Opening(
            project=project,
            agent=agent or _agent_of(context, project, metadata or {}),
            title=text_masked_if_required(context, project, title),
            metadata=text_masked_if_required(context, project, msgspec.json.encode(metadata or {}).decode()),
            budget=budget_of(budget_tokens, budget_usd),
            private=private,
        ),
        actor=context.principal,
    )
    return info(context, opened, context.store.head(opened))


def _agent_of(context: Context, project: str, metadata: dict[str, Any]) -> str:
    """The agent whose rules a session fits that says which program drives it."""
    runtime, path = metadata.get("runtime"), metadata.get("cwd")
    if not isinstance(runtime, str) or not runtime:
        return ""
    from clew.service.access.agents import agent_for

    known = list_agents(context.store)
    return agent_for(known, project=project, runtime=runtime, path=path if isinstance(path, str) else "")


@operation(right=Right.SEE, route="GET /sessions", filters_by_reach=True, reads_views=True)
def sessions(
    context: Context,
    *,
    project: filters.Project = "",
    agent: filters.Agent = "",
    person: filters.Person = "",
    runtime: filters.Runtime = "",
    machine: filters.Machine = "",
    state: Annotated[State, msgspec.Meta(description="Only sessions in this state.")] | None = None,
    file: filters.File = "",
    failed: Annotated[bool, msgspec.Meta(description="Only sessions with calls that failed.")] = False,
    when: filters.When = "",
    since: filters.Since = "",
    until: filters.Until = "",
    limit: Annotated[int, msgspec.Meta(ge=1, le=10_000, description="How many at the most.")] = 50,
    before: Session | None = None,
) -> list[SessionLine]:
    """List sessions, those with the latest activity first."""
    period = filters.times(when, since, until)
    context.views.catch_up()
    wanted: dict[str, Any] = {
        "project": filters.project_key(context, project) if project else None, "agent": storable(agent) or None,
        "person": storable(filters.principal(person)) if person else None, "runtime": storable(runtime) or None,
        "machine": storable(machine) or None,
        "state": str(state) if state else None, "since": period.start, "until": period.end,
        "failed": 1 if failed else None,
    }  # fmt: skip
    given = {name: value for name, value in wanted.items() if value is not None} | dict(context.reach(Right.SEE))
    touching = filters.touching(context, file, Right.SEE) if file else None
    with context.views.read() as tx:
        place = tx.run("sessions_row", session=before.key) if before else []
        if before and not place:
            raise NotFound(f"session {before.id} is in no list any more; begin again without --before")
        at, key = (place[0][18], place[0][0]) if place else (EVERYTHING, EVERYTHING)
        if touching is not None:
            given["keys"] = msgspec.json.encode(sorted(touching)).decode()
        lines = [session_row(row) for row in tx.run("sessions_page", before_at=at, before=key, limit=limit, **given)]
    return _with_heads(context, lines)


def _with_heads(context: Context, lines: list[SessionRow]) -> list[SessionLine]:
    """What the log itself says of the listed sessions is taken from there."""
    from clew.service.find.usage import costs

    spent = costs(context, [line.session for line in lines])
    listed = context.store.sessions(keys=[line.session for line in lines])
    by_key = {each.session.key: each for each in listed}
    found = []
    for line in lines:
        there = by_key[line.session]
        about = msgspec.structs.asdict(info(context, there.session, there.head))
        tokens, cost = spent.get(line.session, (0, None))
        about |= {
            "title": line.title, "last_at": line.last_at, "began_at": line.began_at, "runtime": line.runtime,
            "person": line.person, "machine": line.machine, "folder": line.folder, "outcome": line.outcome,
            "turns": line.turns, "calls": line.calls, "errors": line.errors, "tokens": tokens, "cost_micros": cost,
        }  # fmt: skip
        found.append(SessionLine(**about))
    return found


@operation(
    right=Right.READ, route="GET /sessions/{session}", reads_views=True, version=lambda detail: detail.session.head
)
def show(context: Context, session: Session) -> SessionDetail:
    """Show a session: its state, lineage, knowledge and working set."""
    store = context.store
    head = store.head(session)
    known = knowledge.fold(store.read(session, kinds=knowledge.KINDS))
    return SessionDetail(
        session=info(context, session, head),
        lineage=[
            Stretch(session=part.id, first=part.first, last=min(part.last, head.head))
            for part in store.lineage(session)
        ],
        forks=[(child.id, child.at) for child in store.children(session, context.reach(None))],
        subagent_of=caller(context, session),
        subagents=subagents(context, session),
        facts=list(known.facts.values()),
        decisions=list(known.decisions.values()),
        progress=known.progress,
        scratch=known.scratch,
        working_set=working_set(store.read(session, kinds=(CallMade.kind,))),
    )


@operation(right=Right.APPEND, route="POST /sessions/{session}/pause")
def pause(context: Context, session: Session, *, reason: Reason = "", lease: Epoch | None = None) -> Changed:
    """Pause a session; it takes nothing more until it is resumed."""
    return _change(context, session, SessionPaused(reason=reason), lease)


@operation(right=Right.APPEND, route="POST /sessions/{session}/resume")
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
            f"${head.spent_cost_micros / 1e6:.2f} used); raise the budget first",
            session=session.id,
            state=str(head.state),
            over_budget=True,
        )
    return _change(context, session, SessionResumed(reason=reason, runtime=runtime), lease)


@operation(right=Right.APPEND, route="POST /sessions/{session}/close")
def close(
    context: Context, session: Session, *, outcome: str = "completed", summary: str = "", lease: Epoch | None = None
) -> Changed:
    """Close a session with an outcome."""
    return _change(context, session, SessionClosed(outcome=outcome, summary=summary), lease)


@operation(right=Right.APPEND, route="POST /sessions/{session}/archive")
def archive(context: Context, session: Session, *, reason: Reason = "", lease: Epoch | None = None) -> Changed:
    """Archive a closed session: from then on it is read-only."""
    return _change(context, session, SessionArchived(reason=reason), lease)


@operation(right=Right.ADMINISTER, route="POST /sessions/{session}/budget")
def budget(
    context: Context,
    session: Session,
    *,
    tokens: Annotated[int, msgspec.Meta(ge=1, description="Tokens it may use.")] | None = None,
    usd: Annotated[float, msgspec.Meta(ge=0, le=1e9, description="US dollars it may cost.")] | None = None,
    unlimited: Annotated[bool, msgspec.Meta(description="Remove the budget.")] = False,
) -> SessionInfo:
    """Show or set what a session may use, in tokens and US dollars."""
    wanted = Budget() if unlimited else budget_of(tokens, usd)
    if wanted is not None:
        context.store.append(session, [Draft(body=BudgetSet(budget=wanted))], actor=context.principal)
    return info(context, session, context.store.head(session))


def _change(context: Context, session: Session, body: Body, lease: int | None) -> Changed:
    drafts = masked_if_required(context, session.project, [Draft(body=body)])
    appended = context.store.append(session, drafts, actor=context.principal, lease=lease)
    return Changed(id=session.id, state=str(context.store.head(session).state), seq=appended.seqs[0])
