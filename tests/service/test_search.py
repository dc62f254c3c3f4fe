"""Search, the same on both databases: every word of every session, and nothing else."""
# ruff: noqa: RUF001  # Letters that look like others are what this is about.

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from clew.model.errors import InvalidInput, NotFound
from clew.model.events import (
    CallMade,
    CallReturned,
    Draft,
    FactLearned,
    MessageAdded,
    RuntimeAttached,
    SessionTitled,
    Touch,
    Usage,
)
from clew.model.passage import STRETCH
from clew.service import Context, call
from clew.store import Store, open_store
from clew.store.log.opening import Forking
from clew.views import search as searching
from clew.views.text import MARK, ROLE, ROOM, SESSION, tag
from store.rows import change
from store.rows import one as the_row
from support.counting import counted
from support.talks import (
    DAY,
    HOUR,
    MONDAY,
    Asked,
    Log,
    add,
    asked,
    hits,
    make,
    on,
    opened,
    pages,
    search,
    shuffled,
)
from support.wording import all_words, texts


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")


@pytest.fixture
def context(store: Store) -> Iterator[Context]:
    context = on(store)
    yield context
    context.close()


# Any word, and nothing else -------------------------------------------------------------------------------------------


def test_any_word_of_any_text_is_found_and_nothing_else_is(context: Context) -> None:
    known: dict[tuple[str, int], set[str]] = {}

    @settings(max_examples=40)
    @given(st.lists(texts, min_size=1, max_size=3), st.data())
    def check(said: list[str], data: st.DataObject) -> None:
        session = opened(context)
        seqs = add(context, session, *map(asked, said))
        known.update({(session.id, seq): all_words(text) for seq, text in zip(seqs, said, strict=True)})
        words = sorted(set().union(*(all_words(text) for text in said)))
        chosen = data.draw(st.lists(st.sampled_from(words), max_size=3, unique=True)) if words else []
        for word in [*chosen, data.draw(st.sampled_from(["a", "r61736b6564", "s1", "zzz"]))]:
            expected = sorted(place for place, has in known.items() if word in has)
            found = search(context, word, flat=True, limit=200)
            assert sorted((hit.session, hit.seq) for hit in found.hits) == expected, ascii(word)
            assert found.total == len(expected)

    check()


@pytest.mark.parametrize("seed", [1, 2])
def test_every_query_and_filter_finds_what_a_plain_look_finds(context: Context, seed: int) -> None:
    log = make(context, seed)
    for query, filters in shuffled(log, 25):
        expected = log.look(query, **filters)
        _check(log, query, filters, expected)


def _check(log: Log, query: Asked, filters: dict[str, Any], expected: list[tuple[str, int]]) -> None:
    context, about = log.context, f"{query.typed!a} {filters}"
    limit = log.chance.randint(1, 9)
    assert sorted(hits(context, query.typed, limit=limit, **filters)) == expected, about
    assert sorted(hits(context, query.typed, order="relevant", limit=limit, **filters)) == expected, about
    found = list(pages(context, query.typed, limit=limit, **filters))
    if not expected:
        _check_partial(log, query, filters, found)
        return
    sessions = [session for page in found for session in page.sessions]
    assert sorted(session.session for session in sessions) == sorted({session for session, _ in expected}), about
    for page in found:
        assert page.total in (None, len(expected))
        assert page.total is not None or not query.is_exact or "file" in filters
    for one in sessions:
        own = {seq for session, seq in expected if session == one.session}
        assert {hit.seq for hit in one.hits} <= own
        assert 1 <= len(one.hits) <= 3
        assert one.count == len(own) or one.more


def _check_partial(log: Log, query: Asked, filters: dict[str, Any], found: list[Any]) -> None:
    """When no passage has all the words, those with some of them are shown, and nothing else is."""
    some = log.look_partly(query, **filters) if len(query.wanted) > 1 else []
    [page] = found
    assert page.partial is bool(some), query.typed
    shown = [(hit.session, hit.seq) for session in page.sessions for hit in session.hits]
    assert set(shown) <= set(some)
    assert (page.total, page.next) == (None if some else 0, "") or not query.is_exact or "file" in filters


def test_both_databases_find_the_same(tmp_path: Path, emptied_url: str) -> None:
    contexts = [on(open_store(url)) for url in (f"sqlite:///{tmp_path / 'clew.db'}", emptied_url)]
    logs = [make(context, 7) for context in contexts]
    for (query, filters), _ in zip(shuffled(logs[0], 30), shuffled(logs[1], 30), strict=True):
        number = _number(logs[0], filters.pop("session", ""))
        found = []
        for log in logs:
            mine = {"session": log.sessions[number].id, **filters} if number >= 0 else filters
            found.append([_told(log, query, mine, **how) for how in ({}, {"flat": True}, {"order": "relevant"})])
        assert found[0] == found[1], (query.typed, filters)
    for context in contexts:
        context.close()


