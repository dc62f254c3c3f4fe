"""The family of a session: everything that came of the same beginning, as far as the caller may see."""

import msgspec
import pytest

from clew.model import events as e
from clew.model.access import Grant, Right
from clew.model.errors import NotFound
from clew.model.session import Session
from clew.service import Context, call
from clew.service.sessions.family import Family
from clew.store import Store
from clew.store.log.opening import Forking
from support.talks import on, opened


@pytest.fixture
def context(store: Store) -> Context:
    return on(store)


def said(*texts: str) -> list[e.MessageAdded]:
    return [e.MessageAdded(role="user", text=text) for text in texts]


def fork(context: Context, of: str, at: int, **about: object) -> str:
    return str(call(context, "fork", {"session": of, "at": at, **about}).id)


def told(family: Family) -> dict[str, tuple[str, str, int]]:
    return {member.session.id: (member.how, member.parent, member.at) for member in family.members}


def test_a_family_is_the_same_whoever_of_it_is_asked(context: Context) -> None:
    first = opened(context, *said("a", "b", "c"), title="first", metadata='{"runtime":"x","native":"mother"}')
    early = fork(context, first.id, 2)
    late = fork(context, first.id, 4, title="late")
    call(context, "append", {"session": early, "drafts": [{"kind": "message_added", "role": "user", "text": "d"}]})
    below = fork(context, early, 4)
    called = opened(context, *said("x"), metadata='{"runtime":"x","native":"child","parent":"mother"}')
    other = opened(context, *said("of no family"))
    expected = {
        first.id: ("first", "", 0), early: ("fork", first.id, 2), late: ("fork", first.id, 4),
        called.id: ("subagent", first.id, 0), below: ("fork", early, 4),
    }  # fmt: skip
    for id in (first.id, early, late, below):
        family = call(context, "family", {"session": id})
        assert (told(family), family.session, family.is_whole) == (expected, id, True)
        places = [member.session.id for member in family.members]
        assert all(places.index(member.parent) < places.index(member.session.id) for member in family.members[1:])
    [alone] = call(context, "family", {"session": other.id}).members
    assert (alone.session.id, alone.how) == (other.id, "first")


def test_a_resume_elsewhere_is_told_apart_from_a_fork(context: Context) -> None:
    first = opened(context, *said("a"))
    metadata = msgspec.json.encode({"runtime": "codex", "resumed": ["/home/ada/.codex/x.jsonl"]}).decode()
    child: Session = context.store.open(Forking(parent=first, at=2, metadata=metadata), actor="person:ada")
    assert told(call(context, "family", {"session": first.id}))[child.id] == ("elsewhere", first.id, 2)


def test_a_large_family_is_cut_and_says_so(context: Context) -> None:
    first = opened(context, *said("a"))
    for _ in range(5):
        fork(context, first.id, 2)
    cut = call(context, "family", {"session": first.id, "limit": 3})
    assert (len(cut.members), cut.is_whole) == (3, False)
    assert call(context, "family", {"session": first.id, "limit": 6}).is_whole


def test_nobody_learns_of_a_relative_they_may_not_see(context: Context, store: Store) -> None:
    first = opened(context, *said("a", "b"), title="hidden first")
    seen = fork(context, first.id, 2, title="seen")
    unseen = fork(context, first.id, 3, title="unseen")
    call(context, "append", {"session": seen, "drafts": [{"kind": "message_added", "role": "user", "text": "own"}]})
    below = fork(context, seen, 4, title="below")
    reading = frozenset({Right.SEE, Right.READ})
    grants = tuple(Grant(principal="person:bo", rights=reading, session=id) for id in (seen, below))
    bo = Context(store=store, unrestricted=store, principal="person:bo", grants=grants)
    family = call(bo, "family", {"session": below})
    assert told(family) == {seen: ("first", "", 0), below: ("fork", seen, 4)}
    assert "hidden" not in str(family)
    for id in (first.id, unseen):
        with pytest.raises(NotFound):
            call(bo, "family", {"session": id})
