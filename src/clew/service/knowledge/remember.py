"""The operations that record knowledge: facts, decisions and progress, as events of a session."""

from typing import Annotated

import msgspec

from clew.model import knowledge
from clew.model.access import Right
from clew.model.errors import InvalidInput, NotFound
from clew.model.events import Body, DecisionMade, DecisionReversed, Draft, FactLearned, FactRetired, ProgressNoted
from clew.model.ids import check_name, new_id
from clew.model.session import Session
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.knowledge.terms import LONGEST, Expect, Holds, Name, Reason, Text, Texts
from clew.service.privacy.mask_on_write import masked_if_required
from clew.service.privacy.masking import masked_for_caller
from clew.service.sessions.events import Seq
from clew.service.sessions.lifecycle import Epoch
from clew.store.log.plan import Appended


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """The recorded fact."""

    session: str
    fact: str
    seq: int


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """The recorded decision."""

    session: str
    decision: str
    seq: int


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """The session and seq of the event that was recorded."""

    session: str
    seq: int


@operation(right=Right.APPEND, route="POST /sessions/{session}/facts")
def remember(
    context: Context,
    session: Session,
    text: Text,
    *,
    scope: Annotated[Holds, msgspec.Meta(description="Where it holds.")] = Holds.SESSION,
    evidence: Annotated[list[Seq], msgspec.Meta(max_length=1000, description="Seqs of events that show it.")]
    | None = None,
    fact: Annotated[
        Name, msgspec.Meta(description="Its id; a fact with this id is replaced. [default: a new one]")
    ] = "",
    expect: Expect | None = None,
    lease: Epoch | None = None,
) -> Remembered:
    """Remember a fact: a claim worth recalling, with the events that show it."""
    _check_evidence(context, session, evidence or [])
    fact = check_name(fact, "a fact's id") or new_id()
    body = FactLearned(fact=fact, text=text, evidence=tuple(evidence or ()), scope=str(scope))
    return Remembered(session=session.id, fact=fact, seq=_add(context, session, body, expect, lease))


@operation(right=Right.APPEND, route="POST /sessions/{session}/decisions")
def decide(
    context: Context,
    session: Session,
    choice: Text,
    *,
    why: Annotated[str, msgspec.Meta(max_length=LONGEST, description="The reason.")] = "",
    rejected: Annotated[Texts, msgspec.Meta(description="What was considered and not chosen.")] | None = None,
    decision: Annotated[
        Name, msgspec.Meta(description="Its id; a decision with this id is replaced. [default: a new one]")
    ] = "",
    expect: Expect | None = None,
    lease: Epoch | None = None,
) -> Decided:
    """Record a decision: what was chosen, why, and what was rejected."""
    decision = check_name(decision, "a decision's id") or new_id()
    body = DecisionMade(decision=decision, choice=choice, why=why, rejected=tuple(rejected or ()))
    return Decided(session=session.id, decision=decision, seq=_add(context, session, body, expect, lease))


@operation(right=Right.APPEND, name="progress", route="POST /sessions/{session}/progress")
def note_progress(
    context: Context,
    session: Session,
    *,
    done: Annotated[str, msgspec.Meta(max_length=LONGEST, description="What is done.")] = "",
    next: Annotated[str, msgspec.Meta(max_length=LONGEST, description="What comes next.")] = "",
    open: Annotated[Texts, msgspec.Meta(description="Questions nobody has answered yet.")] | None = None,
    expect: Expect | None = None,
    lease: Epoch | None = None,
) -> Noted:
    """Note how far a session has come: what is done, what is next, what is open."""
    if not (done or next or open):
        raise InvalidInput("nothing to note: say what is done, what is next or what is open")
    body = ProgressNoted(done=done, next=next, open=tuple(open or ()))
    return Noted(session=session.id, seq=_add(context, session, body, expect, lease))


@operation(right=Right.APPEND, route="POST /sessions/{session}/facts/{fact}/retire")
def retire(
    context: Context,
    session: Session,
    fact: Name,
    *,
    reason: Reason = "",
    expect: Expect | None = None,
    lease: Epoch | None = None,
) -> Noted:
    """Retire a fact that holds no longer; it stays in the log and is not recalled any more."""
    _check_valid(context, session, "fact", fact)
    body = FactRetired(fact=fact, reason=reason)
    return Noted(session=session.id, seq=_add(context, session, body, expect, lease))


@operation(right=Right.APPEND, route="POST /sessions/{session}/decisions/{decision}/reverse")
def reverse(
    context: Context,
    session: Session,
    decision: Name,
    *,
    reason: Reason = "",
    expect: Expect | None = None,
    lease: Epoch | None = None,
) -> Noted:
    """Reverse a decision; it stays in the log and is not recalled any more."""
    _check_valid(context, session, "decision", decision)
    body = DecisionReversed(decision=decision, reason=reason)
    return Noted(session=session.id, seq=_add(context, session, body, expect, lease))


def _add(context: Context, session: Session, body: Body, expect: int | None, lease: int | None) -> int:
    added: Appended = context.store.append(
        session,
        masked_if_required(context, session.project, [Draft(body=body)]),
        actor=context.principal,
        expect=expect,
        lease=lease,
    )
    return added.seqs[0]


def _check_evidence(context: Context, session: Session, evidence: list[int]) -> None:
    head = context.store.head(session).head if evidence else 0
    if wrong := [seq for seq in evidence if not 1 <= seq <= head]:
        raise InvalidInput(
            f"evidence {wrong[0]} is not the seq of an event of session {session.id}; its events are 1 to {head}",
            session=session.id,
        )


def _check_valid(context: Context, session: Session, kind: str, id: str) -> None:
    # From the log itself: an append never waits for a view.
    events = map(masked_for_caller(context), context.store.read(session, kinds=knowledge.KINDS))
    valid_ids = {known.name for known in knowledge.of_events(events) if known.tier == kind}
    if id not in valid_ids:
        some = ", ".join(sorted(valid_ids)[:10]) or "none"
        raise NotFound(f"session {session.id} has no valid {kind} {id!r}; there are: {some}", session=session.id)
