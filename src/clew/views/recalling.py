"""Rank passages by a question: any of its words is enough, and the more of them and the rarer, the better.

The index proposes the passages with the most weight; what they say is then read and weighed: each passage by itself,
with what stands around it, and with the session that it is in. An answer is seldom in the words of the question, and
what comes before and after it often is. Rarity is counted among the passages that the caller may see: the index has the
words of secrets, too, and a rank must not depend on them.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from math import log
from typing import Any, NamedTuple

import msgspec

from clew.model.events import DecisionMade, Event, FactLearned, ProgressNoted
from clew.model.passage import Passage, Role, passage_of
from clew.model.query import Query, Term
from clew.model.session import Session
from clew.model.steps import end_step
from clew.model.words import SEAM, stream
from clew.store.derived import Transaction
from clew.store.log.feed import end_position, own_events_at
from clew.store.store import Store
from clew.views.question import Asked, Question
from clew.views.search import PassageRow, Scope, bounds, count_rows
from clew.views.text import PROJECT, index_query, tag
from clew.views.upkeep import Views

# How many passages the index proposes, and how many of them are read.
PROPOSED = 600
READ = 200
# More than so many passages make a word one that proposes nothing, if there are rarer ones.
COMMON = 20_000
# So much of a text is weighed.
LONGEST_TEXT = 40_000
# How far apart two events of a session are that stand next to each other, and near each other.
NEXT, NEAR = 2, 6
# What a passage weighs by itself, with those next to it, with those near it, and with its session.
SHARES = (0.5, 1.0, 0.5, 0.6)
# A further hit of the same session, and one beside another, tells less.
FURTHER, BESIDE = 0.92, 0.6
# At least this share of what the question asks for is near a hit, or there is none.
LEAST_COVERED = 0.4
ROLE_WEIGHTS = {Role.ASKED: 1.3, Role.ANSWERED: 1.2, Role.NOTED: 1.4, Role.RUN: 0.9, Role.RETURNED: 0.8}


class Found(NamedTuple):
    """A passage that answers a question, best first."""

    session: Session
    event: Event
    passage: Passage
    at_s: int
    score: float
    words: tuple[str, ...]
    """The words of the question that are in it."""
    nearby: tuple[str, ...]
    """Those that are only near it."""


class _Candidate(msgspec.Struct):
    row: PassageRow
    session: Session
    event: Event
    passage: Passage
    weights: list[float]
    """For each word of the question, how much of it the passage has, from 0 to 1."""


class Recalling:
    """One question in one scope, over the current views."""

    def __init__(
        self, views: Views, question: Question, scope: Scope, *, store: Store, seen: Callable[[Event], Event]
    ) -> None:
        self._views = views
        self._asked = question.asked
        self._scope = scope
        self._store = store
        self._seen = seen
        self._dialect = views.database.dialect
        self._sessions: dict[int, Session] = {}

    def best(self, limit: int) -> list[Found]:
        """The passages that answer the question, best first; none when nothing does."""
        with self._views.read() as tx:
            rows = self._propose(tx)
            candidates = self._read(tx, rows)
        return self._ranked(candidates, limit)

    # What the index proposes ------------------------------------------------------------------------------------------

    def _propose(self, tx: Transaction) -> list[PassageRow]:
        if not self._asked:
            return []
        scope = bounds(tx, self._scope)
        events = max(end_position(self._store), 1)
        counts = [self._count(tx, one, scope) for one in self._asked]
        useful = [(one, count) for one, count in zip(self._asked, counts, strict=True) if 0 < count <= COMMON]
        # Words that are everywhere propose the passages that have all of them.
        terms = [[one.term] for one, _ in useful] or [[one.as_written for one in self._asked]]
        weights = [one.weight * log(1 + events / count) for one, count in useful] or [1.0]
        parameters: dict[str, Any] = {"limit": PROPOSED, **scope}
        if self._dialect == "lite" and parameters.keys() & {"since", "until", "me"}:
            parameters["joined"] = 1
        for number, (wanted, weight) in enumerate(zip(terms, weights, strict=True)):
            parameters[f"match{number}"] = self._match(wanted)
            parameters[f"weight{number}"] = round(1000 * weight)
        return [PassageRow._make(row) for row in tx.run("candidates", **parameters)]

    def _match(self, terms: list[Term]) -> str:
        projects = [tag(PROJECT, key) for key in self._scope.projects]
        query = Query(tuple((term,) for term in terms))
        return index_query(self._dialect, query, tags=self._scope.tags, any_of=(projects,))

    def _count(self, tx: Transaction, one: Asked, scope: Mapping[str, Any]) -> int:
        count = 0
        # To look for every form of a word takes long, and is of no use when one form alone is common.
        for term in dict.fromkeys([one.as_written, one.term]):
            if count <= COMMON:
                count = count_rows(tx, self._dialect, {"match": self._match([term]), "limit": COMMON + 1, **scope})
        return count

    # What they say ----------------------------------------------------------------------------------------------------

    def _read(self, tx: Transaction, rows: list[PassageRow]) -> list[_Candidate]:
        """What the caller sees of the best, each event once, without what is not true any more."""
        wanted = {row.event: row for row in reversed(rows)}
        chosen = [row for row in rows if wanted[row.event] is row][:READ]
        readers = own_events_at(self._store, [row.event for row in chosen], self._sessions)
        standing: set[tuple[int, int]] | None = None
        candidates = []
        for row in chosen:
            end_step()
            if row.event not in readers:
                continue
            event = self._seen(readers[row.event].event())
            passage = passage_of(event.body)
            if passage is None:
                continue
            if isinstance(event.body, FactLearned | DecisionMade | ProgressNoted):
                if standing is None:
                    keys = msgspec.json.encode(sorted({one.session for one in chosen})).decode()
                    standing = set(tx.run("known_standing", keys=keys))
                if row.event not in standing:
                    continue
            weights = self._weigh(passage)
            if any(weights):
                candidates.append(_Candidate(row, readers[row.event].session, event, passage, weights))
        return candidates

    def _weigh(self, passage: Passage) -> list[float]:
        """How much of each word a passage has; a long text has a word sooner than a short one."""
        text = stream("\n".join(passage.texts)[:LONGEST_TEXT]).replace(SEAM, " ")
        length = 0.25 + 0.75 * text.count(" ") / 100
        weights = []
        for one in self._asked:
            words = " ".join(one.term.words).replace(SEAM, " ")
            often = text.count(f" {words}" if one.term.prefix else f" {words} ")
            weights.append(often / (often + 1.2 * length) * (1 + 1.2 * length) / (1 + 0.3 * length) if often else 0.0)
        return [min(weight, 1.0) for weight in weights]

    # Ranks ------------------------------------------------------------------------------------------------------------

    def _ranked(self, candidates: list[_Candidate], limit: int) -> list[Found]:
        rarity = self._rarity(candidates)
        by_session: dict[int, list[_Candidate]] = defaultdict(list)
        for candidate in candidates:
            by_session[candidate.row.session].append(candidate)
        placed = [one for own in by_session.values() for one in _placed(own, rarity)]
        best = [max((one.points[number] for one in placed), default=1.0) or 1.0 for number in range(len(SHARES))]
        scored = [
            (sum(share * part / most for share, part, most in zip(SHARES, one.points, best, strict=True)), one)
            for one in placed
            if sum(rare for weight, rare in zip(one.near, rarity, strict=True) if weight) >= LEAST_COVERED * sum(rarity)
        ]
        scored.sort(key=lambda each: (-each[0], -each[1].candidate.row.id))
        return [self._found(score, one.candidate, one.near) for score, one in _spread(scored, limit)]

    def _rarity(self, candidates: list[_Candidate]) -> list[float]:
        """How rare each word is among what the caller sees, times its weight."""
        having = [sum(candidate.weights[number] > 0 for candidate in candidates) for number in range(len(self._asked))]
        return [
            one.weight * log(1 + (len(candidates) + 1) / (often + 0.5))
            for one, often in zip(self._asked, having, strict=True)
        ]

    def _found(self, score: float, candidate: _Candidate, near: list[float]) -> Found:
        words = tuple(one.text for one, weight in zip(self._asked, candidate.weights, strict=True) if weight)
        nearby = tuple(
            one.text
            for one, weight, around in zip(self._asked, candidate.weights, near, strict=True)
            if around and not weight
        )
        return Found(
            candidate.session, candidate.event, candidate.passage, candidate.row.at_s,
            round(score / sum(SHARES), 4), words, nearby,
        )  # fmt: skip


class _Placed(NamedTuple):
    """A candidate among its neighbours: what is near it, and its points by itself and with what is around it."""

    candidate: _Candidate
    near: list[float]
    points: tuple[float, float, float, float]


_Scored = tuple[float, _Placed]


def _placed(own: list[_Candidate], rarity: list[float]) -> Iterator[_Placed]:
    """The candidates of one session, each with its neighbours."""
    count = len(rarity)
    session = _sum(_most(own, count), rarity)
    for candidate in own:
        seq, role = candidate.row.seq, ROLE_WEIGHTS[candidate.passage.role]
        around = [other for other in own if abs(other.row.seq - seq) <= NEAR]
        beside = _most([other for other in around if abs(other.row.seq - seq) <= NEXT], count)
        near = _most(around, count)
        points = (
            role * _sum(candidate.weights, rarity), role * _sum(beside, rarity), _sum(near, rarity), session,
        )  # fmt: skip
        yield _Placed(candidate, near, points)


def _spread(scored: list[_Scored], limit: int) -> list[_Scored]:
    """The best, each further one of a session and each beside another one with less weight."""
    chosen: list[_Scored] = []
    waiting = scored[: 10 * limit]
    seqs: dict[int, list[int]] = defaultdict(list)

    def weight(each: _Scored) -> float:
        row = each[1].candidate.row
        is_beside = any(abs(seq - row.seq) <= NEXT for seq in seqs[row.session])
        return each[0] * FURTHER ** len(seqs[row.session]) * (BESIDE if is_beside else 1.0)

    while waiting and len(chosen) < limit:
        number = max(range(len(waiting)), key=lambda at: (weight(waiting[at]), -at))
        best = waiting.pop(number)
        chosen.append((weight(best), best[1]))
        row = best[1].candidate.row
        seqs[row.session].append(row.seq)
    return chosen


def _most(candidates: list[_Candidate], count: int) -> list[float]:
    """How much of each word some passages have together."""
    return [max((candidate.weights[number] for candidate in candidates), default=0.0) for number in range(count)]


def _sum(weights: list[float], rarity: list[float]) -> float:
    return sum(weight * rare for weight, rare in zip(weights, rarity, strict=True))
