"""The three places for objects in lockstep, against a plain folder: whatever is done with objects, in whatever order.

CLEW_OBJECT_EXAMPLES asks for more examples than an ordinary run has time for. A failure prints how to replay it.
"""

import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from clew.model.errors import Conflict, NotFound
from clew.model.events import ArtifactSaved, Draft
from clew.store import Store, open_store
from clew.store.log.erase import erase
from clew.store.objects import objects
from clew.store.objects.collection import collect, delete
from clew.store.objects.pack import scan
from clew.store.objects.pack_store import pack_of
from store.rows import change, query
from store.words import ADA, opened
from support.postgres import Server
from support.s3 import S3

EXAMPLES = int(os.environ.get("CLEW_OBJECT_EXAMPLES", "12"))
STEPS = 25
# In a row everywhere, in a pack beside SQLite, in a pack everywhere, and in several parts.
SIZES = [0, 1, 700, 90_000, 1_300_000, 9_000_000]

NUMBERS = st.integers(0, 5)
DATA = st.tuples(NUMBERS, st.sampled_from([*SIZES[:5], *SIZES[:5], SIZES[5]]))
WHICH = st.integers(0, 30)


def content(number: int, size: int) -> bytes:
    """Noise, or a text that compresses."""
    if number % 2:
        return (b"%d " % number * size)[:size]
    return random.Random(number * 31 + size).randbytes(size)


