"""Search: every word of every session, newest first or by relevance."""

import enum
from collections.abc import Callable
from typing import Annotated, Any

import msgspec

from clew.model.access import Right
from clew.model.dates import Period
from clew.model.errors import InvalidInput
from clew.model.passage import Role
from clew.model.query import Query, Snippet, parse
from clew.model.session import Session
from clew.service.find.filters import (
    Agent,
    File,
    Person,
    Project,
    Runtime,
    Since,
    Starred,
    State,
    Tag,
    Until,
    When,
    labelled,
    principal,
    project_keys,
    runtime_name,
    times,
    touching,
)
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.privacy.masking import masked_for_caller, may_see_secrets
from clew.store.projects import list_projects
from clew.views.contract import storable
from clew.views.hits import Hit, Rank
from clew.views.partial import best_partial
from clew.views.search import MOST_COUNTED, Scope, Search
from clew.views.sessions import SessionRow, session_row
from clew.views.text import AGENT, OUTCOME, PERSON, RUNTIME, SECOND_US, SESSION, TOOL
from clew.views.text import tag as index_tag

# How many hits of a session a page shows.
EACH = 3


class Speaker(enum.StrEnum):
    """The roles of passages, and the names that programs give to those who speak."""

    ASKED = "asked"
    ANSWERED = "answered"
    RUN = "run"
    RETURNED = "returned"
    NOTED = "noted"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


_ROLES = {Speaker.USER: (Role.ASKED,), Speaker.ASSISTANT: (Role.ANSWERED,), Speaker.TOOL: (Role.RUN, Role.RETURNED)}


class Outcome(enum.StrEnum):
    SUCCESS = "success"
    ERROR = "error"


class Order(enum.StrEnum):
    NEWEST = "newest"
    RELEVANT = "relevant"


class SearchHit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A passage that matches the query: its session, seq and role, and the words around the match."""

    session: str
    seq: int
    at: int
    role: str
    snippet: Snippet
    tool: str = ""
    failed: bool = False


class SessionHits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session with hits: its newest hits and their number; `more` says that there may be more."""

    session: str
    title: str
    project: str
    runtime: str
    agent: str
    state: str
    last_at: int
    hits: list[SearchHit]
    count: int
    more: bool = False


class SearchPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of results: grouped by session in `sessions`, or flat in `hits`.

    `total` is the number of hits, None when counting requires reading every text; `total_is_exact` is false when the
    count stopped at its limit. `next` is the cursor of the next page. With `partial` no passage has all the words; the
    hits are those that have the most of them, best first, on one page and not counted.
    """

    sessions: list[SessionHits]
    hits: list[SearchHit]
    total: int | None
    total_is_exact: bool
    next: str
    partial: bool = False
    notice: str = ""


@operation(right=Right.READ, route="GET /search", filters_by_reach=True, reads_views=True)
def search(
    context: Context,
    query: Annotated[str, msgspec.Meta(description='Words, "a phrase", a prefix*, this OR that, -without.')] = "",
    *,
    project: Project = "",
    runtime: Runtime = "",
    agent: Agent = "",
    person: Person = "",
    role: Annotated[Speaker, msgspec.Meta(description="Only what was said as this; a tool is run and returns.")]
    | None = None,
    tool: Annotated[str, msgspec.Meta(description="Only calls of this tool, and what they returned.")] = "",
    outcome: Annotated[Outcome, msgspec.Meta(description="Only what calls returned, with this outcome.")] | None = None,
    file: File = "",
    state: State = None,
    tag: Tag = "",
    starred: Starred = False,
    session: Session | None = None,
    when: When = "",
    since: Since = "",
    until: Until = "",
    order: Annotated[Order, msgspec.Meta(description="What comes first.")] = Order.NEWEST,
    flat: Annotated[bool, msgspec.Meta(description="One line for each hit, not grouped by session.")] = False,
    limit: Annotated[int, msgspec.Meta(ge=1, le=200, description="How many at the most.")] = 20,
    after: Annotated[str, msgspec.Meta(description="Go on from the `next` of the page before.")] = "",
) -> SearchPage:
    """Search what was asked, answered, run and returned in all sessions.

    A hit has every word, in any case: lock error. One of two: lock OR mutex. Next to each other: "database is
    locked". The beginning of a word: lock*. Without a word: lock -test. An identifier or a path is found by its parts:
    getUser, billing.py. If no passage has every word, those that have the most are shown and called partial.
    """
    parsed = parse(query)
    scope = scope_of(
        context, Given(
            project=project, runtime=runtime, agent=agent, person=person, role=role, tool=tool, outcome=outcome,
            file=file, state=state, tag=tag, starred=starred, session=session, when=when, since=since, until=until,
        ), has_words=bool(parsed.wanted),
    )  # fmt: skip
    only_seen = not may_see_secrets(context, project, session)

    def search_with(query: Query, least: int = 0) -> Search:
        return Search(
            context.views, query, scope, store=context.store, seen=masked_for_caller(context), only_seen=only_seen,
            least=least,
        )  # fmt: skip

    page = _page(context, search_with(parsed), order, flat=flat, limit=limit, after=after)
    is_last_try = bool(page.sessions or page.hits or page.next or after) or len(parsed.wanted) < 2
    return page if is_last_try else _partial_page(context, page, parsed, search_with, limit, order=order, flat=flat)


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What a search is narrowed to: what `search` and `search_facets` have in common."""

    project: str
    runtime: str
    agent: str
    person: str
    role: Speaker | None
    tool: str
    outcome: Outcome | None
    file: str
    state: State
    tag: str
    starred: bool
    session: Session | None
    when: str
    since: str
    until: str


def scope_of(context: Context, given: Given, *, has_words: bool) -> Scope:
    """The scope of a search, on views that are up to date; `InvalidInput` without words and filters."""
    runtime = runtime_name(context, given.runtime)
    period = times(given.when, given.since, given.until)
    tags = _tags(
        {
            RUNTIME: storable(runtime), AGENT: given.agent, TOOL: given.tool, OUTCOME: given.outcome or "",
            PERSON: principal(given.person) if given.person else "",
            SESSION: given.session.key if given.session else "",
        }
    )  # fmt: skip
    projects = tuple(project_keys(context, given.project, Right.READ)) if given.project else ()
    context.views.catch_up()
    start, end = _seconds(period)
    scope = Scope(
        tags=tags, projects=projects, roles=_roles(given.role), since=start, until=end,
        **_status(context, given.state), sessions=_sessions(context, given.file, given.tag, starred=given.starred),
    )  # fmt: skip
    if not has_words and scope == Scope():
        raise InvalidInput(
            "nothing to look for: give a word, or at least a filter, as in: clew search --agent reviewer --when 'last "
            "week'"
        )
    return msgspec.structs.replace(scope, reach=context.reach(Right.READ))


def _sessions(context: Context, file: str, tag: str, *, starred: bool) -> frozenset[int] | None:
    """The sessions that touched a file and have these labels; None when neither is asked for."""
    touched = touching(context, file, Right.READ) if file else None
    chosen = labelled(context, Right.READ, tag=tag, starred=starred)
    return chosen if touched is None else touched if chosen is None else touched & chosen


def _tags(values: dict[str, str | int]) -> tuple[str, ...]:
    return tuple(index_tag(kind, value) for kind, value in values.items() if value != "")


