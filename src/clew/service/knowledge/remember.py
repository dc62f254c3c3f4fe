"""Knowledge: what a session learned, decided and has come to, written as events and recalled across sessions."""

import enum
from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec

from clew.model.access import Right
from clew.model.errors import InvalidInput, NotFound
from clew.model.events import (
    Body,
    DecisionMade,
    DecisionReversed,
    Draft,
    Event,
    FactLearned,
    FactRetired,
    ProgressNoted,
)
from clew.model.ids import check_name, new_id
from clew.model.query import Query, Term, keeps_order, parse
from clew.model.session import Session
from clew.model.words import words
from clew.service.find import filters as scopes
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.privacy.mask_on_write import masked_if_required
from clew.service.sessions.events import Seq
from clew.service.sessions.lifecycle import Epoch
from clew.store.log.plan import Appended
from clew.views.search import MOST_LOOKED_AT, Hit, Scope, Search
from clew.views.text import KNOWN, PROJECT, tag

KINDS = tuple(body.kind for body in (FactLearned, FactRetired, DecisionMade, DecisionReversed, ProgressNoted))
# A thing to recall is a sentence or a few; what is longer belongs into the conversation.
LONGEST = 10_000


class Holds(enum.StrEnum):
    """Where a fact holds."""

    SESSION = "session"
    PROJECT = "project"
    EVERYWHERE = "everywhere"


Text = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST)]
Texts = Annotated[list[Text], msgspec.Meta(max_length=100)]
Name = Annotated[str, msgspec.Meta(max_length=200)]
Expect = Annotated[Seq, msgspec.Meta(description="The head you know; refused when it has moved on.")]
Reason = Annotated[str, msgspec.Meta(max_length=LONGEST, description="Why; kept in the log.")]


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """A fact as it was learned."""

    session: str
    fact: str
    seq: int


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """A decision as it was recorded."""

    session: str
    decision: str
    seq: int


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """Where something was written down."""

    session: str
    seq: int


