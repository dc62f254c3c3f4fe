"""Counts the statements that a block runs, on either database."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from clew.store import Store


@contextmanager
def counted(*stores: Store) -> Iterator[list[str]]:
    """The names of the statements that the block runs on the databases of these stores, as they are run."""
    names: list[str] = []
    kinds = set()
    for store in stores:
        with store.database.read() as tx:
            kinds.add(type(tx))
    with pytest.MonkeyPatch.context() as patch:
        for kind in kinds:
            # On PostgreSQL a single statement is a batch of one.
            if kind.__module__.endswith("sqlite"):
                patch.setattr(kind, "run", _run(kind.run, names))
            patch.setattr(kind, "batch", _batch(kind.batch, names))
        yield names


def _batch(batch: Callable[..., Any], names: list[str]) -> Callable[..., Any]:
    def counting(self: Any, statements: Any) -> Any:
        names.extend(name for name, _ in statements)
        return batch(self, statements)

    return counting


def _run(run: Callable[..., Any], names: list[str]) -> Callable[..., Any]:
    def counting(self: Any, name: str, /, **parameters: Any) -> Any:
        names.append(name)
        return run(self, name, **parameters)

    return counting