def _seconds(period: Period) -> tuple[int | None, int | None]:
    """A period in seconds; the second in which it ends is included."""
    start = None if period.start is None else period.start // SECOND_US
    return start, None if period.end is None else -(-period.end // SECOND_US)


def _roles(role: Speaker | None) -> tuple[Role, ...]:
    if role is None:
        return ()
    return _ROLES[role] if role in _ROLES else (Role(role),)


def _status(context: Context, state: State) -> dict[str, Any]:
    return {"status": str(state), "now": context.store.now()} if state else {}


def _page(context: Context, query_run: Search, order: Order, *, flat: bool, limit: int, after: str) -> SearchPage:
    sessions: list[SessionHits] = []
    hits: list[Hit] = []
    following = ""
    if order is Order.RELEVANT:
        ranked = query_run.relevant(below=Rank(*_cursor(after, 2)) if after else None, limit=limit)
        hits = ranked.hits
        following = f"{ranked.following.points}-{ranked.following.id}" if ranked.following else ""
    elif flat:
        page = query_run.newest(before=_cursor(after, 1)[0], limit=limit)
        hits, following = page.hits, str(page.following or "")
    else:
        before, newest = _cursor(after, 2)
        groups = query_run.grouped(before=before, newest=newest, limit=limit, each=EACH)
        names = list_projects(context.store)
        lines = _lines(context, [group.key for group in groups.groups])
        sessions = [
            _session(lines[group.key], names, group.hits, group.count, more=not group.is_exact)
            for group in groups.groups
            if group.key in lines
        ]
        following = f"{groups.following}-{groups.newest}" if groups.following else ""
    total = query_run.count()
    return SearchPage(
        sessions=sessions,
        hits=[_shown(hit) for hit in hits],
        total=None if total is None else min(total, MOST_COUNTED),
        total_is_exact=total is not None and total <= MOST_COUNTED,
        next=following,
        notice=context.views.pop_notice(),
    )


def _partial_page(
    context: Context, empty: SearchPage, query: Query, search_with: Callable[[Query, int], Search], limit: int, *,
    order: Order, flat: bool,
) -> SearchPage:  # fmt: skip
    """The best partial matches in place of an empty page, with the sessions of the best hits first."""
    hits = best_partial(query, search_with, limit)
    if not hits:
        return empty
    if flat or order is Order.RELEVANT:
        shown = [_shown(hit) for hit in hits]
        return msgspec.structs.replace(empty, total=None, total_is_exact=False, partial=True, hits=shown)
    by_session: dict[int, list[Hit]] = {}
    for hit in hits:
        by_session.setdefault(hit.key, []).append(hit)
    lines = _lines(context, list(by_session))
    names = list_projects(context.store)
    sessions = [
        _session(lines[key], names, own[:EACH], len(own), more=False) for key, own in by_session.items() if key in lines
    ]
    return msgspec.structs.replace(empty, total=None, total_is_exact=False, partial=True, sessions=sessions)


def _cursor(after: str, count: int) -> list[int]:
    """The numbers in a page's cursor; 0 for the first page."""
    if not after:
        return [0] * count
    numbers = after.split("-")
    if len(numbers) != count or not all(
        number.isascii() and number.isdigit() and len(number) < 19 for number in numbers
    ):
        raise InvalidInput(
            f"{after[:40]!r} is not a valid cursor; use the `next` of the page before, with the same options"
        )
    return [int(number) for number in numbers]


def _lines(context: Context, keys: list[int]) -> dict[int, SessionRow]:
    with context.views.read() as tx:
        rows = tx.run("sessions_rows", keys=msgspec.json.encode(keys).decode())
    return {row.session: row for row in map(session_row, rows)}


def _session(line: SessionRow, names: dict[int, str], hits: list[Hit], count: int, *, more: bool) -> SessionHits:
    return SessionHits(
        session=line.id, title=line.title, project=names.get(line.project, ""), runtime=line.runtime, agent=line.agent,
        state=line.state, last_at=line.last_at, hits=[_shown(hit) for hit in hits], count=count, more=more,
    )  # fmt: skip


def _shown(hit: Hit) -> SearchHit:
    return SearchHit(
        session=hit.session, seq=hit.seq, at=hit.at, role=str(hit.role), snippet=hit.snippet, tool=hit.tool,
        failed=hit.failed,
    )  # fmt: skip
