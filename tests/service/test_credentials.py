"""Credentials are objects: a child has never more rights, reach or life than its parent, and ends with it."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.model.access import Right, owner_of_everything
from clew.model.credential import COOKIE, MOST_DEEP, MOST_LIVE, Credential, Kind, limits_of
from clew.model.errors import ClewError, Conflict, Denied, InvalidInput, NotFound, Unauthenticated
from clew.model.events import OperationCalled
from clew.service import Context, call
from clew.service.access.authenticator import Authenticator
from clew.service.access.key_text import new_token
from clew.service.kernel.registry import Operation, load
from clew.store import Store, open_database, open_store
from clew.store.access.credentials import end_credential, find_credential, list_credentials
from clew.store.database import migrate as schema
from clew.store.projects import control_log
from isolation.tenants import Question, Tenant, questions, tenant
from store.rows import change, query

OWNER = "person:owner"
DAY_US = 86_400_000_000


@pytest.fixture
def owner(store: Store) -> Context:
    return Context(store=store, unrestricted=store, principal=OWNER, grants=(owner_of_everything(OWNER),))


@pytest.fixture
def authenticator(store: Store) -> Authenticator:
    return Authenticator(store, fresh_seconds=0)


@pytest.fixture
def admin(owner: Context, authenticator: Authenticator) -> Context:
    """Ann, who may everything, with a key of her own."""
    call(owner, "access_grant", {"who": "ann", "role": "admin"})
    return authenticator.authenticate(call(owner, "key_create", {"principal": "ann", "days": 30}).key)


def entries(store: Store) -> list[tuple[str, OperationCalled]]:
    log = control_log(store, "*", OWNER)
    return [(event.actor, event.body) for event in store.read(log) if isinstance(event.body, OperationCalled)]


# The chain ------------------------------------------------------------------------------------------------------------

rights = st.frozensets(st.sampled_from(sorted(Right)), min_size=1)
links = st.builds(
    dict, scopes=st.one_of(st.just(""), rights.map(lambda some: " ".join(sorted(some)))),
    project=st.sampled_from(["", "", "shop", "bank"]), until=st.sampled_from([0, 0, 5, 50, 500]),
    disabled=st.sampled_from([False, False, False, True]),
)  # fmt: skip


def chained(values: list[dict[str, Any]]) -> list[Credential]:
    """Credentials of which each was made with the next."""
    return [
        Credential(
            id=str(number), kind=Kind.API_KEY, parent=str(number + 1) if number + 1 < len(values) else "", hash=b"",
            principal="person:ann", label="", at=0, used_at=0, given_by="", **value,
        )
        for number, value in enumerate(values)
    ]  # fmt: skip


@given(st.lists(links, min_size=1, max_size=5), st.integers(0, 100))
def test_a_child_is_good_for_no_more_than_any_ancestor(values: list[dict[str, Any]], now: int) -> None:
    chain = chained(values)
    limits = limits_of(chain, now)
    for length in range(1, len(chain) + 1):
        above = limits_of(chain[length - 1 :], now)
        if above is None:
            assert limits is None
        if limits is None or above is None:
            continue
        assert above.scopes is None or (limits.scopes is not None and limits.scopes <= above.scopes)
        assert above.project in ("", limits.project)
        assert above.until == 0 or 0 < limits.until <= above.until
    # A chain whose beginning is gone is good for nothing.
    assert len(chain) == 1 or limits_of(chain[:-1], now) is None


def test_a_child_lives_no_longer_than_its_parent(admin: Context, authenticator: Authenticator) -> None:
    child = call(admin, "key_create", {"principal": "agent:bot", "days": 300})
    assert child.until == find_credential(admin.store, admin.credential.id).until  # type: ignore[union-attr]
    assert child.parent == admin.credential.id
    assert authenticator.authenticate(child.key).credential.id == child.id


@pytest.mark.parametrize("narrowing", ["scopes = 'see'", "project = 'shop'", "until = 1", "parent = 'gone'"])
def test_narrowing_a_parent_narrows_its_child_at_once(
    admin: Context, authenticator: Authenticator, narrowing: str
) -> None:
    child = call(admin, "key_create", {"principal": "ann"})
    assert authenticator.authenticate(child.key).scopes is None
    change(admin.store, f"UPDATE credential SET {narrowing} WHERE id = '{admin.credential.id}'")
    if narrowing.startswith(("until", "parent")):
        with pytest.raises(Unauthenticated):
            authenticator.authenticate(child.key)
        return
    narrow = authenticator.authenticate(child.key)
    assert (narrow.scopes, narrow.key_project) in [(frozenset({Right.SEE}), ""), (None, "shop")]


def test_revoking_ends_all_descendants_and_a_maker_who_is_disabled_too(
    owner: Context, admin: Context, authenticator: Authenticator
) -> None:
    child = call(admin, "key_create", {"principal": "ann"})
    grandchild = call(authenticator.authenticate(child.key), "key_create", {"principal": "agent:bot"})
    other = call(owner, "key_create", {"principal": "agent:bot"})
    call(owner, "principal_disable", {"principal": "ann"})
    with pytest.raises(Unauthenticated):
        authenticator.authenticate(grandchild.key)
    call(owner, "principal_enable", {"principal": "ann"})
    assert authenticator.authenticate(grandchild.key)
    call(owner, "key_revoke", {"key": admin.credential.id})
    for ended in (child, grandchild):
        with pytest.raises(Unauthenticated):
            authenticator.authenticate(ended.key)
        assert 0 < find_credential(owner.store, ended.id).until <= owner.store.now()  # type: ignore[union-attr]
    assert authenticator.authenticate(other.key)


def test_a_successor_takes_the_place_of_the_old_key(
    owner: Context, admin: Context, authenticator: Authenticator
) -> None:
    child = call(admin, "key_create", {"principal": "agent:bot"})
    successor = call(admin, "key_rotate", {"key": admin.credential.id})
    call(owner, "key_revoke", {"key": admin.credential.id})
    assert authenticator.authenticate(successor.key)
    assert authenticator.authenticate(child.key)
    call(owner, "key_revoke", {"key": successor.id})
    with pytest.raises(Unauthenticated):
        authenticator.authenticate(child.key)


def test_nobody_makes_keys_with_keys_without_end(admin: Context, authenticator: Authenticator) -> None:
    maker = admin
    for _ in range(MOST_DEEP - 1):
        maker = authenticator.authenticate(call(maker, "key_create", {"principal": "ann"}).key)
    with pytest.raises(InvalidInput, match="made one with the other"):
        call(maker, "key_create", {})


def test_a_link_ends_when_its_maker_may_not_share_any_more(
    owner: Context, admin: Context, authenticator: Authenticator
) -> None:
    id = call(owner, "open", {"project": "shop"}).id
    link = call(admin, "link", {"session": id})
    assert call(authenticator.authenticate(link.key), "show", {"session": id})
    [grant] = call(owner, "access_list", {"who": "ann"})
    call(owner, "access_revoke", {"grant": grant.id})
    with pytest.raises(NotFound):
        call(authenticator.authenticate(link.key), "show", {"session": id})


# Who makes and ends ---------------------------------------------------------------------------------------------------


def test_a_principal_holds_only_so_many(owner: Context, authenticator: Authenticator) -> None:
    for _ in range(MOST_LIVE):
        call(owner, "key_create", {"principal": "ann"})
    with pytest.raises(Conflict, match="the most"):
        call(owner, "key_create", {"principal": "ann"})
    call(owner, "key_create", {"principal": "bob"})
    keys = call(owner, "key_list", {"principal": "ann"})
    call(owner, "key_revoke", {"key": keys[0].id})
    first = authenticator.new_browser_key("person:ann")
    second = authenticator.new_browser_key("person:ann")
    assert authenticator.authenticate(second, COOKIE)
    with pytest.raises(Unauthenticated):
        authenticator.authenticate(first, COOKIE)


def test_an_access_token_is_ended_here_and_makes_no_keys(owner: Context, authenticator: Authenticator) -> None:
    call(owner, "access_grant", {"who": "ann", "role": "admin"})
    call(owner, "principal_add", {"principal": "ann"})

    def come() -> Context:
        until = owner.store.now() + DAY_US
        return authenticator.access_token_context("a.b.c", "person:ann", scopes=frozenset(Right), until=until)

    id = call(come(), "open", {"project": "shop"}).id
    for name, arguments in (("key_create", {}), ("link", {"session": id})):
        with pytest.raises(Denied, match="access token"):
            call(come(), name, arguments)
    assert [held.kind for held in call(owner, "access_held", {"principal": "ann"}).credentials] == ["access_token"]
    call(owner, "access_end", {"principal": "ann"})
    with pytest.raises(Unauthenticated):
        come()


def test_all_that_somebody_holds_is_listed_and_ended_in_one_call(
    owner: Context, admin: Context, authenticator: Authenticator
) -> None:
    id = call(admin, "open", {"project": "shop"}).id
    call(owner, "team_add", {"name": "core", "principal": "ann"})
    key, link = call(admin, "key_create", {"principal": "agent:bot"}), call(admin, "link", {"session": id})
    browser = authenticator.new_browser_key("person:ann")
    held = call(owner, "access_held", {"principal": "ann"})
    assert {one.kind for one in held.credentials} == {"api_key", "link", "browser"}
    assert (len(held.grants), held.teams) == (1, ["team:core"])
    with pytest.raises(InvalidInput, match="your own access"):
        call(admin, "access_end", {"principal": "ann"})
    call(owner, "access_end", {"principal": "ann"})
    for text, kinds in ((key.key, None), (link.key, None), (browser, COOKIE)):
        with pytest.raises(Unauthenticated):
            authenticator.authenticate(text, *([kinds] if kinds else []))
    after = call(owner, "access_held", {"principal": "ann"})
    assert (after.credentials, after.grants, after.teams) == ([], [], [])
    [entry] = [body for _, body in entries(owner.store) if body.operation == "access_end" and body.allowed]
    assert {f"credential {key.id}", f"credential {link.id}"} <= set(entry.ended)


def test_logging_out_ends_the_browser_and_what_it_made(owner: Context, authenticator: Authenticator) -> None:
    call(owner, "access_grant", {"who": "ann", "role": "admin"})
    browser = authenticator.new_browser_key("person:ann")
    made = call(authenticator.authenticate(browser, COOKIE), "key_create", {})
    with pytest.raises(Unauthenticated):
        authenticator.authenticate(browser)
    with pytest.raises(Unauthenticated):
        authenticator.authenticate(made.key, COOKIE)
    authenticator.log_out(browser)
    for text, kinds in ((browser, COOKIE), (made.key, None)):
        with pytest.raises(Unauthenticated):
            authenticator.authenticate(text, *([kinds] if kinds else []))


def test_a_browser_logged_in_with_a_key_is_good_for_no_more_than_the_key(
    owner: Context, authenticator: Authenticator
) -> None:
    call(owner, "access_grant", {"who": "ann", "role": "admin"})
    key = call(owner, "key_create", {"principal": "ann", "scopes": ["see"], "project": "shop", "days": 1})
    browser = authenticator.log_in(key.key)
    inside = authenticator.authenticate(browser, COOKIE)
    assert (inside.scopes, inside.key_project, inside.credential.until) == (frozenset({Right.SEE}), "shop", key.until)
    assert [(actor, body.operation, body.credential) for actor, body in entries(owner.store)][-1] == (
        "person:ann", "login", key.id,
    )  # fmt: skip
    end_credential(owner.store, key.id, owner.store.now())
    with pytest.raises(Unauthenticated):
        authenticator.authenticate(browser, COOKIE)


# Every operation by every kind ----------------------------------------------------------------------------------------

# What makes credentials or ends them, and so asks for one that is not narrowed.
MAKING = {"key_create", "key_rotate", "key_revoke", "link", "access_end", "access_held"}


def kinds_of(store: Store, ours: Tenant) -> dict[str, Callable[[], Context]]:
    """A way in with every kind of credential, and with narrowed ones, each of the tenant's administrator."""
    root = Context(store=store, unrestricted=store, principal=OWNER, grants=(owner_of_everything(OWNER),))
    authenticator = Authenticator(store, fresh_seconds=0)
    key = call(root, "key_create", {"principal": ours.person}).key
    seeing = call(root, "key_create", {"principal": ours.person, "scopes": ["see"]}).key
    bound = call(root, "key_create", {"principal": ours.person, "project": ours.project}).key
    link = call(root, "link", {"session": ours.session}).key
    browser = authenticator.new_browser_key(ours.person)
    until = store.now() + DAY_US
    return {
        "api_key": lambda: authenticator.authenticate(key),
        "browser": lambda: authenticator.authenticate(browser, COOKIE),
        "access_token": lambda: authenticator.access_token_context(
            "a.b.c", ours.person, scopes=frozenset(Right), until=until
        ),
        "link": lambda: authenticator.authenticate(link),
        "see-only key": lambda: authenticator.authenticate(seeing),
        "bound key": lambda: authenticator.authenticate(bound),
    }


