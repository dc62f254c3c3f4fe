"""Named statements with lines that may be left out, one statement for many rows, and a database beside the log's."""

import itertools
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import apsw
import psycopg
import pytest

from clew.model.errors import Damaged, StoreError
from clew.store import Store, open_store
from clew.store.database.contract import Database
from clew.store.database.statements import conditional_statements, derived_schema, in_words, statement_files, statements
from store.crowd import Crowd, await_
from store.words import ADA, opened, say

DIALECTS = ["lite", "pg"]
PACKAGE = "clew.views"
VERSION_TABLE = "clew_views"


# Lines that may be left out -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_line_is_there_only_when_its_parameter_is_given(dialect: str) -> None:
    listing = conditional_statements(dialect, PACKAGE)["sessions_page"]
    usual = {"before_at": 1, "before": 1, "limit": 1}
    assert "AND agent =" not in listing.given(usual)
    assert "AND agent =" in listing.given({**usual, "agent": "fred"})
    assert "AND state =" not in listing.given({**usual, "agent": "fred"})
    both = listing.given({**usual, "agent": "fred", "state": "closed"})
    assert both.index("AND agent =") < both.index("AND state =") < both.index("ORDER BY")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_same_parameters_give_the_very_same_text(dialect: str) -> None:
    """Databases know a statement by its text: a variant is made once, whatever the values."""
    listing = conditional_statements(dialect, PACKAGE)["sessions_page"]
    usual = {"before_at": 1, "before": 1, "limit": 1}
    assert listing.given({**usual, "agent": "fred"}) is listing.given({**usual, "agent": "ada", "limit": 7})
    assert listing.given(usual) is listing.given(usual)
    assert listing.given(usual) is not listing.given({**usual, "agent": "fred"})
    assert conditional_statements(dialect, PACKAGE)["sessions_page"] is listing


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_parameter_that_the_statement_has_not_is_an_error(dialect: str) -> None:
    """A filter that nobody looks at would let everything through."""
    with pytest.raises(TypeError, match=r"takes no agnet, projekt; it takes \['agent', 'before', 'before_at'"):
        conditional_statements(dialect, PACKAGE)["sessions_page"].given({"limit": 1, "agnet": "fred", "projekt": 1})


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("package", ["clew.store.database", PACKAGE])
def test_every_statement_is_either_whole_or_has_lines_that_may_be_left_out(dialect: str, package: str) -> None:
    names = set(statements(dialect, package)) | set(conditional_statements(dialect, package))
    assert not set(statements(dialect, package)) & set(conditional_statements(dialect, package))
    lines = [line for file in statement_files(package) for line in file.read_text("utf-8").splitlines()]
    assert names == {line[9:] for line in lines if line[:9] == "-- name: "}
    for text in statements(dialect, package).values():
        assert "--" not in text
        assert "{" not in text


def test_lines_of_one_database_may_be_left_out_too() -> None:
    text = "--lite --if a AND a = :a\n--pg --if a AND a = :a::text\n--if b AND b = :b"
    assert in_words(text, "lite").splitlines() == ["--if a AND a = :a", "--if b AND b = :b"]
    assert in_words(text, "pg").splitlines() == ["--if a AND a = :a::text", "--if b AND b = :b"]


@pytest.fixture
def beside(store: Store) -> Iterator[Database]:
    """The views' database with its tables."""
    made = store.database.open_derived(PACKAGE, VERSION_TABLE)
    if not made.schema_version():
        define(made)
    yield made
    made.close()


def define(database: Database) -> None:
    table = f"\nCREATE TABLE {VERSION_TABLE} (version BIGINT PRIMARY KEY);"
    row = f"INSERT INTO {VERSION_TABLE} (version) VALUES (1);"
    database.apply_schema(derived_schema(PACKAGE, database.dialect) + table + row, 1)


