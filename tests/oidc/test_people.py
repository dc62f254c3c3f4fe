"""Who a provider's word lets in, on both databases: nobody becomes somebody else by what they are called."""

import threading
from typing import Any

import psycopg
import pytest

from clew.model.access import ROLES, Grant
from clew.server.login.oidc_principals import DisabledLogin, UnknownLogin, login_of_claims
from clew.server.login.oidc_tokens import Claims
from clew.server.options import Oidc
from clew.store import Store, open_store
from clew.store.access.grants import add_grant
from clew.store.access.principals import (
    Principal,
    add_member,
    disable_principal,
    find_principal,
    list_principals,
    list_teams_of,
    set_principal,
)
from clew.store.log.opening import Opening
from clew.store.projects import ALL_PROJECTS, control_log
from support.postgres import Server

ISSUER = "https://login.example"
OPEN = Oidc(issuer=ISSUER, client_id="clew", domains=frozenset({"team.example"}))
TEAMS = OPEN._replace(team_claim="groups")


def principal_of(store: Store, oidc: Oidc, claims: Claims) -> str:
    return login_of_claims(store, oidc, claims).principal


def claims(subject: str, **others: Any) -> dict[str, Any]:
    return {"sub": subject, "email": f"{subject}@team.example", "email_verified": True, **others}


def test_a_name_stands_for_one_login(store: Store) -> None:
    assert principal_of(store, OPEN, claims("1", preferred_username="ada")) == "person:ada"
    assert principal_of(store, OPEN, claims("2", preferred_username="ada")) == "person:ada-2"
    assert principal_of(store, OPEN, claims("1", preferred_username="renamed")) == "person:ada"


def test_a_name_that_stands_for_anybody_is_not_given_away(store: Store) -> None:
    add_grant(store, Grant(principal="person:granted", rights=ROLES["admin"]), given_by="person:owner")
    add_member(store, "team:core", "person:member")
    store.open(Opening(project="garden"), actor="person:author")
    for name in ("granted", "member", "author", "owner"):
        assert principal_of(store, OPEN, claims(f"new {name}", preferred_username=name)) == f"person:{name}-2"


@pytest.mark.parametrize(
    ("called", "name"),
    [
        ({"preferred_username": "Ada@team.example"}, "person:ada"),
        ({"preferred_username": "аda"}, "person:da"),  # noqa: RUF001
        ({"preferred_username": "../a da:\n"}, "person:a-da"),
        ({"preferred_username": 7, "email": "grace.h@team.example"}, "person:grace.h"),
        ({"preferred_username": "名前"}, "person:somebody"),
        ({"preferred_username": "x" * 500}, f"person:{'x' * 60}"),
    ],
)
def test_names_are_plain(tmp_path: Any, called: dict[str, Any], name: str) -> None:
    with open_store(f"sqlite:///{tmp_path / 'clew.db'}") as store:
        assert principal_of(store, OPEN, claims("1", **called)) == name


def test_newcomers_at_the_same_moment_do_not_share_a_name(postgres: Server) -> None:
    """On PostgreSQL, where several processes write: one is in the middle of adding an ada when another ada comes."""
    url = postgres.new_database()
    found: list[str] = []
    with open_store(url) as store, open_store(url) as other, psycopg.connect(url, autocommit=True) as watching:
        log = control_log(store, ALL_PROJECTS, "clew")
        comes = threading.Thread(
            target=lambda: found.append(principal_of(other, OPEN, claims("2", preferred_username="ada")))
        )
        with store.database.write() as tx:
            tx.run("head_lock", project=log.project_key, session=log.key)
            tx.run("principal_set", name="person:ada", title="", login=f"{ISSUER} 1")
            comes.start()
            while watching.execute("SELECT FROM pg_locks WHERE NOT granted").rowcount == 0:
                assert comes.is_alive(), "it did not wait"
        comes.join()
        assert found == ["person:ada-2"]
        there = find_principal(store, "person:ada")
        assert there is not None
        assert there.login == f"{ISSUER} 1"


def test_teams_are_those_the_provider_names_at_login(store: Store) -> None:
    add_member(store, "team:by-hand", "person:ada")
    set_principal(store, Principal(name="person:ada", login=f"{ISSUER} 1"))
    principal_of(store, OPEN, claims("1"))
    assert list_teams_of(store, "person:ada") == ["team:by-hand"], "without the option owners decide"
    principal_of(store, TEAMS, claims("1", groups=["core", "/ops/night", "with blank", 7, ""]))
    assert list_teams_of(store, "person:ada") == ["team:/ops/night", "team:core"]
    principal_of(store, TEAMS, claims("1", groups="core"))
    assert list_teams_of(store, "person:ada") == ["team:core"]
    principal_of(store, TEAMS, claims("1"))
    assert list_teams_of(store, "person:ada") == []


def test_the_login_of_a_shut_out_person_makes_no_other(store: Store) -> None:
    set_principal(store, Principal(name="person:gone", login=f"{ISSUER} 1"))
    disable_principal(store, "person:gone")
    with pytest.raises(DisabledLogin):
        principal_of(store, TEAMS, claims("1", groups=["core"]))
    assert list_teams_of(store, "person:gone") == []
    with pytest.raises(UnknownLogin):
        principal_of(store, OPEN._replace(domains=frozenset()), claims("2"))
    assert [principal.name for principal in list_principals(store)] == ["person:gone"]
