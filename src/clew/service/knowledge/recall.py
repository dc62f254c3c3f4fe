"""The operation `recall`: facts, decisions and progress, of one session or of all."""

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import msgspec

from clew.model.access import Right
from clew.model.errors import InvalidInput
from clew.model.events import DecisionMade, FactLearned, ProgressNoted
from clew.model.knowledge import Known
from clew.model.query import Query, matches, parse
from clew.model.session import Session
from clew.service.find import filters as scopes
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.knowledge.known import NEWEST, Place, known_anywhere, known_of
from clew.service.knowledge.terms import Holds
from clew.service.privacy.masking import may_see_secrets
from clew.views.search import MOST_LOOKED_AT
from clew.views.text import KNOWN, PROJECT, index_query, tag


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
    query: Annotated[str, msgspec.Meta(description='Words, "a phrase", a prefix*, this OR that, -without.')] = "",
    *,
    project: scopes.Project = "",
    session: Session | None = None,
    scope: Annotated[Holds, msgspec.Meta(description="Only facts that hold there.")] | None = None,
    limit: Annotated[int, msgspec.Meta(ge=1, le=200, description="How many at the most.")] = 20,
    after: Annotated[str, msgspec.Meta(description="Go on from the `next` of the page before.")] = "",
    upto: Annotated[int, msgspec.Meta(ge=1, description="What the session knew at this event.")] | None = None,
) -> Recall:
    """Recall facts, decisions and progress by words, the newest first.

    Across all sessions, or for one with all that its ancestors knew when it was forked. Retired facts, reversed
    decisions and earlier progress are not recalled.
    """
    parsed = parse(query)
    if session is not None:
        known = known_of(context, session, upto=upto)
        return _of_session(context, known, parsed, scope, limit, _seq_cursor(after))
    if upto is not None:
        raise InvalidInput("upto is an event of one session; name the session, too")
    return _of_all(context, parsed, project, scope, limit, _place_cursor(after))


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
