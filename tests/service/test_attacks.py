"""What somebody who may a little tries to get more, and what one tenant could do to all others."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from clew.model.access import Grant, Right, owner_of_everything
from clew.model.errors import Denied, HasForks, InvalidInput, NotFound, Unauthenticated
from clew.model.events import OperationCalled
from clew.service import Context, call
from clew.service.access.authenticator import Authenticator
from clew.store import Store
from clew.store.projects import control_log

OWNER = "person:owner"
ADA, BOB = "person:ada", "person:bob"


@pytest.fixture
def owner(store: Store) -> Context:
    return Context(store=store, unrestricted=store, principal=OWNER, grants=(owner_of_everything(OWNER),))


@pytest.fixture
def acting(owner: Context) -> Callable[..., Context]:
    def made(principal: str, *rights: Right, scopes: frozenset[Right] | None = None, **where: Any) -> Context:
        grants = (Grant(principal=principal, rights=frozenset(rights), **where),) if rights else ()
        return Context(
            store=owner.store,
            unrestricted=owner.store,
            principal=principal,
            grants=grants,
            scopes=scopes,
            answers_leave_machine=True,
            _views=[owner.views],
        )

    return made


def said(by: Context, text: str, **more: Any) -> str:
    id: str = call(by, "open", more).id
    call(by, "append", {"session": id, "drafts": [{"kind": "message_added", "role": "user", "text": text}]})
    return id


def test_what_is_remembered_for_one_way_in_opens_no_other(store: Store, owner: Context) -> None:
    authenticator = Authenticator(store)
    call(owner, "principal_add", {"principal": "ada"})
    assert authenticator.principal_context(ADA, frozenset({Right.READ}))
    assert authenticator.principal_context(ADA)
    assert authenticator.owner_context()
    for text in ("", "owner", ADA, f"{ADA} *", f"{ADA} ['read']", f"acting {ADA} *", "('owner',)"):
        with pytest.raises(Unauthenticated):
            authenticator.authenticate(text)


def test_a_narrowed_key_makes_no_wider_one_however(owner: Context, acting: Callable[..., Context]) -> None:
    wide = call(owner, "key_create", {"principal": "ada"})
    narrow = acting(ADA, *Right, scopes=frozenset({Right.SEE}))
    with pytest.raises(InvalidInput):
        call(narrow, "key_create", {"scopes": []})
    with pytest.raises(Denied):
        call(narrow, "key_rotate", {"key": wide.id})
    assert len(call(owner, "key_list", {"principal": "ada"})) == 1


def test_who_may_not_everything_becomes_nobody_else(owner: Context, acting: Callable[..., Context]) -> None:
    helper = acting(BOB, Right.SEE, Right.ADMINISTER)
    for name, arguments in (
        ("key_create", {"principal": OWNER}),
        ("principal_add", {"principal": OWNER, "issuer": "https://id.example", "subject": "evil"}),
        ("team_add", {"name": "owners", "principal": BOB}),
    ):
        with pytest.raises(Denied):
            call(helper, name, arguments)


def test_a_fork_needs_the_right_to_read(owner: Context, acting: Callable[..., Context]) -> None:
    id = said(owner, "secret salary", project="shop")
    with pytest.raises(Denied):
        call(acting(BOB, Right.SEE, Right.FORK, project="shop"), "fork", {"session": id})
    reader = acting(BOB, Right.SEE, Right.READ, Right.FORK, project="shop")
    child = call(reader, "fork", {"session": id}).id
    with pytest.raises(Denied):
        call(reader, "export", {"session": child, "form": "jsonl", "secrets": True})


def test_a_fork_of_a_private_session_is_not_opened_by_who_forked_it(
    owner: Context, acting: Callable[..., Context]
) -> None:
    ada = acting(ADA, Right.APPEND, project="shop")
    id = said(ada, "private", project="shop", private=True)
    bob = acting(BOB, Right.SEE, Right.READ, Right.FORK, session=id)
    child = call(bob, "fork", {"session": id}).id
    with pytest.raises(Denied):
        call(bob, "privacy", {"session": child, "private": False})
    assert call(owner, "show", {"session": child}).session.private


def test_nobody_erases_the_forks_of_others_or_is_told_their_ids(owner: Context, acting: Callable[..., Context]) -> None:
    bob = acting(BOB, Right.APPEND, project="shop")
    id = said(bob, "shared", project="shop")
    ada = acting(ADA, Right.SEE, Right.READ, Right.FORK, project="shop")
    child = call(ada, "fork", {"session": id}).id
    call(ada, "privacy", {"session": child, "private": True})
    with pytest.raises(HasForks) as raised:
        call(bob, "erase", {"session": id})
    assert child not in str(raised.value.to_dict())
    with pytest.raises(Denied) as refused:
        call(bob, "erase", {"session": id, "with_forks": True})
    assert child not in str(refused.value.to_dict()).replace("on " + child, "")
    assert call(ada, "events", {"session": child})


def test_who_administers_for_an_hour_gives_nothing_for_longer(owner: Context, acting: Callable[..., Context]) -> None:
    until = owner.store.now() + 3_600_000_000
    eve = acting("person:eve", *Right, project="shop", until=until)
    assert call(eve, "access_grant", {"who": "eve", "role": "admin", "project": "shop"}).until == until
    assert call(eve, "access_grant", {"who": "bob", "role": "viewer", "project": "shop", "days": 9}).until == until


def test_what_nests_too_deeply_harms_nobody(owner: Context, acting: Callable[..., Context]) -> None:
    deep: Any = {}
    for _ in range(950):
        deep = {"a": deep}
    bob = acting(BOB, Right.APPEND, Right.SEE, project="sandbox")
    with pytest.raises(InvalidInput):
        call(bob, "open", {"project": "sandbox", "metadata": deep})
    id = said(bob, "hello", project="sandbox")
    with pytest.raises(InvalidInput):
        call(bob, "append", {"session": id, "drafts": [{"kind": "call_made", "call": "1", "tool": "t", "input": deep}]})
    assert [session.id for session in call(owner, "sessions", {})] == [id]


def test_a_refusal_is_on_record_and_takes_little_room(owner: Context, acting: Callable[..., Context]) -> None:
    nobody = acting(BOB)
    with pytest.raises(InvalidInput):
        call(nobody, "open", {"project": "x" * 1_000_000})
    with pytest.raises(Denied):
        call(nobody, "key_list", {"principal": OWNER})
    log = control_log(owner.store, "*", OWNER)
    [entry] = [one.body for one in owner.store.read(log) if isinstance(one.body, OperationCalled)]
    assert (entry.operation, entry.allowed) == ("key_list", False)
    with pytest.raises(InvalidInput):
        call(owner, "open", {"project": "*"})


def test_somebody_with_one_session_sees_nothing_of_its_projects_keeping(
    owner: Context, acting: Callable[..., Context]
) -> None:
    id = said(owner, "shared", project="shop", agent="bot")
    call(owner, "agent_register", {"name": "bot", "project": "shop", "instructions": "the code is X"})
    call(owner, "setting_set", {"name": "audit_reads", "value": "on", "project": "shop"})
    call(owner, "retention_set", {"project": "shop", "keep_days": 30})
    guest = acting("link:x", Right.SEE, Right.READ, session=id)
    assert (call(guest, "agents", {}), call(guest, "setting_list", {}), call(guest, "retention_list", {})) == (
        [],
        [],
        [],
    )
    with pytest.raises(NotFound):
        call(guest, "sessions", {"project": "bank"})
    other = acting("person:lea", *Right, project="bank")
    registered = call(other, "agent_register", {"name": "bot", "project": "bank"})
    assert (registered.project, registered.instructions) == ("bank", "")


def test_a_project_that_masks_masks_every_word_that_comes_in(owner: Context, tmp_path: Any) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    call(owner, "setting_set", {"name": "secrets", "value": "mask", "project": "bank"})
    me = Context(store=owner.store, unrestricted=owner.store, principal=OWNER, grants=owner.grants, home=str(tmp_path))
    id = call(me, "open", {"project": "bank", "title": f"use {secret}", "metadata": {"token": secret}}).id
    call(me, "remember", {"session": id, "text": f"the key is {secret}"})
    call(me, "decide", {"session": id, "choice": f"use {secret}"})
    call(me, "progress", {"session": id, "done": f"tried {secret}"})
    child = call(me, "fork", {"session": id, "title": f"again {secret}"}).id
    call(me, "pause", {"session": id, "reason": f"waits for {secret}"})
    for one in (id, child):
        text = msgspec.json.encode([event.body for event in owner.store.read(owner.store.session(one))]).decode()
        assert secret not in text
        assert secret not in str(call(me, "show", {"session": one}))
