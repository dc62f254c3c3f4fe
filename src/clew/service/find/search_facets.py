"""The operation `search_facets`: how the hits of a search are spread over programs, projects, people and roles."""

from collections import Counter
from typing import Annotated

import msgspec

from clew.model.access import Right
from clew.model.passage import Role
from clew.model.query import parse
from clew.model.session import Session
from clew.service.find.filters import Agent, File, Person, Project, Runtime, Since, Starred, State, Tag, Until, When
from clew.service.find.search import Given, Outcome, Speaker, scope_of
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.privacy.masking import may_see_secrets
from clew.store.projects import list_projects
from clew.views.search import MOST_COUNTED, Search
from clew.views.sessions import session_row
from clew.views.text import OUTCOME, ROLE
from clew.views.text import tag as index_tag

MOST_VALUES = 8


class FacetCount(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A value that a search can be narrowed to, and how many of the hits have it; a project is in `project`, too."""

    facet: str
    value: str
    count: int
    is_exact: bool = True
    """False when the count stopped at its limit, or is of the newest hits alone."""
    project: str = ""


@operation(right=Right.READ, route="GET /search-facets", filters_by_reach=True, reads_views=True, hidden=True)
def search_facets(
    context: Context,
    query: Annotated[str, msgspec.Meta(description="The words of the search.")] = "",
    *,
    project: Project = "",
    runtime: Runtime = "",
    agent: Agent = "",
    person: Person = "",
    role: Speaker | None = None,
    tool: Annotated[str, msgspec.Meta(description="Only calls of this tool, and what they returned.")] = "",
    outcome: Outcome | None = None,
    file: File = "",
    state: State = None,
    tag: Tag = "",
    starred: Starred = False,
    session: Session | None = None,
    when: When = "",
    since: Since = "",
    until: Until = "",
) -> list[FacetCount]:
    """Count the hits of a search by program, project, person, role and outcome.

    Of many hits the newest are counted. The list is empty when counting requires reading every text.
    """
    parsed = parse(query)
    given = Given(
        project=project, runtime=runtime, agent=agent, person=person, role=role, tool=tool, outcome=outcome, file=file,
        state=state, tag=tag, starred=starred, session=session, when=when, since=since, until=until,
    )  # fmt: skip
    scope = scope_of(context, given, has_words=bool(parsed.wanted))
    only_seen = not may_see_secrets(context, project, session)
    search = Search(context.views, parsed, scope, store=context.store, only_seen=only_seen)
    counted = search.hits_by_session()
    if counted is None:
        return []
    hits, is_all = counted
    tagged = {("role", str(name)): index_tag(ROLE, name) for name in Role} | {
        ("outcome", str(name)): index_tag(OUTCOME, str(name)) for name in Outcome
    }
    counts = search.count_tagged(tagged.values())
    return _of_sessions(context, hits, is_all=is_all) + [
        FacetCount(facet=facet, value=value, count=min(count, MOST_COUNTED), is_exact=count <= MOST_COUNTED)
        for (facet, value), name in tagged.items()
        if (count := counts[name])
    ]


def _of_sessions(context: Context, hits: Counter[int], *, is_all: bool) -> list[FacetCount]:
    """The hits by what their sessions are: program, project and person, those with the most first."""
    names = list_projects(context.store)
    counts: dict[str, Counter[str]] = {"runtime": Counter(), "project": Counter(), "person": Counter()}
    keys = msgspec.json.encode(sorted(hits)).decode()
    with context.views.read() as tx:
        for row in map(session_row, tx.run("sessions_rows", keys=keys)):
            for facet, value in (
                ("runtime", row.runtime), ("project", names.get(row.project, "")), ("person", row.person),
            ):  # fmt: skip
                if value:
                    counts[facet][value] += hits[row.session]
    return [
        FacetCount(facet=facet, value=value, count=count, is_exact=is_all, project=value if facet == "project" else "")
        for facet, values in counts.items()
        # Each project of which something is counted is named: its log records that it was read.
        for value, count in values.most_common(None if facet == "project" else MOST_VALUES)
    ]
