"""Reading from PostgreSQL over a bounded number of connections."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest

from clew.model.errors import Busy, InvalidInput, StoreError, Unavailable
from clew.store import open_store
from clew.store.database import postgres_readers
from clew.store.database.contract import Transaction
from clew.store.database.postgres import Postgres
from clew.store.log.opening import Opening
from clew.store.projects import list_projects
from store.crowd import Crowd, await_
from support.postgres import Server

BOUND = 2


@pytest.fixture
def url(postgres: Server) -> str:
    return postgres.new_database()


@pytest.fixture
def database(url: str) -> Iterator[Postgres]:
    database = Postgres(f"{url}&max_readers={BOUND}")
    yield database
    database.close()


def backends(url: str) -> list[int]:
    """The server's processes for connections of clew."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'clew'"
        ).fetchall()
    return [pid for (pid,) in rows]


def kill(url: str, pid: int) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])


def ask(database: Postgres, statement: str = "SELECT pg_backend_pid()") -> Any:
    with database.read() as tx:
        return tx.connection.execute(statement.encode()).fetchall()[0][0]


def pool_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("clew-readers")]


# The bound ------------------------------------------------------------------------------------------------------------


def test_more_readers_than_connections_wait_and_succeed(database: Postgres, url: str) -> None:
    lock, lent, most = threading.Lock(), 0, 0

    def read() -> int:
        nonlocal lent, most
        with database.read() as tx:
            with lock:
                lent += 1
                most = max(most, lent)
            [(pid,)] = tx.connection.execute("SELECT pg_backend_pid() FROM pg_sleep(0.02)").fetchall()
            with lock:
                lent -= 1
        return int(pid)

    pids = Crowd([read] * 12).outcomes()
    assert most == BOUND
    assert len(set(pids)) == BOUND
    assert len(backends(url)) == BOUND + 1, "and the one for writing"


def test_a_reader_that_waits_too_long_is_told_what_is_in_use(
    database: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_readers, "WAIT_SECONDS", 0.2)
    with held(database, BOUND), pytest.raises(Busy, match=rf"all {BOUND} connections for reading .* were in use"):
        ask(database)
    assert ask(database)


def test_a_thread_that_reads_inside_a_read_needs_no_second_connection(database: Postgres, url: str) -> None:
    with held(database, BOUND - 1), database.read() as outer, database.read() as inner:
        assert inner.connection is outer.connection
        assert ask(database) == outer.connection.info.backend_pid
    assert len(backends(url)) == BOUND + 1


def test_reads_for_other_projects_inside_a_read_see_their_own_on_one_connection(postgres: Server) -> None:
    """What the inner read may see must not decide what the outer one sees, nor the other way round."""
    with open_store(postgres.walled_database()) as store:
        for project in ("shop", "bank"):
            store.open(Opening(project=project), actor="ada")
        keys = {name: str(key) for key, name in list_projects(store).items()}
        shop, bank = (store.restricted_to(keys[name]).database for name in ("shop", "bank"))

        def names(tx: Transaction) -> set[str]:
            return {name for _, name in tx.run("projects")}

        with store.database.read() as whole:
            with shop.read() as first, bank.read() as second:
                for _ in range(2):
                    assert names(first) == {"shop"}
                    assert names(second) == {"bank"}
                    assert names(whole) == {"shop", "bank"}
                pids = {tx.connection.info.backend_pid for tx in (whole, first, second)}  # type: ignore[attr-defined]
                assert len(pids) == 1, "no thread waits for a connection while it holds one"
            assert names(whole) == {"shop", "bank"}
        assert {len(list_projects(store)) for _ in range(4)} == {2}


def test_reads_may_end_in_another_order_than_they_began(database: Postgres) -> None:
    first, second = database.read(), database.read()
    connection = first.__enter__().connection
    tx = second.__enter__()
    first.__exit__(None, None, None)
    with held(database, 1):
        assert tx.connection is connection
        assert tx.connection.execute("SELECT 1").fetchall() == [(1,)], "nobody else got it meanwhile"
    second.__exit__(None, None, None)


