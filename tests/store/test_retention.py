"""Retention: conversations go when their time is over; knowledge stays, and so does what a fork or a hold keeps."""

from collections.abc import Iterator

import pytest
from msgspec import Raw

from clew.model.errors import OnHold
from clew.model.events import (
    KINDS,
    BodiesPruned,
    Body,
    CallMade,
    CallReturned,
    Compacted,
    DecisionMade,
    Draft,
    MessageAdded,
    Opaque,
    ProgressNoted,
    Removed,
    Rewound,
    ScratchSet,
    SessionClosed,
    TurnEnded,
    TurnStarted,
    Usage,
    UsageCounted,
)
from clew.model.retention import Policy
from clew.model.session import Session
from clew.store import Store
from clew.store.log.erase import erase
from clew.store.log.opening import Forking
from clew.store.log.retention import Pruned, apply_policies, list_policies, remove_policy, set_policy
from clew.store.log.verify import verify_all
from clew.store.projects import control_log
from store.rows import DAY_US, age, query, unchanged
from store.words import ADA, big, kinds, learn, messages, opened, say

CONVERSATION: list[Body | Opaque] = [
    TurnStarted(turn="1"),
    UsageCounted(usage=Usage(input=1)),
    Rewound(to="s"),
    MessageAdded(role="user", text="hello"),
    MessageAdded(role="assistant", text=big()),
    CallMade(call="1", tool="Bash"),
    CallReturned(call="1"),
    Compacted(first=1, last=2, summary="short"),
    TurnEnded(turn="1"),
    Opaque(kind="my.kind", raw='{"a":1}'),
]
KNOWLEDGE: list[Body] = [
    DecisionMade(decision="1", choice="this"),
    ProgressNoted(done="that"),
    ScratchSet(name="a", value=Raw(b"1")),
]


def in_days(store: Store, days: int) -> int:
    """The store's clock, some days from now."""
    with store.database.read() as tx:
        return int(tx.run("now")[0][0]) + days * DAY_US


def prune(store: Store, *, days: int) -> list[Pruned]:
    """Apply the policies as if it were some days later."""
    return apply_policies(store, actor=ADA, now=in_days(store, days))


def keep(store: Store, days: int | None, *, project: str = "demo", agent: str = "", hold: bool = False) -> None:
    set_policy(store, Policy(project=project, agent=agent, keep_days=days, hold=hold))


@pytest.fixture(autouse=True)
def _chains_hold(store: Store) -> Iterator[None]:
    """Whatever was removed, every chain verifies afterwards."""
    yield
    assert [problem for verified in verify_all(store) for problem in verified.problems] == []


# Policies -------------------------------------------------------------------------------------------------------------


def test_a_policy_is_set_replaced_listed_and_removed(store: Store) -> None:
    keep(store, 30)
    keep(store, 7, agent="fred")
    keep(store, None, agent="fred", hold=True)
    assert list_policies(store) == [
        Policy(project="demo", keep_days=30),
        Policy(project="demo", agent="fred", keep_days=None, hold=True),
    ]
    assert remove_policy(store, "demo", "fred")
    assert not remove_policy(store, "demo", "fred")
    assert list_policies(store) == [Policy(project="demo", keep_days=30)]


# What goes ------------------------------------------------------------------------------------------------------------


def test_the_conversation_goes_and_knowledge_stays(store: Store, session: Session) -> None:
    store.append(session, [Draft(body=body) for body in (*CONVERSATION, *KNOWLEDGE)] + [learn("kept")])
    keep(store, 30)
    before = list(store.read(session))
    [pruned] = prune(store, days=31)
    after = list(store.read(session))
    assert (pruned.session, pruned.events, pruned.kept_for_forks) == (session.id, len(CONVERSATION), 0)
    for was, now in zip(before, after, strict=False):
        expected = Removed(kind=was.kind, how="pruned", version=1) if was.body in CONVERSATION else was.body
        assert now.body == expected
        assert (now.seq, now.at, now.actor, now.digest) == (was.seq, was.at, was.actor, was.digest)
    assert query(store, "SELECT count(*) FROM event WHERE body IS NULL AND blob IS NULL")[0][0] == len(CONVERSATION)


def test_every_kind_is_either_conversation_or_durable() -> None:
    """A new kind has to be put on one side, on purpose."""
    conversation = {body.kind for body in CONVERSATION}
    assert {kind for kind, body in KINDS.items() if not body.durable} | {"my.kind"} == conversation


def test_the_log_records_what_was_pruned(store: Store, session: Session) -> None:
    store.append(session, [say("2"), say("3"), learn("4"), say("5")])
    keep(store, 30)
    prune(store, days=31)
    last = list(store.read(session))[-1]
    assert last.body == BodiesPruned(ranges=((2, 3), (5, 5)), policy="demo: conversations 30 days")
    assert last.actor == ADA


