"""The text index: the words of each passage, and the tags that filters use.

A tag is a word that nobody can type. The role, the runtime, the session and so on of a passage are tags in the same
index as its words, so a filter makes a search faster and never slower. The index has no word order: the search checks
the order in the text, for the few passages that have all the words.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import combinations
from typing import Any, ClassVar, NamedTuple

import msgspec

from clew.model.events import (
    CallMade,
    CallReturned,
    DecisionMade,
    Event,
    FactLearned,
    ProgressNoted,
    RuntimeAttached,
)
from clew.model.passage import Role, passage_of, stretches
from clew.model.query import Query, Term, parts_of, whole_of
from clew.model.session import Session
from clew.model.words import indexed, words
from clew.store.derived import Transaction
from clew.views.contract import Bodies, is_first, origin_of, storable, when

# From Unicode's private use area, so no word contains it (model/words.py).
MARK = "\ue000"
ROLE, PROJECT, SESSION, RUNTIME, AGENT, PERSON, TOOL, OUTCOME, LONG, KNOWN = "rpsuawtoxk"

SECOND_US = 1_000_000
HOUR = 3600
LAST_HOUR = 2**31
# How many ids an hour has; further passages get ids of the next hour. Unused ids make the index larger. The statement
# `passage_spilled` contains HOUR and ROOM, too.
ROOM = 2**10
# A step with this many new passages merges PostgreSQL's pending index entries.
MANY = 50
# So much text is written before more is read, so memory stays bounded.
MOST_CHARACTERS = 4 * 1024 * 1024
# How many open calls a session remembers; beyond this the oldest is dropped.
MOST_CALLS = 256


@lru_cache(maxsize=4096)
def tag(kind: str, value: str | int = "") -> str:
    """The tag for a value; a long value is hashed."""
    if isinstance(value, int):
        return f"{MARK}{kind}{value}"
    text = value.casefold().encode("utf-8", "replace")
    return f"{MARK}{kind}{text.hex() if len(text) <= 32 else blake2b(text, digest_size=16).hexdigest()}"


def first_id(second: int) -> int:
    """The lowest passage id of the hour that contains this second."""
    return min(max(second // HOUR, 0), LAST_HOUR) * ROOM


class TextView:
    """The fold of the text index."""

    name: ClassVar[str] = "text"
    version: ClassVar[int] = 3
    bodies: ClassVar[Bodies] = None

    def __init__(self, tx: Transaction, session: Callable[[int], Session], dialect: str) -> None:
        self._tx = tx
        self._session = session
        self._dialect = dialect
        self._rows: dict[int, list[dict[str, Any]]] = {}
        self._characters = 0
        self._states: dict[int, _SessionState] = {}

    def add(self, key: int, event: Event) -> None:
        body = event.body
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = self._new_state(key) if is_first(event) else self._stored_state(key)
        at = when(event, state.at)
        if event.said_at is not None:
            state.at, state.changed = at, True
        if isinstance(body, RuntimeAttached):
            state.runtime, state.tags, state.changed = storable(body.runtime), {}, True
            return
        tool = state.tool(body) if isinstance(body, (CallMade, CallReturned)) else ""
        passage = passage_of(body)
        if passage is None:
            return
        outcome = ("error" if body.failed else "success") if isinstance(body, CallReturned) else ""
        is_known = isinstance(body, (FactLearned, DecisionMade, ProgressNoted))
        tags = self._tags(key, state, _Tagged(passage.role, event.actor, tool, outcome, is_known))
        parts = list(stretches(passage.texts))
        if len(parts) > 1:
            tags = f"{tags} {tag(LONG)}"
        rows, project = self._rows.setdefault(key, []), self._session(key).project_key
        for text in parts:
            self._characters += len(text)
            rows.append(
                {
                    "project": project, "session": key, "seq": event.seq, "at": at // SECOND_US,
                    "text": self._text(text, tags),
                }
            )  # fmt: skip
        if self._characters > MOST_CHARACTERS:
            self._write_passages()

    def _tags(self, key: int, state: "_SessionState", tagged: "_Tagged") -> str:
        if tagged in state.tags:
            return state.tags[tagged]
        session = self._session(key)
        values = (
            (PROJECT, session.project_key), (SESSION, key), (AGENT, session.agent), (RUNTIME, state.runtime),
            (ROLE, tagged.role), (PERSON, tagged.person), (TOOL, tagged.tool), (OUTCOME, tagged.outcome),
        )  # fmt: skip
        tags = [tag(kind, value) for kind, value in values if value or kind == PERSON]
        state.tags[tagged] = joined = " ".join([*tags, tag(KNOWN)] if tagged.is_known else tags)
        return joined

    def _text(self, text: str, tags: str) -> str:
        """The text in the form that the index expects; SQLite's index splits prepared text into words itself."""
        if self._dialect == "lite":
            return f"{indexed(text)} {tags}"
        return " ".join({*words(text), *tags.split()})

    def forget(self, key: int) -> None:
        self._rows.pop(key, None)
        self._states[key] = self._new_state(key)
        self._tx.run("speaking_drop", session=key)
        ids = self._tx.run("passage_drop", match=index_query(self._dialect, tags=[tag(SESSION, key)]))
        if self._dialect == "lite":
            self._tx.many("words_drop", [{"id": row[0]} for row in ids])

    def _write_passages(self) -> None:
        rows = sorted((row for rows in self._rows.values() for row in rows), key=lambda row: row["at"])
        self._number(rows)
        # Inserting in ascending order of id is much faster.
        rows.sort(key=lambda row: row["id"])
        if self._dialect == "lite":
            self._tx.many("passage_add", rows)
            self._tx.many("words_add", rows)
        elif rows:
            self._tx.run("passage_add", rows=msgspec.json.encode(rows).decode())
            if len(rows) >= MANY:
                self._tx.run("words_settle")
        self._rows, self._characters = {}, 0

    def finish(self) -> None:
        self._write_passages()
        changed = [(key, state) for key, state in self._states.items() if state.changed]
        self._tx.many(
            "speaking_set",
            [
                {
                    "project": self._session(key).project_key,
                    "session": key,
                    "runtime": state.runtime,
                    "calls": msgspec.json.encode(state.calls).decode(),
                    "at": state.at,
                }
                for key, state in changed
            ],
        )

    def _number(self, rows: list[dict[str, Any]]) -> None:
        """Give each passage the next id of its hour, or of the next hour that has room."""
        following: dict[int, int] = {}
        # For each full hour, the first later hour that has room.
        instead: dict[int, int] = {}
        for row in rows:
            hour = first = first_id(row["at"])
            while True:
                first = instead.get(first, first)
                if first not in following:
                    [(last,)] = self._tx.run("passage_last", first=first, beyond=first + ROOM)
                    following[first] = max(last + 1, first)
                if following[first] < first + ROOM:
                    break
                first = instead[first] = first + ROOM
            if first != hour:
                instead[hour] = first
            row["id"] = following[first]
            following[first] += 1

    @staticmethod
    def clear(tx: Transaction, dialect: str) -> None:
        tx.run("passage_clear")
        tx.run("speaking_clear")
        if dialect == "lite":
            tx.run("words_clear")

    def _stored_state(self, key: int) -> "_SessionState":
        rows = self._tx.run("speaking_of", session=key)
        if not rows:
            return self._new_state(key)
        [(runtime, calls, at)] = rows
        return _SessionState(runtime=runtime, calls=msgspec.json.decode(calls, type=dict[str, str]), at=at)

    def _new_state(self, key: int) -> "_SessionState":
        return _SessionState(runtime=storable(origin_of(self._session(key).metadata).runtime))


