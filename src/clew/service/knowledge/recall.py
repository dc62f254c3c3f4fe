"""The operation `recall`: what answers a question, in all that was said and done; or facts, decisions and progress."""

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import msgspec

from clew.model.access import Right
from clew.model.errors import InvalidInput
from clew.model.events import DecisionMade, Event, FactLearned, ProgressNoted
from clew.model.knowledge import Known, known_by
from clew.model.passage import Role
from clew.model.query import Query, matches, parse, snippet
from clew.model.session import Session
from clew.service.find import filters as scopes
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.knowledge.known import NEWEST, Place, known_anywhere, known_of
from clew.service.knowledge.terms import Holds
from clew.service.privacy.masking import masked_for_caller, may_see_secrets
from clew.views.question import understand
from clew.views.recalling import Found, Recalling
from clew.views.search import MOST_LOOKED_AT, Scope
from clew.views.text import KNOWN, PROJECT, SECOND_US, index_query, tag

# How many characters of a text an answer shows.
LONGEST_ANSWER = 300


class Recalled(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A fact, a decision, a progress note, or for a question anything else that was said or done; session and seq.

    `text` is what was learned, chosen, done or said. `id` is the argument of `retire` and `reverse`. What answers a
    question has a `score` up to 1, says `why` it was found, and has the `trust` that it deserves: `person` for what a
    person said, `agent` for what an agent said or did, `tool` for what a call returned.
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
    score: float = 0.0
    trust: str = ""


class Recall(msgspec.Struct, frozen=True, kw_only=True):
    """What answers a question, best first; or a page of knowledge, newest first, and the cursor of the `next` page."""

    found: list[Recalled]
    next: str
    notice: str = ""


@operation(right=Right.READ, route="GET /facts", filters_by_reach=True, reads_views=True)
def recall(
    context: Context,
    query: Annotated[str, msgspec.Meta(description="A question, in your own words.")] = "",
    *,
    project: scopes.Project = "",
    session: Session | None = None,
    known: Annotated[
        bool,
        msgspec.Meta(description='Only facts, decisions and progress with all words, "a phrase", a prefix*, -without.'),
    ] = False,
    scope: Annotated[Holds, msgspec.Meta(description="Only facts that hold there.")] | None = None,
    limit: Annotated[int, msgspec.Meta(ge=1, le=200, description="How many at the most.")] = 20,
    after: Annotated[str, msgspec.Meta(description="Go on from the `next` of the page before.")] = "",
    upto: Annotated[int, msgspec.Meta(ge=1, description="What the session knew at this event.")] | None = None,
) -> Recall:
    """Recall what answers a question, in everything that was said and done, the best first.

    Any of its words is enough, in each of its forms; the more and the rarer, the better. A time such as "last week"
    narrows it. When nothing fits, there is no answer. With `known`, `scope` or `session`, or without a question: facts,
    decisions and progress, the newest first; of one session with all that its ancestors knew when it was forked.
    Retired facts, reversed decisions and earlier progress are not recalled.
    """
    if query and not (known or scope or session or after or upto):
        return answers(context, query, project, limit)
    parsed = parse(query)
    if session is not None:
        of_session = known_of(context, session, upto=upto)
        return _of_session(context, of_session, parsed, scope, limit, _seq_cursor(after))
    if upto is not None:
        raise InvalidInput("upto is an event of one session; name the session, too")
    return _of_all(context, parsed, project, scope, limit, _place_cursor(after))


def answers(context: Context, text: str, project: str, limit: int) -> Recall:
    """What answers a question, best first."""
    question = understand(text, scopes.now())
    context.views.catch_up()
    period = question.period
    found = Recalling(
        context.views, question,
        Scope(
            projects=tuple(scopes.project_keys(context, project, Right.READ)) if project else (),
            since=None if period is None or period.start is None else period.start // SECOND_US,
            until=None if period is None or period.end is None else -(-period.end // SECOND_US),
            reach=context.reach(Right.READ),
        ),
        store=context.store, seen=masked_for_caller(context),
    ).best(limit)  # fmt: skip
    asked = Query(tuple((one.term,) for one in question.asked))
    return Recall(found=[_answer(one, asked) for one in found], next="", notice=context.views.pop_notice())


def _answer(found: Found, asked: Query) -> Recalled:
    """A passage as an answer: what it says around the words of the question, and why it was found."""
    event = found.event
    reasons = [f"has {', '.join(found.words)}"] if found.words else []
    reasons += [f"near {', '.join(found.nearby)}"] if found.nearby else []
    item = next(recallable([known]), None) if (known := known_by(event)) is not None else None
    if item is None:
        item = Recalled(
            kind=str(found.passage.role), session=event.session, seq=event.seq, at=found.at_s * SECOND_US,
            who=event.actor, text=snippet(asked, found.passage.texts, LONGEST_ANSWER).text,
        )  # fmt: skip
    else:
        text = _in_a_sentence(item)
        text = text if len(text) <= LONGEST_ANSWER else snippet(asked, [text], LONGEST_ANSWER).text
        item = msgspec.structs.replace(item, text=text, rejected=(), next="", open=())
    return msgspec.structs.replace(item, why="; ".join(reasons), score=found.score, trust=_trust(found, event))


def _in_a_sentence(item: Recalled) -> str:
    """What was learned, chosen with its reason and what was not, or done with what is next and open."""
    parts = [f"{item.text}, because {item.why}" if item.why else item.text]
    parts += [f"not {', '.join(item.rejected)}"] if item.rejected else []
    parts += [f"next: {item.next}"] if item.next else []
    parts += [f"open: {'; '.join(item.open)}"] if item.open else []
    return "; ".join(filter(None, parts))


def _trust(found: Found, event: Event) -> str:
    """Where it came from: a person, an agent, or what a call returned."""
    if found.passage.role is Role.RETURNED:
        return "tool"
    return "person" if found.passage.role is Role.ASKED or event.actor.startswith("person:") else "agent"


def _of_session(
    context: Context, known: list[Known], query: Query, holds: Holds | None, limit: int, before: int
) -> Recall:
    """The valid knowledge of one session, with what it inherited."""
    matching = [
        item
        for item in sorted(recallable(known), key=lambda item: -item.seq)
        if (not before or item.seq < before) and _has_scope(item, holds) and _matches(item, query)
    ]
    return Recall(
        found=matching[:limit],
        next=str(matching[limit - 1].seq) if len(matching) > limit else "",
        notice=context.views.pop_notice(),
    )


def _of_all(context: Context, query: Query, project: str, holds: Holds | None, limit: int, before: Place) -> Recall:
    """The valid knowledge of all sessions in reach: one query, and more of them only if hits do not match after all."""
    filters = dict(context.reach(Right.READ))
    projects: list[str] = []
    if project:
        keys = scopes.project_keys(context, project, Right.READ)
        filters |= scopes.in_project(keys)
        projects = [tag(PROJECT, key) for key in keys]
    if holds is not None:
        filters["scope"] = str(holds)
    context.views.catch_up()
    # The index has the words of secrets, too; what excludes an item is looked for in what the caller may see.
    proposing = query if may_see_secrets(context, project) else Query(query.wanted)
    match = (
        index_query(context.views.database.dialect, proposing, tags=[tag(KNOWN)], any_of=[projects])
        if query.wanted
        else ""
    )
    # One more than asked for shows whether there is another page.
    found, end = _found(context, query, match, filters, before=before, limit=limit + 1)
    following = found[limit - 1][0] if len(found) > limit else end
    return Recall(
        found=[item for _, item in found[:limit]],
        next="" if following is None else ".".join(map(str, following)),
        notice=context.views.pop_notice(),
    )


def _found(
    context: Context, query: Query, match: str, filters: dict[str, Any], *, before: Place, limit: int
) -> tuple[list[tuple[Place, Recalled]], Place | None]:
    """What matches, each with its place, and the place to go on from; None at the end."""
    found: list[tuple[Place, Recalled]] = []
    looked_at = 0
    while len(found) < limit and looked_at < MOST_LOOKED_AT:
        most = limit - len(found)
        page = known_anywhere(context, match=match, before=before, filters=filters, limit=most)
        # The index has no order of words, and has what is masked for the caller.
        found += [(place, item) for place, known in page for item in recallable([known]) if _matches(item, query)]
        if len(page) < most:
            return found, None
        before, looked_at = page[-1][0], looked_at + len(page)
    return found, before


def recallable(known: Iterable[Known]) -> Iterator[Recalled]:
    """Facts, decisions and progress; scratch is not recalled."""
    for one in known:
        about: dict[str, Any] = {"session": one.session, "seq": one.seq, "at": one.at, "who": one.who}
        match one.body:
            case FactLearned(fact=id, text=text, scope=scope, evidence=evidence):
                yield Recalled(kind="fact", text=text, id=id, scope=scope, evidence=evidence, **about)
            case DecisionMade(decision=id, choice=text, why=why, rejected=rejected):
                yield Recalled(kind="decision", text=text, id=id, why=why, rejected=rejected, **about)
            case ProgressNoted(done=text, next=following, open=questions):
                yield Recalled(kind="progress", text=text, next=following, open=questions, **about)
            case _:
                pass


def _has_scope(item: Recalled, scope: Holds | None) -> bool:
    return scope is None or item.scope == scope


def _texts(item: Recalled) -> list[str]:
    return [text for text in (item.text, item.why, *item.rejected, item.next, *item.open) if text]


def _matches(item: Recalled, query: Query) -> bool:
    return matches(query, _texts(item))


def _seq_cursor(after: str) -> int:
    """The number in a page's cursor; 0 for the first page."""
    if after and not (after.isascii() and after.isdigit() and len(after) < 19):
        raise _wrong(after)
    return int(after or 0)


def _place_cursor(after: str) -> Place:
    """The place in a page's cursor; the newest for the first page."""
    if not after:
        return NEWEST
    match = _PLACE.fullmatch(after)
    if match is None or any(abs(int(number)) > NEWEST.at for number in match.groups()):
        raise _wrong(after)
    at, session, seq = map(int, match.groups())
    return Place(at, session, seq)


_PLACE = re.compile(r"(-?\d{1,19})\.(\d{1,19})\.(\d{1,19})", re.ASCII)


def _wrong(after: str) -> InvalidInput:
    return InvalidInput(
        f"{after[:40]!r} is not a valid cursor; use the `next` of the page before, with the same options"
    )
