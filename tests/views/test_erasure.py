"""What was erased is in no view, at once, and leaves no trace in their files; what was pruned is not found any more."""

import mmap
import secrets
import types
import typing
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw
import msgspec
import psycopg
import pytest
from msgspec import Raw

from clew.model.access import owner_of_everything
from clew.model.errors import InvalidInput
from clew.model.events import (
    KINDS,
    Body,
    CallMade,
    Draft,
    MessageAdded,
    Opaque,
    RuntimeAttached,
    SessionArchived,
    SessionClosed,
    SessionPaused,
    SessionResumed,
    Touch,
    Usage,
    UsageCounted,
)
from clew.model.session import Session
from clew.service import Context, call
from clew.store import Store, open_store
from clew.store.log.opening import Forking, Opening
from clew.store.objects import objects
from clew.views.catalog import versions
from store.rows import age
from store.words import ADA, big, bulk, learn, say
from support.postgres import Server
from views.logs import check_against_log, contents

PROJECT = "demo"
# Which the session says of itself in its own words, so that each has to be forgotten where it was kept.
BY = ["session", "agent", "person", "runtime", "model", "machine", "day"]


class Canary:
    """A session that says a word of its own in every field of every kind."""

    def __init__(self) -> None:
        self.words: dict[str, str] = {}

    def word(self, place: str) -> str:
        """The word that is said in this place alone. It begins with what no other word begins with."""
        return self.words.setdefault(place, f"{len(self.words):02}".translate(_LETTERS) + secrets.token_hex(12))

    def sing(self, store: Store) -> Session:
        origin = f'{{"runtime":"{self.word("origin")}","machine":"{self.word("machine")}","x":"{self.word("x")}"}}'
        opening = Opening(project=PROJECT, agent=self.word("agent"), title=self.word("title"), metadata=origin)
        session = store.open(opening, actor=f"person:{self.word('person')}")
        bodies: list[Body | Opaque] = [self.body(store, kind) for kind in KINDS.values() if not kind.reserved]
        bodies += [
            CallMade(call=self.word("call"), tool="Read", input=_json({"path": f"/app/{self.word('path')}.py"})),
            MessageAdded(role="user", text=big(f"{self.word('long')} ")),
            Opaque(kind=f"my.{self.word('kind')}", raw=f'"{self.word("raw")}"'),
            SessionPaused(reason=self.word("paused")),
            SessionResumed(reason=self.word("resumed"), runtime=self.word("resumed in")),
            SessionClosed(outcome=self.word("outcome"), summary=self.word("summary")),
            SessionArchived(reason=self.word("archived")),
        ]
        for number, body in enumerate(bodies):
            draft = Draft(body=body, source=f"{self.word('source')}-{number}", said_at=1_700_000_000_000_000 + number)
            store.append(session, [draft], actor=f"agent:{self.word('actor')}")
        return session

    def body(self, store: Store, kind: type[msgspec.Struct]) -> Any:
        """A body in which every text is a word of its own."""
        hints = typing.get_type_hints(kind)
        fields = {
            field.name: self.value(store, hints[field.name], f"{kind.__name__}.{field.name}")
            for field in msgspec.structs.fields(kind)
        }
        return kind(**fields)

    def value(self, store: Store, type: Any, place: str) -> Any:
        origin, arguments = typing.get_origin(type), typing.get_args(type)
        if place.endswith((".blob", ".git")):
            return objects.save(store, bulk(self.word(place)))
        if origin in (typing.Union, types.UnionType):
            return self.value(store, arguments[0], place)
        if origin is tuple:
            return (self.value(store, arguments[0], place),)
        if type is Raw:
            return _json({self.word(f"{place} name"): [self.word(place)]})
        if type is str:
            return self.word(place)
        return self.body(store, type) if issubclass(type, msgspec.Struct) else type(7)

    def traces(self) -> list[tuple[str, bytes]]:
        """The words as a file may have them: an index keeps of a word only what the word before it has not."""
        found = []
        for place, word in self.words.items():
            for text in (word, word.upper()):
                found += [(place, text[4:].encode()), (place, text.encode().hex()[8:].encode())]
        return found

    def hits(self, paths: Iterable[Path]) -> list[str]:
        """Where a word is found, in files as they lie on the disk."""
        found = []
        for path in paths:
            # A server may remove a file in between; what is gone has no trace.
            with suppress(FileNotFoundError):
                if path.stat().st_size:
                    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                        found += [f"{path.name}: {place}" for place, trace in self.traces() if content.find(trace) >= 0]
        return found

    def said(self, text: str) -> list[str]:
        """Which words a text has."""
        return [place for place, word in self.words.items() if word in text.lower() or word.encode().hex() in text]