@pytest.mark.parametrize("wanted", ["0", "-1", "many", "", "1001"])
def test_a_bound_that_is_not_one_is_refused(url: str, wanted: str) -> None:
    with pytest.raises(InvalidInput, match="max_readers in the PostgreSQL URL must be a number from 1 to 1000"):
        Postgres(f"{url}&max_readers={wanted}")


def test_the_bound_may_stand_anywhere_among_the_parameters(url: str) -> None:
    base, _, parameters = url.partition("?")
    for place in (
        f"max_readers=1&{parameters}",
        f"{parameters}&max_readers=1",
        f"max_readers=1&{parameters}&sslmode=disable",
    ):
        database = Postgres(f"{base}?{place}")
        with held(database, 1):
            assert len(backends(url)) == 2
        database.close()


# Lost connections -----------------------------------------------------------------------------------------------------


def test_a_connection_that_the_server_ended_is_replaced(database: Postgres, url: str) -> None:
    pid = ask(database)
    kill(url, pid)
    assert ask(database) not in (None, pid)


def test_all_connections_ended_at_once_are_replaced_without_delay(url: str) -> None:
    database = Postgres(f"{url}&max_readers=8")
    with held(database, 8):
        pids = backends(url)
    for pid in pids:
        kill(url, pid)
    began = time.monotonic()
    assert ask(database) not in pids
    assert time.monotonic() - began < 2
    with held(database, 8):
        assert len(backends(url)) == 8, "the one for writing is opened again when something is written"
    database.close()


def test_a_connection_lost_while_it_is_read_from_is_an_error_and_the_next_read_succeeds(
    database: Postgres, url: str
) -> None:
    with database.read() as tx:
        kill(url, tx.connection.info.backend_pid)
        with pytest.raises(Unavailable):
            tx.run("now")
    assert ask(database)


def test_a_server_that_is_down_fails_every_waiting_reader_at_once_and_serves_them_when_it_is_back() -> None:
    with Server(durable=False) as server:
        database = Postgres(f"{server.new_database()}&max_readers={BOUND}")
        assert ask(database)
        server.crash()
        began = time.monotonic()
        readers = Crowd([lambda: ask(database)] * 6)
        for outcome in readers.outcomes():
            assert isinstance(outcome, Unavailable)
            assert "cannot reach PostgreSQL" in str(outcome)
        assert time.monotonic() - began < 5
        server.restart_after_crash()
        assert all(Crowd([lambda: ask(database)] * 6).outcomes())
        database.close()
        assert pool_threads() == []


# Closing --------------------------------------------------------------------------------------------------------------


def test_a_read_under_way_ends_well_when_the_database_is_closed(database: Postgres, url: str) -> None:
    with database.read() as tx:
        database.close()
        assert tx.connection.execute("SELECT 1").fetchall() == [(1,)]
    assert tx.connection.closed
    await_(lambda: not backends(url))
    with pytest.raises(StoreError, match="was closed by this program"):
        ask(database)


def test_whoever_waits_for_a_connection_is_told_that_the_database_was_closed(database: Postgres) -> None:
    with held(database, BOUND):
        waiting = Crowd([lambda: ask(database)] * 3)
        await_(
            lambda: database._readers._pool is not None and database._readers._pool.get_stats()["requests_waiting"] == 3
        )
        database.close()
        for outcome in waiting.outcomes():
            assert isinstance(outcome, StoreError)
            assert "was closed by this program" in str(outcome)


def test_no_thread_outlives_the_database(url: str) -> None:
    before = set(threading.enumerate())
    database = Postgres(url)
    assert set(threading.enumerate()) == before, "and none begins before something is read"
    beside = database.open_derived("clew.views", "clew_views")
    ask(database)
    ask(beside)
    assert pool_threads()
    database.close()
    assert set(threading.enumerate()) == before


def held(database: Postgres, count: int) -> ExitStack:
    """So many connections, each lent to a thread of its own until the block ends."""
    stack, done, lent = ExitStack(), threading.Event(), threading.Semaphore(0)

    def hold() -> None:
        with database.read():
            lent.release()
            done.wait(20)

    threads = [threading.Thread(target=hold) for _ in range(count)]
    for thread in threads:
        stack.callback(thread.join)
    stack.callback(done.set)
    for thread in threads:
        thread.start()
    for _ in threads:
        assert lent.acquire(timeout=10)
    return stack