@pytest.mark.parametrize(("days", "gone"), [(29, False), (31, True)])
def test_a_conversation_goes_when_its_time_is_over(store: Store, session: Session, days: int, gone: bool) -> None:
    store.append(session, [say("hello")])
    keep(store, 30)
    prune(store, days=days)
    assert messages(list(store.read(session))) == (["pruned"] if gone else ["hello"])


def test_the_time_counts_from_the_last_event(store: Store, session: Session) -> None:
    store.append(session, [say("old")])
    age(store, session, days=31)
    store.append(session, [say("new")])
    keep(store, 30)
    assert prune(store, days=0) == []


def test_pruning_twice_is_pruning_once(store: Store, session: Session) -> None:
    store.append(session, [say("hello")])
    keep(store, 30)
    prune(store, days=31)
    with unchanged(store):
        assert prune(store, days=31) == []
        assert prune(store, days=3100) == []


def test_a_session_goes_on_after_pruning_and_is_pruned_again(store: Store, session: Session) -> None:
    store.append(session, [say("one")])
    keep(store, 30)
    prune(store, days=31)
    store.append(session, [say("two")])
    assert messages(list(store.read(session))) == ["pruned", "two"]
    prune(store, days=31)
    assert messages(list(store.read(session))) == ["pruned", "pruned"]
    assert kinds(list(store.read(session))).count("bodies_pruned") == 2


@pytest.mark.parametrize("state", ["paused", "closed", "archived"])
def test_a_session_is_pruned_in_every_state(store: Store, session: Session, state: str) -> None:
    ends = {
        "paused": ["session_paused"],
        "closed": ["session_closed"],
        "archived": ["session_closed", "session_archived"],
    }
    store.append(session, [say("hello"), *(Draft(body=KINDS[kind]()) for kind in ends[state])])
    keep(store, 30)
    prune(store, days=31)
    assert messages(list(store.read(session))) == ["pruned"]
    assert store.head(session).state == state


def test_a_source_is_known_after_its_body_was_pruned(store: Store, session: Session) -> None:
    store.append(session, [say("hello", source="a"), say(big(), source="b")])
    keep(store, 30)
    prune(store, days=31)
    with unchanged(store):
        again = store.append(session, [say("hello", source="a"), say(big(), source="b")])
    assert again.deduplicated == [2, 3]


def test_without_a_policy_nothing_goes(store: Store, session: Session) -> None:
    store.append(session, [say("hello")])
    keep(store, 0, project="another")
    keep(store, None)
    with unchanged(store):
        assert prune(store, days=36_500) == []


def test_the_control_log_is_never_pruned(store: Store) -> None:
    control = control_log(store, "demo", ADA)
    store.append(control, [say("who did what")])
    keep(store, 0)
    assert prune(store, days=1) == []


# Agents and holds -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("of_project", "of_agent", "gone"), [(30, 300, False), (300, 30, True), (30, None, False)])
def test_the_policy_of_an_agent_beats_its_projects(
    store: Store, of_project: int, of_agent: int | None, gone: bool
) -> None:
    session, other = opened(store, agent="fred"), opened(store, agent="someone else")
    for one in (session, other):
        store.append(one, [say("hello")])
    keep(store, of_project)
    keep(store, of_agent, agent="fred")
    prune(store, days=100)
    assert messages(list(store.read(session))) == (["pruned"] if gone else ["hello"])
    assert messages(list(store.read(other))) == (["pruned"] if of_project == 30 else ["hello"])


@pytest.mark.parametrize("held", ["project", "agent"])
def test_a_hold_keeps_everything(store: Store, held: str) -> None:
    session = opened(store, agent="fred")
    store.append(session, [say("evidence")])
    keep(store, 30, hold=held == "project")
    keep(store, 30, agent="fred", hold=held == "agent")
    with unchanged(store):
        assert prune(store, days=31) == []
        with pytest.raises(OnHold):
            erase(store, session, actor=ADA)
    keep(store, 30)
    keep(store, 30, agent="fred")
    prune(store, days=31)
    assert messages(list(store.read(session))) == ["pruned"]


def test_a_hold_on_a_fork_keeps_what_it_reads(store: Store, session: Session) -> None:
    """The child's agent is its parent's, so the hold is put on the child alone by hand."""
    store.append(session, [say("evidence"), say("not read by the fork")])
    child = store.open(Forking(parent=session, at=2), actor=ADA)
    with store.database.write() as tx:
        tx.connection.execute(f"UPDATE session SET agent = 'held' WHERE key = {child.key}")  # type: ignore[attr-defined]
    keep(store, 30)
    keep(store, None, agent="held", hold=True)
    prune(store, days=31)
    assert messages(list(store.read(session))) == ["evidence", "pruned"]


# Forks ----------------------------------------------------------------------------------------------------------------