def _number(log: Log, session: str) -> int:
    return next((number for number, one in enumerate(log.sessions) if one.id == session), -1)


def _told(log: Log, query: Asked, filters: dict[str, Any], **how: Any) -> list[Any]:
    """What a search tells, without what differs between two logs; what was said just now is in no order."""
    told: list[Any] = []
    now: list[Any] = []
    for page in pages(log.context, query.typed, limit=200, **filters, **how):
        told += [page.total, page.total_is_exact, page.partial]
        for one in page.sessions:
            told.append(
                (_number(log, one.session), one.title, one.project, one.runtime, one.agent, one.state, one.count)
            )
        for hit in [*page.hits, *(hit for session in page.sessions for hit in session.hits)]:
            place = (_number(log, hit.session), hit.seq, hit.role, hit.tool, hit.failed, hit.snippet)
            (told if hit.at < MONDAY + 3 * DAY else now).append(place)
    return [sorted(told, key=str) if "order" not in how and "flat" not in how else told, sorted(now, key=str)]


# What can be typed ----------------------------------------------------------------------------------------------------

FOUND = {
    "lock": "a Lock!",
    "LOCK error": "error: no lock",
    '"database is locked"': "sqlite: Database is  locked",
    "lock*": "the locksmith",
    '"is lo"*': "it is locked",
    "user": "getUserName",
    "getusername": "getUserName",
    "getUser": "get_user()",
    "GetUser": "getuser",
    "readme.md": "ReadMe.md",
    "ReadMe.MD": "see README.md",
    "MyModule.getUser": "mymodule.GetUserName",
    "lock OR mutex": "a mutex",
    '"a lock" OR mutex error': "error: a lock",
    "get_user": "getUserName",
    "HTTP": "parseHTTPHeader",
    "billing.py": "at src/app/billing.py:12",
    "billing.py:12": "src/app/billing.py:12: error",
    "app/billing": "src\\app\\billing.py",
    "cafe": "Café",
    "CAFÉ": "cafe\u0301",
    "abc": "ＡＢＣ",
    "strasse": "Straße",
    "本語": "日本語を",
    "日本語を": "日本語を",
    "한국": "한국어",
    "ｶﾞ": "ガ",
    "й": "И\u0306",
    "ꭳ": "Ꭳ",
    "warning": "⚠\ufe0fWarning",
    "lock -test": "lock",
    "-test lock": "a lock",
    'lock -"in test"': "test in lock",
    "--flag": "use --flag",
    "'; DROP TABLE": "'; drop table passage",
    "a* & b | !c:*": "abba c b",
    "x" * 65: "x" * 100,
}
NOT_FOUND = {
    "lock": "locked",
    '"is locked"': "is it locked",
    "日語": "日本語",
    "lock -test": "lock test",
    'lock -"in test"': "lock in test",
    "lock -te*": "lock tester",
    "block*": "lock",
    "lock AND error": "lock error",
    "mutex OR spin lock": "mutex",
    "readme.md": "ReadMeNot.md",
    "x" * 30: "x" * 31,
    f"{MARK}r": "asked",
}


def test_a_query_finds_a_text(context: Context) -> None:
    # Each alone in its session.
    sessions = {query: opened(context, asked(text)) for query, text in FOUND.items()}
    others = {query: opened(context, asked(text)) for query, text in NOT_FOUND.items()}
    for query, session in sessions.items():
        assert hits(context, query, session=session.id) == [(session.id, 2)], ascii(query)
    for query, session in others.items():
        assert hits(context, query, session=session.id) == [], ascii(query)


def test_no_text_can_pass_for_another_role_or_session(context: Context) -> None:
    mine = opened(context, asked("secret"))
    forged = f"secret {tag(ROLE, 'asked')} {tag(SESSION, mine.key)} {MARK}x"
    other = opened(context, MessageAdded(role="assistant", text=forged))
    assert hits(context, "secret", role="asked") == [(mine.id, 2)]
    assert hits(context, "secret", session=mine.id) == [(mine.id, 2)]
    found = search(context, "secret")
    assert found.total == 2
    # What is typed is no tag either.
    assert hits(context, tag(ROLE, "asked")) == [(other.id, 2)]


