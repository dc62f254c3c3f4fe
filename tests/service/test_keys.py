"""The door: who comes in with what, and the wall behind it."""

import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.model.access import owner_of_everything
from clew.model.credential import COOKIE
from clew.model.errors import Denied, InvalidInput, NotFound, Unauthenticated
from clew.service import Context, call
from clew.service.access.authenticator import Authenticator
from clew.service.access.key_text import new_token, parse_token
from clew.store import Store, open_store
from support.postgres import Server

OWNER = "person:owner"


@pytest.fixture
def owner(store: Store) -> Context:
    return Context(store=store, unrestricted=store, principal=OWNER, grants=(owner_of_everything(OWNER),))


@pytest.fixture
def authenticator(store: Store) -> Authenticator:
    return Authenticator(store, fresh_seconds=0)


# Keys as text ---------------------------------------------------------------------------------------------------------


def test_a_key_is_read_back_and_shows_itself_nowhere() -> None:
    token = new_token("agent")
    assert parse_token(token.text) == token
    assert token.secret not in repr(token)
    assert token.text.startswith("clew_agent_")


@given(position=st.integers(0, 80), letter=st.characters(codec="ascii", categories=["Lu", "Ll", "Nd"]))
def test_a_typo_is_seen_without_asking(position: int, letter: str) -> None:
    text = new_token("person").text
    position %= len(text)
    wrong = text[:position] + letter + text[position + 1 :]
    if wrong != text:
        with pytest.raises(Unauthenticated) as raised:
            parse_token(wrong)
        assert wrong not in str(raised.value)


@pytest.mark.parametrize("text", ["", "x", "clew_", "clew_person_a_b_c", "é" * 80, "clew_root_" + "a" * 60, "_" * 200])
def test_what_is_no_key_is_refused(text: str, authenticator: Authenticator) -> None:
    with pytest.raises(Unauthenticated):
        authenticator.authenticate(text)


# Coming in ------------------------------------------------------------------------------------------------------------


def test_a_key_lets_its_principal_in_with_the_grants_of_now(owner: Context, authenticator: Authenticator) -> None:
    id = call(owner, "open", {"project": "shop"}).id
    key = call(owner, "key_create", {"principal": "ann", "label": "laptop"})
    assert key.key not in str(call(owner, "key_list", {"principal": "ann"}))
    with pytest.raises(NotFound):
        call(authenticator.authenticate(key.key), "show", {"session": id})
    given = call(owner, "access_grant", {"who": "ann", "role": "viewer", "project": "shop"})
    assert call(authenticator.authenticate(key.key), "show", {"session": id}).session.id == id
    call(owner, "access_revoke", {"grant": given.id})
    with pytest.raises(NotFound):
        call(authenticator.authenticate(key.key), "show", {"session": id})
    assert call(owner, "key_list", {"principal": "ann"})[0].used_at > 0


def test_a_key_that_ended_is_not_good(owner: Context, authenticator: Authenticator) -> None:
    key = call(owner, "key_create", {"principal": "ann"})
    assert authenticator.authenticate(key.key).principal == "person:ann"
    call(owner, "key_revoke", {"key": key.id})
    unknown = new_token("person").text
    texts = set()
    for text in (key.key, unknown):
        with pytest.raises(Unauthenticated) as raised:
            authenticator.authenticate(text)
        texts.add(str(raised.value))
    assert len(texts) == 1, "a revoked key and an unknown one are answered alike"


def test_whoever_is_shut_out_stays_out(owner: Context, authenticator: Authenticator) -> None:
    call(owner, "principal_add", {"principal": "ann"})
    key = call(owner, "key_create", {"principal": "ann"})
    assert authenticator.authenticate(key.key)
    assert authenticator.principal_context("person:ann")
    call(owner, "principal_disable", {"principal": "ann"})
    with pytest.raises(Unauthenticated):
        authenticator.authenticate(key.key)
    with pytest.raises(Unauthenticated):
        authenticator.principal_context("person:ann")
    call(owner, "principal_add", {"principal": "ann", "title": "Ann"})
    with pytest.raises(Unauthenticated):
        authenticator.authenticate(key.key)
    call(owner, "principal_enable", {"principal": "ann"})
    assert authenticator.authenticate(key.key).principal == "person:ann"