def test_what_a_kept_child_reads_stays_until_the_child_is_expired_too(store: Store, session: Session) -> None:
    store.append(session, [say("shared"), say("not shared")])
    child = store.open(Forking(parent=session, at=2), actor=ADA)
    store.append(child, [say("own")])
    keep(store, 30)
    age(store, session, days=31)
    [pruned] = apply_policies(store, actor=ADA)
    assert (pruned.events, pruned.kept_for_forks) == (1, 1)
    assert messages(list(store.read(session))) == ["shared", "pruned"]
    assert messages(list(store.read(child))) == ["shared", "own"]
    age(store, child, days=31)
    apply_policies(store, actor=ADA)
    assert messages(list(store.read(child))) == ["pruned", "pruned"]


def test_what_a_kept_grandchild_reads_stays(store: Store, session: Session) -> None:
    store.append(session, [say("root"), say("root, not shared")])
    child = store.open(Forking(parent=session, at=2), actor=ADA)
    store.append(child, [say("child"), say("child, not shared")])
    grandchild = store.open(Forking(parent=child, at=4), actor=ADA)
    keep(store, 30)
    age(store, session, days=31)
    age(store, child, days=31)
    apply_policies(store, actor=ADA)
    assert messages(list(store.read(grandchild))) == ["root", "child"]
    assert messages(list(store.read(child))) == ["root", "child", "pruned"]
    assert messages(list(store.read(session))) == ["root", "pruned"]


def test_an_erased_child_keeps_nothing_of_its_parent(store: Store, session: Session) -> None:
    store.append(session, [say("hello")])
    child = store.open(Forking(parent=session), actor=ADA)
    erase(store, child, actor=ADA)
    keep(store, 30)
    age(store, session, days=31)
    apply_policies(store, actor=ADA)
    assert messages(list(store.read(session))) == ["pruned"]


def test_a_child_of_a_pruned_parent_reads_what_is_left(store: Store, session: Session) -> None:
    store.append(session, [say("hello"), learn("kept"), Draft(body=SessionClosed())])
    keep(store, 30)
    prune(store, days=31)
    child = store.open(Forking(parent=session), actor=ADA)
    store.append(child, [say("on we go")])
    assert messages(list(store.read(child))) == ["pruned", "on we go"]
    assert "fact_learned" in kinds(list(store.read(child)))


# Said, not stored -----------------------------------------------------------------------------------------------------


def said(text: str, at: int | None) -> Draft:
    return Draft(body=MessageAdded(role="user", text=text), said_at=at)


def test_days_count_from_when_something_was_said_and_not_from_its_capture(store: Store, session: Session) -> None:
    store.append(session, [said("long ago", in_days(store, -400)), Draft(body=Opaque(kind="my.mode", raw="{}"))])
    keep(store, 30)
    [pruned] = apply_policies(store, actor=ADA)
    assert pruned.events == 2


def test_a_conversation_that_goes_on_is_kept_however_old_it_is(store: Store, session: Session) -> None:
    store.append(session, [said("long ago", in_days(store, -400)), said("yesterday", in_days(store, -1))])
    store.append(session, [said("long ago, and captured last", in_days(store, -300))])
    keep(store, 30)
    with unchanged(store):
        assert apply_policies(store, actor=ADA) == []


def test_what_has_no_time_of_its_own_counts_from_when_it_was_stored(store: Store, session: Session) -> None:
    store.append(session, [said("long ago", in_days(store, -400)), say("just now")])
    keep(store, 30)
    with unchanged(store):
        assert apply_policies(store, actor=ADA) == []


def test_a_fact_of_today_keeps_no_conversation_of_last_year(store: Store, session: Session) -> None:
    store.append(session, [said("long ago", in_days(store, -400)), learn("today")])
    keep(store, 30)
    [pruned] = apply_policies(store, actor=ADA)
    assert pruned.events == 1


def test_a_clock_that_was_ahead_keeps_nothing_for_ever(store: Store, session: Session) -> None:
    store.append(session, [said("in a hundred years", in_days(store, 36_500))])
    keep(store, 30)
    assert prune(store, days=29) == []
    assert len(prune(store, days=31)) == 1


def test_a_dry_run_says_what_would_go_and_changes_nothing(store: Store, session: Session) -> None:
    store.append(session, [said("shared", in_days(store, -400)), said("own", in_days(store, -400))])
    store.append(store.open(Forking(parent=session, at=2), actor=ADA), [say("on we go")])
    keep(store, 30)
    with unchanged(store):
        foretold = apply_policies(store, actor=ADA, dry_run=True)
    assert [(pruned.events, pruned.kept_for_forks) for pruned in foretold] == [(1, 1)]
    assert apply_policies(store, actor=ADA) == foretold


def test_the_policies_of_one_project_are_applied_to_it_alone(store: Store) -> None:
    sessions = [opened(store, project=project) for project in ("demo", "other")]
    for one in sessions:
        store.append(one, [said("long ago", in_days(store, -400))])
    keep(store, 30)
    keep(store, 30, project="other")
    assert [pruned.session for pruned in apply_policies(store, actor=ADA, project="other")] == [sessions[1].id]
    assert messages(list(store.read(sessions[0]))) == ["long ago"]