def test_every_operation_by_every_kind_of_credential(store: Store) -> None:
    """A credential never does what its scopes leave out, and none but a whole one makes or ends credentials."""
    ours = tenant(store, "apricot")
    ways = kinds_of(store, ours)
    assert {kind for kind in Kind if kind != Kind.LOGIN} <= {way.replace("-", "_") for way in ways}
    refused: set[tuple[str, str]] = set()
    for question in questions(ours, ours):
        operation = load()[question.operation]
        for way, come in ways.items():
            if way in ("api_key", "browser"):
                continue  # A whole credential rules itself out of nothing; the tests of isolation ask with it.
            context = come()
            before = rows(store)
            error = asked(context, question)
            if not is_good_for(context, operation):
                refused.add((operation.name, way))
                assert isinstance(error, Denied | NotFound | InvalidInput), (operation.name, way, error)
                assert rows(store) == before, f"{operation.name} changed something for a {way}"
    assert {(name, way) for name in MAKING for way in ways if way not in ("api_key", "browser")} <= refused


def is_good_for(context: Context, operation: Operation) -> bool:
    carries = context.scopes is None or operation.right in context.scopes
    return carries and operation.name not in MAKING


def asked(context: Context, question: Question) -> ClewError | None:
    try:
        call(context, question.operation, question.arguments)
    except ClewError as error:
        return error
    return None