def test_words_in_different_events_do_not_make_a_hit(context: Context) -> None:
    opened(context, asked("lock"), asked("error"))
    assert hits(context, "lock error") == []


# Filters --------------------------------------------------------------------------------------------------------------


def raw(value: Any) -> Raw:
    return Raw(msgspec.json.encode(value))


@pytest.fixture
def shop(context: Context) -> dict[str, Any]:
    """Three sessions that all say `lock`, each in its own way."""
    fix = opened(
        context, RuntimeAttached(runtime="claude-code"), asked("lock asked", MONDAY),
        Draft(body=CallMade(call="1", tool="Bash", input=raw({"command": "lock run"})), said_at=MONDAY + HOUR),
        Draft(body=CallReturned(call="1", output=raw("lock failed"), failed=True), said_at=MONDAY + HOUR * 3 // 2),
        Draft(body=CallMade(call="2", tool="Read", input=raw({"file_path": "src/lock.py"})), said_at=MONDAY + DAY),
        Draft(body=CallReturned(call="2", output=raw("lock read")), said_at=MONDAY + DAY),
        project="shop", agent="Reviewer", metadata='{"runtime": "codex"}',
    )  # fmt: skip
    add(
        context, fix, Draft(body=FactLearned(fact="f", text="lock noted"), said_at=MONDAY + 2 * DAY), actor="person:bob"
    )
    idle = opened(context, asked("lock waits", MONDAY + 7 * DAY), metadata='{"runtime": "codex"}')
    call(context, "pause", {"session": idle.id})
    note = opened(context, title="lock titled", agent="builder")
    return {"fix": fix.id, "idle": idle.id, "note": note.id}


FILTERS: list[tuple[dict[str, str], str]] = [
    ({}, "fix3 fix4 fix5 fix6 fix7 fix8 idle2 note1"),
    ({"runtime": "claude-code"}, "fix3 fix4 fix5 fix6 fix7 fix8"),
    ({"runtime": "codex"}, "idle2"),
    ({"runtime": "cursor"}, ""),
    ({"runtime": "Claude"}, "fix3 fix4 fix5 fix6 fix7 fix8"),
    ({"agent": "reviewer"}, "fix3 fix4 fix5 fix6 fix7 fix8"),
    ({"agent": "builder"}, "note1"),
    ({"project": "shop"}, "fix3 fix4 fix5 fix6 fix7 fix8"),
    ({"project": "default"}, "idle2 note1"),
    ({"person": "bob"}, "fix8"),
    ({"person": "person:ada", "project": "default"}, "idle2 note1"),
    ({"role": "asked"}, "fix3 idle2"),
    ({"role": "answered"}, ""),
    ({"role": "run"}, "fix4 fix6"),
    ({"role": "returned"}, "fix5 fix7"),
    ({"role": "noted"}, "fix8 note1"),
    ({"role": "user"}, "fix3 idle2"),
    ({"role": "assistant"}, ""),
    ({"role": "tool"}, "fix4 fix5 fix6 fix7"),
    ({"role": "tool", "outcome": "error"}, "fix5"),
    ({"tool": "bash"}, "fix4 fix5"),
    ({"tool": "Read"}, "fix6 fix7"),
    ({"outcome": "error"}, "fix5"),
    ({"outcome": "success"}, "fix7"),
    ({"outcome": "error", "tool": "Read"}, ""),
    ({"file": "lock.py"}, "fix3 fix4 fix5 fix6 fix7 fix8"),
    ({"file": "/home/me/src/lock.py", "role": "asked"}, "fix3"),
    ({"file": "other/lock.py"}, ""),
    ({"file": "nowhere.py"}, ""),
    ({"state": "paused"}, "idle2"),
    ({"state": "opened"}, "note1"),
    ({"state": "archived"}, ""),
    ({"session": "fix", "role": "asked"}, "fix3"),
    ({"when": "2020-05-04"}, "fix3 fix4 fix5"),
    ({"when": "2020-05-04 01:00"}, "fix4"),
    ({"since": "2020-05-04 01:29", "until": "2020-05-04"}, "fix5"),
    ({"until": "2020-05-04 01:29"}, "fix3 fix4"),
    ({"when": "2020-W19"}, "fix3 fix4 fix5 fix6 fix7 fix8"),
    ({"since": "2020-05-05"}, "fix6 fix7 fix8 idle2 note1"),
    ({"until": "2020-05-04"}, "fix3 fix4 fix5"),
    ({"since": "2020-05-05", "until": "2020-05-10"}, "fix6 fix7 fix8"),
    ({"when": "2020-05", "since": "2020-05-06"}, "fix8 idle2"),
    ({"when": "last hour"}, "note1"),
    ({"when": "2020-05-05", "role": "run", "tool": "Read", "agent": "reviewer", "project": "shop"}, "fix6"),
]


def test_every_filter_narrows_down(context: Context, shop: dict[str, str]) -> None:
    names = {session: name for name, session in shop.items()}
    for filters, expected in FILTERS:
        given_ = {name: shop.get(value, value) for name, value in filters.items()}
        for how in ({"flat": True}, {"order": "relevant"}):
            found = sorted(f"{names[session]}{seq}" for session, seq in hits(context, "lock", **given_, **how))
            assert found == expected.split(), filters
    # A filter alone is a search.
    assert {names[session] for session, _ in hits(context, role="asked")} == {"fix", "idle"}
    assert len(hits(context, when="2020-05-04")) == 3
    assert hits(context, state="paused") == [(shop["idle"], 2)]


def test_a_session_moves_on_and_its_filters_with_it(context: Context, shop: dict[str, str]) -> None:
    assert hits(context, "lock", state="paused")
    call(context, "resume", {"session": shop["idle"]})
    assert hits(context, "lock", state="paused") == []
    assert hits(context, "lock", state="idle", session=shop["idle"]) == [(shop["idle"], 2)]


def test_a_fork_is_found_by_what_it_says_itself(context: Context) -> None:
    parent = opened(context, asked("before"), title="parent")
    child = context.store.open(Forking(parent=parent, title="child"), actor="person:ada")
    add(context, child, asked("after"))
    assert [session for session, _ in hits(context, "before")] == [parent.id]
    assert [session for session, _ in hits(context, "after")] == [child.id]


def test_what_is_erased_or_pruned_is_gone_at_once(context: Context) -> None:
    gone = opened(context, asked("secret one", MONDAY), title="secret title")
    kept = opened(context, asked("secret two", MONDAY), title="kept title")
    assert len(hits(context, "secret")) == 3
    call(context, "erase", {"session": gone.id})
    assert hits(context, "secret") == [(kept.id, 2)]
    assert call(context, "files", {"path": "secret"}) == []
    assert [session.id for session in call(context, "sessions", {})] == [kept.id]


# Order and pages ------------------------------------------------------------------------------------------------------


def test_the_newest_come_first(context: Context) -> None:
    times = [5, 1, 30, 2, 29, 3, 400, 7]
    sessions = [opened(context, asked(f"lock {hour}", MONDAY + hour * HOUR)).id for hour in times]
    expected = [session for _, session in sorted(zip(times, sessions, strict=True), reverse=True)]
    assert [session for session, _ in hits(context, "lock")] == expected
    assert [session.session for session in search(context, "lock").sessions] == expected
    assert [session for session, _ in hits(context, "lock", limit=3)] == expected


def test_within_an_hour_the_clock_decides(context: Context) -> None:
    first = opened(context, asked("lock", MONDAY + 50_000_000), asked("lock", MONDAY + 10_000_000))
    second = opened(context, asked("lock", MONDAY + 30_000_000), asked("lock", MONDAY + 40_000_000))
    expected = [(first.id, 2), (second.id, 3), (second.id, 2), (first.id, 3)]
    assert hits(context, "lock") == expected
    assert hits(context, "lock", limit=1) == expected


def test_the_relevant_come_first_when_that_is_wanted(context: Context) -> None:
    session = opened(
        context,
        asked("lock lock lock", MONDAY),
        asked("something about a lock and " + "a great many other things " * 20, MONDAY + HOUR),
        asked("no word of it", MONDAY + 2 * HOUR),
        FactLearned(fact="f", text="lock lock lock"),
    )
    assert hits(context, "lock", order="relevant") == [(session.id, 5), (session.id, 2), (session.id, 3)]
    assert not search(context, "lock", order="relevant").sessions


def test_pages_together_are_everything_once_whatever_is_appended_in_between(context: Context) -> None:
    sessions = [
        opened(context, *(asked(f"a lock {'x ' * (n * i % 7)}", MONDAY + (n + i) * HOUR) for i in range(3)))
        for n in range(8)
    ]
    expected = {(session.id, seq) for session in sessions for seq in (2, 3, 4)}
    other = opened(context)

    def more() -> None:
        add(context, other, asked("a lock, later", MONDAY + 400 * HOUR), asked("a lock, later", MONDAY + 3 * HOUR))

    for query in ("lock", '"a lock"', ""):
        for how in ({"flat": True}, {"order": "relevant"}):
            found = list(pages(context, query, limit=9, between=more, role="asked", **how))
            shown = [(hit.session, hit.seq) for page in found for hit in page.hits]
            assert len(found) > 2
            assert len(shown) == len(set(shown))
            assert expected <= set(shown)
        found = list(pages(context, query, limit=4, between=more, role="asked"))
        grouped = [session.session for page in found for session in page.sessions]
        assert len(found) > 2
        assert sorted(grouped) == sorted({other.id, *(session for session, _ in expected)})


def test_a_session_that_goes_on_is_not_lost_between_two_pages(context: Context) -> None:
    old, new = opened(context, asked("lock", MONDAY)), opened(context, asked("lock", MONDAY + DAY))

    def more() -> None:
        add(context, old, asked("lock", MONDAY + 2 * DAY))

    found = list(pages(context, "lock", limit=1, between=more))
    assert [session.session for page in found for session in page.sessions] == [new.id, old.id]


def test_a_session_is_on_one_page_only(context: Context) -> None:
    first, second = opened(context), opened(context)
    for hour in range(8):
        add(context, (first, second)[hour % 2], asked("lock", MONDAY + hour * HOUR))
    found = list(pages(context, "lock", limit=1))
    assert [[(session.session, session.count, session.more) for session in page.sessions] for page in found] == [
        [(second.id, 4, False)], [(first.id, 4, False)],
    ]  # fmt: skip


def test_beyond_a_thousand_a_count_says_so(context: Context) -> None:
    session = opened(context, *(asked("lock") for _ in range(1000)))
    found = search(context, "lock")
    assert (found.total, found.total_is_exact) == (1000, True)
    assert [(session.count, session.more) for session in found.sessions] == [(1000, False)]
    add(context, session, asked("lock"))
    found = search(context, "lock")
    assert (found.total, found.total_is_exact) == (1000, False)
    assert [session.more for session in found.sessions] == [True]
    found = search(context, role="asked", flat=True, limit=200)
    assert (len(found.hits), found.total, found.total_is_exact) == (200, 1000, False)
    assert len(hits(context, '"lock"')) == 1001


def test_a_page_takes_the_same_few_statements_however_many_hits_it_has(context: Context) -> None:
    counts = []
    for sessions in (1, 19):
        for number in range(sessions):
            add(context, opened(context), *(asked(f"orbit {number} of {which}") for which in range(4)))
        context.views.catch_up()
        with counted(context.store) as names:
            assert len(search(context, "orbit").sessions) == (1 if sessions == 1 else 20)
        counts.append(len(names))
    # Of 80 hits the first page of the index holds 50, so another one is read.
    assert counts[1] - counts[0] <= 3, names


def test_one_look_has_an_end_and_the_next_goes_on(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "MOST_LOOKED_AT", 10)
    session = opened(
        context, asked("is a lock", MONDAY), *(asked(f"lock a is {n}", MONDAY + n * HOUR) for n in range(35))
    )
    for how in ({}, {"flat": True}):
        found = list(pages(context, '"is a lock"', **how))
        assert [len(page.hits) + len(page.sessions) for page in found] == [0, 0, 0, 1]
        assert all(page.total is None for page in found)
    assert hits(context, '"is a lock"') == [(session.id, 2)]


def test_a_file_that_nobody_touched_ends_the_search(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "MOST_LOOKED_AT", 10)
    opened(context, *(asked("lock") for _ in range(20)), asked("x" * 40_000))
    found = search(context, "lock", file="nowhere.py")
    assert (found.sessions, found.next) == ([], "")


def test_a_file_that_many_touched_narrows_down_too(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "MOST_NAMED", 2)
    monkeypatch.setattr(searching, "MOST_LOOKED_AT", 10)
    touching = CallMade(call="1", tool="Read", touched=(Touch(what="a.py"),))
    some = [opened(context, touching, asked("lock", MONDAY + n * DAY)).id for n in (0, 1, 9)]
    opened(context, *(asked("lock", MONDAY + n * HOUR) for n in range(200)))
    assert sorted(session for session, _ in hits(context, "lock", file="a.py")) == sorted(some)
    found = list(pages(context, "lock", file="a.py"))
    assert [session.session for page in found for session in page.sessions] == some[::-1]


# Long texts -----------------------------------------------------------------------------------------------------------


def test_a_long_text_is_found_by_each_of_its_words_and_is_one_hit(context: Context) -> None:
    filler = "x " * STRETCH
    long = opened(context, CallMade(call="1", tool="Bash"))
    said = f"beginning {filler} middle and half {filler} end"
    add(context, long, CallReturned(call="1", output=raw(said)))
    short = opened(context, asked("middle of nowhere x"))
    for query in ("beginning", "end", "middle -nowhere", '"middle and half"', '"x x middle"', "half"):
        assert hits(context, query) == [(long.id, 3)], query
    assert sorted(hits(context, "middle")) == sorted([(long.id, 3), (short.id, 2)])
    for how in ({}, {"flat": True}, {"order": "relevant"}):
        found = search(context, "x", **how)
        assert (found.total, found.total_is_exact) == (2, True)
        assert sorted((hit.session, hit.seq) for hit in hit_list(found)) == sorted([(long.id, 3), (short.id, 2)])
        assert all(session.count == 1 and not session.more for session in found.sessions)
    assert hits(context, "x", limit=1) == hits(context, "x")
    [shown] = search(context, "half", flat=True).hits
    assert "middle and half" in shown.snippet.text


def test_what_a_long_text_says_elsewhere_leaves_it_out(context: Context) -> None:
    filler = "x " * STRETCH
    long = opened(context, asked(f"beginning {filler} middle {filler} end"))
    other = opened(context, asked("beginning"))
    for query in ("beginning -end", 'beginning -"x end"', "beginning -middle"):
        assert hits(context, query) == [(other.id, 2)], query
        assert search(context, query).total in (None, 1)
    assert hits(context, "end -beginning") == []
    call(context, "erase", {"session": long.id})
    assert hits(context, "end") == []


def hit_list(page: Any) -> list[Any]:
    return [*page.hits, *(hit for session in page.sessions for hit in session.hits)]


# Partial matches ------------------------------------------------------------------------------------------------------


@pytest.fixture
def story(context: Context) -> dict[str, str]:
    texts = {
        "rare": "the frobnicator is out of order",
        "both": "the test took the lock and went away",
        "test": "a test of something else",
        "other": "what is this about",
    }
    return {name: opened(context, asked(text, MONDAY)).id for name, text in texts.items()}


def partly(context: Context, query: str, story: dict[str, str], **filters: Any) -> list[str]:
    found = search(context, query, **filters)
    assert found.partial
    assert (found.total, found.next) == (None, "")
    names = {session: name for name, session in story.items()}
    return [names[session.session] for session in found.sessions] or [names[hit.session] for hit in found.hits]


def test_a_question_in_plain_words_finds_what_has_most_of_it(context: Context, story: dict[str, str]) -> None:
    for how in ({}, {"flat": True}, {"order": "relevant"}):
        assert partly(context, "why does the test lock up?", story, **how) == ["both"]
    # The words without a subject find nothing by themselves, but a question of nothing else does.
    assert partly(context, "where was the frobnicator", story) == ["rare"]
    assert "other" in partly(context, "what was this about", story)


def test_a_rare_word_counts_for_more_than_common_ones(context: Context, story: dict[str, str]) -> None:
    for n in range(12):
        opened(context, asked(f"fix an error, number {n}", MONDAY + n))
    assert search(context, "fix the error in the frobnicator").sessions[0].session == story["rare"]


def test_partial_matches_keep_to_the_rest_of_the_query(context: Context, story: dict[str, str]) -> None:
    assert set(partly(context, "test frobnicator -something", story)) == {"rare", "both"}
    assert partly(context, "test frobnicator", story, session=story["test"]) == ["test"]
    assert partly(context, '"test lock" frobnicator', story) == ["rare"]
    assert partly(context, "nothing frobnicator OR gizmo", story) == ["rare"]


def test_one_term_is_found_or_not(context: Context, story: dict[str, str]) -> None:
    for query in ("gizmo", '"lock test"', "gizmo -test", "gizmo OR widget", "zzz yyy"):
        found = search(context, query)
        assert (found.partial, found.sessions, found.total or 0) == (False, [], 0), query
    assert not search(context, "test lock").partial


def test_a_partial_match_shows_its_words(context: Context, story: dict[str, str]) -> None:
    [hit] = search(context, "broken frobnicator of doom", flat=True).hits
    assert [hit.snippet.text[a:b] for a, b in hit.snippet.marks] == ["frobnicator"]


# Snippets -------------------------------------------------------------------------------------------------------------


def test_a_hit_shows_its_words_and_its_place(context: Context) -> None:
    session = opened(
        context, RuntimeAttached(runtime="codex"),
        Draft(body=CallMade(call="1", tool="Bash", input=raw({"command": "grep -r getUserName"})), said_at=MONDAY),
        Draft(body=CallReturned(call="1", output=raw("no getUserName"), failed=True), said_at=MONDAY + 999_999),
        project="shop", agent="reviewer", title="Names",
    )  # fmt: skip
    [one] = search(context, "getUserName").sessions
    assert (one.session, one.title, one.project, one.runtime, one.agent) == (
        session.id, "Names", "shop", "codex", "reviewer",
    )  # fmt: skip
    assert (one.state, one.last_at, one.count) == ("active", MONDAY + 999_999, 2)
    returned, made = one.hits
    assert (made.seq, made.at, made.role, made.tool, made.failed) == (3, MONDAY, "run", "Bash", False)
    assert (returned.seq, returned.at, returned.role, returned.failed) == (4, MONDAY, "returned", True)
    assert made.snippet.text[slice(*made.snippet.marks[0])] == "getUserName"


# Bad input ------------------------------------------------------------------------------------------------------------

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"query": ""}, "nothing to look for: give a word"),
    ({"query": " \n"}, "nothing to look for: give a word"),
    ({"query": '""'}, "the query has no word"),
    ({"query": "-a"}, "the query only excludes words"),
    ({"query": "x" * 10_000_000}, "at most 1,000 characters"),
    ({"query": "a", "when": "the day after"}, "'the day after' is not a valid date"),
    ({"query": "a", "since": "2026-13"}, "'2026-13' is not a valid date"),
    ({"query": "a", "until": "\x1b[2J"}, r"'\\x1b\[2j' is not a valid date|is not a valid date"),
    ({"query": "a", "since": "2026-02", "until": "2026-01"}, "ends before it begins"),
    ({"query": "a", "after": "x"}, "'x' is not a valid cursor"),
    ({"query": "a", "after": "-5"}, "is not a valid cursor"),
    ({"query": "a", "after": "12"}, "with the same options"),
    ({"query": "a", "after": "1-2-3"}, "is not a valid cursor"),
    ({"query": "a", "after": "12", "order": "relevant"}, "with the same options"),
    ({"query": "a", "after": "1-2", "flat": True}, "with the same options"),
    ({"query": "a", "after": "9" * 30}, "is not a valid cursor"),
    ({"query": "a", "after": "٣"}, "is not a valid cursor"),
    ({"query": "a", "limit": 0}, "a whole number from 1 to 200"),
    ({"query": "a", "limit": 201}, "a whole number from 1 to 200"),
    ({"query": "a", "role": "said"}, "role is 'said'; it must be one of asked, answered"),
    ({"query": "a", "order": "best"}, "order is 'best'; it must be one of newest, relevant"),
    ({"query": 7}, "query is 7; it must be text"),
]


