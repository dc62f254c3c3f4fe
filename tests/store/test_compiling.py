"""On SQLite a statement is compiled once, whatever values it is given."""

from pathlib import Path

import apsw

from clew.store import open_store
from clew.store.native_files.lookup import find_file


def test_other_values_do_not_compile_a_statement_anew(tmp_path: Path) -> None:
    compiled: list[str | None] = []

    def note(_: int, table: str | None, *__: object) -> int:
        """SQLite asks for permission while it compiles."""
        compiled.append(table)
        return apsw.SQLITE_OK

    with open_store(f"sqlite:///{tmp_path}/clew.db") as store:
        with store.database.read() as tx:
            connection: apsw.Connection = tx.connection  # type: ignore[attr-defined]
        connection.authorizer = note
        find_file(store, b"one")
        assert "original" in compiled
        compiled.clear()
        find_file(store, b"another")
        connection.authorizer = None
    assert not compiled
