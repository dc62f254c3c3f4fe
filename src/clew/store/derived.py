"""Tables derived from the log, in a database of their own. The package that owns them brings statements and a schema.

The store knows the name of that package, and nothing of what the tables mean.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from clew.store.database import statements
from clew.store.database.contract import EVERY_PROJECT, Row, RowSecurity, RuntimeRole, Transaction
from clew.store.store import Store

__all__ = [
    "EVERY_PROJECT", "DerivedTables", "Parameters", "Row", "Transaction", "open_derived_tables", "schema_of",
    "statement_files", "table_names",
]  # fmt: skip

Parameters = Mapping[str, Any]


class DerivedTables(Protocol):
    """A database that holds no more than the log does, and can be made again from there."""

    dialect: str
    remote: bool

    def read(self) -> AbstractContextManager[Transaction]:
        """A connection for reading. Never waits for a writer."""
        ...

    def write(self) -> AbstractContextManager[Transaction]:
        """The process's one writing transaction."""
        ...

    def restricted_to_projects(self, projects: str) -> Any:
        """The same tables, whose reads see only these projects where the database has row-level security."""
        ...

    def row_security(self) -> RowSecurity | None:
        """Whether row-level security holds; None when the database has none."""
        ...

    def set_up_runtime_role(self, name: str, *, password: str = "") -> RuntimeRole:
        """Let a role use these tables and change none of them; for their owner to call."""
        ...

    def fence(self, known: int) -> None:
        """From now on raise `SchemaNewer` instead of writing, once a newer program took the schema further."""
        ...

    def schema_version(self) -> int:
        """The version recorded in the database; 0 when it is empty."""
        ...

    def apply_schema(self, text: str, version: int) -> None:
        """Run a schema script, all or nothing, unless another process has brought the database to this version."""
        ...

    def was_replaced(self) -> bool:
        """Whether another program removed or replaced the file that was opened here."""
        ...

    def overwrite_free_space(self) -> list[str]:
        """Overwrite removed rows; returns the copies that are beyond reach."""
        ...

    def check(self) -> list[str]:
        """Problems found by the database's own integrity check."""
        ...

    def describe(self) -> dict[str, str]:
        """Versions and paths, for diagnostics. No secrets."""
        ...

    def close(self) -> None: ...


def open_derived_tables(store: Store, package: str, version_table: str, *, fresh: bool = False) -> DerivedTables:
    """Open the tables of a package beside the log; with `fresh` without what they held, whatever state it was in.

    Closing the store closes them, too.
    """
    return store.database.open_derived(package, version_table, fresh=fresh)


def schema_of(package: str, dialect: str) -> str:
    """The schema that a package brings, in the words of one database."""
    return statements.derived_schema(package, dialect)


def table_names(package: str, dialect: str) -> list[str]:
    """The tables that a package's schema makes."""
    return list(statements.tables(package, dialect))


def statement_files(package: str) -> list[Path]:
    """The files with a package's statements."""
    return statements.statement_files(package)