def test_what_cannot_be_meant_is_refused(context: Context) -> None:
    for arguments, message in REFUSED:
        with pytest.raises(InvalidInput, match=message):
            call(context, "search", arguments)


def test_what_there_is_not_is_not_found(context: Context) -> None:
    opened(context, project="shop")
    with pytest.raises(NotFound, match="no project 'shopp'; did you mean shop"):
        search(context, "a", project="shopp")
    with pytest.raises(NotFound, match="no session 'zzz'"):
        search(context, "a", session="zzz")


def test_any_filter_can_be_typed(context: Context) -> None:
    # As a shell hands on what is not Unicode, and as a program might.
    for odd in ("\udcff", "a\0b", "x" * 5000, "'; --", "\ue000"):
        for name in ("agent", "person", "tool", "file"):
            assert hits(context, "a", **{name: odd}) == []
        with pytest.raises(InvalidInput, match="no runtime"):
            hits(context, "a", runtime=odd)


def test_a_query_of_many_words_is_answered(context: Context) -> None:
    letters = "abcdefghijklmnopqrstuvwxyz"
    session = opened(context, asked(" ".join(letters)), asked("日" * 2000), asked("ﷺ " * 300))
    assert hits(context, " ".join(letters[n % 26] for n in range(500))) == [(session.id, 2)]
    assert hits(context, "-q " + " ".join(letters[n % 26] for n in range(400))) == []
    assert hits(context, "日" * 1000) == [(session.id, 3)]
    assert hits(context, "ﷺ" * 1000) == []
    assert hits(context, "ﷺ ﷺ") == [(session.id, 4)]


