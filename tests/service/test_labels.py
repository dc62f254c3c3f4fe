"""Labels: a person's title, tags, stars and notes, whatever state a session is in and whoever writes to it."""

import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from clew.model.access import Grant, Right
from clew.model.errors import Denied, InvalidInput, NotFound, WrongState
from clew.model.events import CallMade, Draft, MessageAdded, SessionTagged, SessionTitled, TitleGiven
from clew.model.session import Session
from clew.service import Context, call
from clew.store import Store
from support.fake_secrets import ALNUM, some
from support.talks import ME, add, asked, on, opened

BOB = "person:bob"


@pytest.fixture
def context(store: Store) -> Iterator[Context]:
    context = on(store)
    yield context
    context.close()


def by(context: Context, principal: str, *rights: Right) -> Context:
    grants = (Grant(principal=principal, rights=frozenset(rights)),)
    return msgspec.structs.replace(context, principal=principal, grants=grants, _cache={})


def do(context: Context, name: str, session: Session, **arguments: Any) -> Any:
    return call(context, name, {"session": session.id, **arguments})


def listed(context: Context, **filters: Any) -> list[Any]:
    lines: list[Any] = call(context, "sessions", filters)
    return lines


def titled(title: str) -> Draft:
    return Draft(body=SessionTitled(title=title), source=f"file/{title}")


# Titles ---------------------------------------------------------------------------------------------------------------


def test_a_persons_title_wins_over_all_that_a_program_writes_later(context: Context) -> None:
    session = opened(context, asked("hi"), titled("first"))
    assert do(context, "title", session, title="  Fix   the lock ").title == "Fix the lock"
    add(context, session, titled("second"))
    add(context, session, asked("more"), titled("third"), SessionTagged(tags=("x",)))
    assert [line.title for line in listed(context)] == ["Fix the lock"]
    assert context.store.session(session.id).title == "Fix the lock"
    assert do(context, "show", session).session.title == "Fix the lock"
    assert do(context, "title", session, title="Another").title == "Another"
    assert context.store.session(session.id).title == "Another"
    assert not context.store.verify(context.store.session(session.id)).problems
    call(context, "views_rebuild", {})
    assert [line.title for line in listed(context)] == ["Another"]


def test_a_title_given_in_the_same_commit_wins(context: Context) -> None:
    session = opened(context)
    add(context, session, TitleGiven(title="mine"), titled("its own"))
    assert context.store.session(session.id).title == "mine"
    assert not context.store.verify(context.store.session(session.id)).problems


def test_the_same_title_again_changes_nothing(context: Context) -> None:
    session = opened(context, asked("hi"), titled("Fix the lock"))
    do(context, "title", session, title="Fix the lock")
    head = context.store.head(session).head
    do(context, "title", session, title="Fix the lock")
    assert context.store.head(session).head == head
    add(context, session, titled("its own"))
    assert context.store.session(session.id).title == "Fix the lock"


def test_a_fork_begins_with_the_title_and_takes_those_of_its_program(context: Context) -> None:
    session = opened(context, asked("hi"))
    do(context, "title", session, title="Fix the lock")
    fork = context.store.session(do(context, "fork", session).id)
    assert fork.title == "Fix the lock"
    add(context, fork, titled("the other way"))
    assert context.store.session(fork.id).title == "the other way"
    assert context.store.session(session.id).title == "Fix the lock"


# Tags -----------------------------------------------------------------------------------------------------------------


def test_tags_are_put_on_and_taken_away(context: Context) -> None:
    session = opened(context, asked("hi"))
    other = opened(context, asked("why"))
    assert do(context, "tag", session, tags=["Work", "#urgent", "work"]).tags == ("urgent", "work")
    do(context, "tag", other, tags=["work", "client/acme"])
    assert [line.id for line in listed(context, tag="URGENT")] == [session.id]
    assert {line.id for line in listed(context, tag="work")} == {session.id, other.id}
    assert [(tag.tag, tag.sessions) for tag in call(context, "tags", {})] == [
        ("work", 2), ("client/acme", 1), ("urgent", 1),
    ]  # fmt: skip
    assert do(context, "tag", session, tags=["urgent", "nothing"], remove=True).tags == ("work",)
    with pytest.raises(NotFound, match="no session has the tag 'urgent'"):
        listed(context, tag="urgent")
    head = context.store.head(session).head
    do(context, "tag", session, tags=["work"])
    do(context, "tag", session, tags=["urgent"], remove=True)
    assert context.store.head(session).head == head, "what changes nothing is no event"


