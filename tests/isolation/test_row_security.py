"""Row-level security of PostgreSQL, table by table: what a connection sees that reads for one project.

The statements here have no condition of their own. What is left is what the database itself hides.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg import errors, sql

from clew import app
from clew.doctor import diagnose
from clew.store import open_store
from clew.store.database.postgres_roles import READ_BY_OWNER, WITHOUT_TENANTS
from clew.store.database.statements import tables
from clew.store.projects import list_projects
from isolation.tenants import Tenant, tenant
from isolation.test_coverage import DERIVED, ROW_SECURITY, TABLES
from support.postgres import Roles, Server
from support.talks import on

CLEW, VIEWS = "clew.store.database", "clew.views"
EVERY_TABLE = [*tables(CLEW, "pg"), *tables(VIEWS, "pg")]
PROTECTED = [name for name in EVERY_TABLE if name not in WITHOUT_TENANTS]
# Rows that belong to no project.
OF_NO_PROJECT = {
    "principal", "member", "credential", "answered", "cursor", "blob", "manifest", "pack", "part", "leaf", "checkpoint",
    "saved_view",
}  # fmt: skip


class Tenants(NamedTuple):
    """A store with two tenants and rows of theirs in every table, used by two roles."""

    roles: Roles
    databases: tuple[Any, Any]
    """That of the log and that of the views, used by the runtime role."""
    ours: Tenant
    theirs: Tenant
    keys: dict[str, int]

    def rows(self, table: str, projects: str) -> set[str]:
        """Every row of a table that a connection of the runtime role sees when it reads for these projects."""
        with psycopg.connect(self.roles.runtime) as connection:
            return rows(connection, f"SELECT * FROM {table}", projects)

    def of(self, table: str, whose: Tenant) -> set[str]:
        """The rows of a table that belong to a tenant; of a table without projects all rows."""
        with psycopg.connect(self.roles.runtime) as connection:
            columns = column_types(connection, table)
            where = "TRUE"
            if table == "project":
                where = f"key = {self.keys[whose.project]}"
            elif table == "segment":
                where = f"original IN (SELECT key FROM original WHERE project = {self.keys[whose.project]})"
            elif columns.get("project") == "bigint":
                where = f"project = {self.keys[whose.project]}"
            elif table not in OF_NO_PROJECT:
                where = f"project = '{whose.project}'"
            return rows(connection, f"SELECT * FROM {table} WHERE {where}", "*")


def rows(connection: psycopg.Connection, statement: str, projects: str) -> set[str]:
    connection.execute("SELECT set_config('clew.reach', %s, FALSE)", [projects])
    return {repr(row) for row in connection.execute(statement.encode()).fetchall()}


def column_types(connection: psycopg.Connection, table: str) -> dict[str, str]:
    asked = "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = %s AND is_nullable = 'NO'"
    return dict(connection.execute(asked, [table]).fetchall())


@pytest.fixture(scope="module")
def tenants(postgres: Server) -> Iterator[Tenants]:
    roles = postgres.two_roles()
    with open_store(roles.runtime) as store:
        ours, theirs = tenant(store, "apricot"), tenant(store, "walnut")
        views = on(store).views
        views.catch_up()
        keys = {name: key for key, name in list_projects(store).items()}
        both = Tenants(roles, (store.database, views.database), ours, theirs, keys)
        fill(both)
        yield both


def fill(tenants: Tenants) -> None:
    """Put a row of each tenant into every table where it has none yet."""
    originals: dict[str, int] = {}
    with psycopg.connect(tenants.roles.owner) as owner:
        owner.execute("SET clew.reach = '*'")
        number = 10**9
        for table in sorted(PROTECTED, key=lambda name: name == "segment"):
            for whose in (tenants.ours, tenants.theirs):
                if table != "original" and tenants.of(table, whose):
                    continue
                number += 1
                made = {name: a_value(kind, number) for name, kind in column_types(owner, table).items()}
                if "project" in made:
                    made["project"] = whose.project if isinstance(made["project"], str) else tenants.keys[whose.project]
                if "original" in made:
                    made["original"] = originals[whose.canary]
                insert = sql.SQL("INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE VALUES ({})").format(
                    sql.Identifier(table), sql.SQL(", ").join(map(sql.Identifier, made)),
                    sql.SQL(", ").join(sql.Placeholder() * len(made)),
                )  # fmt: skip
                owner.execute(insert, list(made.values()))
                if table == "original":
                    originals[whose.canary] = number
        owner.commit()


def a_value(kind: str, number: int) -> Any:
    return {"bigint": number, "text": f"x{number}", "bytea": str(number).encode(), "tsvector": "common"}[kind]


# What is there --------------------------------------------------------------------------------------------------------


def test_every_table_says_what_protects_it_and_has_it(tenants: Tenants) -> None:
    """By the catalogue: a table that says `row-level security` has it, and every other one says why not."""
    said = {name for name, how in (TABLES | DERIVED).items() if ROW_SECURITY in how} - {"words"}
    assert said == set(PROTECTED), "say in tests/isolation/test_coverage.py what protects a new table"
    with psycopg.connect(tenants.roles.owner) as owner:
        found = owner.execute(
            "SELECT c.relname, c.relrowsecurity, c.relforcerowsecurity, "
            "ARRAY(SELECT format('%s %s %s', polname, polcmd, polpermissive) FROM pg_policy WHERE polrelid = c.oid) "
            "FROM pg_class c WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace"
        ).fetchall()
    state = {name: (enabled, forced, policies) for name, enabled, forced, policies in found}
    assert set(state) - {"clew_schema", "clew_views"} == set(EVERY_TABLE), "a table that no schema makes"
    for name in PROTECTED:
        assert state[name] == (True, name not in READ_BY_OWNER, ["wall * t"]), name
    for name in {*state} - {*PROTECTED}:
        assert state[name] == (False, False, []), name


@pytest.mark.parametrize("table", PROTECTED)
def test_a_connection_sees_the_rows_of_its_project_alone(tenants: Tenants, table: str) -> None:
    ours, theirs = tenants.of(table, tenants.ours), tenants.of(table, tenants.theirs)
    assert ours, "or the test shows nothing"
    assert theirs
    seen = tenants.rows(table, str(tenants.keys[tenants.ours.project]))
    if table in OF_NO_PROJECT:
        assert not seen
        return
    assert ours <= seen
    assert not seen & theirs
    assert theirs <= tenants.rows(table, str(tenants.keys[tenants.theirs.project]))


@pytest.mark.parametrize("table", PROTECTED)
def test_a_connection_that_says_nothing_or_nonsense_sees_nothing(tenants: Tenants, table: str) -> None:
    for projects in ("", "-1"):
        seen = tenants.rows(table, projects)
        assert not seen & (tenants.of(table, tenants.ours) | tenants.of(table, tenants.theirs))
    with psycopg.connect(tenants.roles.runtime) as connection:
        seen = {repr(row) for row in connection.execute(f"SELECT * FROM {table}").fetchall()}
    assert not seen & (tenants.of(table, tenants.ours) | tenants.of(table, tenants.theirs))


def test_a_search_by_the_owners_function_finds_what_the_connection_reads_for(tenants: Tenants) -> None:
    asked = "SELECT session FROM passages_with(CAST(%s AS tsquery), 9223372036854775807, 0)"
    ours, theirs = tenants.ours, tenants.theirs
    for url in tenants.roles:
        with psycopg.connect(url) as connection:
            for projects, found in ((theirs, True), (ours, False)):
                connection.execute("SELECT set_config('clew.reach', %s, FALSE)", [str(tenants.keys[projects.project])])
                assert bool(connection.execute(asked, [f"'{theirs.word}'"]).fetchall()) is found
            connection.execute("SELECT set_config('clew.reach', '', FALSE)")
            assert connection.execute(asked, [f"'{theirs.word}'"]).fetchall() == []


def test_nobody_else_may_search_by_the_owners_functions(postgres: Server, tenants: Tenants) -> None:
    stranger = postgres.stranger(tenants.roles.owner)
    for called in ("passages_with('x', 1, 0)", "drop_passages('x')", "settle_words()"):
        with psycopg.connect(stranger) as connection, pytest.raises(errors.InsufficientPrivilege):
            connection.execute(f"SELECT {called}")


@pytest.mark.parametrize("table", PROTECTED)
def test_what_is_switched_off_is_found_and_the_remedy_puts_it_back(tenants: Tenants, table: str) -> None:
    """The tests above are red without row-level security, and the doctor tells what to type."""
    harm = [
        "DROP POLICY wall ON {}",
        "CREATE POLICY more ON {} USING (TRUE)",
        "ALTER TABLE {} DISABLE ROW LEVEL SECURITY",
    ]
    with psycopg.connect(tenants.roles.owner, autocommit=True) as owner:
        for statement in harm if table in READ_BY_OWNER else [*harm, "ALTER TABLE {} NO FORCE ROW LEVEL SECURITY"]:
            owner.execute(statement.format(table).encode())
            found = row_security(tenants)
            assert found.problem == f"row-level security is switched off on {table}"
            if "DISABLE" in statement:
                seen = tenants.rows(table, str(tenants.keys[tenants.ours.project]))
                assert seen >= tenants.of(table, tenants.theirs)
            owner.execute(found.remedy.encode())
            assert row_security(tenants).problem == ""
    test_a_connection_sees_the_rows_of_its_project_alone(tenants, table)


def row_security(tenants: Tenants) -> Any:
    log, views = (database.row_security() for database in tenants.databases)
    return views if views.problem else log


# The runtime role -----------------------------------------------------------------------------------------------------


def role_in(url: str) -> str:
    return url.partition("//")[2].partition("@")[0]


def forbidden(roles: Roles) -> list[str]:
    owner, runtime = map(role_in, roles)
    return [
        "ALTER TABLE event DISABLE ROW LEVEL SECURITY",
        "ALTER TABLE event NO FORCE ROW LEVEL SECURITY",
        "ALTER TABLE listing DISABLE ROW LEVEL SECURITY",
        "DROP POLICY wall ON event",
        "ALTER POLICY wall ON event USING (TRUE)",
        "CREATE POLICY more ON event USING (TRUE)",
        "ALTER TABLE event ADD COLUMN more TEXT",
        f"ALTER TABLE event OWNER TO {runtime}",
        "DROP TABLE event",
        "TRUNCATE event",
        "CREATE TRIGGER spy BEFORE INSERT ON event FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        "CREATE RULE spy AS ON INSERT TO event DO INSTEAD NOTHING",
        "CREATE TABLE stolen AS SELECT * FROM event",
        "CREATE FUNCTION mine() RETURNS BIGINT LANGUAGE sql RETURN 1",
        "CREATE OR REPLACE FUNCTION reaches_everything() RETURNS BOOLEAN LANGUAGE sql STABLE RETURN TRUE",
        "DROP FUNCTION reaches_everything() CASCADE",
        "ALTER FUNCTION passages_with(TSQUERY, BIGINT, BIGINT) SECURITY INVOKER",
        "INSERT INTO clew_schema VALUES (99, 0)",
        "DELETE FROM clew_schema",
        f"ALTER ROLE {runtime} BYPASSRLS",
        f"ALTER ROLE {runtime} SUPERUSER",
        f"ALTER ROLE {runtime} CREATEROLE",
        f"GRANT {owner} TO {runtime}",
        f"SET ROLE {owner}",
        f"SET SESSION AUTHORIZATION {owner}",
        f"SELECT set_config('role', '{owner}', FALSE)",
        f"REASSIGN OWNED BY {owner} TO {runtime}",
        "SET row_security = off; SELECT * FROM event",
        "SET row_security = off; SELECT * FROM passage",
    ]


def test_the_runtime_role_cannot_switch_row_level_security_off(tenants: Tenants) -> None:
    allowed = []
    for statement in forbidden(tenants.roles):
        with psycopg.connect(tenants.roles.runtime) as connection:
            try:
                connection.execute(statement.encode())
                connection.commit()
                allowed.append(statement)
            except (errors.InsufficientPrivilege, errors.InvalidParameterValue):
                pass
    assert allowed == []
    assert row_security(tenants).problem == ""


def test_the_owner_could_do_each_of_these(tenants: Tenants) -> None:
    """Else a statement above would be refused because of a typing error."""
    refused = []
    for statement in forbidden(tenants.roles):
        if any(
            word in statement
            for word in ("ROLE", "'role'", "GRANT", "REASSIGN", "AUTHORIZATION", "OWNER TO", "row_security")
        ):
            continue
        with psycopg.connect(tenants.roles.owner) as connection:
            try:
                connection.execute(statement.encode())
            except psycopg.Error as error:
                refused.append((statement, str(error)))
            connection.rollback()
    assert refused == []


def test_the_doctor_says_who_connects(tenants: Tenants, postgres: Server, tmp_path: Any) -> None:
    def wall(url: str) -> Any:
        open_store(url).close()
        findings = diagnose(app.settings(store=url, home=tmp_path))
        return next(finding for finding in findings if finding.what == "wall")

    runtime, owner, superuser = wall(tenants.roles.runtime), wall(tenants.roles.owner), wall(postgres.new_database())
    assert runtime.ok
    assert "cannot switch it off" in runtime.found
    assert owner.ok
    assert "could switch it off; `clew migrate --runtime-role NAME`" in owner.found
    assert not superuser.ok
    assert "bypasses row-level security (it is a superuser)" in superuser.found