def rows(store: Store) -> list[Any]:
    """What decides who may do what, and where every session stands; control logs apart, which record refusals."""
    tables = ("SELECT id, until, parent FROM credential ORDER BY id", "SELECT * FROM granted ORDER BY id",
              "SELECT * FROM policy ORDER BY project, agent", "SELECT * FROM setting ORDER BY project, name",
              "SELECT * FROM agent ORDER BY name", "SELECT * FROM member ORDER BY team, principal",
              "SELECT name, title, login, disabled FROM principal ORDER BY name",
              "SELECT s.id, s.title, s.private, h.head, h.holder FROM session s JOIN head h ON h.session = s.key "
              "WHERE s.control = 0 ORDER BY s.id")  # fmt: skip
    return [query(store, table) for table in tables]


# On record -----------------------------------------------------------------------------------------------------------


def test_every_entry_names_the_credential_used_and_the_one_made(admin: Context) -> None:
    made = call(admin, "key_create", {"principal": "agent:bot"})
    grant = call(admin, "access_grant", {"who": "bob", "role": "viewer", "project": "shop"})
    with pytest.raises(NotFound):
        call(admin, "key_revoke", {"key": "NoSuchKey000"})
    by_operation = {body.operation: body for actor, body in entries(admin.store) if actor == "person:ann"}
    assert by_operation["key_create"].credential == admin.credential.id
    assert by_operation["key_create"].made == (f"credential {made.id}",)
    shop = control_log(admin.store, "shop", OWNER)
    [shared] = [event.body for event in admin.store.read(shop) if isinstance(event.body, OperationCalled)]
    assert (shared.credential, shared.made) == (admin.credential.id, (f"grant {grant.id}",))