class _Tagged(NamedTuple):
    """What the tags of a passage say, besides its session."""

    role: Role
    person: str
    tool: str
    outcome: str
    is_known: bool


class _SessionState(msgspec.Struct):
    """The fold's state of a session: its runtime, the tools of its open calls, and the time of its last event.

    `tags` are those of its passages, each combination put together once.
    """

    runtime: str = ""
    calls: dict[str, str] = msgspec.field(default_factory=dict)
    at: int = 0
    tags: dict[_Tagged, str] = msgspec.field(default_factory=dict)
    changed: bool = False

    def tool(self, body: CallMade | CallReturned) -> str:
        """The tool of a call, or of the call that a return belongs to."""
        if isinstance(body, CallMade):
            self.calls[body.call], self.changed = body.tool, True
            while len(self.calls) > MOST_CALLS:
                del self.calls[next(iter(self.calls))]
            return body.tool
        if body.call in self.calls:
            self.changed = True
            return self.calls.pop(body.call)
        return ""


def index_query(
    dialect: str, query: Query | None = None, *, tags: Iterable[str] = (), any_of: Iterable[list[str]] = (),
    least: int = 0,
) -> str:  # fmt: skip
    """The query in the index's own syntax: passages that have every word and tag, and one of each list in `any_of`.

    With `least` they need not have all groups of words, but so many. The index has no word order, so phrases and
    excluded phrases are checked later, in the text.
    """
    query = query or Query()
    syntax = _LITE if dialect == "lite" else _PG
    groups = [syntax.either([_term(syntax, term) for term in group]) for group in query.wanted]
    if least:
        groups = [syntax.either([syntax.all(chosen) for chosen in combinations(groups, least)])]
    tagged = [syntax.quote(word, False) for word in tags]
    choices = [syntax.either([syntax.quote(word, False) for word in words]) for words in any_of if words]
    matching = syntax.all([*groups, *tagged, *choices])
    unwanted = [_term(syntax, term) for term in query.unwanted if term.is_single]
    return f"{matching}{syntax.without}{syntax.either(unwanted)}" if unwanted else matching


class _Syntax(NamedTuple):
    """How an index writes a query."""

    both: str
    or_: str
    without: str
    quote: Callable[[str, bool], str]

    def all(self, queries: Sequence[str]) -> str:
        return f"({self.both.join(queries)})"

    def either(self, queries: Sequence[str]) -> str:
        return f"({self.or_.join(queries)})" if len(queries) > 1 else queries[0]


def _term(syntax: _Syntax, term: Term) -> str:
    """The words of a term; camelCase as a whole or by its parts."""
    last = len(term.words) - 1
    queries = []
    for i, word in enumerate(term.words):
        is_prefix = term.prefix and i == last
        *first, final = parts_of(word)
        parts = [*(syntax.quote(part, False) for part in first), syntax.quote(final, is_prefix)]
        if not first:
            queries += parts
        else:
            queries.append(syntax.either([syntax.quote(whole_of(word), is_prefix), syntax.all(parts)]))
    return syntax.all(queries) if len(queries) > 1 else queries[0]


def _quoted_lite(word: str, prefix: bool) -> str:
    return f'"{word}"*' if prefix else f'"{word}"'


def _quoted_pg(word: str, prefix: bool) -> str:
    return f"'{word}':*" if prefix else f"'{word}'"


_LITE = _Syntax(" AND ", " OR ", " NOT ", _quoted_lite)
_PG = _Syntax(" & ", " | ", " & ! ", _quoted_pg)

VIEW = TextView