class Model:
    """A plain folder with a file for each object, and what names each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.named: Counter[str] = Counter()
        self.manifests: dict[str, list[str]] = {}
        self.fresh: set[str] = set()

    def names(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())

    def read(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()

    def put(self, name: str, data: bytes) -> None:
        (self.folder / name).write_bytes(data)
        self.fresh.add(name)

    def put_manifest(self, name: str, data: bytes, names: list[str]) -> None:
        self.put(name, data)
        if name not in self.manifests:
            self.manifests[name] = names
            for other in names:
                self.name(other)

    def name(self, name: str) -> None:
        self.named[name] += 1
        self.fresh.discard(name)

    def remove(self, name: str) -> None:
        (self.folder / name).unlink()
        self.fresh.discard(name)
        for other in self.manifests.pop(name, []):
            self.named[other] -= 1

    def collect(self) -> int:
        count = 0
        while gone := [name for name in self.names() if not self.named[name] and name not in self.fresh]:
            for name in gone:
                self.remove(name)
            count += len(gone)
        return count


class ObjectsMachine(RuleBasedStateMachine):
    stores: "list[Store]"
    scratch: Iterator[Path]

    @initialize()
    def begin(self) -> None:
        self.model = Model(next(self.scratch))
        for store in self.stores:
            collect(store, grace_us=0)
            change(store, "DELETE FROM event", "DELETE FROM blob", "DELETE FROM manifest", "DELETE FROM pack")
            collect(store, grace_us=0)
        self.sessions = [opened(store) for store in self.stores]
        self.in_session: Counter[str] = Counter()

    def some(self, which: int) -> str:
        names = self.model.names()
        return names[which % len(names)]

    @rule(data=DATA, whole=st.booleans())
    def put(self, data: tuple[int, int], whole: bool) -> None:
        bytes_ = content(*data)
        cut = [bytes_] if whole else [bytes_[at : at + 300_000] for at in range(0, len(bytes_), 300_000)]
        [name] = {objects.put(store, iter(cut), size=len(bytes_)) for store in self.stores}
        self.model.put(name, bytes_)

    @rule(numbers=st.lists(NUMBERS, max_size=8))
    def put_many(self, numbers: list[int]) -> None:
        many = [content(number, 700 * number + 7) for number in numbers]
        answers = [list(objects.put_many(store, many)) for store in self.stores]
        assert all(answer == answers[0] for answer in answers)
        for name, data in zip(answers[0], many, strict=True):
            self.model.put(name, data)

    @precondition(lambda self: self.model.names())
    @rule(which=st.lists(WHICH, min_size=1, max_size=3), number=NUMBERS)
    def put_manifest(self, which: list[int], number: int) -> None:
        names = sorted({self.some(each) for each in which})
        data = b"%d\n%s" % (number, "\n".join(names).encode())
        [name] = {objects.put(store, [data], names=names) for store in self.stores}
        self.model.put_manifest(name, data, names)

    @precondition(lambda self: self.model.names())
    @rule(which=WHICH)
    def name(self, which: int) -> None:
        name = self.some(which)
        for store, session in zip(self.stores, self.sessions, strict=True):
            store.append(session, [Draft(body=ArtifactSaved(name="a", blob=name, size=1))])
        self.model.name(name)
        self.in_session[name] += 1

    @rule()
    def forget_the_session(self) -> None:
        for store, session in zip(self.stores, self.sessions, strict=True):
            erase(store, session, actor=ADA, overwrite=False)
        self.sessions = [opened(store) for store in self.stores]
        self.model.named -= self.in_session
        self.in_session.clear()

    @rule()
    def let_the_grace_end(self) -> None:
        for store in self.stores:
            change(store, "UPDATE blob SET at = 0")
        self.model.fresh.clear()

    @rule(at_once=st.booleans())
    def collect(self, at_once: bool) -> None:
        if at_once:
            self.model.fresh.clear()
        counts = [
            collect(store, **({"grace_us": 0} if at_once else {"abandoned_us": 0})).objects for store in self.stores
        ]
        assert counts == [self.model.collect()] * len(counts)
        for store in self.stores:
            assert held(store) <= set(self.model.names())

    @precondition(lambda self: self.model.names())
    @rule(which=WHICH)
    def delete(self, which: int) -> None:
        name = self.some(which)
        for store in self.stores:
            if self.model.named[name]:
                with pytest.raises(Conflict):
                    delete(store, name)
            else:
                delete(store, name)
                with pytest.raises(NotFound):
                    delete(store, name)
        if not self.model.named[name]:
            self.model.remove(name)

    @precondition(lambda self: self.model.names())
    @rule(which=WHICH)
    def read(self, which: int) -> None:
        name = self.some(which)
        data = self.model.read(name)
        for store in self.stores:
            with objects.open(store, name) as stream:
                assert stream.read(10) + stream.read() == data
            assert objects.stat(store, name) == (name, len(data), self.model.named[name])
            assert objects.names_of(store, name) == sorted(self.model.manifests.get(name, []))

    @invariant()
    def every_object_is_there_and_no_other(self) -> None:
        for store in self.stores:
            assert sorted(row[0] for row in query(store, HEX[store.database.dialect])) == self.model.names()

    def teardown(self) -> None:
        for name in self.model.names():
            for store in self.stores:
                assert objects.load(store, name) == self.model.read(name)


HEX = {"lite": "SELECT lower(hex(digest)) FROM blob", "pg": "SELECT encode(digest, 'hex') FROM blob"}


def held(store: Store) -> set[str]:
    """The objects whose bytes are in the packs of a store."""
    pack_store = store.pack_stores.current
    packs = {pack_of(key) for key, _ in pack_store.list("")}
    return {entry.digest.hex() for name in packs for entry in scan(pack_store, name)}


def test_the_three_places_hold_what_a_plain_folder_holds(postgres: Server, s3: S3, tmp_path: Path) -> None:
    bucket = s3.new_bucket()

    def folders() -> Iterator[Path]:
        for number in range(1_000_000):
            (tmp_path / f"model-{number}").mkdir()
            yield tmp_path / f"model-{number}"

    with (
        open_store(f"sqlite:///{tmp_path}/folder/clew.db", synchronous="OFF") as folder,
        open_store(postgres.new_database()) as rows,
        open_store(f"sqlite:///{tmp_path}/s3/clew.db", objects=bucket, synchronous="OFF") as in_s3,
    ):

        class Machine(ObjectsMachine):
            stores = [folder, rows, in_s3]  # noqa: RUF012 - Of this test alone.
            scratch = folders()

        run_state_machine_as_test(  # type: ignore[no-untyped-call]
            Machine,
            settings=settings(
                max_examples=EXAMPLES, stateful_step_count=STEPS, deadline=None,
                suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate, Phase.shrink],
            ),
        )  # fmt: skip
