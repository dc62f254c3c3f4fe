"""A server for the tests of a file, and one of their own for those that need other options."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from server.running import Running


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server on SQLite."""
    home = tmp_path_factory.mktemp("served")
    with Running(f"sqlite:///{home / 'clew.db'}", str(home)) as running:
        yield running


@pytest.fixture(scope="module")
def client(running: Running) -> Iterator[httpx2.Client]:
    """The owner, with a key."""
    with running.client(running.key()) as client:
        yield client


@pytest.fixture
def serve(store_url: str, tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Starts servers on the database of the test."""
    started: list[Running] = []

    def start(**options: Any) -> Running:
        started.append(Running(store_url, str(tmp_path), **options).start())
        return started[-1]

    yield start
    for one in started:
        one.stop()
