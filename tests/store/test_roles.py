"""The two roles of PostgreSQL: how they are set up, what each can do, and what happens when the schema changes."""

import os
import subprocess
from pathlib import Path
from typing import Any

import psycopg
import pytest

from clew import app
from clew.model.errors import Conflict, InvalidInput, SchemaOutdated, StoreError
from clew.service import Context, call
from clew.store import open_store
from clew.store.database import migrate as schema
from clew.store.database.migrate import Migration
from clew.store.maintenance import row_security
from clew.views import upkeep
from clew.views.upkeep import Views
from support.postgres import Roles, Server
from support.talks import on


def migrate(url: str, runtime_role: str = "") -> app.Migrated:
    return app.migrate(app.settings(store=url), runtime_role=runtime_role)


def role_in(url: str) -> str:
    return url.partition("//")[2].partition("@")[0]


def talked(context: Context) -> str:
    id: str = call(context, "open", {"project": "shop"}).id
    texts = ("the lock", "x" * 100_000)  # The second one becomes an object.
    drafts = [{"kind": "message_added", "role": "user", "text": text} for text in texts]
    call(context, "append", {"session": id, "drafts": drafts})
    return id


@pytest.fixture
def roles(postgres: Server) -> Roles:
    return postgres.two_roles()


# Set up ---------------------------------------------------------------------------------------------------------------


def test_everything_works_for_the_role_that_owns_nothing(roles: Roles) -> None:
    with open_store(roles.runtime) as store:
        context = on(store)
        id = talked(context)
        assert [hit.seq for hit in call(context, "search", {"query": "lock", "flat": True}).hits] == [2]
        call(context, "fork", {"session": id, "at": 2})
        call(context, "views_rebuild", {})
        assert [line.id for line in call(context, "sessions", {"limit": 1})] != []
        assert call(context, "audit_checkpoint", {}).made is not None
        assert row_security(store) == (role_in(roles.runtime), role_in(roles.owner), "", "", [])
        [erased, _] = call(context, "erase", {"session": id, "with_forks": True})
        assert any("only their owner may rewrite: VACUUM FULL as that role" in place for place in erased.beyond_reach)
        assert call(context, "search", {"query": "lock", "flat": True}).hits == []


def test_to_set_up_the_role_again_changes_nothing_and_repairs_what_was_taken(roles: Roles) -> None:
    name = role_in(roles.runtime)
    with psycopg.connect(roles.owner) as owner:
        owner.execute(f"REVOKE ALL ON event, listing FROM {name}; GRANT TRUNCATE ON head TO {name}")
    with open_store(roles.runtime) as store:
        assert row_security(store).lacks_rights_on == ["event"]
        with pytest.raises(StoreError, match="the role that owns the tables can give it the rights") as refusal:
            store.last_position()
        assert refusal.value.details == {"lacks_rights": True}
    for _ in range(2):
        assert migrate(roles.owner, name) == app.Migrated([], name, is_new_role=False)
        with open_store(roles.runtime) as store:
            assert row_security(store).lacks_rights_on == []
            talked(on(store))
    with psycopg.connect(roles.runtime) as runtime, pytest.raises(psycopg.errors.InsufficientPrivilege):
        runtime.execute("TRUNCATE head")


