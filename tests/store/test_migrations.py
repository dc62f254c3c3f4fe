"""Migrations: the schema is their sum, each is all or nothing, and an unknown schema is not touched."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from clew.model.errors import SchemaNewer, SchemaOutdated, StoreError
from clew.store import Store, open_database, open_store
from clew.store.database import migrate as schema
from clew.store.database.contract import Database
from clew.store.database.migrate import Migration
from clew.store.jobs import add_job, list_jobs, take_job
from clew.store.log.verify import verify_all
from store.rows import change, content, query
from store.words import messages, opened, say

CATALOGUES = {
    "lite": [
        "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name <> 'clew_schema' AND tbl_name <> 'clew_schema'",
    ],
    "pg": [
        "SELECT table_name, ordinal_position, column_name, data_type, is_nullable, column_default, is_identity, "
        "identity_generation, collation_name FROM information_schema.columns "
        "WHERE table_schema = 'public' AND table_name <> 'clew_schema'",
        "SELECT tablename, indexname, indexdef FROM pg_indexes "
        "WHERE schemaname = 'public' AND tablename <> 'clew_schema'",
        "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint "
        "WHERE connamespace = 'public'::regnamespace AND conrelid <> 'clew_schema'::regclass",
        "SELECT relname, reloptions FROM pg_class "
        "WHERE relnamespace = 'public'::regnamespace AND relname NOT IN ('clew_schema', 'clew_schema_pkey')",
        "SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal",
        "SELECT proname, pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace",
    ],
}  # fmt: skip


BROKEN = """
CREATE TABLE extra (a BIGINT);
UPDATE event SET actor = 'changed';
DROP TABLE cursor;
SELECT no_such_function();
"""


def catalogue(database: Database) -> list[list[tuple[Any, ...]]]:
    """Everything the database itself says about its schema, comments and line ends apart."""
    with database.read() as tx:
        found = [
            [tuple(row) for row in tx.connection.execute(sql)]  # type: ignore[attr-defined]
            for sql in CATALOGUES[database.dialect]
        ]
    return [sorted((tuple(plain(value) for value in row) for row in rows), key=repr) for rows in found]


def plain(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    lines = (line.split("--")[0] for line in value.splitlines())
    return " ".join(" ".join(lines).split()).replace("( ", "(").replace(" )", ")").replace(" ,", ",")


@pytest.fixture
def old_program(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Act as the program was when it had only the first migrations; or, with all of them, as it is."""
    every = schema.migrations()

    def act(count: int) -> None:
        monkeypatch.setattr(schema, "migrations", lambda: every[:count])

    return act


def made_by_an_old_program(url: str, old_program: Callable[[int], None], count: int) -> None:
    old_program(count)
    database, _ = open_database(url)
    schema.migrate(database)
    assert database.schema_version() == count
    database.close()
    old_program(99)


# The sum --------------------------------------------------------------------------------------------------------------


def test_versions_count_from_one() -> None:
    assert [step.version for step in schema.migrations()] == list(range(1, schema.current() + 1))


def test_the_schema_is_the_sum_of_the_migrations(database: str, request: pytest.FixtureRequest, tmp_path: Any) -> None:
    if database == "sqlite":
        urls = [f"sqlite:///{tmp_path / name / 'clew.db'}" for name in ("whole", "steps")]
    else:
        urls = [request.getfixturevalue("postgres").new_database() for _ in range(2)]
    open_store(urls[0]).close()
    whole, steps = open_database(urls[0])[0], open_database(urls[1])[0]
    try:
        assert schema.migrate(steps) == [step.name for step in schema.migrations()]
        assert catalogue(whole) == catalogue(steps)
        assert any(catalogue(whole))
    finally:
        whole.close()
        steps.close()


def test_both_ways_start_with_the_same_rows(database: str, request: pytest.FixtureRequest, tmp_path: Any) -> None:
    """What a migration fills in, such as the clock of PostgreSQL, must not be forgotten in the schema."""
    if database == "sqlite":
        urls = [f"sqlite:///{tmp_path / name / 'clew.db'}" for name in ("whole", "steps")]
    else:
        urls = [request.getfixturevalue("postgres").new_database() for _ in range(2)]
    database_of_steps, _ = open_database(urls[1])
    schema.migrate(database_of_steps)
    database_of_steps.close()
    with open_store(urls[0]) as whole, open_store(urls[1]) as steps:
        assert content(whole) == content(steps)
        for store in (whole, steps):
            session = opened(store)
            store.append(session, [say("works")])
            assert messages(list(store.tail())) == ["works"]