class Recalled(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that is known, and from where: a fact, a decision, or how far a session has come.

    `text` is what was learned, chosen or done. `id` is what `retire` and `reverse` take.
    """

    kind: str
    session: str
    seq: int
    at: int
    who: str
    text: str
    id: str = ""
    scope: str = ""
    evidence: tuple[int, ...] = ()
    why: str = ""
    rejected: tuple[str, ...] = ()
    next: str = ""
    open: tuple[str, ...] = ()


class Recall(msgspec.Struct, frozen=True, kw_only=True):
    """A page of what is known, the newest first; `next` goes on with the next page."""

    found: list[Recalled]
    next: str
    notice: str = ""


# Writing --------------------------------------------------------------------------------------------------------------


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
    _must_stand(context, session, "fact", fact)
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
    _must_stand(context, session, "decision", decision)
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
            f"evidence {wrong[0]} is no event of session {session.id}; its events are 1 to {head}", session=session.id
        )


def _must_stand(context: Context, session: Session, kind: str, id: str) -> None:
    known = {one.id for one in _standing(context, session) if one.kind == kind}
    if id not in known:
        some = ", ".join(sorted(known)[:10]) or "none"
        raise NotFound(f"session {session.id} has no {kind} {id!r} that stands; there are: {some}", session=session.id)


# Recalling ------------------------------------------------------------------------------------------------------------


@operation(right=Right.READ, route="GET /facts", filters_by_reach=True, reads_views=True)
def recall(
    context: Context,
    query: Annotated[str, msgspec.Meta(description='Words, "a phrase", a prefix*, -without.')] = "",
    *,
    project: scopes.Project = "",
    session: Session | None = None,
    scope: Annotated[Holds, msgspec.Meta(description="Only facts that hold there.")] | None = None,
    limit: Annotated[int, msgspec.Meta(ge=1, le=200, description="How many at the most.")] = 20,
    after: Annotated[str, msgspec.Meta(description="Go on from the `next` of the page before.")] = "",
) -> Recall:
    """Recall facts, decisions and progress by words, the newest first.

    Across all sessions, or for one with all that its ancestors knew when it was forked. Retired facts, reversed
    decisions and earlier progress are not recalled.
    """
    wanted = parse(query)
    if session is not None:
        return _of_session(context, session, wanted, scope, limit, _place(after))
    return _of_all(context, wanted, project, scope, limit, _place(after))


def _of_session(
    context: Context, session: Session, query: Query, holds: Holds | None, limit: int, before: int
) -> Recall:
    """What one session knows, out of its own history."""
    known = sorted(_standing(context, session), key=lambda one: -one.seq)
    found = [
        one for one in known if (not before or one.seq < before) and _holds(one, holds) and _answers(one, query)
    ]  # fmt: skip
    return Recall(found=found[:limit], next=str(found[limit - 1].seq) if len(found) > limit else "")


def _of_all(context: Context, query: Query, project: str, holds: Holds | None, limit: int, before: int) -> Recall:
    """What all sessions know, out of the text index: what is tagged as knowledge there, as far as it stands."""
    tags = [tag(KNOWN)]
    if project:
        tags.append(tag(PROJECT, scopes.project_key(context, project, Right.READ)))
    context.views.catch_up()
    scope = Scope(tags=tuple(tags), reach=context.reach(Right.READ))
    looking = Search(context.views, query, scope, store=context.store)
    standing: dict[int, dict[int, Recalled]] = {}
    found: list[Recalled] = []
    looked_at = 0
    while len(found) < limit and looked_at < MOST_LOOKED_AT:
        page = looking.newest(before=before, limit=limit - len(found))
        for hit in page.hits:
            one = _if_it_stands(context, hit, standing)
            if one is not None and _holds(one, holds):
                found.append(one)
        before, looked_at = page.following, looked_at + len(page.hits)
        if not before:
            break
    # The index knows seconds; the events know more.
    found.sort(key=lambda one: (-one.at, -one.seq))
    return Recall(found=found, next=str(before or ""), notice=context.views.told())


def _if_it_stands(context: Context, hit: Hit, standing: dict[int, dict[int, Recalled]]) -> Recalled | None:
    """What was written there, if it still stands; `standing` remembers what each session knows."""
    if hit.key not in standing:
        [listed] = context.store.sessions(keys=[hit.key])
        standing[hit.key] = {one.seq: one for one in _standing(context, listed.session)}
    return standing[hit.key].get(hit.seq)


def _standing(context: Context, session: Session) -> Iterable[Recalled]:
    """What a session knows at its head: facts that were not retired, decisions not reversed, its last progress."""
    known: dict[tuple[str, str], Recalled] = {}
    for event in context.store.read(session, kinds=KINDS):
        match event.body:
            case FactRetired(fact=id):
                known.pop(("fact", id), None)
            case DecisionReversed(decision=id):
                known.pop(("decision", id), None)
            case FactLearned() | DecisionMade() | ProgressNoted():
                one = _recalled(event, event.body)
                known[one.kind, one.id] = one
            case _:
                pass  # Removed, or of a version that is not known here.
    return known.values()


def _recalled(event: Event, body: FactLearned | DecisionMade | ProgressNoted) -> Recalled:
    at = event.at if event.said_at is None else event.said_at
    match body:
        case FactLearned(fact=id, text=text):
            return Recalled(
                kind="fact", session=event.session, seq=event.seq, at=at, who=event.actor, text=text, id=id,
                scope=body.scope, evidence=body.evidence,
            )  # fmt: skip
        case DecisionMade(decision=id, choice=text):
            return Recalled(
                kind="decision", session=event.session, seq=event.seq, at=at, who=event.actor, text=text, id=id,
                why=body.why, rejected=body.rejected,
            )  # fmt: skip
        case ProgressNoted(done=text):
            return Recalled(
                kind="progress", session=event.session, seq=event.seq, at=at, who=event.actor, text=text,
                next=body.next, open=body.open,
            )  # fmt: skip


def _holds(one: Recalled, wanted: Holds | None) -> bool:
    return wanted is None or one.scope == wanted


def _answers(one: Recalled, query: Query) -> bool:
    """Whether it has the words of a query, as the text index would tell."""
    texts = [text for text in (one.text, one.why, *one.rejected, one.next, *one.open) if text]
    there = set(words("\n".join(texts)))
    has = all(_is_there(word, there) for term in query.wanted for word in _words_of(term))
    # Only words alone: a phrase that is not wanted is looked up in the text.
    alone = (term for term in query.unwanted if len(term.words) == 1)
    has_not = any(_is_there(word, there) for term in alone for word in _words_of(term))
    return has and not has_not and keeps_order(query, texts)


def _words_of(term: Term) -> Iterator[str]:
    """The words of a term; the beginning of a word ends with a star."""
    *first, last = term.words
    yield from first
    yield f"{last}*" if term.prefix else last


def _is_there(word: str, there: set[str]) -> bool:
    return any(one.startswith(word[:-1]) for one in there) if word.endswith("*") else word in there


def _place(after: str) -> int:
    """The number that a page goes on from; 0 for the first page."""
    if after and not (after.isascii() and after.isdigit() and len(after) < 19):
        raise InvalidInput(
            f"{after[:40]!r} is no place to go on from; use the `next` of the page before, with the same options"
        )
    return int(after or 0)
