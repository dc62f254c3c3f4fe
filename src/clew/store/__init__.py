"""The log and what lies beside it: narrow contracts, one SQL text, two databases."""

from pathlib import Path
from typing import Any

from clew.model.errors import InvalidInput
from clew.store.database.contract import Blobs, Database
from clew.store.store import Store

__all__ = ["Store", "open_database", "open_store"]


def open_store(url: str, *, upgrade: bool | None = None, **options: Any) -> Store:
    """Open the log at `sqlite:///path` or `postgresql://...`, made on first use.

    An embedded database of an older schema is migrated at once; one that a team shares only when `upgrade` asks for it.
    """
    from clew.store.database import migrate

    database, blobs = open_database(url, **options)
    try:
        migrate.prepare(database, upgrade=database.dialect == "lite" if upgrade is None else upgrade)
    except BaseException:
        database.close()
        raise
    return Store(database, blobs)


def open_database(url: str, **options: Any) -> tuple[Database, Blobs]:
    """The database and its place for blobs, whatever its schema."""
    from clew.store.objects.blobs import Folder, Rows

    if url.startswith("sqlite:///"):
        from clew.store.database.sqlite import SQLite

        # Absolute, because a bare `:memory:` would be a database that no second connection sees.
        path = Path(url.removeprefix("sqlite:///")).expanduser().absolute()
        return SQLite(path, **options), Folder(path.parent / "blobs")
    if url.startswith(("postgresql://", "postgres://")):
        try:
            from clew.store.database.postgres import Postgres
        except ModuleNotFoundError as error:
            raise InvalidInput("PostgreSQL needs psycopg: install it with `pip install 'clew[postgres]'`") from error
        return Postgres(url), Rows()
    # Not repeated: anything in it could be a password.
    raise InvalidInput("CLEW_STORE or --store names no store; use sqlite:///path/to/clew.db or postgresql://host/name")
