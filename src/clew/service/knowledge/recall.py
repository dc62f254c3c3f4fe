"""Recalling facts, decisions and progress, of one session or of all."""

from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec

from clew.model.access import Right
from clew.model.errors import InvalidInput
from clew.model.events import DecisionMade, DecisionReversed, Event, FactLearned, FactRetired, ProgressNoted
from clew.model.query import Query, Term, keeps_order, parse
from clew.model.session import Session
from clew.model.words import words
from clew.service.find import filters as scopes
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.knowledge.terms import KINDS, Holds
from clew.views.search import MOST_LOOKED_AT, Hit, Scope, Search
from clew.views.text import KNOWN, PROJECT, tag


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
    known = sorted(standing_of(context, session), key=lambda one: -one.seq)
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
        standing[hit.key] = {one.seq: one for one in standing_of(context, listed.session)}
    return standing[hit.key].get(hit.seq)


def standing_of(context: Context, session: Session) -> Iterable[Recalled]:
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
