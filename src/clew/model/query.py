"""Parse what a person typed into a search, and find where a text matches it.

    lock error              both words, anywhere in the passage
    lock OR mutex           one of the two, or both
    "database is locked"    the words next to each other
    billing.py  getUser     an identifier: its parts next to each other, however they are joined
    lock*                   words that begin so
    -test                   not this word

There are no other operators: every other character separates words.

A word of a term is a run of letters and digits, with a seam between the parts of camelCase. It matches a whole word or
one part of camelCase, in any case; camelCase matches its parts next to each other as well. So `readme.md` finds
ReadMe.md and `ReadMe.md` finds readme.md, although only capitals show the parts.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable
from functools import lru_cache
from heapq import nlargest
from itertools import islice

import msgspec

from clew.model.errors import InvalidInput
from clew.model.words import LONGEST, SEAM, spans, stream

LONGEST_QUERY = 1000
# Between two terms, of which a passage must have one.
OR = "OR"
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

    @property
    def is_single(self) -> bool:
        """Whether the index alone decides, because it is one word without parts."""
        return len(self.words) == 1 and SEAM not in self.words[0]


class Query(msgspec.Struct, frozen=True):
    """One term of every group in `wanted`, and no term of `unwanted`."""

    wanted: tuple[tuple[Term, ...], ...] = ()
    unwanted: tuple[Term, ...] = ()

    @property
    def terms(self) -> tuple[Term, ...]:
        """Every wanted term."""
        return tuple(term for group in self.wanted for term in group)

    @property
    def is_exact(self) -> bool:
        """Whether the index alone decides, because no phrase requires a check of word order in the text."""
        return all(term.is_single for term in (*self.terms, *self.unwanted))


class Snippet(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a text, and the positions of the query's words in it."""

    text: str
    marks: list[tuple[int, int]]


def parse(text: str) -> Query:
    """Parse a query. Any text is valid unless it is too long or has no word to look for."""
    if len(text) > LONGEST_QUERY:
        raise InvalidInput(f"a query has at most {LONGEST_QUERY:,} characters, and this has {len(text):,}")
    wanted: list[list[Term]] = []
    unwanted: list[Term] = []
    pieces = _PIECE.findall(text)
    joins = False
    for i, (minus, phrase, bare, star) in enumerate(pieces):
        if wanted and _is_or(pieces, i):
            joins = True
            continue
        typed = phrase or bare
        if term := _term(typed, prefix=bool(star) or typed.endswith("*")):
            if minus:
                unwanted.append(term)
            elif joins:
                wanted[-1].append(term)
            else:
                wanted.append([term])
        joins = False
    if unwanted and not wanted:
        raise InvalidInput("the query only excludes words; add one to look for, as in: lock -test")
    if text.strip() and not wanted:
        raise InvalidInput("the query has no word; words are made of letters and digits")
    return Query(tuple(map(tuple, wanted)), tuple(unwanted))


def _is_or(pieces: list[tuple[str, str, str, str]], i: int) -> bool:
    """Whether a piece is `OR` between two that are looked for; anywhere else it is a word."""
    before, piece, after = pieces[i - 1 : i], pieces[i], pieces[i + 1 : i + 2]
    has_neighbours = bool(before and after) and not before[0][0] and not after[0][0]
    return piece == ("", "", OR, "") and has_neighbours and _term(after[0][1] or after[0][2], prefix=False) is not None


def _term(typed: str, *, prefix: bool) -> Term | None:
    term_words = tuple(word for word in stream(typed).split(" ") if word)
    return Term(term_words, prefix) if term_words else None


def parts_of(word: str) -> list[str]:
    """The parts of camelCase; of any other word the word."""
    return word.split(SEAM)


def whole_of(word: str) -> str:
    """A word without its seams, as the index has it."""
    return word.replace(SEAM, "")[:LONGEST]


# Whether a text matches -----------------------------------------------------------------------------------------------


def matches(query: Query, texts: Iterable[str]) -> bool:
    """Whether a passage matches a query: the texts have a term of each group in `wanted`, and none of `unwanted`."""
    streams = [stream(text) for text in texts]
    return all(_has_any(group, streams) for group in query.wanted) and not _has_any(query.unwanted, streams)


def matched_groups(query: Query, texts: Iterable[str]) -> frozenset[int]:
    """Which groups of `wanted` a passage matches, by number; none when it has a term of `unwanted`."""
    streams = [stream(text) for text in texts]
    if _has_any(query.unwanted, streams):
        return frozenset()
    return frozenset(number for number, group in enumerate(query.wanted) if _has_any(group, streams))


def _has_any(terms: Iterable[Term], streams: list[str]) -> bool:
    return any(_is_in(term, text_stream) for term in terms for text_stream in streams)


def _is_in(term: Term, text_stream: str) -> bool:
    plain = text_stream.replace(SEAM, " ")
    if f" {' '.join(term.words).replace(SEAM, ' ')}{'' if term.prefix else ' '}" in plain:
        return True
    # Only where capitals part a word on one side and not on the other is there another way to match.
    is_parted = SEAM in text_stream or any(SEAM in word for word in term.words)
    return is_parted and _expression(term).search(text_stream) is not None


