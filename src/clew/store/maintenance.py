"""Looking after a store: what it runs on, whether it is sound, its schema, and what was removed from it."""

from contextlib import suppress
from pathlib import Path

from clew.store.database import migrate as schema
from clew.store.database.contract import RowSecurity, RuntimeRole
from clew.store.store import Store

__all__ = [
    "RowSecurity", "RuntimeRole", "check", "describe", "migrate", "overwrite_free_space", "row_security",
    "schema_version", "set_up_runtime_role", "size",
]  # fmt: skip

# The folders with objects beside an SQLite log.
OBJECTS = ("blobs", "objects")


def describe(store: Store) -> dict[str, str]:
    """The database, its version, its driver and its place. No secrets."""
    return store.database.describe()


def check(store: Store) -> list[str]:
    """Problems found by the database's own integrity check."""
    return store.database.check()


def row_security(store: Store) -> RowSecurity | None:
    """Whether row-level security holds for the log; None when the database has none."""
    return store.database.row_security()


def set_up_runtime_role(store: Store, name: str, *, password: str = "") -> RuntimeRole:
    """Make a role that may use the log and change no table, or repair its rights; for the owner of the tables."""
    return store.database.set_up_runtime_role(name, password=password)


def overwrite_free_space(store: Store) -> list[str]:
    """Overwrite what was removed, so that no copy is left in free space; returns the copies that are beyond reach."""
    return store.database.overwrite_free_space()


def size(store: Store) -> int:
    """How many bytes the store takes on the disk: the log, the views and the objects."""
    if store.database.dialect == "pg":
        with store.database.read() as tx:
            return int(tx.run("database_size")[0][0])
    path = Path(store.database.describe()["place"])
    files = [
        *path.parent.glob(f"{path.stem}*"),
        *(file for name in OBJECTS for file in (path.parent / name).rglob("*")),
    ]
    sizes = 0
    for file in files:
        with suppress(OSError):  # Another process may remove a file meanwhile.
            sizes += file.stat().st_size
    return sizes


def schema_version() -> int:
    """The version of the schema that this program writes."""
    return schema.current()


def migrate(url: str) -> list[str]:
    """Bring the store at a URL to this program's schema; returns the names of the steps taken."""
    from clew.store import open_database

    database, _ = open_database(url)
    try:
        return schema.migrate(database)
    finally:
        database.close()
