"""A session at a glance: landmarks, turns and tools, now and as of an event, through rewinds and forks."""

from collections.abc import Iterator

import pytest
from msgspec import Raw

from clew.model import events as e
from clew.model.access import ROLES, Grant
from clew.model.errors import InvalidInput
from clew.model.session import Session
from clew.service import Context, call
from clew.service.sessions.overview import Landmarks, Overview
from clew.store import Store
from clew.store.access.grants import add_grant
from clew.store.access.principals import add_member
from support.talks import on, opened

SECOND = 1_000_000


@pytest.fixture
def context(store: Store) -> Iterator[Context]:
    context = on(store)
    yield context
    context.close()


def said(context: Context, session: Session, *bodies: e.Body) -> None:
    head = context.store.head(session).head
    drafts = [
        e.Draft(body=body, said_at=(head + number) * SECOND, source=f"r{head + number}")
        for number, body in enumerate(bodies, 1)
    ]
    context.store.append(session, drafts, actor="person:ada")


def ask(text: str = "go") -> e.Body:
    return e.MessageAdded(role="user", text=text)


def made(id: str, tool: str, path: str = "") -> e.Body:
    return e.CallMade(call=id, tool=tool, touched=(e.Touch(what=path, how="written"),) if path else ())


def back(id: str, *, failed: bool = False) -> e.Body:
    return e.CallReturned(call=id, output=Raw(b'"x"'), failed=failed)


def spent(tokens: int, message: str) -> e.Body:
    return e.UsageCounted(usage=e.Usage(input=tokens, cost_micros=tokens), message=message)


def worked(context: Context) -> Session:
    session = opened(context)
    said(
        context, session, ask(), made("1", "Bash"), back("1", failed=True), made("2", "Edit", "a.py"), back("2")
    )  # 2-6
    said(context, session, spent(100, "m1"), e.DecisionMade(decision="d", choice="x"), e.Compacted(summary="s"))
    said(context, session, ask(), made("3", "Bash"), made("4", "Bash"), back("4"), spent(50, "m2"))
    return session


def overview(context: Context, session: Session, upto: int | None = None) -> Overview:
    found: Overview = call(context, "overview", {"session": session.id, "upto": upto})
    return found


def places(context: Context, session: Session, upto: int | None = None) -> list[tuple[int, str]]:
    found: Landmarks = call(context, "landmarks", {"session": session.id, "upto": upto})
    return [(landmark.seq, landmark.type) for landmark in found.landmarks]


def test_a_map_shows_prompts_errors_at_their_calls_edits_decisions_and_marks(context: Context) -> None:
    session = worked(context)
    assert places(context, session) == [
        (2, "prompt"), (3, "error"), (5, "edit"), (8, "decision"), (9, "mark"), (10, "prompt")
    ]  # fmt: skip
    assert places(context, session, upto=3) == [(2, "prompt")]


def test_each_turn_says_what_it_used_and_each_tool_how_it_did(context: Context) -> None:
    found = overview(context, worked(context))
    assert [(turn.seq, turn.calls, turn.errors, turn.tokens) for turn in found.turns] == [
        (2, 2, 1, 100),
        (10, 2, 0, 50),
    ]
    bash, edit = found.tools
    assert (bash.tool, bash.calls, bash.failed, bash.last_failed_seq, bash.slowest_us) == ("Bash", 3, 1, 3, SECOND)
    assert (edit.tool, edit.calls, edit.median_us) == ("Edit", 1, SECOND)
    assert (found.tokens, found.cost_micros, found.state) == (150, 150, "active")


def test_a_session_is_shown_as_it_was_at_an_event(context: Context) -> None:
    session = worked(context)
    call(context, "pause", {"session": session.id})
    call(context, "resume", {"session": session.id})
    assert [overview(context, session, upto).state for upto in (1, 4, 15, 16)] == [
        "opened",
        "active",
        "paused",
        "active",
    ]
    then = overview(context, session, upto=9)
    assert (then.tokens, [turn.seq for turn in then.turns], then.head) == (100, [2], 16)
    known = [
        call(context, "recall", {"session": session.id, "upto": upto}).found for upto in (7, 8)
    ]  # fmt: skip
    assert [len(found) for found in known] == [0, 1]
    with pytest.raises(InvalidInput, match="events are 1 to 16"):
        overview(context, session, upto=17)


def test_a_fork_has_what_it_shares_with_its_parent(context: Context) -> None:
    session = worked(context)
    child = context.store.session(call(context, "fork", {"session": session.id, "at": 11}).id)
    said(context, child, back("3", failed=True), spent(7, "m3"))
    assert places(context, child)[-3:] == [(10, "prompt"), (11, "error"), (12, "mark")]
    assert [(turn.seq, turn.tokens, turn.errors) for turn in overview(context, child).turns] == [
        (2, 100, 1),
        (10, 7, 1),
    ]
    assert overview(context, session).tools[0].failed == 1


def test_a_rewound_prompt_is_no_turn(context: Context) -> None:
    session = worked(context)
    said(context, session, e.Rewound(to="r9"), ask("another way"))
    assert [seq for seq, type in places(context, session) if type == "prompt"] == [2, 16]


def test_a_corrected_record_counts_once(context: Context) -> None:
    session = opened(context)
    for version in ("a", "b"):
        draft = e.Draft(body=made("1", "Edit", "a.py"), source=f"c~{version}")
        context.store.append(session, [draft], actor="person:ada")
    assert places(context, session) == [(2, "edit")]
    assert overview(context, session).tools[0].calls == 1


def test_who_can_see_a_session_is_told_with_the_reason(context: Context) -> None:
    session = opened(context, project="shop")
    add_grant(
        context.store, Grant(principal="team:core", rights=ROLES["viewer"], project="shop"), given_by="person:ada"
    )
    add_grant(
        context.store, Grant(principal="person:eve", rights=ROLES["viewer"], project="bank"), given_by="person:ada"
    )
    add_member(context.store, "team:core", "person:bo")
    found = {one.who: one for one in call(context, "access_who", {"session": session.id})}
    assert set(found) == {context.principal, "team:core", "person:bo"}
    assert "team:core on project shop" in found["person:bo"].because
    assert found[context.principal].is_you
