"""What one session learned and decided, another recalls: by words and scope, and only while it stands."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from clew.model.access import Grant, Right, owner_of_everything
from clew.model.errors import Denied, InvalidInput, LeaseLost, NotFound, StaleHead
from clew.model.events import Draft, FactLearned, MessageAdded, ScratchCleared, ScratchSet
from clew.model.knowledge import of_events
from clew.model.session import State
from clew.service import Context, call
from clew.service.knowledge.known import known_of
from clew.store import Store, open_store
from clew.store.log.feed import readable_events
from support.counting import counted
from views.logs import PROGRAMS, Log

ME = "person:ada"
UNHURRIED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]


@pytest.fixture
def context(store: Store) -> Iterator[Context]:
    found = Context(store=store, unrestricted=store, principal=ME, grants=(owner_of_everything(ME),))
    yield found
    found.views.close()


def opened(context: Context, **arguments: Any) -> str:
    return str(call(context, "open", arguments).id)


def remembered(context: Context, session: str, text: str, **arguments: Any) -> str:
    return str(call(context, "remember", {"session": session, "text": text, **arguments}).fact)


def recalled(context: Context, query: str = "", **arguments: Any) -> list[str]:
    """What is known, with all the words of a query; what answers a question is in test_recall.py."""
    return [one.text for one in call(context, "recall", {"query": query, "known": True, **arguments}).found]


def test_what_one_session_learned_and_decided_is_recalled_in_all_newest_first(context: Context) -> None:
    one, two = opened(context), opened(context)
    fact = remembered(context, one, "tests share one database", evidence=[1], scope="project")
    call(context, "decide", {"session": two, "choice": "use WAL", "why": "the database locks", "rejected": ["a file"]})
    call(context, "progress", {"session": two, "done": "database found", "next": "fix it", "open": ["when?"]})
    progress, decision, known = call(context, "recall", {"query": "database", "known": True}).found
    assert (known.kind, known.id, known.session, known.seq, known.who) == ("fact", fact, one, 2, ME)
    assert (known.evidence, known.scope) == ((1,), "project")
    assert (decision.kind, decision.text, decision.why, decision.rejected) == (
        "decision", "use WAL", "the database locks", ("a file",),
    )  # fmt: skip
    assert (progress.kind, progress.text, progress.next, progress.open) == (
        "progress", "database found", "fix it", ("when?",),
    )  # fmt: skip
    assert recalled(context) == ["database found", "use WAL", "tests share one database"]
    assert recalled(context, "wal -locks") == []
    assert recalled(context, '"share one"') == recalled(context, "shar*") == ["tests share one database"]


def test_what_is_retired_reversed_or_replaced_is_not_recalled(context: Context) -> None:
    id = opened(context)
    fact = remembered(context, id, "the port is 80")
    remembered(context, id, "the port is 8080", fact=fact)
    assert recalled(context, "port") == ["the port is 8080"]
    call(context, "retire", {"session": id, "fact": fact, "reason": "moved"})
    decision = call(context, "decide", {"session": id, "choice": "one port"}).decision
    call(context, "reverse", {"session": id, "decision": decision})
    call(context, "progress", {"session": id, "done": "port found"})
    call(context, "progress", {"session": id, "done": "port moved"})
    assert recalled(context, "port") == recalled(context, session=id) == ["port moved"]
    for operation, name, gone in (("retire", "fact", fact), ("reverse", "decision", decision)):
        with pytest.raises(NotFound, match="there are: none"):
            call(context, operation, {"session": id, name: gone})


def test_only_knowledge_is_recalled(context: Context) -> None:
    id = opened(context, title="the lock")
    draft = {"kind": "message_added", "role": "user", "text": "the lock"}
    call(context, "append", {"session": id, "drafts": [draft]})
    call(context, "pause", {"session": id, "reason": "the lock"})
    assert recalled(context, "lock") == recalled(context) == recalled(context, session=id) == []


def test_a_fork_knows_what_its_parent_knew_and_goes_its_own_way(context: Context) -> None:
    parent = opened(context)
    fact = remembered(context, parent, "early")
    child = call(context, "fork", {"session": parent}).id
    remembered(context, parent, "late")
    remembered(context, child, "own")
    assert recalled(context, session=child) == ["own", "early"]
    call(context, "retire", {"session": child, "fact": fact})
    assert recalled(context, session=child) == ["own"]
    assert recalled(context, session=parent) == ["late", "early"]
    assert sorted(recalled(context)) == ["early", "late", "own"]


def test_recall_asks_the_same_few_questions_however_many_sessions_know_something(context: Context) -> None:
    counts = []
    for sessions in (2, 20):
        for number in range(sessions):
            remembered(context, opened(context), f"orbit {number}")
        recalled(context, "orbit")
        with counted(context.store) as names:
            assert len(recalled(context, "orbit", limit=20)) == min(20, sessions if sessions == 2 else 20)
        assert names.count("known_matching") == 1
        counts.append(len(names))
    assert counts[0] == counts[1] <= 6, names


@settings(max_examples=25, suppress_health_check=UNHURRIED)
@given(steps=PROGRAMS, upto=st.integers(1, 20))
def test_what_the_view_knows_is_the_fold_of_the_log(steps: list[Any], upto: int) -> None:
    memory = Path("/dev/shm")
    with (
        tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder,
        open_store(f"sqlite:///{folder}/clew.db", synchronous="OFF") as store,
    ):
        log = Log(store)
        log.run(steps)
        context = Context(store=store, unrestricted=store, principal=ME, grants=(owner_of_everything(ME),))
        for session in log.sessions:
            if store.head(session).state == State.ERASED:
                continue
            for end in (store.head(session).head, upto):
                events = readable_events(store, session, upto=min(end, store.head(session).head))
                assert known_of(context, session, upto=end) == of_events(events)
        context.views.close()
        log.close()


@pytest.mark.parametrize("operation", ["head", "scratch"])
def test_where_a_session_stands_and_its_scratch_are_read_without_its_events(context: Context, operation: str) -> None:
    """A longer session takes the same statements, and a fork a few more; none of them reads an event."""
    id = opened(context)
    context.store.append(context.store.session(id), [Draft(body=ScratchSet(name="s", value=Raw(b"1")))])
    counts = []
    for session in (id, id, str(call(context, "fork", {"session": id}).id)):
        said = [Draft(body=MessageAdded(role="user", text="x")) for _ in range(1500)]
        context.store.append(context.store.session(session), said)
        context.views.catch_up()
        with counted(context.store) as names:
            call(context, operation, {"session": session})
        assert not {name for name in names if "event" in name}, names
        counts.append(len(names))
    assert counts[0] == counts[1]
    assert counts[2] <= counts[1] + 2, "one more session has to be asked"


def test_scratch_is_read_by_name_and_cleared_values_are_gone(context: Context) -> None:
    id = opened(context)
    bodies = [ScratchSet(name="a", value=Raw(b"1")), ScratchSet(name="b", value=Raw(b'{"x": 2}'))]
    context.store.append(context.store.session(id), [Draft(body=body) for body in bodies])
    assert call(context, "scratch", {"session": id}) == {"a": Raw(b"1"), "b": Raw(b'{"x": 2}')}
    assert call(context, "scratch", {"session": id, "name": "b"}) == {"b": Raw(b'{"x": 2}')}
    context.store.append(context.store.session(id), [Draft(body=ScratchCleared(name="b"))])
    child = call(context, "fork", {"session": id}).id
    for session in (id, child):
        assert call(context, "scratch", {"session": session}) == {"a": Raw(b"1")}
    assert call(context, "head", {"session": child}).head == 5


def test_a_long_scratch_value_is_known_to_the_byte(context: Context) -> None:
    id = opened(context)
    value = '{ "a" :' + " " * 300_000 + "1.0 }"
    context.store.append(context.store.session(id), [Draft(body=ScratchSet(name="s", value=Raw(value.encode())))])
    assert bytes(call(context, "show", {"session": id}).scratch["s"]) == value.encode()


def test_recall_is_narrowed_by_project_and_by_where_a_fact_holds(context: Context) -> None:
    shop, other = opened(context, project="shop"), opened(context, project="other")
    remembered(context, shop, "a", scope="everywhere")
    remembered(context, shop, "b")
    remembered(context, other, "c", scope="everywhere")
    call(context, "decide", {"session": shop, "choice": "d"})
    assert recalled(context, project="shop") == ["d", "b", "a"]
    assert recalled(context, scope="everywhere") == ["c", "a"]
    assert recalled(context, project="shop", scope="everywhere") == recalled(context, session=shop, scope="everywhere")
    with pytest.raises(NotFound):
        recalled(context, project="nowhere")


def test_pages_follow_one_another_without_a_gap_or_a_repeat(context: Context) -> None:
    first, second = opened(context, title="x 0"), opened(context, title="x 1")
    facts = [remembered(context, (first, second)[n % 2], f"x {n}") for n in range(9)]
    call(context, "retire", {"session": second, "fact": facts[3]})
    for arguments, expected in (({"query": "x"}, 8), ({"query": "x", "session": first}, 5), ({}, 8)):
        seen: list[str] = []
        after = ""
        while True:
            page = call(context, "recall", {**arguments, "known": True, "limit": 2, "after": after})
            seen += [one.text for one in page.found]
            after = page.next
            if not after:
                break
        assert len(seen) == len(set(seen)) == expected
        assert "session" not in arguments or seen == sorted(seen, reverse=True)


def test_what_is_written_is_fenced_like_any_append(context: Context) -> None:
    id = opened(context)
    for operation, arguments in (
        ("remember", {"text": "x"}), ("decide", {"choice": "x"}), ("progress", {"done": "x"}),
    ):  # fmt: skip
        with pytest.raises(StaleHead):
            call(context, operation, {"session": id, **arguments, "expect": 7})
        with pytest.raises(LeaseLost):
            call(context, operation, {"session": id, **arguments, "lease": 7})
    assert call(context, "show", {"session": id}).session.head == 1
    assert call(context, "remember", {"session": id, "text": "x", "expect": 1}).seq == 2


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        ("remember", {"text": ""}),
        ("remember", {"text": "x" * 10_001}),
        ("remember", {"text": "x", "evidence": [2]}),
        ("remember", {"text": "x", "evidence": [0]}),
        ("remember", {"text": "x", "scope": "galaxy"}),
        ("remember", {"text": "x", "fact": "a\0b"}),
        ("remember", {"text": "lone \ud800 surrogate"}),
        ("decide", {"choice": ""}),
        ("decide", {"choice": "x", "rejected": [""]}),
        ("progress", {}),
        ("recall", {"after": "x"}),
        ("recall", {"after": "9" * 30}),
        ("recall", {"query": "-x", "known": True}),
        ("recall", {"query": "?!"}),
        ("recall", {"limit": 0}),
    ],
)
@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_what_does_not_fit_is_refused_and_nothing_is_written(
    context: Context, operation: str, arguments: dict[str, Any]
) -> None:
    id = opened(context)
    given = arguments if operation == "recall" else {"session": id, **arguments}
    with pytest.raises(InvalidInput):
        call(context, operation, given)
    assert call(context, "show", {"session": id}).session.head == 1


def test_only_what_the_caller_may_read_is_recalled(context: Context) -> None:
    mine, other = opened(context, project="a"), opened(context, project="b")
    for id in (mine, other):
        remembered(context, id, f"vault of {id}")
    grant = Grant(principal="agent:guest", rights=frozenset({Right.READ, Right.SEE}), project="a")
    guest = msgspec.structs.replace(context, principal="agent:guest", grants=(grant,), _cache={})
    assert recalled(guest, "vault") == recalled(guest) == [f"vault of {mine}"]
    for refused in (lambda: recalled(guest, session=other), lambda: remembered(guest, other, "x")):
        with pytest.raises(NotFound):
            refused()
    with pytest.raises(Denied):
        remembered(guest, mine, "x")
    nobody = msgspec.structs.replace(context, principal="person:nobody", grants=(), _cache={})
    assert recalled(nobody) == []
    with pytest.raises(NotFound):
        recalled(nobody, session=mine)


@settings(max_examples=25)
@given(
    texts=st.lists(st.sampled_from(["lock file", "the lock", "getUser locks", "file", "Löck 東京"]), max_size=6),
    query=st.sampled_from(["lock", "lock*", '"lock file"', "lock -file", "user", "京", '-"the lock" lock']),
)
def test_a_session_and_the_index_of_all_answer_a_query_alike(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], query: str
) -> None:
    with open_store(f"sqlite:///{tmp_path_factory.mktemp('known') / 'clew.db'}") as store:
        context = Context(store=store, unrestricted=store, principal=ME, grants=(owner_of_everything(ME),))
        id = opened(context)
        for text in texts:
            remembered(context, id, text)
        assert recalled(context, query) == recalled(context, query, session=id)
        context.views.close()


def test_facts_that_were_appended_are_recalled_like_those_that_were_remembered(context: Context) -> None:
    id = opened(context)
    draft = {"kind": "fact_learned", "fact": "f1", "text": "appended", "said_at": 1_000_000}
    call(context, "append", {"session": id, "drafts": [draft]})
    [known] = call(context, "recall", {"query": "appended", "known": True}).found
    assert (known.id, known.at, known.scope) == ("f1", 1_000_000, FactLearned(fact="", text="").scope)