def test_changing_a_title_keeps_the_login(owner: Context) -> None:
    call(owner, "principal_add", {"principal": "ann", "issuer": "https://id.example/", "subject": "7"})
    assert call(owner, "principal_add", {"principal": "ann", "title": "Ann"}).login == "https://id.example 7"
    with pytest.raises(InvalidInput, match="belongs to person:ann already"):
        call(owner, "principal_add", {"principal": "bob", "issuer": "https://id.example", "subject": "7"})


def test_a_key_is_good_for_its_scopes_and_its_project_only(owner: Context, authenticator: Authenticator) -> None:
    shop, bank = (call(owner, "open", {"project": name}).id for name in ("shop", "bank"))
    for project in ("shop", "bank"):
        call(owner, "access_grant", {"who": "ann", "role": "writer", "project": project})
    narrow = call(owner, "key_create", {"principal": "ann", "scopes": ["see", "read"], "project": "shop"})
    ann = authenticator.authenticate(narrow.key)
    assert call(ann, "show", {"session": shop})
    with pytest.raises(Denied, match="does not carry the right to append"):
        call(ann, "append", {"session": shop, "drafts": []})
    with pytest.raises(NotFound):
        call(ann, "show", {"session": bank})
    assert [one.id for one in call(ann, "sessions", {})] == [shop]
    # A narrowed key makes no keys.
    for more in ({}, {"scopes": ["append"], "project": "shop"}, {"scopes": ["see"], "project": "shop"}):
        with pytest.raises(Denied):
            call(ann, "key_create", more)


def test_a_key_is_rotated_with_two_good_at_once(owner: Context, authenticator: Authenticator) -> None:
    old = call(owner, "key_create", {"principal": "agent:bot", "label": "ci", "scopes": ["see"]})
    new = call(owner, "key_rotate", {"key": old.id})
    assert authenticator.authenticate(old.key).principal == authenticator.authenticate(new.key).principal == "agent:bot"
    assert new.scopes == ["see"]
    with pytest.raises(InvalidInput, match="two keys"):
        call(owner, "key_rotate", {"key": new.id})
    until = {one.id: one.until for one in call(owner, "key_list", {"principal": "agent:bot"})}
    assert until[old.id] < until[new.id]


def test_keys_of_others_are_not_mine_to_see_or_end(owner: Context, authenticator: Authenticator) -> None:
    key = call(owner, "key_create", {"principal": "ann"})
    bob = authenticator.authenticate(call(owner, "key_create", {"principal": "bob"}).key)
    with pytest.raises(Denied):
        call(bob, "key_list", {"principal": "ann"})
    for name in ("key_revoke", "key_rotate"):
        with pytest.raises(NotFound):
            call(bob, name, {"key": key.id})
    assert authenticator.authenticate(key.key)


def test_a_link_opens_one_session_for_reading(owner: Context, authenticator: Authenticator) -> None:
    id, other = (call(owner, "open", {"project": "shop"}).id for _ in range(2))
    made = call(owner, "link", {"session": id})
    guest = authenticator.authenticate(made.key)
    assert call(guest, "show", {"session": id}).session.id == id
    assert [one.id for one in call(guest, "sessions", {})] == [id]
    with pytest.raises(NotFound):
        call(guest, "show", {"session": other})
    with pytest.raises(Denied):
        call(guest, "append", {"session": id, "drafts": []})
    call(owner, "principal_add", {"principal": "owner"})
    call(owner, "principal_disable", {"principal": "owner"})
    with pytest.raises(Unauthenticated):
        authenticator.authenticate(made.key)
    call(owner, "principal_enable", {"principal": "owner"})
    assert authenticator.authenticate(made.key)
    call(owner, "key_revoke", {"key": made.id})
    with pytest.raises(Unauthenticated):
        authenticator.authenticate(made.key)


