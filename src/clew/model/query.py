"""Parse what a person typed into a search, and find where a text matches it.

    lock error              both words, anywhere in the passage
    "database is locked"    the words next to each other
    billing.py  getUser     an identifier: its parts next to each other, however they are joined
    lock*                   words that begin so
    -test                   not this word

There are no other operators: every other character separates words.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import lru_cache
from heapq import nlargest
from itertools import islice

import msgspec

from clew.model.errors import InvalidInput
from clew.model.words import LONGEST, in_order, spans, words

LONGEST_QUERY = 1000
SNIPPET = 160
# How many positions of each text are tried for a snippet.
MOST_PLACES = 200
MOST_WINDOWS = 8

# One minus excludes a word; two minuses begin a program's option.
_PIECE = re.compile(r'(-(?=[^\s-]))?(?:"([^"]*)(?:"|$)|([^\s"]+))(\*?)')

# White space other than one blank between two words.
_UNEVEN = re.compile(r"[^\S ]|^ |  ")


class Term(msgspec.Struct, frozen=True):
    """Words next to each other; with `prefix` the last is the beginning of a word."""

    words: tuple[str, ...]
    prefix: bool = False


class Query(msgspec.Struct, frozen=True):
    """Every term of `wanted` and none of `unwanted`."""

    wanted: tuple[Term, ...] = ()
    unwanted: tuple[Term, ...] = ()

    @property
    def is_exact(self) -> bool:
        """Whether the index alone decides, because no phrase requires a check of word order in the text."""
        return all(len(term.words) == 1 for term in (*self.wanted, *self.unwanted))


class Snippet(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a text, and the positions of the query's words in it."""

    text: str
    marks: list[tuple[int, int]]


def parse(text: str) -> Query:
    """Parse a query. Any text is valid unless it is too long or has no word to look for."""
    if len(text) > LONGEST_QUERY:
        raise InvalidInput(f"a query has at most {LONGEST_QUERY:,} characters, and this has {len(text):,}")
    wanted: list[Term] = []
    unwanted: list[Term] = []
    for minus, phrase, bare, star in _PIECE.findall(text):
        typed = phrase or bare
        if term_words := tuple(in_order(typed)):
            (unwanted if minus else wanted).append(Term(term_words, bool(star) or typed.endswith("*")))
    if unwanted and not wanted:
        raise InvalidInput("the query only excludes words; add one to look for, as in: lock -test")
    if text.strip() and not wanted:
        raise InvalidInput("the query has no word; words are made of letters and digits")
    return Query(tuple(wanted), tuple(unwanted))


def keeps_order(query: Query, texts: Iterable[str]) -> bool:
    """Whether a passage that has all the words has them in the order of the query's phrases, and no unwanted phrase."""
    streams = [_stream(in_order(text)) for text in texts]
    return all(
        any(_phrase(term) in stream for stream in streams) for term in query.wanted if len(term.words) > 1
    ) and not any(_phrase(term) in stream for stream in streams for term in query.unwanted if len(term.words) > 1)


def _stream(text_words: list[str]) -> str:
    return f" {' '.join(text_words)} "


def _phrase(term: Term) -> str:
    return f" {' '.join(term.words)}{'' if term.prefix else ' '}"


def matches(query: Query, texts: Iterable[str]) -> bool:
    """Whether a passage matches a query, by the same rules as the text index."""
    texts = [*texts]
    text_words = set(words("\n".join(texts)))
    has_all = all(_holds(text_words, word) for term in query.wanted for word in _words_of(term))
    # Only single words: `keeps_order` checks excluded phrases.
    excluded = (term for term in query.unwanted if len(term.words) == 1)
    has_excluded = any(_holds(text_words, word) for term in excluded for word in _words_of(term))
    return has_all and not has_excluded and keeps_order(query, texts)


def _words_of(term: Term) -> Iterator[str]:
    """The words of a term; a prefix ends with a star."""
    *first, last = term.words
    yield from first
    yield f"{last}*" if term.prefix else last


def _holds(text_words: set[str], word: str) -> bool:
    if word.endswith("*"):
        return any(text_word.startswith(word[:-1]) for text_word in text_words)
    return word in text_words


# Snippets -------------------------------------------------------------------------------------------------------------


def snippet(query: Query, texts: Iterable[str], width: int = SNIPPET) -> Snippet:
    """The part of a passage with the most words of the query, in one line."""
    texts = [*texts]
    best = Snippet(text="", marks=[])
    for crowd, text, first in _windows(query, texts, width):
        if len(best.marks) >= crowd:
            break  # The remaining windows cannot have more marks.
        candidate = _cut(query, text, first, width)
        if len(candidate.marks) > len(best.marks):
            best = candidate
    return best if best.marks else _first_words(query, texts, width)


def _windows(query: Query, texts: list[str], width: int) -> list[tuple[int, str, int]]:
    """Windows of a text that can have words of the query, also inside other words, as (upper bound, text, start).

    The window with the highest upper bound comes first.
    """
    if not query.wanted:
        return []
    pattern = _pattern(query)
    crowds: list[tuple[int, str, int]] = []
    for text in texts:
        starts = [match.start() for match in islice(pattern.finditer(text), MOST_PLACES)]
        for i, start in enumerate(starts):
            crowd = bisect_left(starts, start + width * 3 // 4) - i
            crowds.append((crowd, text, max(0, start - width // 4)))
    return nlargest(MOST_WINDOWS, crowds, key=lambda candidate: candidate[0])


@lru_cache(maxsize=64)
def _pattern(query: Query) -> re.Pattern[str]:
    query_words = {word for term in query.wanted for word in term.words}
    return re.compile("|".join(map(re.escape, sorted(query_words, key=len, reverse=True))), re.IGNORECASE)


def _first_words(query: Query, texts: list[str], width: int) -> Snippet:
    """Text around the first match in another spelling; without a match, the beginning of the longest text."""
    for text in texts if query.wanted else ():
        stream = list(spans(text))
        if positions := [position for term in query.wanted for position in _positions(term, stream)]:
            return _cut(query, text, max(0, min(positions)[0] - width // 4), width)
    return _cut(query, max(texts, key=len, default=""), 0, width)


def _cut(query: Query, text: str, first: int, width: int) -> Snippet:
    last = min(len(text), first + width)
    first = max(0, last - width)
    # Words are split with some text around the window, so that none is cut in two.
    low, high = max(0, first - LONGEST), min(len(text), last + LONGEST)
    stream = list(spans(text[low:high]))
    marks = {(a + low, b + low) for term in query.wanted for a, b in _positions(term, stream)}
    if first and (space := text.find(" ", first, first + 20)) >= 0:
        first = space + 1
    inside = [(a, min(b, last)) for a, b in sorted(marks) if first <= a < last]
    before, after = "…" if first else "", "…" if last < len(text) else ""
    shown, moved = _closed_up(text[first:last], [(a - first, b - first) for a, b in inside])
    return Snippet(text=f"{before}{shown}{after}", marks=[(a + len(before), b + len(before)) for a, b in moved])


def _closed_up(text: str, marks: list[tuple[int, int]]) -> tuple[str, list[tuple[int, int]]]:
    """A text in one line with single blanks between words, and the new positions of its marks."""
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


def _positions(term: Term, stream: list[tuple[str, int, int]]) -> list[tuple[int, int]]:
    """The positions of a term among words."""
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
    """The words without whole camelCase words, which have the positions of their parts."""
    parts: list[tuple[str, int, int]] = []
    end = -1
    for candidate in stream:
        if candidate[1] >= end:
            parts.append(candidate)
            end = candidate[2]
    return parts