# Digits to letters that no hexadecimal number has.
_LETTERS = str.maketrans("0123456789", "ghijklmnop")


def _json(value: Any) -> Raw:
    return Raw(msgspec.json.encode(value))


@pytest.fixture
def canary() -> Canary:
    return Canary()


@contextmanager
def context_on(url: str) -> Iterator[Context]:
    store = open_store(url)
    context = Context(store=store, unrestricted=store, principal=ADA, grants=(owner_of_everything(ADA),))
    try:
        yield context
    finally:
        context.close()


@pytest.fixture
def context(store_url: str) -> Iterator[Context]:
    with context_on(store_url) as context:
        yield context


def asked(context: Context, canary: Canary) -> str:
    """What every operation that reads a view says, asked for everything and for each of the words."""
    answers: list[Any] = [
        call(context, "sessions", {"limit": 1000}),
        call(context, "usage", {"by": BY}),
        call(context, "search", {"project": PROJECT, "limit": 200}).sessions,
        call(context, "search", {"project": PROJECT, "limit": 200, "order": "relevant"}).hits,
    ]
    for place, word in canary.words.items():
        answers.append(call(context, "search", {"query": word, "flat": True}).hits)
        if place in ("agent", "origin", "CallMade.tool", "RuntimeAttached.runtime", "person", "actor"):
            filters = [
                {"agent": word},
                {"runtime": word},
                {"tool": word},
                {"person": word},
                {"person": f"agent:{word}"},
            ]
            answers += [searched(context, wanted) for wanted in filters]
        if place in ("path", "Touch.what", "CallMade.tool"):
            answers += [call(context, "files", {"path": path}) for path in (word, f"{word}.py", f"/app/{word}.py")]
    return msgspec.json.encode(answers).decode()


def searched(context: Context, wanted: dict[str, str]) -> list[Any]:
    """The hits of a search; none for a runtime that no session has, which is refused."""
    try:
        return list(call(context, "search", {**wanted, "flat": True}).hits)
    except InvalidInput:
        assert "runtime" in wanted
        return []


