"""The text index: which words each passage has, and the tags it can be filtered by.

A tag is a word that nobody can type: the role, the runtime, the session and so on of a passage are looked up in the
index like its words, so that a filter makes a search faster and never slower. Words alone are indexed, not their
order: that is looked up in the text, for the few passages that have all of them.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import Any, ClassVar

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
from clew.model.passage import Passage, passage_of
from clew.model.query import Query, Term
from clew.model.session import Session
from clew.model.words import indexed, words
from clew.store.derived import Transaction
from clew.views.contract import is_first, origin_of, storable, when

# Of the private use area, so that no word has it (model/words.py).
MARK = "\ue000"
ROLE, PROJECT, SESSION, RUNTIME, AGENT, PERSON, TOOL, OUTCOME, CUT, KNOWN = "rpsuawtoxk"

SECOND_US = 1_000_000
HOUR = 3600
LAST_HOUR = 2**31
# How many passages an hour has room for; more spill into the next. Room that is not used makes the index larger. The
# statements about what has spilled know both numbers, too.
ROOM = 2**10
# So many new passages at once are worth settling PostgreSQL's index.
MANY = 50
# Calls that may wait for their return before the oldest is given up.
MOST_CALLS = 256


@lru_cache(maxsize=4096)
def tag(kind: str, value: str | int = "") -> str:
    """The tag for a value; long ones go by a hash."""
    if isinstance(value, int):
        return f"{MARK}{kind}{value}"
    text = value.casefold().encode("utf-8", "replace")
    return f"{MARK}{kind}{text.hex() if len(text) <= 32 else blake2b(text, digest_size=16).hexdigest()}"


def first_id(second: int) -> int:
    """The lowest id of a passage of the hour of this time, in seconds."""
    return min(max(second // HOUR, 0), LAST_HOUR) * ROOM


class TextView:
    """The fold of the text index."""

    name: ClassVar[str] = "text"
    version: ClassVar[int] = 2

    def __init__(self, tx: Transaction, session: Callable[[int], Session], dialect: str) -> None:
        self._tx = tx
        self._session = session
        self._dialect = dialect
        self._rows: dict[int, list[dict[str, Any]]] = {}
        self._speaking: dict[int, _Speaking] = {}

    def add(self, key: int, event: Event) -> None:
        body = event.body
        speaking = self._speaking.get(key)
        if speaking is None:
            speaking = self._speaking[key] = self._new(key) if is_first(event) else self._known(key)
        at = when(event, speaking.at)
        if event.said_at is not None:
            speaking.at, speaking.changed = at, True
        if isinstance(body, RuntimeAttached):
            speaking.runtime, speaking.tags, speaking.changed = storable(body.runtime), "", True
            return
        tool = speaking.tool(body) if isinstance(body, (CallMade, CallReturned)) else ""
        said = passage_of(body)
        if said is None:
            return
        tags = self._tags(key, event, said, speaking, tool)
        self._rows.setdefault(key, []).append(
            {"session": key, "seq": event.seq, "at": at // SECOND_US, "text": self._text(said.texts, tags)}
        )

    def _tags(self, key: int, event: Event, said: Passage, speaking: "_Speaking", tool: str) -> str:
        if not speaking.tags:
            session = self._session(key)
            speaking.tags = f"{tag(PROJECT, session.project_key)} {tag(SESSION, key)}"
            for kind, value in ((AGENT, session.agent), (RUNTIME, speaking.runtime)):
                if value:
                    speaking.tags += f" {tag(kind, value)}"
        found = f"{speaking.tags} {tag(ROLE, said.role)} {tag(PERSON, event.actor)}"
        if tool:
            found += f" {tag(TOOL, tool)}"
        if isinstance(event.body, CallReturned):
            found += f" {tag(OUTCOME, 'error' if event.body.failed else 'success')}"
        elif isinstance(event.body, (FactLearned, DecisionMade, ProgressNoted)):
            found += f" {tag(KNOWN)}"
        return f"{found} {tag(CUT)}" if said.cut else found

    def _text(self, texts: tuple[str, ...], tags: str) -> str:
        """What the database's index takes: SQLite parts words itself where we have made sure that it can."""
        text = texts[0] if len(texts) == 1 else "\n".join(texts)
        if self._dialect == "lite":
            return f"{indexed(text)} {tags}"
        return " ".join({*words(text), *tags.split()})

    def forget(self, key: int) -> None:
        self._rows.pop(key, None)
        self._speaking[key] = self._new(key)
        self._tx.run("speaking_drop", session=key)
        ids = self._tx.run("passage_drop", match=match(self._dialect, tags=[tag(SESSION, key)]))
        if self._dialect == "lite":
            self._tx.many("words_drop", [{"id": row[0]} for row in ids])

    def finish(self) -> None:
        rows = sorted((row for rows in self._rows.values() for row in rows), key=lambda row: row["at"])
        self._number(rows)
        # The index takes ids that go up far better than ids that jump.
        rows.sort(key=lambda row: row["id"])
        if self._dialect == "lite":
            self._tx.many("passage_add", rows)
            self._tx.many("words_add", [{"id": row["id"], "text": row["text"]} for row in rows])
        elif rows:
            self._tx.run("passage_add", rows=msgspec.json.encode(rows).decode())
            if len(rows) >= MANY:
                self._tx.run("words_settle")
        changed = [(key, one) for key, one in self._speaking.items() if one.changed]
        self._tx.many(
            "speaking_set",
            [
                {
                    "session": key,
                    "runtime": one.runtime,
                    "calls": msgspec.json.encode(one.calls).decode(),
                    "at": one.at,
                }
                for key, one in changed
            ],
        )

    def _number(self, rows: list[dict[str, Any]]) -> None:
        """Give each passage the next id of its hour, or of the next hour that has room."""
        following: dict[int, int] = {}
        # Where to look for room instead, for hours that are full.
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

    def _known(self, key: int) -> "_Speaking":
        rows = self._tx.run("speaking_of", session=key)
        if not rows:
            return self._new(key)
        [(runtime, calls, at)] = rows
        return _Speaking(runtime=runtime, calls=msgspec.json.decode(calls, type=dict[str, str]), at=at)

    def _new(self, key: int) -> "_Speaking":
        return _Speaking(runtime=storable(origin_of(self._session(key).metadata).runtime))


