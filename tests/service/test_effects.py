"""Effects: an event that changes a rule is ruled like its operation, whichever way it comes in."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from clew.client import Plane
from clew.local import Local
from clew.model.access import ROLES, Grant, Right, owner_of_everything
from clew.model.errors import BudgetExceeded, Denied, InvalidInput, NotFound
from clew.model.events import KINDS, BudgetSet, OperationCalled, PrivacySet
from clew.service import Context, call
from clew.service.replication.values import Sent
from clew.store import Store
from clew.store.log.erase import erase
from clew.store.objects import objects
from clew.store.objects.pack import address
from clew.store.projects import control_log
from store.rows import query

OWNER, ADA, BOB = "person:owner", "person:ada", "person:bob"

# Events that change a rule, and the right that their operation needs. All others say only what happened.
RULES = {"privacy_set": Right.ADMINISTER, "budget_set": Right.BUDGET}
HAPPENED = {
    "session_opened", "session_forked", "session_paused", "session_resumed", "session_closed", "session_archived",
    "session_titled", "runtime_attached", "turn_started", "message_added", "call_made", "call_returned", "turn_ended",
    "usage_counted", "rewound", "fact_learned", "fact_retired", "decision_made", "decision_reversed", "progress_noted",
    "compacted", "scratch_set", "scratch_cleared", "artifact_saved", "workspace_snapshotted", "workspace_restored",
    "lease_taken", "lease_released", "lease_lost", "handoff_offered", "handoff_accepted", "handoff_declined",
    "handoff_returned", "approval_asked", "approval_given", "budget_exceeded", "bodies_pruned", "session_erased",
    "operation_called", "title_given", "session_tagged", "session_untagged", "session_starred", "session_unstarred",
    "note_added", "note_removed", "commits_made",
}  # fmt: skip
BODIES: dict[str, dict[str, Any]] = {
    "privacy_set": {"private": False}, "budget_set": {"budget": {"tokens": 1_000_000_000}},
    "session_erased": {"events": 9}, "bodies_pruned": {"ranges": [[1, 9]]}, "operation_called": {"operation": "erase"},
    "lease_taken": {"holder": BOB, "epoch": 9, "until": 2**62}, "session_paused": {"reason": "x"},
    "session_closed": {"outcome": "completed"},
}  # fmt: skip


@pytest.fixture
def owner(store: Store) -> Context:
    return Context(store=store, unrestricted=store, principal=OWNER, grants=(owner_of_everything(OWNER),))


@pytest.fixture
def acting(owner: Context) -> Callable[..., Context]:
    def made(principal: str, *rights: Right, **where: Any) -> Context:
        grants = (Grant(principal=principal, rights=frozenset(rights), **where),) if rights else ()
        return Context(
            store=owner.store, unrestricted=owner.store, principal=principal, grants=grants,
            answers_leave_machine=True, _views=[owner.views],
        )  # fmt: skip

    return made


def said(by: Context, text: str, **more: Any) -> str:
    id: str = call(by, "open", more).id
    call(by, "append", {"session": id, "drafts": [{"kind": "message_added", "role": "user", "text": text}]})
    return id


def rules_of(store: Store, id: str) -> tuple[Any, ...]:
    """What decides who may do what with a session: its privacy, budget, owner, lease and life."""
    session = store.session(id)
    head = store.head(session)
    held = query(store, "SELECT count(*) FROM policy WHERE hold = 1")
    erased = head.state == "erased"
    return session.private, head.budget, session.owner, head.holder, head.epoch, erased, held


# Every kind, by every way ---------------------------------------------------------------------------------------------


def test_every_kind_is_known_to_change_a_rule_or_none() -> None:
    assert set(KINDS) == set(RULES) | HAPPENED, "say in this test whether a new kind of event changes a rule"
    assert not set(RULES) & HAPPENED


def arrive_by_append(by: Context, id: str, kind: str) -> None:
    call(by, "append", {"session": id, "drafts": [{"kind": kind, **BODIES.get(kind, {})}]})


def arrive_by_push(by: Context, id: str, kind: str) -> None:
    sent = Sent(kind=kind, source=f"elsewhere:{kind}", body=json.dumps(BODIES.get(kind, {})))
    call(by, "sync_append", {"session": id, "events": [sent]})


@pytest.mark.parametrize("arrive", [arrive_by_append, arrive_by_push], ids=["append", "push"])
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_an_event_changes_no_rule_for_who_may_not(
    owner: Context, acting: Callable[..., Context], arrive: Callable[[Context, str, str], None], kind: str
) -> None:
    id = said(acting(ADA, Right.APPEND, project="shop"), "hers", project="shop", private=True, budget_tokens=100)
    before = rules_of(owner.store, id)
    writer = acting(BOB, *ROLES["writer"], session=id)
    with suppress(InvalidInput, NotFound, Denied):
        arrive(writer, id, kind)
    after = rules_of(owner.store, id)
    assert after == before, f"a writer changed a rule by {kind}"
    if kind in RULES and arrive is arrive_by_push:
        log = control_log(owner.store, "shop", OWNER)
        [entry] = [event.body for event in owner.store.read(log) if isinstance(event.body, OperationCalled)]
        assert (entry.operation, entry.allowed) == ("sync_append", False)
        assert kind in entry.because


@pytest.mark.parametrize("kind", sorted(RULES))
def test_an_event_changes_a_rule_for_who_may(owner: Context, acting: Callable[..., Context], kind: str) -> None:
    id = said(acting(ADA, Right.APPEND, project="shop"), "hers", project="shop", private=True, budget_tokens=100)
    before = rules_of(owner.store, id)
    manager = acting(BOB, *Right, session=id)
    arrive_by_push(manager, id, kind)
    assert rules_of(owner.store, id) != before
    with pytest.raises(InvalidInput):
        arrive_by_append(manager, id, kind)


def test_an_import_brings_no_rule(owner: Context, tmp_path: Path) -> None:
    id = said(owner, "mine", project="shop")
    [first] = call(owner, "events", {"session": id, "limit": 1})
    assert first.seq == 1
    lines = [{"session": id, "seq": 1, "kind": "message_added", "at": 1, "actor": BOB, "role": "user", "text": "hi"}]
    lines += [
        {"session": id, "seq": seq, "kind": kind, "at": 1, "actor": BOB, **BODIES.get(kind, {})}
        for seq, kind in enumerate(sorted(RULES), 2)
    ]
    file = tmp_path / "history.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    [report] = Plane(Local(owner)).capture([str(file)])
    session = owner.store.session(report.session)
    kinds = [event.body for event in owner.store.read(session)]
    assert not any(isinstance(body, PrivacySet | BudgetSet) for body in kinds)


# Forks ----------------------------------------------------------------------------------------------------------------

PUBLISHING: list[tuple[str, dict[str, Any]]] = [
    ("privacy", {"private": False}),
    ("share", {"who": "eve"}),
    ("access_grant", {"who": "eve", "role": "viewer"}),
    ("link", {}),
]


@pytest.mark.parametrize(("operation", "arguments"), PUBLISHING, ids=[name for name, _ in PUBLISHING])
def test_a_fork_of_a_private_session_is_published_by_who_may_publish_its_parent(
    owner: Context, acting: Callable[..., Context], operation: str, arguments: dict[str, Any]
) -> None:
    id = said(acting(ADA, Right.APPEND, project="shop"), "secret salary", project="shop", private=True)
    bob = acting(BOB, Right.SEE, Right.READ, Right.FORK, session=id)
    child = call(bob, "fork", {"session": id}).id
    grandchild = call(bob, "fork", {"session": child}).id
    for fork in (child, grandchild):
        with pytest.raises(Denied) as raised:
            call(bob, operation, {"session": fork, **arguments})
        assert "secret" not in str(raised.value)
        assert call(owner, "show", {"session": fork}).session.private
        assert call(owner, operation, {"session": fork, **arguments})
    # Their own sessions they publish as before.
    mine = said(acting(BOB, Right.APPEND, project="shop"), "mine", project="shop", private=True)
    assert call(bob, operation, {"session": mine, **arguments})


def test_a_fork_is_opened_by_no_event_of_another_store(owner: Context, acting: Callable[..., Context]) -> None:
    id = said(acting(ADA, Right.APPEND, project="shop"), "secret", project="shop", private=True)
    bob = acting(BOB, Right.SEE, Right.READ, Right.FORK, session=id)
    child = call(bob, "fork", {"session": id}).id
    arrive_by_push(bob, child, "privacy_set")
    assert owner.store.session(child).private


# Budgets, holds, owners -----------------------------------------------------------------------------------------------


def test_a_fork_does_not_escape_its_parents_budget(owner: Context, acting: Callable[..., Context]) -> None:
    ada = acting(ADA, *ROLES["writer"], project="shop")
    id = call(ada, "open", {"project": "shop", "budget_tokens": 100}).id

    def spend(session: str, tokens: int) -> None:
        draft = {"kind": "usage_counted", "usage": {"output": tokens}, "model": "m"}
        call(ada, "append", {"session": session, "drafts": [draft]})

    spend(id, 90)
    child = call(ada, "fork", {"session": id, "at": 1}).id
    assert owner.store.head(owner.store.session(child)).spent_tokens == 90
    with pytest.raises(BudgetExceeded):
        spend(child, 20)
    assert not owner.store.verify(owner.store.session(child)).problems
    for session in (id, child):
        for arguments in ({"tokens": 10_000}, {"unlimited": True}):
            with pytest.raises(Denied, match="budget"):
                call(ada, "budget", {"session": session, **arguments})
    manager = acting(BOB, Right.SEE, Right.BUDGET, project="shop")
    assert call(manager, "budget", {"session": child, "tokens": 10_000}).budget.tokens == 10_000
    own = call(ada, "open", {"project": "shop"}).id
    assert call(ada, "budget", {"session": own, "tokens": 5}).budget.tokens == 5


def test_a_hold_is_a_right_of_its_own(owner: Context, acting: Callable[..., Context]) -> None:
    call(owner, "open", {"project": "shop"})
    helper = acting(BOB, Right.SEE, Right.ADMINISTER, project="shop")
    call(helper, "retention_set", {"project": "shop", "keep_days": 9})
    with pytest.raises(Denied, match="hold"):
        call(helper, "retention_set", {"project": "shop", "hold": True})
    call(owner, "retention_set", {"project": "shop", "hold": True})
    for name, arguments in (("retention_set", {"keep_days": 9}), ("retention_remove", {})):
        with pytest.raises(Denied, match="hold"):
            call(helper, name, {"project": "shop", **arguments})


def test_owners_are_disabled_by_owners_alone(owner: Context, acting: Callable[..., Context]) -> None:
    for name in ("ada", "bob"):
        call(owner, "principal_add", {"principal": name})
    call(owner, "access_grant", {"who": "ada", "role": "admin"})
    helper = acting("person:helper", Right.SEE, Right.ADMINISTER)
    call(helper, "principal_disable", {"principal": "bob"})
    with pytest.raises(Denied):
        call(helper, "principal_disable", {"principal": "ada"})
    call(owner, "principal_disable", {"principal": "ada"})


def test_nobody_but_an_owner_takes_away_what_makes_an_owner(owner: Context, acting: Callable[..., Context]) -> None:
    """Neither by revoking the grant, nor by a lesser one in its place, nor through the team that has it."""
    for name in ("ada", "eve"):
        call(owner, "principal_add", {"principal": name})
    grant = call(owner, "access_grant", {"who": "ada", "role": "admin"}).id
    call(owner, "access_grant", {"who": "team:owners", "role": "admin"})
    call(owner, "team_add", {"name": "owners", "principal": "eve"})
    team = next(each.id for each in call(owner, "access_list", {}) if each.who == "team:owners")
    helper = acting("person:helper", Right.SEE, Right.READ, Right.ADMINISTER)
    before = call(owner, "access_list", {})
    for operation, arguments in (
        ("access_revoke", {"grant": grant}),
        ("access_revoke", {"grant": team}),
        ("access_grant", {"who": "ada", "role": "viewer"}),
        ("access_grant", {"who": "team:owners", "rights": ["see"]}),
        ("team_remove", {"name": "owners", "principal": "eve"}),
    ):
        with pytest.raises(Denied):
            call(helper, operation, arguments)
    assert call(owner, "access_list", {}) == before
    assert call(helper, "access_grant", {"who": "bob", "role": "viewer"}).id
    assert call(owner, "access_revoke", {"grant": grant}).id == grant


def test_a_fork_that_is_pushed_begins_with_what_its_parent_spent(
    owner: Context, acting: Callable[..., Context]
) -> None:
    """Also with the money that only list prices know."""
    ada = acting(ADA, *ROLES["writer"], project="shop")
    id = call(ada, "open", {"project": "shop", "budget_usd": 100}).id
    usage = {"kind": "usage_counted", "usage": {"input": 1_000_000}, "model": "claude-sonnet-4-5", "message": "m1"}
    call(ada, "append", {"session": id, "drafts": [usage]})
    forked = call(ada, "fork", {"session": id}).id
    pushed = "zzzz9zzzz9zzzz9zzzz9"
    call(ada, "sync_open", {"session": pushed, "project": "shop", "parent": id})
    spent = [owner.store.head(owner.store.session(child)).spent_cost_micros for child in (forked, pushed)]
    assert spent[0] == spent[1] > 0


# Objects --------------------------------------------------------------------------------------------------------------


def naming(digest: str) -> dict[str, Any]:
    return {"drafts": [{"kind": "artifact_saved", "name": "plan.txt", "blob": digest, "size": 1}]}


def refusal(by: Context, id: str, digest: str) -> str:
    with pytest.raises(NotFound) as raised:
        call(by, "append", {"session": id, **naming(digest)})
    return str(raised.value.to_dict()).replace(digest[:80], "?")


def test_an_object_is_named_with_its_bytes_or_where_it_is_read_already(
    owner: Context, acting: Callable[..., Context]
) -> None:
    secret = objects.save(owner.store, b"the plan of another tenant")
    theirs = call(owner, "open", {"project": "bank"}).id
    call(owner, "append", {"session": theirs, **naming(secret)})
    bob = acting(BOB, Right.APPEND, Right.SEE, project="shop")
    mine = call(bob, "open", {"project": "shop"}).id
    # No oracle: the answer is the same whether the store has it or not.
    assert refusal(bob, mine, secret) == refusal(bob, mine, "0" * 64)
    with pytest.raises(NotFound):
        call(bob, "blob", {"session": mine, "digest": secret})
    own = b"my own bytes"
    digest = address(own).hex()
    sent = Sent(kind="artifact_saved", source="elsewhere:1", body=json.dumps({"name": "n", "blob": digest, "size": 12}))
    call(bob, "sync_append", {"session": mine, "events": [sent], "blobs": {digest: own}})
    assert call(bob, "append", {"session": mine, **naming(digest)}).seqs
    # What was erased is named by nobody any more, though its bytes are collected only later.
    erase(owner.store, owner.store.session(mine), actor=BOB)
    again = call(bob, "open", {"project": "shop"}).id
    assert refusal(bob, again, digest) == refusal(bob, again, "0" * 64)


def test_who_writes_and_does_not_read_names_no_object_of_the_session(
    owner: Context, acting: Callable[..., Context]
) -> None:
    digest = objects.save(owner.store, b"bytes")
    id = call(owner, "open", {"project": "shop"}).id
    call(owner, "append", {"session": id, **naming(digest)})
    assert refusal(acting(BOB, Right.APPEND, Right.SEE, project="shop"), id, digest)


# Names ----------------------------------------------------------------------------------------------------------------


def test_the_name_of_an_agent_does_not_tell_whether_another_project_has_it(
    owner: Context, acting: Callable[..., Context]
) -> None:
    call(owner, "agent_register", {"name": "reviewer", "project": "bank", "instructions": "hidden"})
    helper = acting(BOB, *Right, project="shop")
    answers = [
        call(helper, "agent_register", {"name": name, "project": "shop", "instructions": "mine"})
        for name in ("reviewer", "nobody-has-this")
    ]
    assert [agent.instructions for agent in answers] == ["mine", "mine"]
    assert [agent.name for agent in call(helper, "agents", {})] == ["nobody-has-this", "reviewer"]
    call(helper, "agent_remove", {"name": "reviewer", "project": "shop"})
    [kept] = call(owner, "agents", {})[1:]
    assert (kept.project, kept.instructions) == ("bank", "hidden")


# What is pushed -------------------------------------------------------------------------------------------------------


def test_replacing_a_pushed_native_file_leaves_an_entry(owner: Context, acting: Callable[..., Context]) -> None:
    id = said(acting(ADA, Right.APPEND, project="shop"), "hers", project="shop")
    file = {"runtime": "codex", "format": "jsonl", "path": "/a", "native": "n", "machine": "m", "generation": 0}
    for who, data in ((ADA, b"first"), (BOB, b"other")):
        writer = acting(who, *ROLES["writer"], session=id)
        stretch = {"upto": 5, "data": data, "settled": True}
        call(writer, "sync_original", {"session": id, "file": file, "stretches": [stretch]})
    log = control_log(owner.store, "shop", OWNER)
    [entry] = [event for event in owner.store.read(log) if isinstance(event.body, OperationCalled)]
    assert (entry.actor, entry.body.operation, entry.body.target) == (BOB, "sync_original", id)
    assert "replaced 5 bytes" in entry.body.because


def test_nobody_claims_the_answers_of_another_tenant(owner: Context, acting: Callable[..., Context]) -> None:
    answer = {"kind": "usage_counted", "model": "m", "message": "msg_0123456789abcdef0123"}
    for who, project, tokens in ((BOB, "evil", 1), (BOB, "shop", 1), (ADA, "shop", 777)):
        id = call(acting(who, Right.APPEND, Right.SEE, project=project), "open", {"project": project}).id
        draft = {**answer, "usage": {"input": tokens}}
        call(acting(who, Right.APPEND, session=id), "append", {"session": id, "drafts": [draft]})
    used = {row.by["person"]: row.input for row in call(owner, "usage", {"by": ["person"]}).rows}
    assert used[ADA] == 777
