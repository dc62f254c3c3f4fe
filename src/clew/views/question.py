"""What a question in a person's own words looks for: its words by their stems, without those that any question has.

A word is found in each of its forms: `migrations` finds migrate and migrated, because all begin with its stem. What
joins several words, such as billing.py or getUser, is looked for as a whole and by its parts. Of scripts that write
without spaces, two characters next to each other are looked for.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from clew.model import dates
from clew.model.errors import InvalidInput
from clew.model.query import Term
from clew.model.words import SEAM, stream

if TYPE_CHECKING:
    from snowballstemmer.basestemmer import BaseStemmer

# Longer questions are looked for by their first words.
LONGEST_QUESTION = 10_000
MOST_TERMS = 12
# A shorter stem begins too many other words.
SHORTEST_STEM = 4
# A part of a name says less than the whole.
PART_WEIGHT = 0.5

# Names of times; what they mean is in dates.py.
_UNIT = "day|week|month|year"
_DAY = "monday|tuesday|wednesday|thursday|friday|saturday|sunday"
_MONTH = "january|february|march|april|may|june|july|august|september|october|november|december"
_TIME = re.compile(
    rf"\b(?:(?:since|before|after|until)\s+)?(?:today|yesterday|(?:this|last)\s+(?:{_UNIT}|{_DAY}|{_MONTH})"
    rf"|(?:\d+|two|three|a few)\s+(?:{_UNIT})s?\s+ago|(?<=on )(?:{_DAY})|(?<=in )(?:{_MONTH})|\d{{4}}-\d\d-\d\d)\b",
    re.IGNORECASE,
)
_TOKEN = re.compile(r"[^\s\"'`()<>\[\]{},;!?]+")


class Asked(msgspec.Struct, frozen=True):
    """A word of a question, as it is looked for."""

    term: Term
    text: str
    weight: float = 1.0

    @property
    def as_written(self) -> Term:
        """The word in this form alone."""
        return Term((self.text,)) if self.term.prefix else self.term


class Question(msgspec.Struct, frozen=True):
    """A question: what it looks for, and the time that it names."""

    asked: tuple[Asked, ...]
    time: str = ""
    period: dates.Period | None = None


def understand(text: str, now: datetime) -> Question:
    """What a question looks for. `InvalidInput` for one without a word."""
    text = text[:LONGEST_QUESTION]
    time, named = _time(text, now)
    rest = text.replace(time, " ", 1) if time else text
    tokens = _TOKEN.findall(rest)
    known = {word for token in tokens for word in _words(token)}
    if not known and not time:
        raise InvalidInput("the question has no word; ask, for example: how do we run the tests?")
    language = _language(known)
    asked: dict[Term, Asked] = {}
    for token in tokens:
        for one in _asked(token, language):
            asked.setdefault(one.term, one)
    if not asked:
        # A question of nothing but such words is looked for with them.
        asked = {term: Asked(term, word) for word in sorted(known) for term in [Term((word,))]}
    longest = sorted(asked.values(), key=lambda one: (-one.weight, -len(one.text)))[:MOST_TERMS]
    return Question(tuple(one for one in asked.values() if one in longest), time, named)


def _time(text: str, now: datetime) -> tuple[str, dates.Period | None]:
    """The first name of a time in a question, and the period that it means."""
    for match in _TIME.finditer(text):
        try:
            return match[0], dates.period(match[0], now)
        except InvalidInput:
            continue  # Words such as "may", which mean something else here.
    return "", None


def _language(words: set[str]) -> str:
    """The language with the most of its own words in the question; English when in doubt."""
    counts = {language: len(words & own) for language, own in _stop_words().items()}
    best = max(counts, key=lambda language: counts[language])
    return best if counts[best] > counts["english"] else "english"


def _words(token: str) -> list[str]:
    return [word for word in stream(token).replace(SEAM, " ").split(" ") if word]


def _is_hiragana(words: tuple[str, ...]) -> bool:
    """Whether these are Japanese syllables that mostly join other words."""
    return all("\u3040" <= word <= "\u309f" for word in words)


@cache
def _stop_words() -> dict[str, frozenset[str]]:
    """The words of each language that say nothing about the subject of a question."""
    stop: dict[str, frozenset[str]] = {}
    language = ""
    for line in Path(__file__).with_name("stop_words.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            language = line.strip("[]")
        elif not line.startswith("#"):
            stop[language] = stop.get(language, frozenset()) | frozenset(_words(line))
    stop.pop("", None)
    return stop


def _is_stop_word(word: str, language: str = "") -> bool:
    stop = _stop_words()
    return word in stop[language] if language else any(word in words for words in stop.values())


def _asked(token: str, language: str) -> Iterator[Asked]:
    """What is looked for of a token: a word, a name that joins several, or pairs of characters."""
    words = _words(token)
    if len(words) > 1 and all(len(word) == 1 and ord(word) > 0x0E00 for word in words):
        yield from (Asked(Term(pair), "".join(pair)) for pair in pairwise(words) if not _is_hiragana(pair))
    elif len(words) > 1:
        yield Asked(Term(tuple(filter(None, stream(token).split(" ")))), token.strip(".:-_/"))
        for word in words:
            # Stop words of one language are words of another: `die` is one in German alone.
            if len(word) > 2 and not _is_stop_word(word):
                yield Asked(_stemmed(word, language), word, PART_WEIGHT)
    else:
        yield from (Asked(_stemmed(word, language), word) for word in words if not _is_stop_word(word, language))


def _stemmed(word: str, language: str) -> Term:
    """The word in each of its forms; a short or a numbered one as it is."""
    if any(letter.isdigit() for letter in word):
        return Term((word,))
    stem = _stemmer(language).stemWord(word)
    while not word.startswith(stem):
        stem = stem[:-1]
    if len(stem) >= SHORTEST_STEM:
        return Term((stem,), prefix=True)
    return Term((word,))


@lru_cache(maxsize=16)
def _stemmer(language: str) -> "BaseStemmer":
    import snowballstemmer

    return snowballstemmer.stemmer(language)
