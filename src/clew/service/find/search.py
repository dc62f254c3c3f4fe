"""Search: every word of every session, newest first or by relevance."""

import enum
from typing import Annotated

import msgspec

from clew.model.access import Right
from clew.model.errors import InvalidInput
from clew.model.passage import Role
from clew.model.query import Query, Snippet, parse
from clew.model.session import Session, State
from clew.service.find.filters import (
    Agent,
    File,
    Person,
    Project,
    Runtime,
    Since,
    Until,
    When,
    principal,
    project_key,
    times,
    touching,
)
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.store.projects import list_projects
from clew.views.contract import storable
from clew.views.search import MOST_COUNTED, Hit, Rank, Scope, Search
from clew.views.sessions import SessionRow, session_row
from clew.views.text import AGENT, OUTCOME, PERSON, PROJECT, ROLE, RUNTIME, SECOND_US, SESSION, TOOL, tag


class Outcome(enum.StrEnum):
    SUCCESS = "success"
    ERROR = "error"


class Order(enum.StrEnum):
    NEWEST = "newest"
    RELEVANT = "relevant"


class Place(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A passage that answers the query: where it stands, who said it as what, and the words around it."""

    session: str
    seq: int
    at: int
    role: str
    snippet: Snippet
    tool: str = ""
    failed: bool = False


class FoundSession(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session with hits: the newest few, and how many there are; `more` when there may be more than were counted."""

    session: str
    title: str
    project: str
    runtime: str
    agent: str
    state: str
    last_at: int
    hits: list[Place]
    count: int
    more: bool = False


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A page of what was found: grouped by `sessions`, or flat in `hits`.

    `total` is how many passages answer, None when only reading them all would tell; `total_is_exact` is false beyond
    what is counted. `next` goes on with the next page. `cut` is how many of the texts in question are so long that only
    their two ends are searched.
    """

    sessions: list[FoundSession]
    hits: list[Place]
    total: int | None
    total_is_exact: bool
    next: str
    cut: int
    notice: str = ""


@operation(right=Right.READ, route="GET /search", filters_by_reach=True, reads_views=True)
def search(
    context: Context,
    query: Annotated[str, msgspec.Meta(description='Words, "a phrase", a prefix*, -without.')] = "",
    *,
    project: Project = "",
    runtime: Runtime = "",
    agent: Agent = "",
    person: Person = "",
    role: Annotated[Role, msgspec.Meta(description="Only what was said as this.")] | None = None,
    tool: Annotated[str, msgspec.Meta(description="Only calls of this tool, and what they returned.")] = "",
    outcome: Annotated[Outcome, msgspec.Meta(description="Only what calls returned, with this outcome.")] | None = None,
    file: File = "",
    state: Annotated[State, msgspec.Meta(description="Only sessions in this state.")] | None = None,
    session: Session | None = None,
    when: When = "",
    since: Since = "",
    until: Until = "",
    order: Annotated[Order, msgspec.Meta(description="What comes first.")] = Order.NEWEST,
    flat: Annotated[bool, msgspec.Meta(description="One line for each hit, not grouped by session.")] = False,
    limit: Annotated[int, msgspec.Meta(ge=1, le=200, description="How many at the most.")] = 20,
    after: Annotated[str, msgspec.Meta(description="Go on from the `next` of the page before.")] = "",
) -> Found:
    """Search what was asked, answered, run and returned in all sessions."""
    wanted = parse(query)
    period = times(when, since, until)
    tags = [
        tag(kind, value)
        for kind, value in (
            (ROLE, role or ""), (RUNTIME, storable(runtime)), (AGENT, agent), (TOOL, tool), (OUTCOME, outcome or ""),
            (PERSON, principal(person) if person else ""),
        )
        if value
    ]  # fmt: skip
    if project:
        tags.append(tag(PROJECT, project_key(context, project, Right.READ)))
    if session is not None:
        tags.append(tag(SESSION, session.key))
    context.views.catch_up()
    scope = Scope(
        tags=tuple(tags), state=state or "", sessions=touching(context, file, Right.READ) if file else None,
        since=None if period.start is None else period.start // SECOND_US,
        # A second that has begun counts.
        until=None if period.end is None else -(-period.end // SECOND_US),
    )  # fmt: skip
    if not wanted.wanted and scope == Scope():
        raise InvalidInput(
            "nothing to look for: give a word, or at least a filter, as in: clew search --agent reviewer --when 'last "
            "week'"
        )
    scope = msgspec.structs.replace(scope, reach=context.reach(Right.READ))
    looking = Search(context.views, wanted, scope, store=context.store)
    return _found(context, looking, wanted, order, flat=flat, limit=limit, after=after)


def _found(
    context: Context, looking: Search, query: Query, order: Order, *, flat: bool, limit: int, after: str
) -> Found:
    sessions: list[FoundSession] = []
    hits: list[Hit] = []
    following = ""
    if order is Order.RELEVANT:
        ranked = looking.relevant(below=Rank(*_place(after, 2)) if after else None, limit=limit)
        hits = ranked.hits
        following = f"{ranked.following.points}-{ranked.following.id}" if ranked.following else ""
    elif flat:
        page = looking.newest(before=_place(after, 1)[0], limit=limit)
        hits, following = page.hits, str(page.following or "")
    else:
        before, newest = _place(after, 2)
        groups = looking.grouped(before=before, newest=newest, limit=limit)
        names = list_projects(context.store)
        lines = _lines(context, [group.key for group in groups.groups])
        sessions = [
            _session(lines[group.key], names, group.hits, group.count, not group.is_exact)
            for group in groups.groups
            if group.key in lines
        ]
        following = f"{groups.following}-{groups.newest}" if groups.following else ""
    total = looking.count()
    return Found(
        sessions=sessions,
        hits=[_shown(hit) for hit in hits],
        total=None if total is None else min(total, MOST_COUNTED),
        total_is_exact=total is not None and total <= MOST_COUNTED,
        next=following,
        cut=looking.cut(),
        notice=context.views.told(),
    )


def _place(after: str, count: int) -> list[int]:
    """The numbers that a page goes on from; 0 for the first page."""
    if not after:
        return [0] * count
    numbers = after.split("-")
    if len(numbers) != count or not all(one.isascii() and one.isdigit() and len(one) < 19 for one in numbers):
        raise InvalidInput(
            f"{after[:40]!r} is no place to go on from; use the `next` of the page before, with the same options"
        )
    return [int(one) for one in numbers]


def _lines(context: Context, keys: list[int]) -> dict[int, SessionRow]:
    with context.views.read() as tx:
        return {key: session_row(row) for key in keys for row in tx.run("sessions_row", session=key)}


def _session(line: SessionRow, names: dict[int, str], hits: list[Hit], count: int, more: bool) -> FoundSession:
    return FoundSession(
        session=line.id, title=line.title, project=names.get(line.project, ""), runtime=line.runtime, agent=line.agent,
        state=line.state, last_at=line.last_at, hits=[_shown(hit) for hit in hits], count=count, more=more,
    )  # fmt: skip


def _shown(hit: Hit) -> Place:
    return Place(
        session=hit.session, seq=hit.seq, at=hit.at, role=str(hit.role), snippet=hit.snippet, tool=hit.tool,
        failed=hit.failed,
    )  # fmt: skip