def test_an_owner_that_may_create_roles_makes_the_role_with_a_password_from_the_environment(
    postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.walled_database()
    name = f"{role_in(url)}_server"
    with pytest.raises(Conflict, match=f"let an administrator of the server run CREATE ROLE {name} LOGIN"):
        migrate(url, name)
    postgres.run(f"ALTER ROLE {role_in(url)} CREATEROLE")
    monkeypatch.setenv("CLEW_RUNTIME_PASSWORD", "a % 'word'")
    assert migrate(url, name) == app.Migrated([], name, is_new_role=True, has_new_password=True)
    [(hashed, can_login)] = postgres.run(f"SELECT rolpassword, rolcanlogin FROM pg_authid WHERE rolname = '{name}'")
    assert can_login
    assert hashed.startswith("SCRAM-SHA-256$")
    with open_store(url.replace(role_in(url), name)) as store:
        talked(on(store))


@pytest.mark.parametrize(
    ("power", "said"),
    [
        ("ALTER ROLE {role} SUPERUSER", "it is a superuser"),
        ("ALTER ROLE {role} BYPASSRLS", "it has BYPASSRLS"),
        ("ALTER ROLE {role} CREATEROLE", "may create roles"),
        ("GRANT {owner} TO {role}", "is a member of"),
        ("ALTER DATABASE {database} OWNER TO {role}", "owns the database"),
        ("ALTER SCHEMA public OWNER TO {role}", "owns the schema"),
    ],
)
def test_a_role_that_could_switch_it_off_is_refused_and_the_doctor_finds_it(
    roles: Roles, postgres: Server, tmp_path: Path, power: str, said: str
) -> None:
    name, owner = role_in(roles.runtime), role_in(roles.owner)
    database = roles.owner.partition("@/")[2].partition("?")[0]
    with psycopg.connect(roles.owner.replace(owner, "clew", 1), autocommit=True) as superuser:
        superuser.execute(power.format(role=name, owner=owner, database=database).encode())
        with pytest.raises(Conflict, match=said):
            migrate(roles.owner, name)
        wall = wall_of(roles.runtime, tmp_path)
        assert not wall.ok
        assert said in wall.found
        remedy = wall.advice.partition(": ")[2]
        if remedy:
            superuser.execute(remedy.encode())
            assert wall_of(roles.runtime, tmp_path).ok
        superuser.execute(f"ALTER ROLE {name} NOSUPERUSER NOBYPASSRLS")


def test_a_table_that_the_runtime_role_owns_is_found(roles: Roles, postgres: Server, tmp_path: Path) -> None:
    name, owner = role_in(roles.runtime), role_in(roles.owner)
    with psycopg.connect(roles.owner.replace(owner, "clew", 1), autocommit=True) as superuser:
        superuser.execute(f"ALTER TABLE listing OWNER TO {name}".encode())
        wall = wall_of(roles.runtime, tmp_path)
        assert wall.found == f"listing belongs to {name}, and not to {owner}"
        superuser.execute(wall.advice.partition(": ")[2].encode())
    migrate(roles.owner, name)
    assert wall_of(roles.runtime, tmp_path).ok


@pytest.mark.parametrize("name", ["", "Clew", "a b", 'x"; DROP TABLE event; --', "pg_read_all_data", "1x", "x" * 64])
def test_a_name_that_no_role_should_have_is_refused(roles: Roles, name: str) -> None:
    if not name:
        assert migrate(roles.owner, name).runtime_role == ""
        return
    with pytest.raises(InvalidInput, match="not a valid name of a runtime role"):
        migrate(roles.owner, name)


def test_the_owner_is_no_runtime_role_and_the_runtime_role_sets_nothing_up(roles: Roles) -> None:
    with pytest.raises(InvalidInput, match="must be another one"):
        migrate(roles.owner, role_in(roles.owner))
    with pytest.raises(Conflict, match="a runtime role is set up by the role that owns them"):
        migrate(roles.runtime, role_in(roles.runtime))


def test_sqlite_has_no_roles(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="an SQLite file has no roles"):
        migrate(f"sqlite:///{tmp_path / 'clew.db'}", "clew_server")


def wall_of(url: str, home: Path) -> Any:
    from clew.doctor import diagnose

    return next(finding for finding in diagnose(app.settings(store=url, home=home)) if finding.what == "wall")


# When the schema changes ----------------------------------------------------------------------------------------------


def test_an_empty_database_is_made_by_the_owner_alone(postgres: Server) -> None:
    stranger = postgres.stranger(postgres.walled_database())
    with pytest.raises(StoreError, match="the role that owns the tables can give it the rights"):
        open_store(stranger)


def test_a_new_table_of_the_log_is_made_by_the_owner_and_used_by_the_other(
    roles: Roles, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = Migration(schema.current() + 1, "newer", "CREATE TABLE newer (one BIGINT);")
    steps = [*schema.migrations(), newer]
    monkeypatch.setattr(schema, "migrations", lambda: steps)
    with pytest.raises(SchemaOutdated):
        open_store(roles.runtime)
    with pytest.raises(SchemaOutdated, match=f"by the role {role_in(roles.owner)}, which owns them"):
        migrate(roles.runtime)
    assert migrate(roles.owner).steps == ["newer"]
    with psycopg.connect(roles.runtime) as runtime:
        runtime.execute("INSERT INTO newer VALUES (1)")
    open_store(roles.runtime).close()


def test_new_tables_of_the_views_are_made_by_the_owner_and_filled_by_the_other(
    roles: Roles, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(roles.runtime) as store:
        talked(on(store))
    monkeypatch.setattr(upkeep, "SCHEMA", upkeep.SCHEMA + 1)
    with open_store(roles.runtime) as store:
        views = Views(store)
        with pytest.raises(SchemaOutdated, match="which owns them"):
            views.catch_up()
        assert migrate(roles.owner).steps == []
        assert views.catch_up().done == 3
        context = on(store)
        assert [hit.seq for hit in call(context, "search", {"query": "lock", "flat": True}).hits] == [2]
        assert views.database.row_security().problem == ""
        views.close()


def test_one_role_makes_and_changes_all_by_itself(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(postgres.walled_database()) as store:
        talked(on(store))
        monkeypatch.setattr(upkeep, "SCHEMA", upkeep.SCHEMA + 1)
        views = Views(store)
        assert views.catch_up().done == 3
        assert row_security(store).problem == ""
        views.close()


# Backups --------------------------------------------------------------------------------------------------------------


def test_a_dump_by_the_owner_has_every_row_and_is_used_by_both_roles_again(
    roles: Roles, postgres: Server, tmp_path: Path
) -> None:
    """As docs/operations.md says."""
    with open_store(roles.runtime) as store:
        context = on(store)
        id = talked(context)
        call(context, "search", {"query": "lock"})
        before = list(store.tail())
    dump, restored = tmp_path / "clew.dump", postgres.walled_database()
    program(postgres, "pg_dump", "--enable-row-security", "--format=custom", f"--file={dump}", roles.owner)
    program(postgres, "pg_restore", "--no-owner", "--no-privileges", f"--dbname={restored}", str(dump))
    runtime = postgres.stranger(restored)
    migrate(restored, role_in(runtime))
    with open_store(runtime) as store:
        assert list(store.tail()) == before
        assert store.verify(store.session(id)).problems == []
        assert row_security(store).problem == ""
        views = on(store).views
        assert views.catch_up().done == 0, "the views were in the dump, too"
        assert views.database.row_security() == (role_in(runtime), role_in(restored), "", "", [])


def program(postgres: Server, name: str, *arguments: str) -> None:
    environment = {**os.environ, "PGOPTIONS": "-c clew.reach=*"}
    subprocess.run([postgres.programs / name, *arguments], env=environment, check=True)
