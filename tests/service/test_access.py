"""Who may reach what: the query and the ruling agree, on both databases, and nothing is filtered afterwards."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clew.model.access import ROLES, Caller, Grant, Right, owner_of_everything
from clew.model.errors import Denied, InvalidInput, NotFound
from clew.service import Context, call
from clew.service.kernel.call import target_of
from clew.store import Store
from clew.store.projects import control_log

OWNER = "person:owner"
EVE = "person:eve"
PROJECTS = ("shop", "bank")
AGENTS = ("", "fred")


@pytest.fixture
def owner(store: Store) -> Context:
    return Context(store=store, unrestricted=store, principal=OWNER, grants=(owner_of_everything(OWNER),))


def acting(owner: Context, principal: str, *grants: Grant, **more: Any) -> Context:
    return Context(
        store=owner.store, unrestricted=owner.store, principal=principal, grants=grants, _views=[owner.views], **more
    )


def give(who: str, *rights: Right, **where: Any) -> Grant:
    return Grant(principal=who, rights=frozenset(rights), **where)


def opened(by: Context, **more: Any) -> str:
    id: str = call(by, "open", more).id
    call(by, "append", {"session": id, "drafts": [{"kind": "message_added", "role": "user", "text": f"word {id}"}]})
    return id


RIGHTS = st.frozensets(st.sampled_from([Right.SEE, Right.READ, Right.AUDIT]), min_size=1)
WHERE = st.fixed_dictionaries(
    {}, optional={"project": st.sampled_from(PROJECTS), "agent": st.just("fred"), "number": st.integers(0, 7)}
)


@st.composite
def askers(draw: st.DrawFn) -> tuple[list[tuple[frozenset[Right], dict[str, Any]]], frozenset[Right] | None, str]:
    grants = draw(st.lists(st.tuples(RIGHTS, WHERE), max_size=4))
    scopes = draw(st.none() | st.frozensets(st.sampled_from(list(Right))))
    return grants, scopes, draw(st.sampled_from(["", *PROJECTS]))


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked=askers(), right=st.sampled_from([Right.SEE, Right.READ]))
def test_what_a_query_reaches_is_what_a_ruling_allows(
    team_of_sessions: tuple[Context, list[str]], asked: Any, right: Right
) -> None:
    owner, ids = team_of_sessions
    drawn, scopes, bound = asked
    grants = [
        Grant(principal=EVE, rights=rights, session=ids[where["number"]])
        if "number" in where
        else Grant(principal=EVE, rights=rights, **where)
        for rights, where in drawn
    ]
    eve = acting(owner, EVE, *grants, scopes=scopes, key_project=bound)
    caller = Caller(EVE, grants, scopes=scopes, bound=bound)
    may = {id for id in ids if caller.rule(right, target_of(owner.store.session(id))).allowed}
    with owner.views.read() as tx:
        listed = {
            row[2] for row in tx.run("sessions_page", before_at=2**62, before=2**62, limit=99, **eve.reach(right))
        }
    assert listed == may
    assert {event.session for event in owner.store.tail(reach=eve.reach(right))} == may
    found = {id for id in ids if _finds(owner.store, id, eve)}
    anything = {id for id in ids if any(caller.rule(one, target_of(owner.store.session(id))).allowed for one in Right)}
    assert found == anything


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), project=st.sampled_from(["", *PROJECTS]), bound=st.sampled_from(["", *PROJECTS]))
def test_who_exports_all_may_export_whatever_they_may_read(
    team_of_sessions: tuple[Context, list[str]], data: st.DataObject, project: str, bound: str
) -> None:
    """Otherwise a search of a project would tell what is masked in its private sessions, which are only read."""
    owner, ids = team_of_sessions
    rights = st.frozensets(st.sampled_from([Right.SEE, Right.READ, Right.EXPORT]), min_size=1)
    grants = [
        Grant(principal=EVE, rights=given_rights, session=ids[where["number"]])
        if "number" in where
        else Grant(principal=EVE, rights=given_rights, **where)
        for given_rights, where in data.draw(st.lists(st.tuples(rights, WHERE), max_size=4))
    ]
    caller = Caller(EVE, grants, scopes=data.draw(st.none() | rights), bound=bound)
    targets = [target_of(owner.store.session(id)) for id in ids]
    only_read = [
        target for target in targets
        if project in ("", target.project) and caller.rule(Right.READ, target).allowed
        and not caller.rule(Right.EXPORT, target).allowed
    ]  # fmt: skip
    assert not (only_read and caller.exports_all(project))


def test_who_may_export_everywhere_exports_all() -> None:
    for role in ("writer", "admin"):
        for where in ({}, {"project": "shop"}, {"session": "s"}, {"agent": "fred"}):
            assert Caller(EVE, [Grant(principal=EVE, rights=ROLES[role], **where)]).exports_all()
    both = [give(EVE, Right.READ), Grant(principal=EVE, rights=ROLES["writer"], project="shop")]
    assert Caller(EVE, both[1:]).exports_all("shop")
    assert not Caller(EVE, both).exports_all("shop")


def _finds(store: Store, id: str, context: Context) -> bool:
    try:
        return store.session(id, context.reach(None)).id == id
    except NotFound:
        return False


@pytest.fixture
def team_of_sessions(owner: Context) -> tuple[Context, list[str]]:
    """Two projects, with and without an agent, private and open, of the owner and of Eve."""
    eve = acting(owner, EVE, owner_of_everything(EVE))
    ids = [
        opened(by, project=project, agent=agent, private=private)
        for by, project, agent, private in (
            (owner, "shop", "", False), (owner, "shop", "fred", False), (owner, "shop", "fred", True),
            (owner, "bank", "", False), (owner, "bank", "fred", False), (owner, "bank", "", True),
            (eve, "bank", "", True), (eve, "shop", "fred", False),
        )
    ]  # fmt: skip
    owner.views.catch_up()
    return owner, ids


def test_search_files_usage_and_streams_keep_to_the_reach(team_of_sessions: tuple[Context, list[str]]) -> None:
    owner, ids = team_of_sessions
    for id in ids:
        draft = {"kind": "call_made", "call": "1", "tool": "Read", "input": {"file_path": "app/billing.py"}}
        usage = {"kind": "usage_counted", "usage": {"input": 5}, "model": "m", "message": id}
        call(owner, "append", {"session": id, "drafts": [draft, usage]})
    reader = acting(owner, "person:ann", give("person:ann", Right.SEE, Right.READ, project="shop"))
    may = {ids[0], ids[1], ids[7]}
    assert {one.session for one in call(reader, "search", {"query": "word"}).sessions} == may
    assert call(reader, "search", {"query": "word"}).total == 3
    assert {hit.session for hit in call(reader, "search", {"query": "word", "flat": True}).hits} == may
    assert {hit.session for hit in call(reader, "search", {"tool": "Read", "order": "relevant"}).hits} == may
    assert {one.session for one in call(reader, "files", {"path": "billing.py"})} == may
    assert call(reader, "usage", {}).total.input == 15
    assert {one.id for one in call(reader, "sessions", {"file": "billing.py"})} == may
    assert {event.session for event in call(reader, "tail", {})} == may


def test_a_project_of_others_is_like_one_that_is_not_there(team_of_sessions: tuple[Context, list[str]]) -> None:
    owner, _ = team_of_sessions
    reader = acting(owner, "person:ann", give("person:ann", Right.SEE, Right.READ, project="shop"))
    for name, more in (("sessions", {}), ("search", {"query": "x"}), ("usage", {}), ("tail", {})):
        texts = []
        for project in ("bank", "none"):
            with pytest.raises(NotFound) as raised:
                call(reader, name, {"project": project, **more})
            texts.append(str(raised.value).replace(project, "?"))
        assert texts[0] == texts[1]
        assert "shop" not in texts[0]


def test_a_private_session_is_for_its_owner_and_whom_it_is_shared_with(owner: Context) -> None:
    admin = acting(owner, "person:adm", give("person:adm", *Right, project="shop"))
    ann = acting(owner, "person:ann", give("person:ann", Right.APPEND, project="shop"))
    id = opened(ann, project="shop", private=True)
    assert [one.id for one in call(ann, "sessions", {})] == [id]
    with pytest.raises(NotFound):
        call(admin, "show", {"session": id})
    given = call(ann, "share", {"session": id, "who": "bob"})
    bob = acting(owner, "person:bob", *_grants_of(owner, "person:bob"))
    assert call(bob, "show", {"session": id}).session.private
    with pytest.raises(Denied):
        call(bob, "append", {"session": id, "drafts": []})
    child = call(ann, "fork", {"session": id})
    assert child.private
    assert call(bob, "show", {"session": id}).forks == []
    assert call(ann, "privacy", {"session": id, "private": False}).private is False
    assert call(admin, "show", {"session": id}).session.id == id
    assert call(ann, "access_revoke", {"grant": given.id}).who == "person:bob"
    with pytest.raises(NotFound):
        call(acting(owner, "person:bob", *_grants_of(owner, "person:bob")), "show", {"session": id})


def _grants_of(owner: Context, who: str) -> list[Grant]:
    from clew.store.access.grants import list_grants_for

    return list_grants_for(owner.store, who)


def test_nobody_gives_what_they_do_not_have(owner: Context) -> None:
    id = opened(owner, project="shop")
    lead = acting(owner, "person:lea", give("person:lea", Right.ADMINISTER, Right.SEE, project="shop"))
    assert call(lead, "access_grant", {"who": "bob", "rights": ["see"], "project": "shop"}).rights == ["see"]
    for arguments in (
        {"who": "bob", "rights": ["read"], "project": "shop"},
        {"who": "bob", "rights": ["see"], "project": "bank"},
        {"who": "bob", "rights": ["see"]},
        {"who": "bob", "rights": ["read"], "session": id},
    ):
        with pytest.raises(Denied):
            call(lead, "access_grant", arguments)
    assert [one.grant.project for one in _all_grants(owner)] == ["shop"]


def _all_grants(owner: Context) -> list[Any]:
    from clew.store.access.grants import list_grants

    return list_grants(owner.store)


def test_a_grant_that_has_ended_counts_no_more(owner: Context) -> None:
    id = opened(owner, project="shop")
    now = owner.store.now()
    late = acting(owner, "person:ann", give("person:ann", Right.READ, project="shop", until=now - 1))
    with pytest.raises(NotFound):
        call(late, "show", {"session": id})
    early = acting(owner, "person:ann", give("person:ann", Right.READ, project="shop", until=now + 60_000_000))
    assert call(early, "show", {"session": id})


def test_a_team_shares_its_grants(owner: Context) -> None:
    id = opened(owner, project="shop")
    call(owner, "team_add", {"name": "core", "principal": "ann"})
    call(owner, "access_grant", {"who": "team:core", "role": "viewer", "project": "shop"})
    grants = _grants_of(owner, "person:ann")
    ann = acting(owner, "person:ann", *grants, teams=frozenset({"team:core"}))
    assert call(ann, "show", {"session": id})
    because = {one.right: one.because for one in call(owner, "access_explain", {"who": "ann", "what": id})}
    assert because["read"] == f"granted to team:core on project shop (grant {grants[0].id})"
    assert because["append"].startswith("no grant gives person:ann")


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("access_grant", {"who": "ann", "role": "boss"}, "no role 'boss'"),
        ("access_grant", {"who": "ann"}, "name a role"),
        ("access_grant", {"who": "a b", "role": "viewer"}, "not a valid principal"),
        ("principal_add", {"principal": "robot:x"}, "not a valid principal"),
        ("principal_add", {"principal": "ann", "issuer": "https://x"}, "together"),
        ("team_add", {"name": "person:x", "principal": "ann"}, "not a valid team"),
        ("key_create", {"scopes": ["fly"]}, "fly"),
        ("key_create", {"days": 0}, "days is 0; it must be a whole number from 1"),
        ("setting_set", {"name": "colour", "value": "red"}, "audit_reads"),
    ],
)
def test_bad_input_is_refused_in_words(owner: Context, name: str, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        call(owner, name, arguments)
    assert words in str(raised.value)


def test_reads_are_on_record_where_a_project_wants_it(owner: Context, audited: Callable[[str], list[Any]]) -> None:
    quiet, strict = opened(owner, project="shop"), opened(owner, project="bank")
    call(owner, "setting_set", {"name": "audit_reads", "value": "on", "project": "bank"})
    reader = acting(owner, "person:ann", give("person:ann", Right.READ, Right.SEE))
    for id in (quiet, strict):
        call(reader, "events", {"session": id})
    assert [(one.operation, one.target) for one in audited("bank")][-1:] == [("events", strict)]
    assert audited("shop") == []


@pytest.fixture
def audited(owner: Context) -> Callable[[str], list[Any]]:
    from clew.model.events import OperationCalled

    def read(project: str) -> list[Any]:
        log = control_log(owner.store, project, OWNER)
        return [one.body for one in owner.store.read(log) if isinstance(one.body, OperationCalled)]

    return read
