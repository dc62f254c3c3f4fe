"""The kinds of jobs. A kind is a function with a declaration, in a file of this folder; its docstring is its help.

A handler runs at least once and may be cut off anywhere, so running it again must change nothing twice. It calls
`task.renew()` between its steps: a handler that does not call it within its lease counts as hung, another worker takes
the job over, and the next `renew` of the first one raises `LeaseLost`.
"""

import importlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import msgspec

from clew.service.kernel.context import Context
from clew.store.jobs import first_opened_at


class Task(Protocol):
    """A job that is being carried out."""

    id: str
    project: str
    attempts: int

    def renew(self, seconds: float = 60.0) -> None:
        """Renew the lease for so many seconds from now; raises `LeaseLost` once another worker has it."""
        ...


Result = dict[str, Any]


Wanted = Callable[[Context], dict[str, int]]
"""The projects that have something to do, each with the time since when; the empty name is the store as a whole.

It only reads, and cheaply.
"""


def since_first_session(context: Context) -> dict[str, int]:
    """The store as a whole, since its first session was opened."""
    return {"": first_opened_at(context.store)}


class JobKind(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    help: str
    every_seconds: int
    run: Callable[[Context, Task], Result]
    wanted: Wanted
    is_per_project: bool


KINDS: dict[str, JobKind] = {}

Run = Callable[[Context, Task], Result]


def job(
    *,
    every_seconds: int,
    wanted: Wanted = since_first_session,
    is_per_project: bool = False,
) -> Callable[[Run], Run]:
    """Register a function as a kind of job of its name, which runs every so often while it is wanted."""

    def register(function: Run) -> Run:
        if not function.__doc__:
            raise AssertionError(f"the job {function.__name__} has no docstring, so it would have no help")
        KINDS[function.__name__] = JobKind(
            name=function.__name__, help=inspect.cleandoc(function.__doc__), every_seconds=every_seconds, run=function,
            wanted=wanted, is_per_project=is_per_project,
        )  # fmt: skip
        return function

    return register


def load_kinds() -> dict[str, JobKind]:
    """Every kind of job."""
    for path in sorted(Path(__file__).parent.glob("[a-z]*.py")):
        importlib.import_module(f"{__package__}.{path.stem}")
    return KINDS
