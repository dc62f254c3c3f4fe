"""The operation `recall`: facts, decisions and progress, of one session or of all."""

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
from clew.service.privacy.masking import masked_for_caller
from clew.views.search import MOST_LOOKED_AT, Scope, Search
from clew.views.text import KNOWN, PROJECT, tag


class Recalled(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A fact, a decision or a progress note, and its session and seq.

    `text` is what was learned, chosen or done. `id` is the argument of `retire` and `reverse`.
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
    """A page of knowledge, newest first; `next` is the cursor of the next page."""

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
    parsed = parse(query)
    if session is not None:
        return _of_session(context, session, parsed, scope, limit, _cursor(after))
    return _of_all(context, parsed, project, scope, limit, _cursor(after))


def _of_session(
    context: Context, session: Session, query: Query, holds: Holds | None, limit: int, before: int
) -> Recall:
    """The valid knowledge of one session, read from its own history."""
    newest_first = sorted(valid_knowledge(context, session), key=lambda item: -item.seq)
    matching = [
        item
        for item in newest_first
        if (not before or item.seq < before) and _has_scope(item, holds) and _matches(item, query)
    ]
    return Recall(found=matching[:limit], next=str(matching[limit - 1].seq) if len(matching) > limit else "")


def _of_all(context: Context, query: Query, project: str, holds: Holds | None, limit: int, before: int) -> Recall:
    """The valid knowledge of all sessions: passages tagged as knowledge in the text index, checked in the log."""
    tags = [tag(KNOWN)]
    if project:
        tags.append(tag(PROJECT, scopes.project_key(context, project, Right.READ)))
    context.views.catch_up()
    scope = Scope(tags=tuple(tags), reach=context.reach(Right.READ))
    search = Search(context.views, query, scope, store=context.store, seen=masked_for_caller(context))
    valid: dict[int, dict[int, Recalled]] = {}
    matching: list[Recalled] = []
    looked_at = 0
    while len(matching) < limit and looked_at < MOST_LOOKED_AT:
        page = search.newest(before=before, limit=limit - len(matching))
        unread = {hit.key for hit in page.hits} - valid.keys()
        for listed in context.store.sessions(keys=unread) if unread else ():
            knowledge = valid_knowledge(context, listed.session)
            valid[listed.session.key] = {item.seq: item for item in knowledge}
        for hit in page.hits:
            # An item that was retired or reversed since is not valid any more.
            item = valid.get(hit.key, {}).get(hit.seq)
            if item is not None and _has_scope(item, holds):
                matching.append(item)
        before, looked_at = page.following, looked_at + len(page.hits)
        if not before:
            break
    # The index sorts by second, the events have microseconds.
    matching.sort(key=lambda item: (-item.at, -item.seq))
    return Recall(found=matching, next=str(before or ""), notice=context.views.pop_notice())


def valid_knowledge(context: Context, session: Session) -> Iterable[Recalled]:
    """The valid knowledge at a session's head: facts not retired, decisions not reversed, the last progress note."""
    valid: dict[tuple[str, str], Recalled] = {}
    for event in map(masked_for_caller(context), context.store.read(session, kinds=KINDS)):
        match event.body:
            case FactRetired(fact=id):
                valid.pop(("fact", id), None)
            case DecisionReversed(decision=id):
                valid.pop(("decision", id), None)
            case FactLearned() | DecisionMade() | ProgressNoted():
                item = _recalled(event, event.body)
                valid[item.kind, item.id] = item
            case _:
                pass  # The body was removed, or a newer clew wrote it.
    return valid.values()


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


def _has_scope(item: Recalled, scope: Holds | None) -> bool:
    return scope is None or item.scope == scope


def _matches(item: Recalled, query: Query) -> bool:
    """Whether an item matches a query, by the same rules as the text index."""
    texts = [text for text in (item.text, item.why, *item.rejected, item.next, *item.open) if text]
    item_words = set(words("\n".join(texts)))
    has = all(_contains(item_words, word) for term in query.wanted for word in _words_of(term))
    # Only single words: `keeps_order` checks excluded phrases.
    excluded = (term for term in query.unwanted if len(term.words) == 1)
    has_excluded = any(_contains(item_words, word) for term in excluded for word in _words_of(term))
    return has and not has_excluded and keeps_order(query, texts)


def _words_of(term: Term) -> Iterator[str]:
    """The words of a term; a prefix ends with a star."""
    *first, last = term.words
    yield from first
    yield f"{last}*" if term.prefix else last


def _contains(item_words: set[str], word: str) -> bool:
    if word.endswith("*"):
        return any(item_word.startswith(word[:-1]) for item_word in item_words)
    return word in item_words


def _cursor(after: str) -> int:
    """The number in a page's cursor; 0 for the first page."""
    if after and not (after.isascii() and after.isdigit() and len(after) < 19):
        raise InvalidInput(
            f"{after[:40]!r} is not a valid cursor; use the `next` of the page before, with the same options"
        )
    return int(after or 0)
