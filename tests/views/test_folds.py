"""Views kept in step are the views built at once from the whole log, whatever happened in it, and however it went."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from clew.model.events import CallMade, CallReturned, Draft, Opaque, SessionClosed
from clew.model.retention import Policy
from clew.store import Store, open_store
from clew.store.log.retention import apply_policies, set_policy
from clew.views import folding
from clew.views.catalog import versions
from clew.views.sessions import session_row
from clew.views.text import MOST_CALLS, TOOL, tag
from clew.views.upkeep import Views
from store.rows import age, change
from store.words import ADA, big, learn, opened, say
from support.postgres import Server
from views.logs import PROGRAMS, Log, check_against_log, contents, found_by_words

NAMES = st.sampled_from(["", *versions()])
LIMITS = st.integers(1, 9) | st.none()
WORDS = ("lock", "error", "billing", "name", "日", "uber", "title", "more", "done")
UNHURRIED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]


# Whatever happened ----------------------------------------------------------------------------------------------------


@settings(max_examples=120, suppress_health_check=UNHURRIED)
@given(steps=PROGRAMS, rebuilt=NAMES, limit=LIMITS, seconds=st.sampled_from([0.0, 1.0]))
def test_views_kept_in_step_are_views_built_at_once_on_sqlite(
    steps: list[Any], rebuilt: str, limit: int | None, seconds: float
) -> None:
    memory = Path("/dev/shm")
    with (
        tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder,
        open_store(f"sqlite:///{folder}/clew.db", synchronous="OFF") as store,
    ):
        check(store, steps, rebuilt, limit, seconds)


@settings(max_examples=6, suppress_health_check=UNHURRIED)
@given(steps=PROGRAMS, rebuilt=NAMES, limit=LIMITS, seconds=st.sampled_from([0.0, 1.0]))
def test_views_kept_in_step_are_views_built_at_once_on_postgres(
    emptied: Store, steps: list[Any], rebuilt: str, limit: int | None, seconds: float
) -> None:
    change(emptied, *(f"DELETE FROM {table}" for table in ("event", "head", "session", "blob", "policy")))
    check(emptied, steps, rebuilt, limit, seconds)


@pytest.fixture(scope="module")
def emptied(postgres: Server) -> Iterator[Store]:
    with open_store(postgres.new_database()) as store:
        yield store


def check(store: Store, steps: list[Any], rebuilt: str, limit: int | None, seconds: float) -> None:
    """Tell a log, keep its views in step, and compare them with the log and with what is built again."""
    with pytest.MonkeyPatch.context() as patch, told(store) as log:
        # In no time at all every event is a transaction of its own.
        patch.setattr(folding, "STEP_SECONDS", seconds)
        log.run(steps)
        log.views.catch_up()
        check_against_log(store, log.views)
        kept, found = contents(log.views), found_by_words(log.views, *WORDS)
        log.views.rebuild(rebuilt)
        while log.views.catch_up(limit=limit).left:
            pass
        assert contents(log.views) == kept
        assert found_by_words(log.views, *WORDS) == found
        assert log.views.pop_notice() == ""


@contextmanager
def told(store: Store) -> Iterator[Log]:
    log = Log(store)
    log.views.rebuild()
    try:
        yield log
    finally:
        log.close()


# What a removal leaves ------------------------------------------------------------------------------------------------


@pytest.fixture
def views(store: Store) -> Iterator[Views]:
    views = Views(store)
    yield views
    views.close()


def pruned(store: Store, *sessions: Any) -> None:
    set_policy(store, Policy(project="demo", keep_days=30))
    for session in sessions:
        age(store, session, days=31)
    apply_policies(store, actor=ADA)


def lines(views: Views) -> dict[str, dict[str, Any]]:
    """The list, by the session's id."""
    views.catch_up()
    with views.read() as tx:
        found = [session_row(row) for row in tx.run("sessions_page", before_at=2**62, before=2**62, limit=99)]
    return {line.id: msgspec.structs.asdict(line) for line in found}


def test_a_pruned_session_is_listed_in_the_state_it_is_in(store: Store, views: Views) -> None:
    """What was pruned was work, also when it was of a kind that only its program knows."""
    foreign, closed = opened(store), opened(store)
    store.append(foreign, [Draft(body=Opaque(kind="my.kind", raw="{}"))], actor=ADA)
    store.append(closed, [say("hello"), learn("kept"), Draft(body=SessionClosed(outcome="done"))], actor=ADA)
    before = lines(views)
    pruned(store, foreign, closed)
    after = lines(views)
    assert [after[one.id]["state"] for one in (foreign, closed)] == ["active", "closed"]
    for one in (foreign, closed):
        assert after[one.id]["last_at"] == before[one.id]["last_at"], "pruning is nothing that happened in the session"
        assert after[one.id]["state"] == store.head(one).state
    assert (before[closed.id]["turns"], after[closed.id]["turns"]) == (1, 0)
    check_against_log(store, views)


def test_a_large_session_is_folded_again_in_portions(
    store: Store, views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folding, "STEP_SECONDS", 0.0)
    session = opened(store)
    store.append(session, [learn("kept"), say(big()), *(say(f"word{n}") for n in range(30)), learn("too")], actor=ADA)
    views.catch_up()
    pruned(store, session)
    views.catch_up()
    check_against_log(store, views)
    assert found_by_words(views, "kept", "word7", "too")["kept"] == [(session.id, 2)]


def test_a_call_is_known_by_its_tool_until_it_returns_however_the_events_come(store: Store, views: Views) -> None:
    """More calls than are remembered: the oldest is given up, in one step as in many."""
    session = opened(store)
    calls = [Draft(body=CallMade(call=str(n), tool=f"tool{n}")) for n in range(MOST_CALLS + 2)]
    returns = [Draft(body=CallReturned(call=str(n), output=Raw(b'"back"'))) for n in range(MOST_CALLS + 2)]
    store.append(session, calls, actor=ADA)
    while views.catch_up(limit=50).left:
        pass
    store.append(session, returns, actor=ADA)
    views.catch_up()
    kept = contents(views)
    views.rebuild()
    views.catch_up()
    assert contents(views) == kept
    tools = [sum(word.startswith(tag(TOOL, "")) for word in words) for *_, words in kept["passage"]]
    assert tools.count(1) == len(calls) + MOST_CALLS
    assert [row[2] for row in kept["speaking"]] == ["{}"]