# Hostile logs ---------------------------------------------------------------------------------------------------------


def test_nothing_in_a_log_stops_the_views(context: Context) -> None:
    big = "".join(chr(0x4E00 + n * 7919 % 20000) for n in range(9000))
    odd = "a\0b\ufffe"
    for bodies in (
        [RuntimeAttached(runtime=odd, machine=odd, cwd=odd)],
        [RuntimeAttached(runtime=big, machine=big, cwd=big)],
        [SessionTitled(title=big[:900])],
        [CallMade(call=odd, tool=odd, touched=(Touch(what=odd, type=odd), Touch(what=big, type=big), Touch(what="")))],
        [CallMade(call="1", tool="Read", input=raw({"file_path": big}))],
        [MessageAdded(role="assistant", text="x", model=odd, message=odd, usage=Usage(input=-5, output=2**62))],
        [MessageAdded(role="assistant", text="x", model=big, usage=Usage(cost_micros=2**62))],
        [CallReturned(call="1", output=Raw(b"1" * 5000))],
        [Draft(body=MessageAdded(role="user", text="x", usage=Usage(input=1)), said_at=2**63 - 1)],
        [Draft(body=MessageAdded(role="user", text="x", usage=Usage(input=1)), said_at=-(2**62))],
    ):
        opened(context, *bodies, asked("needle"), agent=big[:500], metadata='{"runtime": "a\\u0000b", "machine": 7}')
    assert search(context, "needle").total == 10
    assert len(call(context, "sessions", {})) == 10
    assert call(context, "usage", {"by": ["day", "model"]}).rows
    assert len(call(context, "sessions", {"agent": big[:500]})) == 10
    assert len(hits(context, "needle", agent=big[:500])) == 10
    assert [one.path for one in call(context, "files", {"path": big})] == [big[-500:]] * 2