@lru_cache(maxsize=256)
def _expression(term: Term) -> re.Pattern[str]:
    """Finds a term in a stream. The ways in which a word matches exclude each other, so none is tried twice."""
    *first, last = term.words
    return re.compile(f"[ {SEAM}]".join([*map(_word, first), _word(last, prefix=term.prefix)]))


def _word(word: str, *, prefix: bool = False) -> str:
    """An expression for a word: the same parts, or the same letters between two blanks wherever the seams are."""
    ending = "" if prefix else f"(?=[ {SEAM}])"
    parts = f"[ {SEAM}]".join(map(re.escape, parts_of(word)))
    whole = whole_of(word)
    # The index cuts long words, so only the first letters count.
    whole_ending = "" if prefix else "[^ ]*(?= )" if len(whole) == LONGEST else "(?= )"
    letters = f"{SEAM}?".join(map(re.escape, whole))
    return f"(?>(?<=[ {SEAM}]){parts}{ending}|(?<= ){letters}{whole_ending})"


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
    query_words = {part for term in query.terms for word in term.words for part in (*parts_of(word), whole_of(word))}
    return re.compile("|".join(map(re.escape, sorted(query_words, key=len, reverse=True))), re.IGNORECASE)


def _first_words(query: Query, texts: list[str], width: int) -> Snippet:
    """Text around the first match in another spelling; without a match, the beginning of the longest text."""
    for text in texts if query.wanted else ():
        located = list(spans(text))
        if positions := [position for term in query.terms for position in _positions(term, located)]:
            return _cut(query, text, max(0, min(positions)[0] - width // 4), width)
    return _cut(query, max(texts, key=len, default=""), 0, width)


def _cut(query: Query, text: str, first: int, width: int) -> Snippet:
    last = min(len(text), first + width)
    first = max(0, last - width)
    # Words are split with some text around the window, so that none is cut in two.
    low, high = max(0, first - LONGEST), min(len(text), last + LONGEST)
    located = list(spans(text[low:high]))
    marks = _apart({(a + low, b + low) for term in query.terms for a, b in _positions(term, located)})
    if first and (space := text.find(" ", first, first + 20)) >= 0:
        first = space + 1
    inside = [(a, min(b, last)) for a, b in marks if first <= a < last]
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


def _apart(marks: set[tuple[int, int]]) -> list[tuple[int, int]]:
    """The marks in order, without those that lie inside another."""
    if len(marks) < 2:
        return list(marks)
    outer: list[tuple[int, int]] = []
    for start, end in sorted(marks, key=lambda mark: (mark[0], -mark[1])):
        if not outer or end > outer[-1][1]:
            outer.append((start, end))
    return outer


def _positions(term: Term, located: list[tuple[str, int, int]]) -> list[tuple[int, int]]:
    """The positions of a term among the words of a text."""
    if len(term.words) == 1 and SEAM not in term.words[0]:
        return _word_positions(term.words[0], located, is_prefix=term.prefix)
    by_start: dict[int, list[tuple[str, int]]] = {}
    for word, start, end in located:
        by_start.setdefault(start, []).append((word, end))
    starts = sorted(by_start)
    ways = [((whole_of(word),), tuple(parts_of(word))) if SEAM in word else ((word,),) for word in term.words]
    steps = [*((way, False) for way in ways[:-1]), (ways[-1], term.prefix)]
    positions = []
    # Where fewer words are left than the term has, it cannot start.
    for start in starts[: len(starts) - len(steps) + 1]:
        stops = {start}
        for number, (choices, is_prefix) in enumerate(steps):
            stops = {
                end
                for begin in (_following(starts, stops) if number else stops)
                for way in choices
                for end in _ends(by_start, starts, begin, way, is_prefix=is_prefix)
            }
            if not stops:
                break
        if stops:
            positions.append((start, max(stops)))
    return positions


def _word_positions(
    wanted: str, located: list[tuple[str, int, int]], *, is_prefix: bool
) -> list[tuple[int, int]]:  # fmt: skip
    """The positions of a single word: the common case, without a look at what stands next to it."""
    if is_prefix:
        return [(start, end) for word, start, end in located if word.startswith(wanted)]
    return [(start, end) for word, start, end in located if word == wanted]


def _ends(
    by_start: dict[int, list[tuple[str, int]]], starts: list[int], begin: int, way: tuple[str, ...], *, is_prefix: bool
) -> set[int]:  # fmt: skip
    """Where words that stand next to each other from `begin` on can end."""
    stops: set[int] = set()
    for number, wanted in enumerate(way):
        is_begun = is_prefix and number == len(way) - 1
        stops = {
            end
            for at in (_following(starts, stops) if number else (begin,))
            for word, end in by_start[at]
            if (word.startswith(wanted) if is_begun else word == wanted)
        }
    return stops


def _following(starts: list[int], ends: set[int]) -> set[int]:
    """The starts of the words next to these ends."""
    indices = {bisect_left(starts, end) for end in ends}
    return {starts[i] for i in indices if i < len(starts)}
