"""Logs made at random, what their views hold, and what they should hold: told from the log, without the views' code."""

from collections import Counter
from contextlib import suppress
from typing import Any

from hypothesis import strategies as st
from msgspec import Raw

from clew.model.errors import ClewError
from clew.model.events import (
    KINDS,
    CallMade,
    CallReturned,
    Draft,
    Event,
    MessageAdded,
    NoteAdded,
    NoteRemoved,
    Opaque,
    RuntimeAttached,
    SessionArchived,
    SessionClosed,
    SessionPaused,
    SessionResumed,
    SessionStarred,
    SessionTagged,
    SessionTitled,
    SessionUnstarred,
    SessionUntagged,
    TitleGiven,
    Touch,
    Usage,
    UsageCounted,
)
from clew.model.labels import is_tag
from clew.model.passage import passage_of
from clew.model.query import parse
from clew.model.retention import Policy
from clew.model.session import SPENDING, Session, State
from clew.model.source import identity
from clew.model.working_set import touches
from clew.store import Store
from clew.store.log.erase import erase
from clew.store.log.feed import own_events, session_by_key
from clew.store.log.opening import Forking, Opening
from clew.store.log.retention import apply_policies, set_policy
from clew.views.contract import storable
from clew.views.search import Scope, Search
from clew.views.upkeep import Views
from model.shapes import structs
from store.rows import age, query
from store.words import ADA

PROJECT = "p"
HOUR_US = 3_600_000_000
MOST_SESSIONS = 8
OF_SESSIONS = (
    "artifact", "listing", "touched", "spending", "quarter", "speaking", "passage", "known", "turn", "branch",
    "revised", "called", "landmark", "point", "committed",
)  # fmt: skip

# Steps ----------------------------------------------------------------------------------------------------------------