# Hours that are full --------------------------------------------------------------------------------------------------


def test_what_found_no_room_in_its_hour_is_in_the_time_it_was_said(context: Context) -> None:
    crowd, late, after = opened(context), opened(context), opened(context)
    add(context, crowd, *(asked(f"crowd {n}", at=MONDAY) for n in range(ROOM)))
    add(context, late, *(asked("latecomer", at=MONDAY) for _ in range(3)))
    add(context, after, asked("latecomer", at=MONDAY + 2 * HOUR))
    until = {"since": "2020-01-01", "until": _written(MONDAY)}
    assert {hit[0] for hit in hits(context, "latecomer", **until)} == {late.id}
    call(context, "erase", {"session": crowd.id})
    assert {hit[0] for hit in hits(context, "latecomer", **until)} == {late.id}


def _written(at: int) -> str:
    return datetime.fromtimestamp(at / 1e6, UTC).strftime("%Y-%m-%d %H:%M")


# A log that is damaged ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("indexed", [True, False], ids=["after it was indexed", "before it is indexed"])
def test_an_event_that_cannot_be_read_hides_no_other(context: Context, indexed: bool) -> None:
    session = opened(context)
    _, lost, _ = add(context, session, asked("lock one"), asked("lock two"), asked("lock three"))
    if indexed:
        assert len(hits(context, "lock")) == 3
    change(context.store, f"UPDATE event SET body = '{{' WHERE {the_row(session, lost)}")
    assert {hit[1] for hit in hits(context, "lock")} == {lost - 1, lost + 1}
    assert [line.id for line in call(context, "sessions", {})] == [session.id]


