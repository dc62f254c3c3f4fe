"""The transcript: one value, whatever happened in a session, and the same in pages of any size."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from clew.model import events as e
from clew.model.course import course_of
from clew.model.errors import InvalidInput
from clew.model.session import Session, State
from clew.model.transcript import Item, Turn, Type, joined, turns, whole
from clew.service import Context, call
from clew.service.sessions.transcript import Transcript
from clew.store import Store, open_store
from clew.store.log.feed import readable_events
from store.rows import change, one
from support.counting import counted
from support.planes import plane_on
from support.postgres import Server
from support.talks import add, on, opened
from views.logs import PROGRAMS, Log

UNHURRIED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]


@pytest.fixture
def context(store: Store) -> Iterator[Context]:
    context = on(store)
    yield context
    for views in context._views:
        views.close()


def said(text: str, role: str = "user", **more: Any) -> e.MessageAdded:
    return e.MessageAdded(role=role, text=text, **more)


def drafted(body: e.Body, source: str) -> e.Draft:
    return e.Draft(body=body, source=source)


def page(context: Context, session: Session | str, **given: Any) -> Transcript:
    id = session if isinstance(session, str) else session.id
    found: Transcript = call(context, "transcript", {"session": id, **given})
    return found


def forward(context: Context, session: Session, **given: Any) -> list[Turn]:
    """All pages, from the first."""
    found, after = [], 0
    while True:
        one_page = page(context, session, after=after, **given)
        found += one_page.turns
        after = one_page.next
        if not after:
            return found


def backward(context: Context, session: Session, **given: Any) -> list[Turn]:
    """All pages, from the last."""
    pages, before = [], 2**62
    while before:
        one_page = page(context, session, backward=before, **given)
        pages.append(one_page.turns)
        before = one_page.previous
    return [turn for turns in reversed(pages) for turn in turns]


def items(found: list[Turn]) -> list[Item]:
    return [item for turn in found for item in turn.items]


def texts(found: list[Turn]) -> list[str]:
    """What the items say, in short."""
    return [text(item) for item in items(found) if not item.is_bookkeeping]


def text(item: Item) -> str:
    match item.event.body if item.event else None:
        case e.MessageAdded() as body:
            return body.text
        case e.CallMade(tool=tool):
            back = item.returned.body if item.returned else None
            return f"{tool}={bytes(back.output).decode() if isinstance(back, e.CallReturned) else ''}"
        case e.Removed(how=how):
            return how
        case None:
            return f"{item.withdrawn} withdrawn"
        case _:
            return str(item.type)


# In pages -------------------------------------------------------------------------------------------------------------


def facts(found: list[Turn]) -> list[Any]:
    """All of a transcript that does not depend on where a page begins."""
    return [
        (
            turn.seq,
            turn.usage,
            turn.stop_reason,
            [
                (
                    item.seq,
                    item.type,
                    item.event and item.event.seq,
                    item.returned and item.returned.seq,
                    item.withdrawn,
                )
                for item in turn.items
            ],
        )
        for turn in joined(found)
    ]


def check(store: Store, steps: list[Any], limit: int) -> None:
    log = Log(store)
    try:
        log.run(steps)
        context = on(store)
        for session in log.sessions:
            if store.head(session).state == State.ERASED:
                continue
            events = list(readable_events(store, session, upto=store.head(session).head))
            by_seq = {event.seq: event for event in events}
            expected = facts(list(turns(events, whole(course_of(events), by_seq.get))))
            assert facts(forward(context, session)) == expected
            assert facts(forward(context, session, limit=limit)) == expected
            assert facts(backward(context, session, limit=limit)) == expected
        for views in context._views:
            views.close()
    finally:
        log.close()


REWINDS = st.builds(
    e.Draft,
    body=st.builds(e.Rewound, to=st.sampled_from(["", "s1", "s2", "s3", "r1", "r1~a", "r2", "nowhere"])),
    source=st.none(),
)
REWINDING = st.tuples(st.just("append"), st.integers(0, 7), st.lists(REWINDS, min_size=1, max_size=1))
PROGRAMS_WITH_REWINDS = st.builds(
    lambda steps, rewinds: [step for pair in zip(steps, rewinds, strict=False) for step in pair if step],
    PROGRAMS,
    st.lists(st.none() | REWINDING, min_size=30, max_size=30),
)


# A record whose first form is a call, and whose second one is a prompt.
TURNED = [
    ("open", "", "{}"),
    (
        "append",
        0,
        [
            e.Draft(body=e.MessageAdded(role="user", text="lock error")),
            e.Draft(body=e.CallMade(call="1", tool="Bash", input=Raw(b"{}")), source="r1~a"),
            e.Draft(body=e.CallMade(call="1", tool="Bash", input=Raw(b"{}"))),
            e.Draft(body=e.MessageAdded(role="user", text="lock error"), source="r1~b"),
        ],
    ),
]


@settings(max_examples=60, suppress_health_check=UNHURRIED)
@given(steps=PROGRAMS_WITH_REWINDS, limit=st.integers(1, 5))
@example(steps=TURNED, limit=1)
def test_a_transcript_in_pages_is_the_fold_of_all_events_on_sqlite(steps: list[Any], limit: int) -> None:
    memory = Path("/dev/shm")
    with (
        tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder,
        open_store(f"sqlite:///{folder}/clew.db", synchronous="OFF") as store,
    ):
        check(store, steps, limit)


@settings(max_examples=4, suppress_health_check=UNHURRIED)
@given(steps=PROGRAMS_WITH_REWINDS, limit=st.integers(1, 5))
def test_a_transcript_in_pages_is_the_fold_of_all_events_on_postgres(
    emptied: Store, steps: list[Any], limit: int
) -> None:
    change(emptied, *(f"DELETE FROM {table}" for table in ("event", "head", "session", "blob", "policy")))
    check(emptied, steps, limit)


@pytest.fixture(scope="module")
def emptied(postgres: Server) -> Iterator[Store]:
    with open_store(postgres.new_database()) as store:
        yield store


def test_a_page_is_chosen_in_one_way(context: Context) -> None:
    session = opened(context, *(said(str(n)) for n in range(2, 12)))
    assert texts(page(context, session, after=3, limit=2).turns) == ["4", "5"]
    assert texts(page(context, session, backward=5, limit=2).turns) == ["3", "4"]
    assert texts(page(context, session, at=6, limit=3).turns) == ["5", "6", "7"]
    assert texts(page(context, session, last=2).turns) == ["10", "11"]
    assert texts(page(context, session, last=0).turns) == []
    assert texts(page(context, session, last=99).turns)[0] == "2"
    assert texts(page(context, session, upto=3).turns) == ["2", "3"]
    assert texts(page(context, session, after=99).turns) == []
    for wrong in ({"after": 1, "backward": 5}, {"at": 99}, {"limit": 0}):
        with pytest.raises(InvalidInput):
            page(context, session, **wrong)


def test_the_python_session_reads_whole_turns(store_url: str) -> None:
    with plane_on(store_url) as plane, plane.session("Talk") as session:
        for number in range(3):
            session.user(f"question {number}")
            for piece in range(150):
                session.assistant(f"answer {number}.{piece}")
        _, *asked = session.transcript()
        assert [len(turn.items) for turn in asked] == [151, 151, 151]
        assert [turn.seq for turn in session.transcript(last=2)] == [asked[1].seq, asked[2].seq]
        assert texts(list(session.transcript(upto=3))) == ["question 0", "answer 0.0"]


# What a rewind takes back ---------------------------------------------------------------------------------------------


def test_a_rewind_leaves_a_mark_and_what_is_known(context: Context) -> None:
    session = opened(
        context, drafted(said("first"), "a"), drafted(said("second"), "b"), e.FactLearned(fact="f", text="known"),
        said("an answer", "assistant"), drafted(e.Rewound(to="a"), "r"), said("otherwise"),
    )  # fmt: skip
    assert texts(forward(context, session)) == ["first", "knowledge", "2 withdrawn", "otherwise"]
    assert texts(page(context, session, upto=5).turns) == ["first", "second", "knowledge", "an answer"]


def test_a_rewind_to_what_was_withdrawn_brings_it_back(context: Context) -> None:
    session = opened(
        context, drafted(said("first"), "a"), drafted(said("second"), "b"), e.Rewound(to="a"), said("otherwise"),
        e.Rewound(to="b"), said("third"),
    )  # fmt: skip
    assert texts(forward(context, session)) == ["first", "second", "1 withdrawn", "third"]


def test_the_pieces_of_an_answer_and_what_its_calls_returned_stay(context: Context) -> None:
    piece = {"message": "m"}
    session = opened(
        context, said("go"), drafted(e.CallMade(call="1", tool="one", **piece), "1"),
        drafted(e.CallReturned(call="1", output=Raw(b"1")), "1r"), e.Rewound(to="1"),
        e.CallMade(call="2", tool="two", **piece), e.CallReturned(call="2", output=Raw(b"2")), e.Rewound(to="1r"),
        said("done", "assistant"),
    )  # fmt: skip
    assert texts(forward(context, session)) == texts(forward(context, session, limit=1))
    assert texts(forward(context, session)) == ["go", "one=1", "two=2", "done"]


# Records, calls and turns ---------------------------------------------------------------------------------------------


def test_a_revision_stands_at_the_place_of_the_first_form(context: Context) -> None:
    session = opened(context, drafted(said("one"), "a~1"), said("two"), drafted(said("ONE"), "a~2"))
    assert texts(forward(context, session)) == ["ONE", "two"]
    first = items(forward(context, session))[1]
    assert (first.seq, first.seqs) == (2, (2, 4))
    assert texts(page(context, session, at=4, limit=1).turns) == ["ONE"]
    assert texts(page(context, session, upto=3).turns) == ["one", "two"]


def test_a_return_belongs_to_the_newest_open_call(context: Context) -> None:
    call_of = lambda tool: e.CallMade(call="1", tool=tool)  # noqa: E731
    back = lambda n: e.CallReturned(call="1", output=Raw(b"%d" % n))  # noqa: E731
    session = opened(context, call_of("a"), call_of("b"), back(1), call_of("c"), back(2), back(3), back(4))
    assert texts(forward(context, session)) == ["a=3", "b=1", "c=2", "return"]
    child = context.store.session(call(context, "fork", {"session": session.id, "at": 3}).id)
    add(context, child, back(8), back(9))
    assert texts(forward(context, child)) == ["a=9", "b=8", "mark"]
    assert texts(forward(context, child, limit=1)) == ["a=9", "b=8", "mark"]


def test_a_call_that_became_something_else_leaves_its_return(context: Context) -> None:
    session = opened(
        context, drafted(e.CallMade(call="1", tool="sh"), "a"), e.CallReturned(call="1"),
        drafted(said("no call"), "a~1"),
    )  # fmt: skip
    assert texts(forward(context, session)) == texts(forward(context, session, limit=1)) == ["no call", "return"]


def test_a_turn_has_its_times_its_usage_and_its_end(context: Context) -> None:
    at = 1_790_000_000_000_000
    drafts = [
        e.Draft(body=said("go"), said_at=at),
        e.Draft(body=said("ok", "assistant", usage=e.Usage(input=5, output=2)), said_at=at + 1_000_000),
        e.Draft(body=e.CallMade(call="1", tool="sh"), said_at=at + 2_000_000),
        e.Draft(
            body=e.CallReturned(call="1", output=Raw(b'{"output":"x","metadata":{"exit_code":3}}')),
            said_at=at + 5_000_000,
        ),
        e.Draft(body=e.TurnEnded(usage=e.Usage(output=1), stop_reason="end"), said_at=at + 6_000_000),
        e.Draft(body=said("next"), said_at=at + 9_000_000),
    ]
    session = opened(context, *drafts)
    for limit in (200, 1):
        _, turn, following = joined(forward(context, session, limit=limit))
        assert (turn.seq, turn.begins, turn.duration_us, turn.stop_reason) == (2, True, 6_000_000, "end")
        assert turn.usage == e.Usage(input=5, output=3)
        assert (turn.items[2].duration_us, turn.items[2].exit_code) == (3_000_000, 3)
        assert texts([following]) == ["next"]


def test_a_subagent_of_its_own_is_in_the_turn_that_called_it(context: Context) -> None:
    at = 1_790_000_000_000_000
    spoken = [e.Draft(body=said(str(n)), said_at=at + n * 1_000_000) for n in range(4)]
    session = opened(context, *spoken, metadata='{"runtime":"x","native":"mother"}')
    child = opened(
        context, e.Draft(body=said("below"), said_at=at + 2_500_000), title="A child",
        metadata='{"runtime":"x","native":"child","parent":"mother"}',
    )  # fmt: skip
    for limit in (200, 1):
        called = [(turn.seq, sub.session, sub.turns) for turn in forward(context, session, limit=limit)
                  for sub in turn.subagents]  # fmt: skip
        assert called == [(4, child.id, 1)]


# What is gone or damaged ----------------------------------------------------------------------------------------------


def test_a_damaged_body_is_shown_as_damaged_and_the_rest_is_readable(context: Context) -> None:
    session = opened(
        context, said("before"), said("damaged"), e.CallMade(call="1", tool="sh"),
        e.CallReturned(call="1", output=Raw(b"7")), said("after"),
    )  # fmt: skip
    page(context, session)
    for seq in (3, 4):
        change(context.store, f"UPDATE event SET body = '{{\"role\":' WHERE {one(session, seq)}")
    assert texts(forward(context, session)) == ["before", "damaged", "damaged", "after"]
    whole_call = items(forward(context, session))[3]
    assert whole_call.type is Type.REMOVED
    assert whole_call.returned is not None
    assert msgspec.json.decode(whole_call.returned.body.output) == 7  # type: ignore[union-attr]


def test_a_page_is_read_with_few_statements_however_long_the_session_is(context: Context) -> None:
    counts = []
    for length in (50, 2000):
        bodies = [
            body
            for n in range(length)
            for body in (said(str(n)), e.CallMade(call=str(n), tool="sh"), e.CallReturned(call=str(n)))
        ]
        session = opened(context, *bodies)
        page(context, session)
        with counted(context.store) as names:
            page(context, session, backward=2**62, limit=50)
        counts.append(len(names))
    assert counts[0] == counts[1] <= 15, names
