"""Where the measured databases live: files below one folder, or databases of one PostgreSQL server."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import apsw
import psycopg
from raw import RawLog, RawPostgres, RawSqlite


class NewDatabases(Protocol):
    """The part of the tests' PostgreSQL server that the benchmark needs."""

    def new_database(self) -> str: ...


class Place(Protocol):
    """Makes databases on first use of a name; a name is used by clew, by the raw log or by one peer, never by two."""

    kind: str
    peers: Mapping[str, str]  # what each peer calls its store on this database

    def clew_url(self, name: str) -> str: ...
    def where(self, name: str) -> str: ...
    def raw(self, name: str) -> RawLog: ...
    def bytes_used(self, name: str) -> int: ...
    def version(self) -> str: ...


class SqlitePlace:
    """SQLite files."""

    kind = "sqlite"
    peers: Mapping[str, str] = MappingProxyType(
        {
            "openai": "OpenAI SQLiteSession",
            "langgraph": "LangGraph SqliteSaver",
            "adk": "ADK SqliteSessionService",
        }
    )

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def clew_url(self, name: str) -> str:
        return f"sqlite:///{self.where(name)}"

    def where(self, name: str) -> str:
        (self._folder / name).mkdir(exist_ok=True)
        return str(self._folder / name / "log.db")

    def raw(self, name: str) -> RawLog:
        return RawSqlite(self.where(name))

    def bytes_used(self, name: str) -> int:
        """Everything in the folder of the database: also what the store keeps beside the file."""
        return sum(file.stat().st_size for file in (self._folder / name).rglob("*") if file.is_file())

    def version(self) -> str:
        return f"SQLite {apsw.sqlite_lib_version()}"


class PostgresPlace:
    """Databases of one server, which has to be as durable as the SQLite files are."""

    kind = "postgres"
    peers: Mapping[str, str] = MappingProxyType(
        {
            "openai": "OpenAI SQLAlchemySession",
            "langgraph": "LangGraph PostgresSaver",
            "adk": "ADK DatabaseSessionService",
        }
    )

    def __init__(self, server: NewDatabases) -> None:
        self._server = server
        self._urls: dict[str, str] = {}
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            found = self._one("settings", f"SHOW {setting}")
            if found != "on":
                raise RuntimeError(f"the server has {setting} = {found}: its appends would not be durable")

    def clew_url(self, name: str) -> str:
        if name not in self._urls:
            self._urls[name] = self._server.new_database()
        return self._urls[name]

    def where(self, name: str) -> str:
        return self.clew_url(name)

    def raw(self, name: str) -> RawLog:
        return RawPostgres(self.clew_url(name))

    def bytes_used(self, name: str) -> int:
        """Tables with their indexes and out-of-line values; the catalogue is the server's own."""
        return int(
            self._one(
                name,
                """
                SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)
                FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                WHERE c.relkind = 'r' AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'
                """,
            )
        )

    def version(self) -> str:
        return f"PostgreSQL {self._one('settings', 'SHOW server_version')}"

    def _one(self, name: str, query: str) -> str:
        with psycopg.connect(self.clew_url(name), autocommit=True) as connection:
            row = connection.execute(query.encode()).fetchone()
        assert row is not None
        return str(row[0])
