"""Search the text index: the passages that match a query, newest first or by relevance, at a bounded cost.

The index returns the passages that have all the words. Where word order matters, the search reads the text itself. One
search reads at most `MOST_LOOKED_AT` passages, newest first; the next page continues from its cursor. The index has a
long text in several stretches; such a text is one hit all the same.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import msgspec

from clew.model.events import CallMade, CallReturned, Event
from clew.model.passage import STRETCH, Passage, Role, passage_of
from clew.model.query import Query, Term, matched_groups, matches, parts_of, snippet, whole_of
from clew.model.session import Session
from clew.model.steps import end_step
from clew.model.words import words
from clew.store.derived import Parameters, Transaction
from clew.store.log.feed import EventReader, own_events_at
from clew.store.log.rows import EVERYTHING
from clew.store.reach import EVERYWHERE
from clew.store.store import Store
from clew.views.hits import Group, Groups, Hit, Hits, Rank, Ranked
from clew.views.sessions import status_parameters
from clew.views.text import LONG, PROJECT, ROLE, ROOM, SECOND_US, SESSION, first_id, index_query, tag
from clew.views.upkeep import Views

FIRST_PAGE = 50
PAGE = 500
# How many events are read together.
READ_TOGETHER = 64
# How many texts one search reads to check word order.
MOST_LOOKED_AT = 5000
# How many of the newest passages are ranked by relevance.
CANDIDATES = 300
# Counting stops here; a larger count is reported as "more than".
MOST_COUNTED = 1000
# How many sessions a query of the index lists by tag; more are filtered afterwards.
MOST_NAMED = 100

_WEIGHTS = {Role.ASKED: 1.3, Role.ANSWERED: 1.2, Role.NOTED: 1.5, Role.RUN: 1.0, Role.RETURNED: 0.8}


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """The scope of a search: required tags, projects and roles of which a passage has one, a period in seconds, and
    conditions on the session."""

    tags: tuple[str, ...] = ()
    projects: tuple[int, ...] = ()
    """The keys of one project: its own, and those of the projects that became part of it."""
    roles: tuple[Role, ...] = ()
    since: int | None = None
    until: int | None = None
    status: str = ""
    now: int = 0
    """When it is asked for sessions with a status."""
    sessions: frozenset[int] | None = None
    reach: Parameters = EVERYWHERE


class PassageRow(NamedTuple):
    """A passage in the index: the second in which its event happened, and the event."""

    id: int
    session: int
    seq: int
    at_s: int

    @property
    def event(self) -> tuple[int, int]:
        return self.session, self.seq


def _passage_rows(tx: Transaction, statement: str, parameters: Mapping[str, Any]) -> list[PassageRow]:
    return list(map(PassageRow._make, tx.run(statement, **parameters)))


class Search:
    """One query in one scope, over the current views."""

    def __init__(
        self,
        views: Views,
        query: Query,
        scope: Scope,
        *,
        store: Store | None = None,
        seen: Callable[[Event], Event] = lambda event: event,
        only_seen: bool = False,
        least: int = 0,
    ) -> None:
        """`store` is the log restricted to what the caller may read; `seen` gives an event as the caller may see it.

        With `only_seen` the query is matched against what the caller may see; the index, which has all words, only
        proposes passages. Otherwise a prefix search would recover a masked secret letter by letter. With `least` a
        passage needs only so many groups of the query's words.
        """
        self._views = views
        self._store = store or views.store
        self._seen = seen
        self._query = query
        self._only_seen = only_seen
        self._least = least
        # What excludes a passage is looked for in what the caller may see, too.
        self._proposing = Query(query.wanted) if only_seen else query
        self._scope = scope
        self._dialect = views.database.dialect
        self._sessions: dict[int, Session] = {}
        # A page of the index, how far it was gone through, and the events of it that were read.
        self._page_rows: list[PassageRow] = []
        self._number = 0
        self._read: dict[tuple[int, int], EventReader] = {}
        self._looked_at = 0
        self._last_looked_at = 0
        # Events that were read and do not match, and events that are hits already; a long text has several rows.
        self._rejected: set[tuple[int, int]] = set()
        self._hits: set[tuple[int, int]] = set()

    # Flat -------------------------------------------------------------------------------------------------------------

    def newest(self, *, before: int = 0, limit: int) -> Hits:
        """The newest hits before an id."""
        hits: list[Hit] = []
        last = 0
        with self._views.read() as tx:
            for row in self._rows(tx, before or EVERYTHING, first=lambda rows: rows[:limit]):
                if hit := self._new_hit(row):
                    if len(hits) == limit:
                        return Hits(hits=_by_time(hits), following=last)
                    hits.append(hit)
                last = row.id
        return Hits(hits=_by_time(hits), following=self._last_looked_at if self._gave_up else 0)

    def relevant(self, *, below: Rank | None = None, limit: int) -> Ranked:
        """The most relevant of the newest candidates, best first, below a rank."""
        ranked = sorted(((Rank(self.points(passage), row.id), row) for row, passage in self.candidates()), reverse=True)
        remaining = [pair for pair in ranked if below is None or pair[0] < below]
        page = remaining[:limit]
        self._read_events(row for _, row in page)
        return Ranked(
            hits=[hit for _, row in page if (hit := self.hit(row))],
            following=page[-1][0] if len(remaining) > limit else None,
        )

    def candidates(self, most: int = CANDIDATES) -> list[tuple[PassageRow, Passage]]:
        """The newest passages that match, each event once."""
        matching: dict[tuple[int, int], tuple[PassageRow, Passage]] = {}
        with self._views.read() as tx:
            for row in self._rows(tx, EVERYTHING):
                if row.event not in matching and (match := self._passage(row)) is not None:
                    matching[row.event] = row, match[2]
                if len(matching) == most:
                    break
        return list(matching.values())

    # By session -------------------------------------------------------------------------------------------------------

    def grouped(self, *, before: int = 0, newest: int = 0, limit: int, each: int = 3) -> Groups:
        """The sessions with the newest hits before an id, each with its first few.

        With `newest`, events that arrived after the first page move no session between pages.
        """
        before = before or EVERYTHING
        grouping = _Grouping(limit=limit, each=each)
        last = 0
        with self._views.read() as tx:
            for row in self._rows(tx, before, first=partial(grouping.first, most=limit * each)):
                key, newest = row.session, newest or row.id
                if grouping.wants(key) and (hit := self._new_hit(row)):
                    if grouping.is_new(key):
                        if before != EVERYTHING and self._has_newer(tx, key, before, newest):
                            grouping.earlier.add(key)
                            continue
                        if grouping.is_full:
                            break
                    grouping.hits.setdefault(key, []).append(hit)
                last = row.id
            else:
                last = self._last_looked_at if self._gave_up else 0
            counts = self._counts(tx)
        return Groups(groups=grouping.groups(counts, is_last_page=not last), following=last, newest=newest)

    def _counts(self, tx: Transaction) -> dict[int, int]:
        """The number of hits of each session; empty when computing it would read or count too much."""
        if not self._is_countable(tx):
            return {}
        rows = self._page(tx, EVERYTHING, MOST_COUNTED + 1)
        return Counter(key for key, _ in {row.event for row in rows}) if len(rows) <= MOST_COUNTED else {}

    def _has_newer(self, tx: Transaction, key: int, first: int, last: int) -> bool:
        """Whether a session has a hit in a range of ids."""
        rows = _passage_rows(tx, "hits", self._parameters(tx, last + 1, MOST_COUNTED, key=key, first=first))
        return any(self._passage(row) is not None for row in rows)

    # Counts -----------------------------------------------------------------------------------------------------------

    def hits_by_session(self) -> tuple[Counter[int], bool] | None:
        """The number of hits of each session among the newest, and whether these are all; None when counting requires
        reading every text."""
        if self._scope.sessions is not None:
            return None
        with self._views.read() as tx:
            if not self._is_countable(tx):
                return None
            rows = self._page(tx, EVERYTHING, MOST_COUNTED + 1)
        events = {row.event for row in rows[:MOST_COUNTED]}
        return Counter(key for key, _ in events), len(rows) <= MOST_COUNTED

    def count_tagged(self, values: Iterable[str]) -> dict[str, int]:
        """The number of hits that have each of these tags, up to `MOST_COUNTED` + 1."""
        with self._views.read() as tx:
            counts = {}
            for value in values:
                end_step()
                counts[value] = self._row_count(tx, self._parameters(tx, EVERYTHING, MOST_COUNTED + 1, more=(value,)))
        return counts

    def count(self) -> int | None:
        """The number of hits, up to `MOST_COUNTED` + 1; None when counting requires reading every text."""
        if self._scope.sessions is not None:
            return None
        with self._views.read() as tx:
            return self._count(tx, MOST_COUNTED + 1) if self._is_countable(tx) else None

    def _count(self, tx: Transaction, limit: int) -> int:
        parameters = self._parameters(tx, EVERYTHING, limit)
        if "match" not in parameters or self._has_long(tx):
            rows = self._page(tx, EVERYTHING, limit)
            return limit if len(rows) == limit else len({row.event for row in rows})
        return self._row_count(tx, parameters)

    def _row_count(self, tx: Transaction, parameters: dict[str, Any]) -> int:
        return count_rows(tx, self._dialect, parameters)

    def _has_long(self, tx: Transaction) -> bool:
        """Whether a text of several stretches is among what the index returns."""
        return self._row_count(tx, self._parameters(tx, EVERYTHING, 1, more=(tag(LONG),))) > 0

    def _is_countable(self, tx: Transaction) -> bool:
        """Whether the index alone decides. What it excludes can be in another stretch of a long text."""
        return self._is_exact and not (self._query.unwanted and self._has_long(tx))

    # Parts ------------------------------------------------------------------------------------------------------------

    @property
    def _gave_up(self) -> bool:
        return self._looked_at >= MOST_LOOKED_AT

    def _rows(
        self,
        tx: Transaction,
        before: int,
        first: Callable[[list[PassageRow]], Iterable[PassageRow]] = lambda rows: rows[:READ_TOGETHER],
    ) -> Iterator[PassageRow]:
        """Passages that have the words, newest first, until `MOST_LOOKED_AT` were read.

        The events of those that come `first` in a page are read with it.
        """
        inside = self._scope.sessions
        if inside == frozenset():
            return
        size = FIRST_PAGE
        while not self._gave_up:
            rows = self._page_rows = self._page(tx, before, size)
            self._read = {}
            self._read_events(first(rows))
            # Reading a long text counts for more, so the limit can be reached inside a page.
            for self._number, row in enumerate(rows):
                if self._looked_at >= MOST_LOOKED_AT:
                    return
                end_step()
                self._looked_at += 1
                self._last_looked_at = row.id
                if inside is not None and row.session not in inside:
                    continue
                if not self._only_seen or self._passage(row) is not None:
                    yield row
            if len(rows) < size:
                return
            before, size = rows[-1].id, PAGE

    def _page(self, tx: Transaction, before: int, limit: int) -> list[PassageRow]:
        parameters = self._parameters(tx, before, limit)
        return _passage_rows(tx, "hits" if "match" in parameters else "passages", parameters)

    def _parameters(
        self, tx: Transaction, before: int, limit: int, *, key: int = 0, first: int = 0, more: tuple[str, ...] = ()
    ) -> dict[str, Any]:  # fmt: skip
        scope = self._scope
        named = scope.sessions if scope.sessions is not None and len(scope.sessions) <= MOST_NAMED else frozenset()
        tags = (*scope.tags, *more, *((tag(SESSION, key),) if key else ()))
        parameters: dict[str, Any] = {"limit": limit, **bounds(tx, scope, before=before, first=first)}
        if self._query.wanted or tags or named or scope.roles or scope.projects:
            sessions = [tag(SESSION, session_key) for session_key in named]
            roles = [tag(ROLE, role) for role in scope.roles]
            projects = [tag(PROJECT, project) for project in scope.projects]
            parameters["match"] = index_query(
                self._dialect, self._proposing, tags=tags, any_of=(sessions, roles, projects), least=self._least
            )  # fmt: skip
        if scope.status:
            parameters |= status_parameters(scope.status, scope.now)
        return parameters

    def _read_events(self, rows: Iterable[PassageRow]) -> None:
        """Read the events of these passages together."""
        self._read |= own_events_at(self._store, {row.event for row in rows}, self._sessions)

    def _passage(self, row: PassageRow) -> tuple[Session, Event, Passage] | None:
        """The passage of a row; None when its event was removed or does not match after all."""
        if row.event in self._rejected:
            return None
        if row.event not in self._read:
            next_rows = self._page_rows[self._number : self._number + READ_TOGETHER]
            self._read_events([row, *(other for other in next_rows if other.event not in self._rejected)])
        reader = self._read.get(row.event)
        if reader is not None:
            session, event = reader.session, reader.event()
            # Either all rules apply to the event as it is, or all to what the caller sees of it.
            end_step()
            is_match = self._only_seen or self._is_decided or self._matches(passage_of(event.body))
            end_step()
            event = self._seen(event)
            end_step()
            passage = passage_of(event.body)
            if passage is not None and is_match and (not self._only_seen or self._matches(passage)):
                return session, event, passage
        self._rejected.add(row.event)
        return None

    @property
    def _is_decided(self) -> bool:
        """Whether a row of the index is a hit without a look at the text."""
        return self._query.is_exact and not self._query.unwanted and not self._least

    def _matches(self, passage: Passage | None) -> bool:
        if passage is None:
            return False
        self._looked_at += sum(map(len, passage.texts)) // STRETCH
        if self._least:
            return len(matched_groups(self._query, passage.texts)) >= self._least
        return matches(self._query, passage.texts)

    @property
    def _is_exact(self) -> bool:
        """Whether the index alone decides, except about texts in several stretches."""
        return self._query.is_exact and not (self._only_seen and self._query.wanted)

    def _new_hit(self, row: PassageRow) -> Hit | None:
        """The hit of a row; None for a further row of the same event."""
        if row.event in self._hits:
            return None
        self._hits.add(row.event)
        return self.hit(row)

    def hit(self, row: PassageRow) -> Hit | None:
        """The hit of a row; None when it does not match after all."""
        match = self._passage(row)
        if match is None:
            return None
        session, event, passage = match
        body = event.body
        return Hit(
            id=row.id, key=row.session, session=session.id, seq=event.seq, at=row.at_s * SECOND_US, role=passage.role,
            tool=body.tool if isinstance(body, CallMade) else "",
            failed=isinstance(body, CallReturned) and body.failed, snippet=snippet(self._query, passage.texts),
        )  # fmt: skip

    def points(self, passage: Passage) -> int:
        """The relevance of a passage: the frequency of the words relative to its length, weighted by role."""
        stream = words("\n".join(passage.texts))
        length = 0.25 + 0.75 * len(stream) / 100
        score = 0.0
        for group in self._query.wanted:
            often = max(_count_of(term, stream) for term in group) or 1
            score += often / (often + 1.2 * length)
        return round(score * _WEIGHTS[passage.role] * 1_000_000)


def _count_of(term: Term, stream: list[str]) -> int:
    """How often the rarest word of a term is among some words."""
    return min(
        max(stream.count(whole_of(word)), min(stream.count(part) for part in parts_of(word))) for word in term.words
    )


class _Grouping:
    """The sessions of one page, each with its first few hits."""

    def __init__(self, *, limit: int, each: int) -> None:
        self._limit = limit
        self._each = each
        self._uncounted: set[int] = set()
        self.hits: dict[int, list[Hit]] = {}
        self.earlier: set[int] = set()
        """Sessions that an earlier page already showed."""

    def wants(self, key: int) -> bool:
        """Whether the page still needs a hit of this session."""
        if len(self.hits.get(key, ())) >= self._each:
            self._uncounted.add(key)
            return False
        return key not in self.earlier

    def first(self, rows: list[PassageRow], most: int) -> list[PassageRow]:
        """Those of some passages that the page needs, if all of them are hits."""
        needed = {key: self._each - len(hits) for key, hits in self.hits.items()}
        first: list[PassageRow] = []
        for row in rows:
            left = needed.get(row.session, self._each)
            if left > 0 and row.session not in self.earlier:
                first.append(row)
                needed[row.session] = left - 1
            if len(needed) > self._limit or len(first) == most:
                break
        return first

    def is_new(self, key: int) -> bool:
        return key not in self.hits

    @property
    def is_full(self) -> bool:
        return len(self.hits) == self._limit

    def groups(self, counts: dict[int, int], *, is_last_page: bool) -> list[Group]:
        """The sessions by newest hit. `counts` has the sessions whose hits were all counted."""
        groups = [
            Group(
                key=key,
                hits=_by_time(hits),
                count=counts.get(key, len(hits)),
                is_exact=key in counts or (is_last_page and key not in self._uncounted),
            )
            for key, hits in self.hits.items()
        ]
        return sorted(groups, key=lambda group: (-group.hits[0].at, -group.hits[0].id))


def bounds(tx: Transaction, scope: Scope, *, before: int = EVERYTHING, first: int = 0) -> dict[str, Any]:
    """The ids between which the passages of a scope are, and its conditions on each."""
    parameters: dict[str, Any] = {"before": before, "first": first}
    if scope.since is not None:
        parameters["since"], parameters["first"] = scope.since, max(first, first_id(scope.since))
    if scope.until is not None:
        parameters["until"], parameters["before"] = scope.until, min(before, _beyond(tx, scope.until))
    return {**parameters, **scope.reach}


def count_rows(tx: Transaction, dialect: str, parameters: Mapping[str, Any]) -> int:
    """How many rows of the index match, up to a limit."""
    joined = {"joined": 1} if dialect == "lite" and parameters.keys() & {"since", "until", "status", "me"} else {}
    return int(tx.run("hits_count", **parameters, **joined)[0][0])


def _beyond(tx: Transaction, until: int) -> int:
    """An id above all passages before a time. Passages that did not fit in their hour have ids of later hours."""
    [(spilled,)] = tx.run("passage_spilled")
    return first_id(until - 1) + (1 + int(spilled)) * ROOM


def _by_time(hits: list[Hit]) -> list[Hit]:
    return sorted(hits, key=lambda hit: (-hit.at, -hit.id))
