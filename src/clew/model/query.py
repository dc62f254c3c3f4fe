"""What a person typed into a search, and where a text answers it.

    lock error              both words, anywhere in the passage
    "database is locked"    the words next to each other
    billing.py  getUser     an identifier: its parts next to each other, however they are joined
    lock*                   words that begin so
    -test                   not this word

There are no other operators: whatever else is typed parts words.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable
from functools import lru_cache
from heapq import nlargest
from itertools import islice

import msgspec

from clew.model.errors import InvalidInput
from clew.model.words import LONGEST, in_order, spans

LONGEST_QUERY = 1000
SNIPPET = 160
# A snippet is looked for at the best of so many places in each text.
MOST_PLACES = 200
MOST_WINDOWS = 8

# One minus leaves a word out; two are how an option of a program is spelled.
_PIECE = re.compile(r'(-(?=[^\s-]))?(?:"([^"]*)(?:"|$)|([^\s"]+))(\*?)')

# White space other than one blank between two words.
_UNEVEN = re.compile(r"[^\S ]|^ |  ")


class Term(msgspec.Struct, frozen=True):
    """Words that stand next to each other; with `prefix` the last is only the beginning of a word."""

    words: tuple[str, ...]
    prefix: bool = False


class Query(msgspec.Struct, frozen=True):
    """Every term of `wanted` and none of `unwanted`."""

    wanted: tuple[Term, ...] = ()
    unwanted: tuple[Term, ...] = ()

    @property
    def is_exact(self) -> bool:
        """Whether words alone decide: nothing about their order has to be looked up in the text."""
        return all(len(term.words) == 1 for term in (*self.wanted, *self.unwanted))


class Snippet(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of a text, and where in it the words of a query stand."""

    text: str
    marks: list[tuple[int, int]]


def parse(text: str) -> Query:
    """What is looked for. Anything can be typed; only too much of it, or nothing to look for, is refused."""
    if len(text) > LONGEST_QUERY:
        raise InvalidInput(f"a query has at most {LONGEST_QUERY:,} characters, and this has {len(text):,}")
    wanted: list[Term] = []
    unwanted: list[Term] = []
    for minus, phrase, bare, star in _PIECE.findall(text):
        typed = phrase or bare
        if found := tuple(in_order(typed)):
            (unwanted if minus else wanted).append(Term(found, bool(star) or typed.endswith("*")))
    if unwanted and not wanted:
        raise InvalidInput("only words to leave out; add one to look for, as in: lock -test")
    if text.strip() and not wanted:
        raise InvalidInput("there is no word in that query; words are made of letters and digits")
    return Query(tuple(wanted), tuple(unwanted))


def keeps_order(query: Query, texts: Iterable[str]) -> bool:
    """Whether a passage that has all the words has them in the order of the query's phrases, and no unwanted phrase."""
    streams = [_stream(in_order(text)) for text in texts]
    return all(
        any(_phrase(term) in stream for stream in streams) for term in query.wanted if len(term.words) > 1
    ) and not any(_phrase(term) in stream for stream in streams for term in query.unwanted if len(term.words) > 1)


def _stream(found: list[str]) -> str:
    return f" {' '.join(found)} "


def _phrase(term: Term) -> str:
    return f" {' '.join(term.words)}{'' if term.prefix else ' '}"


# Snippets -------------------------------------------------------------------------------------------------------------


def snippet(query: Query, texts: Iterable[str], width: int = SNIPPET) -> Snippet:
    """The stretch of a passage where most of the query is, in one line."""
    texts = [*texts]
    best = Snippet(text="", marks=[])
    for crowd, text, first in _windows(query, texts, width):
        if len(best.marks) >= crowd:
            break  # There cannot be more in what is left.
        found = _cut(query, text, first, width)
        if len(found.marks) > len(best.marks):
            best = found
    return best if best.marks else _first_words(query, texts, width)


def _windows(query: Query, texts: list[str], width: int) -> list[tuple[int, str, int]]:
    """Where a look is worth it: a little before most words of the query, even where they are inside of others.

    Each with how many words there may be, the most first.
    """
    if not query.wanted:
        return []
    pattern = _pattern(query)
    crowds: list[tuple[int, str, int]] = []
    for text in texts:
        places = [found.start() for found in islice(pattern.finditer(text), MOST_PLACES)]
        for i, place in enumerate(places):
            crowd = bisect_left(places, place + width * 3 // 4) - i
            crowds.append((crowd, text, max(0, place - width // 4)))
    return nlargest(MOST_WINDOWS, crowds, key=lambda candidate: candidate[0])


@lru_cache(maxsize=64)
def _pattern(query: Query) -> re.Pattern[str]:
    wanted = {word for term in query.wanted for word in term.words}
    return re.compile("|".join(map(re.escape, sorted(wanted, key=len, reverse=True))), re.IGNORECASE)


def _first_words(query: Query, texts: list[str], width: int) -> Snippet:
    """Around the first word of the query that stands in the text in other letters, else how the longest text begins."""
    for text in texts if query.wanted else ():
        stream = list(spans(text))
        if places := [place for term in query.wanted for place in _places(term, stream)]:
            return _cut(query, text, max(0, min(places)[0] - width // 4), width)
    return _cut(query, max(texts, key=len, default=""), 0, width)


def _cut(query: Query, text: str, first: int, width: int) -> Snippet:
    last = min(len(text), first + width)
    first = max(0, last - width)
    # Words are told apart with some text around them, so that none is cut in two.
    low, high = max(0, first - LONGEST), min(len(text), last + LONGEST)
    stream = list(spans(text[low:high]))
    marks = {(a + low, b + low) for term in query.wanted for a, b in _places(term, stream)}
    if first and (space := text.find(" ", first, first + 20)) >= 0:
        first = space + 1
    inside = [(a, min(b, last)) for a, b in sorted(marks) if first <= a < last]
    before, after = "…" if first else "", "…" if last < len(text) else ""
    shown, moved = _closed_up(text[first:last], [(a - first, b - first) for a, b in inside])
    return Snippet(text=f"{before}{shown}{after}", marks=[(a + len(before), b + len(before)) for a, b in moved])


def _closed_up(text: str, marks: list[tuple[int, int]]) -> tuple[str, list[tuple[int, int]]]:
    """A text in one line, all white space between two words one blank, and where its marks have moved to."""
    if not _UNEVEN.search(text):
        return text, marks
    letters: list[str] = []
    where = []
    for letter in text:
        where.append(len(letters))
        if not letter.isspace():
            letters.append(letter)
        elif letters and letters[-1] != " ":
            letters.append(" ")
    where.append(len(letters))
    return "".join(letters), [(where[a], where[b]) for a, b in marks]


def _places(term: Term, stream: list[tuple[str, int, int]]) -> list[tuple[int, int]]:
    """Where a term stands among words."""
    length, last = len(term.words), term.words[-1]

    def is_last(word: str) -> bool:
        return word.startswith(last) if term.prefix else word == last

    if length == 1:
        return [(start, end) for word, start, end in stream if is_last(word)]
    parts = _parts(stream)
    return [
        (parts[i][1], parts[i + length - 1][2])
        for i in range(len(parts) - length + 1)
        if is_last(parts[i + length - 1][0]) and all(parts[i + j][0] == term.words[j] for j in range(length - 1))
    ]


def _parts(stream: list[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """The words without camelCase wholes, which stand where their parts do."""
    found: list[tuple[str, int, int]] = []
    end = -1
    for candidate in stream:
        if candidate[1] >= end:
            found.append(candidate)
            end = candidate[2]
    return found