class _Speaking(msgspec.Struct):
    """What a session is in the middle of: its runtime, the tools of calls that have not returned, and the time.

    `tags` are those that all its passages have, made once.
    """

    runtime: str = ""
    calls: dict[str, str] = msgspec.field(default_factory=dict)
    at: int = 0
    tags: str = ""
    changed: bool = False

    def tool(self, body: CallMade | CallReturned) -> str:
        """The tool of a call, or of the call that returned."""
        if isinstance(body, CallMade):
            self.calls[body.call], self.changed = body.tool, True
            while len(self.calls) > MOST_CALLS:
                del self.calls[next(iter(self.calls))]
            return body.tool
        if body.call in self.calls:
            self.changed = True
            return self.calls.pop(body.call)
        return ""


def match(
    dialect: str, query: Query | None = None, *, tags: Iterable[str] = (), any_of: Iterable[str] = ()
) -> str:  # fmt: skip
    """The query in the words of a database's index: passages that have every word and tag, and one of `any_of`.

    That the words of a phrase stand next to each other, or that an unwanted phrase does not occur, is not asked here.
    """
    query = query or Query()
    both, either, without = (" AND ", " OR ", " NOT ") if dialect == "lite" else (" & ", " | ", " & ! ")
    quote = _quoted_lite if dialect == "lite" else _quoted_pg
    wanted = [quote(word, prefix) for term in query.wanted for word, prefix in _pieces(term)]
    wanted += [quote(one, False) for one in tags]
    if any_of := list(any_of):
        wanted.append(f"({either.join(quote(one, False) for one in any_of)})")
    unwanted = [
        quote(word, prefix)
        for term in query.unwanted
        if len(term.words) == 1
        for word, prefix in _pieces(term)
    ]  # fmt: skip
    found = f"({both.join(wanted)})"
    return f"{found}{without}({either.join(unwanted)})" if unwanted else found


def _pieces(term: Term) -> Iterable[tuple[str, bool]]:
    last = len(term.words) - 1
    return ((word, term.prefix and i == last) for i, word in enumerate(term.words))


def _quoted_lite(word: str, prefix: bool) -> str:
    return f'"{word}"*' if prefix else f'"{word}"'


def _quoted_pg(word: str, prefix: bool) -> str:
    return f"'{word}':*" if prefix else f"'{word}'"


VIEW = TextView
