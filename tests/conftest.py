"""Fixtures that every test may ask for."""

from collections.abc import Iterator

import pytest

from support.postgres import Server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A running PostgreSQL server; each worker of pytest-xdist has its own, because one starts in about a second."""
    with Server() as server:
        yield server