@pytest.mark.parametrize("tag", ["", "  ", "two words", "a,b", "-x", "x" * 41, "\x00", "a\nb", "[x]"])
def test_a_tag_is_one_short_word(context: Context, tag: str) -> None:
    session = opened(context, asked("hi"))
    with pytest.raises(InvalidInput, match="is not a valid tag"):
        do(context, "tag", session, tags=["fine", tag])
    assert do(context, "show", session).session.tags == ()


def test_a_wrong_tag_in_a_filter_names_the_right_one(context: Context) -> None:
    session = opened(context, asked("why does it lock"))
    do(context, "tag", session, tags=["work"])
    for operation in ("sessions", "search", "sessions_count"):
        with pytest.raises(NotFound, match="did you mean work"):
            call(context, operation, {"tag": "wrok"})


def test_a_search_looks_only_into_tagged_and_starred_sessions(context: Context) -> None:
    first = opened(context, asked("why does it lock"), CallMade(call="1", tool="Read"))
    second = opened(context, asked("a lock again"))
    do(context, "tag", first, tags=["work"])
    do(context, "star", second)
    for filters, session in (({"tag": "work"}, first), ({"starred": True}, second)):
        [found] = call(context, "search", {"query": "lock", **filters}).sessions
        assert found.session == session.id
    assert not call(context, "search", {"query": "lock", "tag": "work", "starred": True}).sessions


# Stars ----------------------------------------------------------------------------------------------------------------


def test_a_star_is_the_principals_own(context: Context) -> None:
    session = opened(context, asked("hi"))
    bob = by(context, BOB, Right.SEE, Right.READ, Right.APPEND)
    assert do(bob, "star", session).starred
    assert [line.id for line in listed(bob, starred=True)] == [session.id]
    assert not listed(context, starred=True)
    assert [line.starred for line in listed(context)] == [False]
    do(context, "star", session)
    do(bob, "star", session, remove=True)
    do(bob, "star", session, remove=True)
    assert [line.starred for line in (*listed(context), *listed(bob))] == [True, False]


# Notes ----------------------------------------------------------------------------------------------------------------


def test_notes_are_kept_in_order_and_removed(context: Context) -> None:
    session = opened(context, asked("hi"))
    for text in ("ask Bob", " then Eve\n"):
        noted = do(context, "note", session, text=text)
    assert [(note.text, note.by) for note in noted.notes] == [("ask Bob", ME), ("then Eve", ME)]
    assert [note.text for note in do(context, "show", session).notes] == ["ask Bob", "then Eve"]
    first, second = (note.note for note in noted.notes)
    with pytest.raises(NotFound, match="has no note 'nothing'"):
        do(context, "note_remove", session, note="nothing")
    shortened = next(first[:end] for end in range(1, 21) if not second.startswith(first[:end]))
    assert [note.text for note in do(context, "note_remove", session, note=shortened).notes] == ["then Eve"]
    [line] = listed(context)
    assert line.notes == 1
    with pytest.raises(InvalidInput, match="the note is empty"):
        do(context, "note", session, text=" \n")


# State, leases, rights, secrets ---------------------------------------------------------------------------------------


def label_all(context: Context, session: Session) -> None:
    do(context, "title", session, title="Fix the lock")
    do(context, "tag", session, tags=["work"])
    do(context, "star", session)
    do(context, "note", session, text="ask Bob")


def check_labels(context: Context, session: Session) -> None:
    detail = do(context, "show", session)
    line = detail.session
    assert (line.title, line.tags, line.starred, line.notes) == ("Fix the lock", ("work",), True, 1)
    assert not context.store.verify(context.store.session(session.id)).problems


@pytest.mark.parametrize("steps", [[], ["pause"], ["close"], ["close", "archive"]], ids=lambda steps: "-".join(steps))
def test_labels_need_no_state(context: Context, steps: list[str]) -> None:
    session = opened(context, asked("hi"))
    for step in steps:
        do(context, step, session)
    state = context.store.head(session).state
    label_all(context, session)
    check_labels(context, session)
    assert context.store.head(session).state == state


def test_an_erased_session_takes_no_label_and_shows_none(context: Context) -> None:
    session = opened(context, asked("hi"))
    label_all(context, session)
    do(context, "erase", session)
    for name, given in (("title", {"title": "x"}), ("tag", {"tags": ["x"]}), ("star", {}), ("note", {"text": "x"})):
        with pytest.raises(WrongState):
            do(context, name, session, **given)
    assert call(context, "tags", {}) == []