WHICH = st.integers(0, MOST_SESSIONS - 1)
TEXTS = st.sampled_from(
    ["lock error", "billing.py", "getUserName", "日本語", "über", "", "a\0b", "large " + "and more " * 5000]
)
TAGS = st.sampled_from(["work", "urgent", "not a tag", "Work"])
CALLS = st.sampled_from(["1", "2", "3"])
TOOLS = st.sampled_from(["Bash", "Read", "Write"])
# The same answer is told of in several sessions, and several times in one.
ANSWERS = st.sampled_from(["", "msg-1", "msg-2"])
USAGES = st.none() | st.builds(Usage, input=st.integers(0, 9), output=st.integers(0, 9))
TOUCHES = st.builds(Touch, what=st.sampled_from(["/app/billing.py", "c.txt"]), how=st.sampled_from(["read", "written"]))
OWN = [name for name, kind in sorted(KINDS.items()) if not kind.reserved]
BODIES = st.one_of(
    st.builds(
        MessageAdded, role=st.sampled_from(["user", "assistant", "system"]), text=TEXTS, message=ANSWERS,
        side=st.sampled_from(["", "", "sub"]), usage=USAGES, model=st.sampled_from(["", "m"]),
    ),
    st.builds(CallMade, call=CALLS, tool=TOOLS, touched=st.lists(TOUCHES, max_size=2).map(tuple)),
    st.builds(CallMade, call=CALLS, tool=TOOLS, input=st.just(Raw(b'{"path":"/app/c.txt"}'))),
    st.builds(CallReturned, call=CALLS, output=st.sampled_from([Raw(b'"error"'), Raw(b"null")]), failed=st.booleans()),
    st.builds(UsageCounted, usage=st.builds(Usage, input=st.integers(0, 9)), message=ANSWERS),
    st.builds(SessionTitled, title=st.sampled_from(["A title", "another"])),
    st.builds(RuntimeAttached, runtime=st.sampled_from(["codex", "pi"]), cwd=st.sampled_from(["", "/app"])),
    st.builds(Opaque, kind=st.just("my.kind"), raw=st.just('{"a":1}')),
    st.builds(TitleGiven, title=st.sampled_from(["Mine", "Yours"])),
    st.builds(SessionTagged, tags=st.lists(TAGS, max_size=3).map(tuple)),
    st.builds(SessionUntagged, tags=st.lists(TAGS, max_size=3).map(tuple)),
    st.builds(NoteAdded, note=CALLS, text=TEXTS),
    st.builds(NoteRemoved, note=CALLS),
    st.sampled_from([SessionStarred(), SessionUnstarred()]),
    st.sampled_from([SessionPaused(reason="lunch"), SessionResumed(), SessionClosed(outcome="done")]),
    st.just(SessionArchived()),
    # Anything at all that a program may append.
    st.sampled_from(OWN).flatmap(lambda kind: structs(KINDS[kind])),
)  # fmt: skip
TIMES = st.none() | st.integers(0, 5).map(lambda number: 1_700_000_000_000_000 + number * HOUR_US // 2)
DRAFTS = st.builds(
    Draft, body=BODIES, source=st.none() | st.sampled_from(["s1", "s2", "s3", "r1~a", "r1~b", "r2~a"]),
    said_at=TIMES | st.integers(-(2**63) + 1, 2**63 - 1),
)  # fmt: skip
STEPS = st.one_of(
    st.tuples(
        st.just("open"), st.sampled_from(["", "fred"]), st.sampled_from(["{}", '{"runtime":"codex","machine":"here"}'])
    ),
    st.tuples(st.just("append"), WHICH, st.lists(DRAFTS, min_size=1, max_size=6)),
    st.tuples(st.just("append"), WHICH, st.lists(DRAFTS, min_size=1, max_size=6)),
    st.tuples(st.just("append"), WHICH, st.lists(DRAFTS, min_size=1, max_size=6)),
    st.tuples(st.just("fork"), WHICH, st.integers(1, 12)),
    st.tuples(st.just("erase"), WHICH, st.booleans()),
    st.tuples(st.just("prune"), st.sets(WHICH, min_size=1)),
    st.tuples(st.just("catch_up"), st.integers(1, 5) | st.none()),
    st.tuples(st.just("catch_up"), st.integers(1, 5) | st.none()),
    st.tuples(st.just("reopen")),
)  # fmt: skip
PROGRAMS = st.lists(STEPS, min_size=5, max_size=30)


class Log:
    """A log and its views, to which things happen."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.views = Views(store)
        self.sessions: list[Session] = []
        set_policy(store, Policy(project=PROJECT, keep_days=5))
        for agent in ("", "fred"):
            self.open(agent)

    def run(self, steps: list[Any]) -> None:
        for name, *arguments in steps:
            # What the log refuses has not happened.
            with suppress(ClewError):
                getattr(self, name)(*arguments)

    def open(self, agent: str, metadata: str = "{}") -> None:
        if len(self.sessions) < MOST_SESSIONS:
            self.sessions.append(
                self.store.open(Opening(project=PROJECT, agent=agent, title="A title", metadata=metadata), actor=ADA)
            )

    def append(self, which: int, drafts: list[Draft]) -> None:
        for draft in drafts:
            with suppress(ClewError):
                self.store.append(self.session(which), [draft], actor=ADA)

    def fork(self, which: int, at: int) -> None:
        if len(self.sessions) < MOST_SESSIONS:
            parent = self.session(which)
            self.sessions.append(
                self.store.open(Forking(parent=parent, at=min(at, self.store.head(parent).head)), actor="person:bob")
            )

    def erase(self, which: int, with_forks: bool) -> None:
        erase(self.store, self.session(which), actor=ADA, with_forks=with_forks)

    def prune(self, which: set[int]) -> None:
        for session in {self.session(one).key: self.session(one) for one in which}.values():
            age(self.store, session, days=10)
        apply_policies(self.store, actor=ADA)

    def catch_up(self, limit: int | None) -> None:
        self.views.catch_up(limit=limit)

    def reopen(self) -> None:
        self.views.close()
        self.views = Views(self.store)

    def session(self, which: int) -> Session:
        return self.sessions[which % len(self.sessions)]

    def close(self) -> None:
        self.views.close()


# What the views hold --------------------------------------------------------------------------------------------------


def contents(views: Views) -> dict[str, Any]:
    """Every row of every view but the passages' ids, which say no more than the hour."""
    with views.read() as tx:
        connection = tx.connection  # type: ignore[attr-defined]
        tables = {
            table: sorted(map(tuple, connection.execute(f"SELECT * FROM {table}")))
            for table in (
                "artifact",
                "committed",
                "label",
                "listing",
                "point",
                "touched",
                "spending",
                "quarter",
                "speaking",
            )
        }
        if views.database.dialect == "pg":
            _check_projects(connection)
            tables = {name: rows if name == "listing" else _without_first(rows) for name, rows in tables.items()}
        passages = connection.execute("SELECT id, session, seq, at FROM passage").fetchall()
        words = _words(connection, views.database.dialect)
    assert {id for id, *_ in passages} == set(words), "passages without words, or words without a passage"
    tables["passage"] = sorted((*passage, sorted(words[id])) for id, *passage in passages)
    return tables


def _check_projects(connection: Any) -> None:
    """On PostgreSQL each row begins with the project of its session, for row-level security."""
    for table in OF_SESSIONS:
        wrong = f"SELECT count(*) FROM {table} t JOIN session s ON s.key = t.session WHERE s.project <> t.project"
        assert connection.execute(wrong).fetchone() == (0,), table


def _without_first(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(row[1:] for row in rows)


def _words(connection: Any, dialect: str) -> dict[int, set[str]]:
    if dialect == "pg":
        return {id: set(words) for id, words in connection.execute("SELECT id, tsvector_to_array(words) FROM passage")}
    connection.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary USING fts5vocab(main, words, instance)")
    found: dict[int, set[str]] = {}
    for word, id in connection.execute("SELECT term, doc FROM temp.vocabulary"):
        found.setdefault(id, set()).add(word)
    return found


def found_by_words(views: Views, *some: str) -> dict[str, list[tuple[str, int]]]:
    """What is found by each tag that there is, and by some words."""
    with views.read() as tx:
        words = _words(tx.connection, views.database.dialect)  # type: ignore[attr-defined]
    tags = {word for one in words.values() for word in one if not word.isalnum()}
    asked = {tag: Search(views, parse(""), Scope(tags=(tag,))) for tag in tags}
    asked |= {word: Search(views, parse(word), Scope()) for word in some}
    return {
        name: sorted((hit.session, hit.seq) for hit in search.newest(limit=5000).hits)
        for name, search in asked.items()
    }  # fmt: skip


# What they should hold ------------------------------------------------------------------------------------------------


def check_against_log(store: Store, views: Views) -> None:
    """Check that nothing of the log is missing, doubled or left over, by reading it session by session."""
    found = contents(views)
    lines, passages, spending, touched = {}, [], [], Counter[tuple[int, str, str]]()
    labels = set[tuple[int, str, str]]()
    for key, *_ in query(store, "SELECT key FROM session WHERE control = 0"):
        session = session_by_key(store, key)
        head = store.head(session)
        if head.state == State.ERASED:
            continue
        own = list(own_events(store, session, upto=head.head))
        bodies = [event.body for event in own]
        # Of the versions of one record the first counts.
        told = {
            (event.kind, event.source.partition("~")[0] if "~" in (event.source or "") else event.seq): event.body
            for event in reversed(own)
        }.values()
        lines[key] = (
            session.id,
            head.state,
            len(own),
            sum(isinstance(body, MessageAdded) and body.role == "user" and not body.side for body in told),
            sum(isinstance(body, CallMade) for body in told),
            sum(isinstance(body, CallReturned) and body.failed for body in told),
        )
        # The row of the session has a title without NUL, the list has a mark for each.
        titles = [row[3].replace("\ufffd", "") for row in found["listing"] if row[0] == key]
        assert titles == [storable(session.title).replace("\ufffd", "")]
        labels |= {(key, *label) for label in _labels(own)}
        passages += [(key, event.seq) for event in own if passage_of(event.body)]
        used = [event for event in own if isinstance(event.body, SPENDING) and event.body.usage is not None]
        # A record that came again in another version counts as it was said last.
        spending += [(key, event.position) for event in {identity(one.source) or one.seq: one for one in used}.values()]
        for body in bodies:
            for touch in touches(body):
                touched[key, touch.what[-50:], "written" if touch.how == "written" else "read"] += 1
    listed = {row[0]: (row[2], row[9], *row[11:15]) for row in found["listing"]}
    assert listed == lines
    assert {row[:3] for row in found["label"]} == labels
    assert [(row[0], row[1]) for row in found["passage"]] == sorted(passages)
    assert sorted((row[0], row[3]) for row in found["spending"]) == sorted(spending)
    assert found["quarter"] == _quarters(found["spending"])
    counted = Counter[tuple[int, str, str]]()
    for session_key, _, what, _, read, written, *_ in found["touched"]:
        counted[session_key, what[-50:], "read"] += read
        counted[session_key, what[-50:], "written"] += written
    plain = {key: count for key, count in touched.items() if "\0" not in key[1]}
    assert {key: count for key, count in counted.items() if count and "\ufffd" not in key[1]} == plain


def _quarters(spending: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The sums by quarter of an hour, from the records themselves: an answer counts for who recorded it first."""
    first = {message: (position, key) for key, _, message, position, *_ in sorted(spending, key=lambda row: -row[3])}
    sums: dict[tuple[int, int, str, int], list[int]] = {}
    for key, _, message, position, _, at, model, *counts in spending:
        if first[message][1] == key:
            row = sums.setdefault((key, at // 900_000_000, model, int(counts[-1] > 0)), [0] * 8 + [at, at])
            for number, value in enumerate([*counts, int(first[message][0] == position)]):
                row[number] += value
            row[8:] = min(row[8], at), max(row[9], at)
    return sorted((*group, *row) for group, row in sums.items())


def _labels(own: list[Event]) -> set[tuple[str, str]]:
    """The labels that the events of one session leave it with."""
    labels = set[tuple[str, str]]()
    for event in own:
        match event.body:
            case SessionTagged(tags=tags):
                labels |= {("tag", tag) for tag in tags if is_tag(tag)}
            case SessionUntagged(tags=tags):
                labels -= {("tag", tag) for tag in tags}
            case SessionStarred():
                labels.add(("star", event.actor))
            case SessionUnstarred():
                labels.discard(("star", event.actor))
            case NoteAdded(note=note):
                labels.add(("note", storable(note)))
            case NoteRemoved(note=note):
                labels.discard(("note", storable(note)))
    return labels
