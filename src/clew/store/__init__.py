"""The log and what lies beside it: narrow contracts, one SQL text, two databases."""

from pathlib import Path
from typing import Any

from clew.model.errors import InvalidInput
from clew.store.database.contract import Database
from clew.store.objects.pack_store import PackStores
from clew.store.store import Store

__all__ = ["Store", "open_database", "open_store"]


def open_store(url: str, *, objects: str = "", upgrade: bool | None = None, **options: Any) -> Store:
    """Open the log at `sqlite:///path` or `postgresql://...`, made on first use.

    New objects go to `objects`, a folder or `s3://bucket/prefix`; without it beside the log. An embedded database of an
    older schema is migrated at once; one that a team shares only when `upgrade` asks for it.
    """
    from clew.store.database import migrate

    database, pack_stores = open_database(url, **options)
    try:
        migrate.prepare(database, upgrade=database.dialect == "lite" if upgrade is None else upgrade)
    except BaseException:
        database.close()
        raise
    store = Store(database, pack_stores)
    if objects:
        from clew.store.log.receiving import store_id
        from clew.store.objects.opening import open_pack_store

        pack_stores.use(open_pack_store(objects, store_id(store)))
    return store


def open_database(url: str, **options: Any) -> tuple[Database, PackStores]:
    """The database, of any schema, and its own pack store."""
    if url.startswith("sqlite:///"):
        from clew.store.database.sqlite import SQLite
        from clew.store.objects.folder import Folder

        # Absolute, because a bare `:memory:` would be a database that no second connection sees.
        path = Path(url.removeprefix("sqlite:///")).expanduser().absolute()
        database: Database = SQLite(path, **options)
        return database, PackStores(Folder(path.parent / "blobs"), database)
    if url.startswith(("postgresql://", "postgres://")):
        try:
            from clew.store.database.postgres import Postgres
            from clew.store.objects.rows import Rows
        except ModuleNotFoundError as error:
            raise InvalidInput("PostgreSQL needs psycopg: install it with `pip install 'clew[postgres]'`") from error
        database = Postgres(url)
        return database, PackStores(Rows(database), database)
    # Not repeated: anything in it could be a password.
    raise InvalidInput("CLEW_STORE or --store names no store; use sqlite:///path/to/clew.db or postgresql://host/name")