# Facets ---------------------------------------------------------------------------------------------------------------


def facets(context: Context, **asked_for: Any) -> dict[tuple[str, str], int]:
    return {(one.facet, one.value): one.count for one in call(context, "search_facets", asked_for)}


def test_facets_count_the_hits_by_what_a_search_can_be_narrowed_to(context: Context) -> None:
    shop = opened(context, RuntimeAttached(runtime="codex"), project="shop", actor="person:bob")
    add(context, shop, MessageAdded(role="user", text="lock one"), MessageAdded(role="assistant", text="a lock"))
    other = opened(context, RuntimeAttached(runtime="pi"), project="billing")
    add(context, other, MessageAdded(role="user", text="lock"), MessageAdded(role="user", text="nothing of it"))
    assert facets(context, query="lock") == {
        ("runtime", "codex"): 2, ("runtime", "pi"): 1, ("project", "shop"): 2, ("project", "billing"): 1,
        ("person", "person:bob"): 2, ("person", "person:ada"): 1, ("role", "asked"): 2, ("role", "answered"): 1,
    }  # fmt: skip
    assert facets(context, query="lock", project="billing")["role", "asked"] == 1
    assert facets(context, query="nowhere") == {}
    # What only a look at each text decides is not counted.
    assert facets(context, query='"lock one"') == {}
    with pytest.raises(InvalidInput, match="nothing to look for"):
        facets(context)
