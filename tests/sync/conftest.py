"""A server on the database of the test, and machines that know it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from server.running import Running, writer
from sync.machines import PROJECT, Machine

Start = Callable[..., Machine]


@pytest.fixture
def running(store_url: str, tmp_path: Path) -> Iterator[Running]:
    """A server; small enough that a long text needs several requests."""
    home = tmp_path / "served"
    home.mkdir()
    with Running(store_url, str(home), most_bytes=400_000) as running:
        yield running


@pytest.fixture
def machine(running: Running, tmp_path: Path) -> Iterator[Start]:
    """Starts machines of people who may write in the project."""
    with ExitStack() as stack:

        def start(name: str = "ada", *, box: str = "", project: str = PROJECT, grants: Any = None) -> Machine:
            who = f"person:{name}"
            key = running.key(who, *(grants if grants is not None else [writer(who, project=PROJECT)]))
            home = tmp_path / (box or name)
            return stack.enter_context(Machine(home, url=running.address, key=key, project=project))

        yield start