def test_a_database_understands_every_statement_with_any_of_its_lines(beside: Database) -> None:
    texts = [*statements(beside.dialect, PACKAGE).values()]
    for statement in conditional_statements(beside.dialect, PACKAGE).values():
        asked = sorted(statement._optional)
        some = [*map(list, itertools.combinations(asked, 2)), *([one] for one in asked), asked, []]
        # A condition on a table that only another line brings in is never given without it.
        joined = "joined" in asked
        texts += {statement.given(dict.fromkeys([*names, "joined"] if joined and names else names)) for names in some}
    with beside.read() as tx:
        connection = tx.connection  # type: ignore[attr-defined]
        for text in texts:
            if text:
                explain(connection, text)


def explain(connection: Any, text: str) -> None:
    if isinstance(connection, psycopg.Connection):
        numbered = text
        names: list[str] = []
        while "%(" in numbered:
            before, _, rest = numbered.partition("%(")
            name, _, after = rest.partition(")s")
            names += [] if name in names else [name]
            numbered = f"{before}${names.index(name) + 1}{after}"
        connection.execute(f"PREPARE tried AS {numbered}".encode())
        connection.execute("DEALLOCATE tried")
    else:
        connection.execute(f"EXPLAIN {text}", _Anything()).fetchall()


class _Anything(dict[str, None]):
    def __missing__(self, name: str) -> None:
        return None


def test_a_parameter_that_is_missing_is_an_error(beside: Database) -> None:
    with beside.read() as tx, pytest.raises((KeyError, StoreError)):
        tx.run("sessions_page", before_at=1, limit=1)
    with beside.read() as tx, pytest.raises((KeyError, StoreError)):
        tx.run("sessions_row")


# Many rows ------------------------------------------------------------------------------------------------------------


def speaking(*sessions: int) -> list[dict[str, Any]]:
    row = {"project": 1, "runtime": "r", "calls": "{}", "at": 0, "unused": 1}
    return [{**row, "session": session} for session in sessions]


def test_one_statement_runs_once_for_each_row(beside: Database) -> None:
    with beside.write() as tx:
        tx.many("speaking_set", speaking(1, 2, 3, 2))
        tx.many("speaking_set", [])
    with beside.read() as tx:
        assert [len(tx.run("speaking_of", session=one)) for one in (1, 2, 3, 4)] == [1, 1, 1, 0]


def test_of_many_rows_all_are_written_or_none(beside: Database) -> None:
    rows = speaking(5, 6, 7)
    rows[1]["runtime"] = None

    def write() -> None:
        with beside.write() as tx:
            tx.many("speaking_set", speaking(4))
            tx.many("speaking_set", rows)

    with pytest.raises(StoreError):
        write()
    with beside.read() as tx:
        assert [tx.run("speaking_of", session=one) for one in (4, 5, 6, 7)] == [[], [], [], []]


# Beside the log -------------------------------------------------------------------------------------------------------


def test_a_database_beside_the_log_is_another_and_knows_its_own_statements(store: Store, beside: Database) -> None:
    opened(store)
    assert beside.dialect == store.database.dialect
    assert beside.schema_version() not in (0, store.database.schema_version())
    with beside.read() as tx, pytest.raises(KeyError):
        tx.run("tail", after=0, limit=1)
    with store.database.read() as tx, pytest.raises(KeyError):
        tx.run("sessions_row", session=1)


def test_what_is_written_there_keeps_nobody_from_appending(store: Store, beside: Database) -> None:
    session = opened(store)
    with beside.write() as tx:
        tx.many("speaking_set", speaking(1))
        store.append(session, [say("meanwhile")], actor=ADA)


def test_closing_the_log_closes_what_is_beside_it(store_url: str, tmp_path: Path) -> None:
    with open_store(store_url) as store:
        beside = store.database.open_derived(PACKAGE, VERSION_TABLE)
        with beside.read() as tx:
            connection = tx.connection  # type: ignore[attr-defined]
    with pytest.raises((apsw.ConnectionClosedError, psycopg.OperationalError)):
        connection.execute("SELECT 1")
    # The last who closes a file takes these away.
    assert list(tmp_path.glob("*-wal")) == []