def everything(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


# Gone at once ---------------------------------------------------------------------------------------------------------


def test_what_was_erased_is_gone_from_every_view_at_once(context: Context, canary: Canary) -> None:
    other = context.store.open(Opening(project=PROJECT, title="kept"), actor=ADA)
    context.store.append(other, [say("kept")], actor=ADA)
    session = canary.sing(context.store)
    before = canary.said(asked(context, canary))
    assert len(before) > 40, f"nothing is shown to begin with but {before}"
    call(context, "erase", {"session": session.id})
    assert canary.said(asked(context, canary)) == []
    assert canary.said(str(contents(context.views))) == []
    assert [row[0] for row in contents(context.views)["listing"]] == [other.key]
    assert [place.session for place in call(context, "search", {"query": "kept", "flat": True}).hits] == [other.id] * 2
    check_against_log(context.store, context.views)


def test_a_family_is_gone_with_its_forks(context: Context, canary: Canary) -> None:
    store = context.store
    session = store.open(Opening(project=PROJECT, title=canary.word("title")), actor=ADA)
    store.append(session, [say(canary.word("said"))], actor=ADA)
    child = store.open(Forking(parent=session, title=canary.word("fork")), actor=f"person:{canary.word('forker')}")
    store.append(child, conversation(canary.word("in the fork")), actor=ADA)
    grandchild = store.open(Forking(parent=child), actor=ADA)
    store.append(grandchild, [say(canary.word("in its fork"))], actor=ADA)
    assert set(canary.said(asked(context, canary))) == set(canary.words)
    call(context, "erase", {"session": session.id, "with_forks": True})
    assert canary.said(asked(context, canary)) == []
    assert contents(context.views)["listing"] == []
    check_against_log(store, context.views)


# No trace -------------------------------------------------------------------------------------------------------------


def half_built(context: Context, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """Bring the views into a state in which somebody may find them."""
    if how == "new":
        return
    context.views.catch_up()
    if how == "another version":
        monkeypatch.setitem(versions(), "text", versions()["text"] + 1)
    elif how.startswith("rebuilding"):
        context.views.rebuild(how.partition(" ")[2])
        context.views.catch_up(limit=5 if how == "rebuilding files" else None)
        context.views.rebuild(how.partition(" ")[2])


STATES = ["up to date", "new", "another version", "rebuilding", "rebuilding text", "rebuilding files"]


@pytest.mark.parametrize("state", STATES)
def test_no_file_of_the_views_has_a_trace_left(
    tmp_path: Path, canary: Canary, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    with context_on(f"sqlite:///{tmp_path}/clew.db") as context:
        context.store.append(
            context.store.open(Opening(project=PROJECT), actor=ADA), [say("kept " * 500)] * 50, actor=ADA
        )
        session = canary.sing(context.store)
        half_built(context, monkeypatch, state)
        views = [path for path in everything(tmp_path) if "-views" in path.name]
        assert state == "new" or len(canary.hits(views)) > 40
        [erased] = call(context, "erase", {"session": session.id})
        assert erased.beyond_reach == []
        assert canary.hits(everything(tmp_path)) == []
        assert len(call(context, "search", {"query": "kept", "flat": True, "limit": 100}).hits) == 50
        assert canary.hits(everything(tmp_path)) == []
    assert canary.hits(everything(tmp_path)) == []


def test_a_reader_of_the_views_that_holds_an_old_state_is_named(
    tmp_path: Path, canary: Canary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clew.store.database.sqlite.BUSY_SECONDS", 0.05)
    with context_on(f"sqlite:///{tmp_path}/clew.db") as context:
        session = canary.sing(context.store)
        context.views.catch_up()
        reader = apsw.Connection(str(tmp_path / "clew-views.db"))
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM listing").fetchall()
        [erased] = call(context, "erase", {"session": session.id})
        reader.close()
        assert [place for place in erased.beyond_reach if "clew-views.db-wal" in place]
        # Once it is gone, the same command finds nothing in its way.
        [again] = call(context, "erase", {"session": session.id})
        assert again.beyond_reach == []
        assert canary.hits(everything(tmp_path)) == []


@pytest.mark.parametrize("state", ["up to date", "rebuilding"])
def test_no_table_file_of_a_server_has_a_trace_left(
    postgres: Server, canary: Canary, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    """Also of what the planner has learnt about the columns."""
    url = postgres.new_database()
    with context_on(url) as context, psycopg.connect(url, autocommit=True) as connection:
        [(oid,)] = connection.execute("SELECT oid FROM pg_database WHERE datname = current_database()").fetchall()
        folder = postgres.data_directory / "base" / str(oid)
        session = canary.sing(context.store)
        context.views.catch_up()
        connection.execute("ANALYZE")
        half_built(context, monkeypatch, state)
        connection.execute("CHECKPOINT")
        assert len(canary.hits(everything(folder))) > 40
        call(context, "erase", {"session": session.id})
        connection.execute("CHECKPOINT")
        assert canary.hits(everything(folder)) == []


# Pruned ---------------------------------------------------------------------------------------------------------------


def test_a_pruned_conversation_is_not_found_and_what_was_learnt_is(context: Context) -> None:
    store = context.store
    session = store.open(Opening(project=PROJECT, title="A title"), actor=ADA)
    store.append(session, conversation("gone"), actor=ADA)
    store.append(session, [learn("learnt")], actor=ADA)
    assert found(context, "gone") == [session.id]
    prune(context, session)
    assert found(context, "gone") == []
    assert call(context, "files", {"path": "gone.py"}) == []
    assert call(context, "usage", {"by": ["session"]}).rows == []
    assert found(context, "learnt") == [session.id]
    assert [(line.title, line.turns, line.calls, line.tokens) for line in call(context, "sessions", {})] == [
        ("A title", 0, 0, 0)
    ]
    check_against_log(store, context.views)


def test_what_a_kept_fork_reads_is_still_found_and_goes_with_it(context: Context) -> None:
    store = context.store
    session = store.open(Opening(project=PROJECT), actor=ADA)
    store.append(session, conversation("shared"), actor=ADA)
    child = store.open(Forking(parent=session), actor=ADA)
    store.append(session, conversation("alone"), actor=ADA)
    store.append(child, conversation("forked"), actor=ADA)
    prune(context, session)
    assert [found(context, word) for word in ("shared", "alone", "forked")] == [[session.id], [], [child.id]]
    assert [len(call(context, "files", {"path": f"{name}.py"})) for name in ("shared", "alone", "forked")] == [1, 0, 1]
    assert call(context, "usage", {}).total.input == 2
    age(store, child, days=31)
    prune(context, session)
    assert [found(context, word) for word in ("shared", "alone", "forked")] == [[], [], []]
    assert call(context, "usage", {}).total.input == 0
    check_against_log(store, context.views)


def test_an_answer_that_was_pruned_in_one_session_counts_in_the_other_that_tells_of_it(context: Context) -> None:
    store = context.store
    sessions = [store.open(Opening(project=PROJECT, title=title), actor=ADA) for title in ("first", "second")]
    answer = UsageCounted(usage=Usage(input=5), message="msg_0123456789abcdef")
    for one in sessions:
        store.append(one, [Draft(body=answer)], actor=ADA)
    assert [(row.title, row.input) for row in call(context, "usage", {"by": ["session"]}).rows] == [("first", 5)]
    prune(context, sessions[0])
    assert [(row.title, row.input) for row in call(context, "usage", {"by": ["session"]}).rows] == [("second", 5)]


def test_what_was_pruned_is_overwritten_too(tmp_path: Path, canary: Canary) -> None:
    with context_on(f"sqlite:///{tmp_path}/clew.db") as context:
        session = context.store.open(Opening(project=PROJECT), actor=ADA)
        context.store.append(session, [say(canary.word("said")), say(big(canary.word("large")))], actor=ADA)
        context.views.catch_up()
        views = [path for path in everything(tmp_path) if "-views" in path.name]
        assert canary.hits(views)
        prune(context, session)
        assert canary.hits(views) == []


def conversation(word: str) -> list[Draft]:
    bodies = [
        RuntimeAttached(runtime="codex"),
        MessageAdded(role="user", text=word, usage=Usage(input=1)),
        CallMade(call="1", tool="Edit", touched=(Touch(what=f"/app/{word}.py", how="written"),)),
    ]
    return [Draft(body=body) for body in bodies]


def found(context: Context, word: str) -> list[str]:
    return sorted({place.session for place in call(context, "search", {"query": word, "flat": True}).hits})


def prune(context: Context, session: Session) -> None:
    call(context, "retention_set", {"project": PROJECT, "keep_days": 30})
    age(context.store, session, days=31)
    call(context, "retention_apply", {})
