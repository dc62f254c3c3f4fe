"""A context on an empty log, and jobs made up for tests."""

import threading
from collections.abc import Callable

import pytest

from clew.model.access import owner_of_everything
from clew.service import Context
from clew.service.jobs.kinds import JobKind, Result, Task
from clew.store import Store

ADA = "person:ada"
NEVER = 10**9


@pytest.fixture
def context(store: Store) -> Context:
    return Context(store=store, unrestricted=store, principal=ADA, grants=(owner_of_everything(ADA),))


@pytest.fixture
def stopping() -> threading.Event:
    return threading.Event()


def kind(
    name: str, run: Callable[[Context, Task], Result], *, every_seconds: int = NEVER, wanted: list[str] | None = None
) -> dict[str, JobKind]:
    """A kind of job; without `wanted` its schedule never fires."""
    made = JobKind(
        name=name, help=name, every_seconds=every_seconds, run=run, is_per_project=True,
        wanted=lambda _: dict.fromkeys(wanted or [], 0),
    )  # fmt: skip
    return {name: made}