def test_labels_need_no_lease_and_do_not_end_one(context: Context) -> None:
    session = opened(context, asked("hi"))
    lease = do(by(context, BOB, *Right), "lease_acquire", session)
    label_all(context, session)
    check_labels(context, session)
    bob = by(context, BOB, *Right)
    said = [{"kind": "message_added", "role": "user", "text": "more"}]
    assert do(bob, "append", session, drafts=said, lease=lease.epoch).seqs
    # Together with work they need the lease like the work.
    mixed = [Draft(body=SessionTagged(tags=("x",))), Draft(body=MessageAdded(role="user", text="zombie"))]
    with pytest.raises(Exception, match="is being written by"):
        context.store.append(session, mixed, actor=ME)
    assert do(context, "show", session).session.tags == ("work",)


def test_labels_need_the_right_to_append(context: Context) -> None:
    session = opened(context, asked("hi"))
    reader = by(context, BOB, Right.SEE, Right.READ)
    for name, given in (("title", {"title": "x"}), ("tag", {"tags": ["x"]}), ("star", {}), ("note", {"text": "x"})):
        with pytest.raises(Denied):
            do(reader, name, session, **given)
    do(context, "note", session, text="ask Bob")
    assert [note.text for note in do(reader, "notes", session).notes] == ["ask Bob"]
    with pytest.raises(Denied):
        do(by(context, BOB, Right.SEE), "notes", session)


def test_a_secret_in_a_label_is_masked_where_the_project_wants_it(context: Context) -> None:
    call(context, "setting_set", {"project": "default", "name": "secrets", "value": "mask"})
    context = on(context.store)
    session = opened(context, asked("hi"))
    secret = f"ghp_{some(ALNUM, 36)(random.Random(5))}"
    do(context, "note", session, text=f"use {secret}")
    do(context, "title", session, title=f"key {secret}")
    for event in context.store.read(session):
        assert secret not in repr(event.body)
    leaving = msgspec.structs.replace(on(context.store), answers_leave_machine=True)
    assert secret not in repr(do(leaving, "show", session))


def test_what_another_store_sends_as_a_tag_is_shown_only_if_it_is_one(context: Context) -> None:
    session = opened(context, asked("hi"), SessionTagged(tags=("fine", "Not Fine", "x" * 900, "\x1b[31m", "", "a\0")))
    assert do(context, "show", session).session.tags == ("fine",)


# The list -------------------------------------------------------------------------------------------------------------


def captured(context: Context, *drafts: Any) -> Session:
    return opened(context, *drafts, metadata='{"runtime":"claude-code","native":"n"}')


def test_sessions_with_nothing_in_them_are_hidden_and_counted(context: Context) -> None:
    said = captured(context, asked("hi"))
    empty = captured(context, titled("noise"), MessageAdded(role="system", text="welcome"))
    by_hand = opened(context)
    noted = captured(context)
    do(context, "note", noted, text="why is this empty?")
    assert {line.id for line in listed(context)} == {said.id, by_hand.id, noted.id}
    assert {line.id for line in listed(context, empty=True)} == {said.id, by_hand.id, noted.id, empty.id}
    count = call(context, "sessions_count", {})
    assert (count.sessions, count.empty) == (4, 1)
    add(context, empty, asked("now something"))
    assert empty.id in {line.id for line in listed(context)}


def test_the_count_is_that_of_the_whole_list(context: Context) -> None:
    for n in range(7):
        session = opened(context, asked("hi"), project="shop" if n % 2 else "till")
        if n < 3:
            do(context, "tag", session, tags=["work"])
    for filters in ({}, {"project": "shop"}, {"tag": "work"}, {"tag": "work", "project": "till"}, {"starred": True}):
        assert call(context, "sessions_count", filters).sessions == len(listed(context, **filters))
    assert len(listed(context, limit=2)) == 2


def test_quiet_sessions_are_those_in_which_nothing_has_happened_since(context: Context) -> None:
    old = opened(context, Draft(body=MessageAdded(role="user", text="hi"), said_at=1_700_000_000_000_000))
    opened(context, asked("now"))
    assert [line.id for line in listed(context, quiet_since="2024-01-01")] == [old.id]
    assert listed(context, quiet_since="2023-01-01") == []
    with pytest.raises(InvalidInput):
        listed(context, quiet_since="when pigs fly")
