"""The lifecycle of a session: open, pause, resume, close, archive."""

from typing import Annotated, Any

import msgspec

from clew.model.access import Right
from clew.model.errors import WrongState
from clew.model.events import (
    Body,
    Budget,
    Draft,
    SessionArchived,
    SessionClosed,
    SessionPaused,
    SessionResumed,
)
from clew.model.session import Session
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.privacy.mask_on_write import masked_if_required, text_masked_if_required
from clew.service.sessions.info import SessionInfo, info
from clew.store.access.agents import list_agents
from clew.store.log.opening import Opening

Reason = Annotated[str, msgspec.Meta(description="Why; kept in the log.")]
Runtime = Annotated[str, msgspec.Meta(description="The program it goes on in.")]
Epoch = Annotated[int, msgspec.Meta(description="The epoch of the lease you hold.")]


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """A session after a change of state."""

    id: str
    state: str
    seq: int


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
    """The agent whose rules fit a session that names its program."""
    runtime, path = metadata.get("runtime"), metadata.get("cwd")
    if not isinstance(runtime, str) or not runtime:
        return ""
    from clew.service.access.agent_rules import agent_for

    known = list_agents(context.store)
    return agent_for(known, project=project, runtime=runtime, path=path if isinstance(path, str) else "")


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
    if head.budget_cost_micros is not None:
        from clew.service.sessions.budget import with_all_counted

        head = with_all_counted(context, session)
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


def _change(context: Context, session: Session, body: Body, lease: int | None) -> Changed:
    drafts = masked_if_required(context, session.project, [Draft(body=body)])
    appended = context.store.append(session, drafts, actor=context.principal, lease=lease)
    return Changed(id=session.id, state=str(context.store.head(session).state), seq=appended.seqs[0])