def test_a_see_only_key_ends_nothing_and_lists_itself_alone(owner: Context, authenticator: Authenticator) -> None:
    call(owner, "access_grant", {"who": "ann", "role": "admin"})
    other = call(owner, "key_create", {"principal": "ann", "project": "secret-project"})
    seeing = call(owner, "key_create", {"principal": "ann", "scopes": ["see"]})
    ann = authenticator.authenticate(seeing.key)
    for key in (other.id, seeing.id):
        with pytest.raises(Denied):
            call(ann, "key_revoke", {"key": key})
    assert [key.id for key in call(ann, "key_list", {})] == [seeing.id]
    assert len(list_credentials(owner.store, "person:ann")) == 2


# Old stores -----------------------------------------------------------------------------------------------------------

OLD_KEY = """
INSERT INTO api_key (id, principal, hash, scopes, project, label, at, until, used_at, given_by) VALUES
('{id}', '{principal}', {hash}, '{scopes}', '{project}', '{label}', {now}, {until}, 0, 'person:ann')
"""


def test_keys_that_older_code_made_stay_valid(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = schema.migrations()
    names = [step.name for step in steps]
    with monkeypatch.context() as older:
        older.setattr(schema, "migrations", lambda: steps[: names.index("credentials")])
        database, blobs = open_database(store_url)
        schema.migrate(database)
        old = Store(database, blobs)
        now = old.now()
        tokens = {}
        for name, principal, scopes, project, label, days in (
            ("plain", "person:ann", "", "", "laptop", 90), ("narrow", "agent:bot", "read see", "shop", "", 90),
            ("named", "person:ann", "", "", "browser", 90), ("browser", "person:ann", "", "", "browser", 14),
            ("link", "link:x", "read see", "", "link to x", 7), ("login", "person:ann", "login", "", "login", 1),
        ):  # fmt: skip
            tokens[name] = token = new_token("person")
            written = f"x'{token.hash.hex()}'" if database.dialect == "lite" else f"'\\x{token.hash.hex()}'"
            change(
                old,
                OLD_KEY.format(
                    id=token.id, principal=principal, hash=written, scopes=scopes, project=project, label=label,
                    now=now, until=now + days * DAY_US,
                ),
            )  # fmt: skip
        old.close()
    with open_store(store_url, upgrade=True) as store:
        authenticator = Authenticator(store, fresh_seconds=0)
        for name in ("plain", "named", "narrow", "link"):
            assert authenticator.authenticate(tokens[name].text), name
        narrow = authenticator.authenticate(tokens["narrow"].text)
        assert (narrow.scopes, narrow.key_project) == (frozenset({Right.READ, Right.SEE}), "shop")
        assert authenticator.authenticate(tokens["browser"].text, COOKIE).principal == "person:ann"
        assert authenticator.authenticate(authenticator.redeem(tokens["login"].text), COOKIE)
        for name in ("browser", "login"):
            with pytest.raises(Unauthenticated):
                authenticator.authenticate(tokens[name].text)
        assert len(list_credentials(store)) == 7