def test_the_owner_link_is_good_once_and_only_until_somebody_came(authenticator: Authenticator) -> None:
    first = authenticator.owner_link("https://clew.example/")
    assert first is not None
    again = authenticator.owner_link("https://clew.example/")
    assert again is not None, "a server that starts again before anybody came has to show a link"
    secret = first.partition("#")[2]
    with pytest.raises(Unauthenticated, match="one login"):
        authenticator.authenticate(secret)
    won: list[str] = []
    lost: list[Exception] = []

    def come() -> None:
        try:
            won.append(authenticator.redeem(secret))
        except Unauthenticated as error:
            lost.append(error)

    threads = [threading.Thread(target=come) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert len(lost) == 7
    with pytest.raises(Unauthenticated):
        authenticator.authenticate(won[0])
    assert call(authenticator.authenticate(won[0], COOKIE), "principal_list", {})
    assert authenticator.owner_link("https://clew.example/") is None
    # What an earlier start has shown is in the log of the server, for whoever reads it.
    with pytest.raises(Unauthenticated):
        authenticator.redeem(again.partition("#")[2])


# The wall -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def walled(postgres: Server) -> Iterator[tuple[Store, str]]:
    url = postgres.walled_database()
    with open_store(url) as store:
        yield store, url


def test_a_connection_that_says_nothing_sees_nothing(walled: tuple[Store, str]) -> None:
    store, url = walled
    owner = Context(store=store, unrestricted=store, principal=OWNER, grants=(owner_of_everything(OWNER),))
    call(owner, "open", {"project": "shop"})
    with psycopg.connect(url) as connection:
        for table in ("session", "head", "event", "original"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,), table
    assert store.database.row_security().problem == ""


def test_behind_the_wall_a_forgotten_predicate_shows_nothing(walled: tuple[Store, str]) -> None:
    """Each statement is run without any narrowing: what is left is the wall."""
    store, _ = walled
    owner = Context(store=store, unrestricted=store, principal=OWNER, grants=(owner_of_everything(OWNER),))
    shop, bank = (call(owner, "open", {"project": name, "title": name}).id for name in ("shop", "bank"))
    call(owner, "access_grant", {"who": "ann", "role": "viewer", "project": "shop"})
    call(owner, "principal_add", {"principal": "ann"})
    ann_store = Authenticator(store, fresh_seconds=0).principal_context("person:ann").store
    assert ann_store.session(shop).title == "shop"
    with pytest.raises(NotFound):
        ann_store.session(bank)
    assert {event.session for event in list(ann_store.tail())} == {shop}
    assert {one.session.id for one in ann_store.sessions()} == {shop}
    hidden = store.session(bank)
    assert list(ann_store.read(hidden)) == []
    ann = Authenticator(store, fresh_seconds=0).principal_context("person:ann")
    ann.views.catch_up()
    with ann.views.read() as tx:
        assert {row[2] for row in tx.run("sessions_page", before_at=2**62, before=2**62, limit=9)} == {shop}
    # The reader that was walled off is used again for everything, and told so.
    assert {event.session for event in list(store.tail())} == {shop, bank}


def test_whoever_is_given_a_project_can_open_its_first_session(walled: tuple[Store, str]) -> None:
    store, _ = walled
    owner = Context(store=store, unrestricted=store, principal=OWNER, grants=(owner_of_everything(OWNER),))
    call(owner, "principal_add", {"principal": "ann"})
    call(owner, "access_grant", {"who": "ann", "role": "writer", "project": "new"})
    ann = Authenticator(store).principal_context("person:ann")
    id = call(ann, "open", {"project": "new"}).id
    assert call(ann, "append", {"session": id, "drafts": [{"kind": "message_added", "role": "user"}]}).head == 2
    assert [one.id for one in call(ann, "sessions", {})] == [id]


def test_doctor_refuses_a_role_that_walks_through(postgres: Server, tmp_path: Path) -> None:
    from clew.app import settings
    from clew.doctor import diagnose

    walled, open_to_all = postgres.walled_database(), postgres.new_database()
    for url in (walled, open_to_all):
        open_store(url).close()
    findings = {
        url: {one.what: one for one in diagnose(settings(store=url, home=tmp_path))}["wall"]
        for url in (walled, open_to_all)
    }
    assert findings[walled].ok
    assert not findings[open_to_all].ok
    assert "bypasses row-level security" in findings[open_to_all].found
