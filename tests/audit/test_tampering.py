"""Whatever somebody does to a copy of a database that has no key to sign with is found, and it is said where."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import apsw
import pytest

from audit.history import PUBLIC, write_history
from audit.vandal import DEEDS, Vandal, go_back_in_time
from clew.service.audit.verification import Audited
from clew.service.audit.verify_log import examine
from clew.store import open_store

TIMES = int(os.environ.get("CLEW_TAMPERINGS", "1000"))
SEED = int(os.environ.get("CLEW_SEED", "1"))
PARTS = 4


class Copy:
    """A log that is put back as it was after each deed."""

    def __init__(self, folder: Path) -> None:
        self.store = open_store(f"sqlite:///{folder / 'clew.db'}")
        self.older: list[apsw.Connection] = []
        self.note = write_history(self.store, lambda: self.older.append(self._copied()))[-1].note
        self.older.pop()
        self._whole = self._copied()

    def _copied(self) -> apsw.Connection:
        copy = apsw.Connection(":memory:")
        with copy.backup("main", self.connection, "main") as backup:
            backup.step()
        return copy

    def restore(self) -> None:
        with self.connection.backup("main", self._whole, "main") as backup:
            backup.step()

    @property
    def connection(self) -> apsw.Connection:
        found: apsw.Connection = self.store.database._writer.connection  # type: ignore[attr-defined]
        return found

    def examined(self) -> Audited:
        return examine(self.store, [PUBLIC], [self.note])


@pytest.fixture(scope="module")
def copy() -> Iterator[Copy]:
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        made = Copy(Path(folder))
        yield made
        made.store.close()


@pytest.mark.parametrize("part", range(PARTS))
def test_every_tampering_is_found(copy: Copy, part: int) -> None:
    chance = Random(SEED * PARTS + part)
    missed: list[str] = []
    done: Counter[str] = Counter()
    while done.total() < TIMES // PARTS:
        copy.restore()
        [deed] = chance.choices(list(DEEDS), weights=list(DEEDS.values()))
        before = copy.connection.total_changes()
        try:
            places = deed(Vandal(copy.connection, chance, copy.older))
        except apsw.ConstraintError:
            continue  # The database itself refuses this one.
        assert copy.connection.total_changes() > before or deed is go_back_in_time
        done[deed.__name__] += 1
        found = copy.examined()
        if not any(place in problem.where for problem in found.problems for place in places):
            missed.append(f"{deed.__name__}, number {done.total()}: {found.problems[:3]}, not in {places}")
    assert not missed
    copy.restore()
    assert copy.examined().problems == []