def test_thrown_away_it_is_empty_and_the_log_as_it_was(store_url: str) -> None:
    with open_store(store_url) as store:
        session = opened(store)
        for _ in range(2):
            beside = store.database.open_derived(PACKAGE, VERSION_TABLE, fresh=True)
            assert beside.schema_version() == 0
            define(beside)
            with beside.write() as tx:
                tx.many("speaking_set", speaking(1))
            beside.close()
        beside = store.database.open_derived(PACKAGE, VERSION_TABLE)
        with beside.read() as tx:
            assert len(tx.run("speaking_of", session=1)) == 1
        assert store.session(session.id) == session
        assert store.database.schema_version() > 1


def test_beside_a_file_it_is_a_file_as_private_as_that(tmp_path: Path) -> None:
    for name, other in (("clew.db", "clew-views.db"), ("log", "log-views"), ("a.b.sqlite", "a.b-views.sqlite")):
        with open_store(f"sqlite:///{tmp_path / name}") as store:
            store.database.open_derived(PACKAGE, VERSION_TABLE).close()
        assert stat.S_IMODE((tmp_path / other).stat().st_mode) == 0o600


def test_a_file_of_another_program_in_its_place_is_left_alone(tmp_path: Path) -> None:
    """It may be another log, even."""
    with open_store(f"sqlite:///{tmp_path}/clew-views.db") as other:
        session = opened(other)
    told = r"database of another program.*left alone.*move this one away"
    with open_store(f"sqlite:///{tmp_path}/clew.db") as store, pytest.raises(Damaged, match=told):
        store.database.open_derived(PACKAGE, VERSION_TABLE, fresh=False)
    with open_store(f"sqlite:///{tmp_path}/clew-views.db") as other:
        assert other.session(session.id) == session


def test_it_is_gone_when_its_file_is_another(tmp_path: Path) -> None:
    path = tmp_path / "clew-views.db"
    with open_store(f"sqlite:///{tmp_path}/clew.db") as store:
        beside = store.database.open_derived(PACKAGE, VERSION_TABLE)
        assert not beside.was_replaced()
        path.rename(tmp_path / "elsewhere")
        assert beside.was_replaced()
        path.write_bytes(b"")
        assert beside.was_replaced()
        path.unlink()
        (tmp_path / "elsewhere").rename(path)
        assert not beside.was_replaced()


def test_a_file_that_somebody_else_is_making_is_waited_for(tmp_path: Path) -> None:
    """Two who come first at once; SQLite itself gives up at once when both want to put the file into WAL mode."""
    other = apsw.Connection(str(tmp_path / "clew-views.db"))
    other.execute(f"CREATE TABLE {VERSION_TABLE} (version); BEGIN IMMEDIATE")
    with open_store(f"sqlite:///{tmp_path}/clew.db") as store:
        opening = Crowd([lambda: store.database.open_derived(PACKAGE, VERSION_TABLE)])
        await_(lambda: bool(opening.ended) or "_Patience.__call__" in running())
        other.execute("COMMIT")
        [made] = opening.outcomes()
        assert made.schema_version() == 0
    other.close()


def running() -> set[str]:
    """The functions in which threads are right now."""
    found = set()
    for frame in sys._current_frames().values():
        at: FrameType | None = frame
        while at is not None:
            found.add(at.f_code.co_qualname)
            at = at.f_back
    return found


def test_a_file_that_has_lost_a_table_is_damaged(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path}/clew.db") as store:
        beside = store.database.open_derived(PACKAGE, VERSION_TABLE)
        define(beside)
        connection = apsw.Connection(str(tmp_path / "clew-views.db"))
        connection.execute("DROP TABLE listing")
        connection.close()
        with beside.read() as tx, pytest.raises(Damaged) as error:
            tx.run("sessions_row", session=1)
        assert error.value.details["place"] == str(tmp_path / "clew-views.db")
