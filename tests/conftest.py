"""Fixtures that every test may ask for."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from hypothesis import settings

from clew.store import Store, open_store
from support.postgres import Server
from support.s3 import S3

# No deadline: the first example of a property pays for imports and a cold disk.
settings.register_profile("clew", deadline=None, print_blob=True)
settings.load_profile("clew")


MEMORY = Path("/dev/shm")
# What the folders of two tests that run side by side need at the most, many times over.
ENOUGH = 4 * 1024**3


def pytest_configure(config: pytest.Config) -> None:
    """Let tests work in memory, where a flush costs nothing. What they prove by killing does not depend on a disk."""
    if config.option.basetemp is None and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ENOUGH:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A running PostgreSQL server; each worker of pytest-xdist has its own, because one starts in about a second."""
    with Server(durable=False) as server:
        yield server


@pytest.fixture(scope="session")
def s3() -> Iterator[S3]:
    """A running S3 server, and the variables by which programs find it."""
    with S3() as server, pytest.MonkeyPatch.context() as environment:
        for name, value in server.environment().items():
            environment.setenv(name, value)
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> str:
    """Which database; a test that asks for a log or its URL runs once on each of the two."""
    return str(request.param)


@pytest.fixture
def store_url(database: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a new, empty database."""
    if database == "sqlite":
        return f"sqlite:///{tmp_path / 'clew.db'}"
    server: Server = request.getfixturevalue("postgres")
    return server.new_database()


@pytest.fixture
def store(database: str, request: pytest.FixtureRequest) -> Iterator[Store]:
    """An open log, empty; the one at `store_url`, if the test asks for that too."""
    # A new PostgreSQL database takes a third of a second and most tests never see its URL: they share one, emptied.
    shared = database == "postgres" and "store_url" not in request.fixturenames
    with open_store(request.getfixturevalue("emptied_url" if shared else "store_url")) as store:
        yield store


@pytest.fixture
def emptied_url(shared_url: str) -> str:
    """The URL of a PostgreSQL database that has the schema and no rows."""
    with psycopg.connect(shared_url) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        connection.execute(
            "DELETE FROM event; DELETE FROM head; DELETE FROM session; DELETE FROM project; DELETE FROM blob; "
            "DELETE FROM cursor; DELETE FROM policy; DELETE FROM original; DELETE FROM segment; DELETE FROM principal; "
            "DELETE FROM member; DELETE FROM granted; DELETE FROM credential; DELETE FROM agent; DELETE FROM setting; "
            "DELETE FROM answered; DELETE FROM leaf; DELETE FROM checkpoint; DELETE FROM job; "
            "DELETE FROM pack; DELETE FROM manifest; DELETE FROM part; DELETE FROM place; "
            "DELETE FROM saved_view"
        )
        if connection.execute("SELECT to_regclass('clew_views')").fetchone() != (None,):
            connection.execute(
                "DELETE FROM view; DELETE FROM listing; DELETE FROM touched; DELETE FROM spending; "
                "DELETE FROM quarter; DELETE FROM passage; DELETE FROM speaking; DELETE FROM touched_path"
            )
    return shared_url


@pytest.fixture(scope="session")
def shared_url(postgres: Server) -> str:
    """The URL of one PostgreSQL database for many tests."""
    url = postgres.new_database()
    open_store(url).close()
    return url