# Newer and older ------------------------------------------------------------------------------------------------------


def test_a_newer_schema_is_refused_and_left_alone(store_url: str) -> None:
    with open_store(store_url) as store:
        session = opened(store)
        store.append(session, [say("kept")])
        change(store, f"INSERT INTO clew_schema VALUES ({schema.current() + 1}, 0)")
        before = content(store), catalogue(store.database)
    for upgrade in (None, True, False):
        with pytest.raises(SchemaNewer) as refusal:
            open_store(store_url, upgrade=upgrade)
        assert refusal.value.details == {"found": schema.current() + 1, "expected": schema.current()}
    database, blobs = open_database(store_url)
    with Store(database, blobs) as store:
        assert (content(store), catalogue(database)) == before


def test_a_program_that_runs_while_a_newer_one_migrates_writes_nothing_more(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = schema.migrations()
    step = Migration(schema.current() + 1, "newer", "ALTER TABLE job RENAME COLUMN holder TO held_by;")
    with open_store(store_url) as store:
        session, other = opened(store), opened(store)
        add_job(store, "sweep", key="x")
        with monkeypatch.context() as newer_program:
            newer_program.setattr(schema, "migrations", lambda: [*steps, step])
            open_store(store_url, upgrade=True).close()
        before = list(store.tail())
        requests = [store.prepare(log, [say("late")], actor="ada") for log in (session, other)]
        writes = [
            partial(store.append, session, [say("late")]),
            partial(store.append, session, [say("late")] * 3),
            lambda: store.commit(requests) or [request.outcome() for request in requests],
            partial(opened, store),
            partial(take_job, store, ["sweep"], holder="ada"),
        ]
        for write in writes:
            with pytest.raises(
                SchemaNewer, match=r"while this program ran.* restart it with the newer clew"
            ) as refusal:
                write()
            assert refusal.value.details == {"found": step.version, "expected": schema.current()}
        # What it reads is not damaged, either.
        with pytest.raises(SchemaNewer):
            list_jobs(store)
        assert list(store.tail()) == before


@pytest.mark.parametrize("count", range(1, schema.current()))
def test_an_older_schema_is_migrated_where_it_is_safe(
    store_url: str, old_program: Callable[[int], None], database: str, count: int
) -> None:
    made_by_an_old_program(store_url, old_program, count)
    if database == "postgres":
        with pytest.raises(SchemaOutdated, match="migrate it once") as refusal:
            open_store(store_url)
        assert refusal.value.details == {"found": count, "expected": schema.current()}
        bare, _ = open_database(store_url)
        assert bare.schema_version() == count
        assert schema.migrate(bare) == [step.name for step in schema.migrations()[count:]]
        assert schema.migrate(bare) == []
        bare.close()
    with open_store(store_url) as store:
        assert store.database.schema_version() == schema.current()
        opened(store)


def test_an_upgrade_may_be_asked_for_or_forbidden(store_url: str, old_program: Callable[[int], None]) -> None:
    made_by_an_old_program(store_url, old_program, 1)
    with pytest.raises(SchemaOutdated):
        open_store(store_url, upgrade=False)
    open_store(store_url, upgrade=True).close()


# Half-way -------------------------------------------------------------------------------------------------------------


def test_a_migration_that_fails_half_way_changes_nothing(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(store_url) as store:
        session = opened(store)
        store.append(session, [say("kept")])
        before = content(store), catalogue(store.database)
    step = Migration(schema.current() + 1, "broken", BROKEN)
    with monkeypatch.context() as newer_program:
        every = [*schema.migrations(), step]
        newer_program.setattr(schema, "migrations", lambda: every)
        with pytest.raises(StoreError):
            open_store(store_url, upgrade=True)
    with open_store(store_url) as store:
        assert (content(store), catalogue(store.database)) == before
        assert query(store, "SELECT max(version) FROM clew_schema") == [(schema.current(),)]
        store.append(session, [say("and on")])
        assert all(verified.ok for verified in verify_all(store))
