"""The best partial matches: what a search shows when no passage has all the words.

A question in plain words mostly has words that no answer has. So passages with some of its words are ranked, and a word
that few of them have counts for more. Rarity is counted among the passages that the caller may see and not in the
index: the index has the words of secrets, too, and a rank must not depend on them.
"""

from collections import Counter
from collections.abc import Callable
from math import log

from clew.model.passage import Passage
from clew.model.query import Query, Term, matched_groups
from clew.views.hits import Hit
from clew.views.search import PassageRow, Search

# The longest words of a question are looked for, because they are mostly the rarest.
MOST_GROUPS = 6
# How many of the newest passages are candidates, in all and for each word.
ENOUGH = 100
EACH = 50
# A partial match weighs at least this share of the best one.
SHARE = 0.5
# Words without a subject. A question that has no others is looked for with them.
FUNCTION_WORDS = frozenset(
    "a about all am an and any are as at be been but by can could did do does for from had has have how i if in into is"
    " it its me my no not of on or our should so than that the their them then there these they this to too us was we"
    " were what when where which who why will with would you your".split()
)


def best_partial(query: Query, search_with: Callable[[Query, int], Search], limit: int) -> list[Hit]:
    """The passages with the most of a query's words, best first.

    `search_with` takes a query and how many of its groups a passage needs.
    """
    asked = Query(_content_groups(query), query.unwanted)
    count = len(asked.wanted)
    pool: dict[tuple[int, int], tuple[PassageRow, Passage]] = {}

    def add(search: Search, most: int) -> None:
        for row, passage in search.candidates(most):
            pool.setdefault(row.event, (row, passage))

    for least in range(count - 1, 1, -1):
        if len(pool) < ENOUGH:
            add(search_with(asked, least), ENOUGH)
    for group in asked.wanted:
        add(search_with(Query((group,), query.unwanted), 0), EACH)
    search = search_with(asked, 1)
    return [hit for row in _ranked(asked, list(pool.values()), search)[:limit] if (hit := search.hit(row))]


def _content_groups(query: Query) -> tuple[tuple[Term, ...], ...]:
    """The groups of a query that say what it is about."""
    content = [group for group in query.wanted if not all(map(_is_function_word, group))]
    longest = sorted(content or query.wanted, key=lambda group: -max(sum(map(len, term.words)) for term in group))
    return tuple(longest[:MOST_GROUPS])


def _is_function_word(term: Term) -> bool:
    return term.is_single and term.words[0] in FUNCTION_WORDS


def _ranked(query: Query, pool: list[tuple[PassageRow, Passage]], search: Search) -> list[PassageRow]:
    """The candidates by the weight of their words, then by relevance, then the newest first."""
    groups = [matched_groups(query, passage.texts) for _, passage in pool]
    having = Counter(group for matched in groups for group in matched)
    weight = {group: log(1 + len(pool) / count) for group, count in having.items()}
    weights = [sum(weight[group] for group in matched) for matched in groups]
    best = max(weights, default=0.0)
    ranked = sorted(
        (
            (round(total, 6), search.points(passage), row.id, row)
            for (row, passage), total in zip(pool, weights, strict=True)
            if total >= SHARE * best > 0
        ),
        reverse=True,
    )
    return [row for *_, row in ranked]
