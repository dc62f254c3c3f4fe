"""What a pack store has to do, and the keys of the parts of packs in it.

A pack store holds named byte strings of at most a few megabytes. A folder, a table and a bucket can all do that, and
the code above needs no more. `PackStores` are the ones that this process may use: new packs go into the current one. A
pack that was written when another was current is read from there.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from clew.model.errors import Unavailable
from clew.store.database.contract import Database, Transaction

# A pack is stored in parts of this size; the last one is shorter.
PART_BYTES = 8 * 1024 * 1024
# The beginning of the name of a file that is being written.
UNFINISHED = "new-"


class Stray(NamedTuple):
    """Something in a pack store: its key, and how many seconds ago it was written."""

    key: str
    age_seconds: float


class PackStore(Protocol):
    """Where the parts of packs are. Every failure is one of our errors, and `Unavailable` when a retry helps."""

    name: str
    """Recorded with every pack that is written here; empty for the pack store that comes with the database."""
    row_bytes: int
    """Up to this compressed size an object is stored in its row."""

    def write(self, key: str, data: bytes, tx: Transaction | None = None) -> None:
        """Write bytes under a key, whole and durable or not at all; `tx` is the caller's, if it is in one."""
        ...

    def read(self, key: str, start: int, length: int) -> bytes:
        """So many bytes from `start` on, or fewer at the end; `NotFound` for an unknown key."""
        ...

    def remove(self, keys: Iterable[str]) -> None:
        """Delete these keys; a missing key is not an error."""
        ...

    def list(self, prefix: str) -> Iterator[Stray]:
        """Everything whose key begins so."""
        ...

    def describe(self) -> str:
        """Where it is, without secrets."""
        ...


class PackStores:
    """The pack stores that this process may use."""

    def __init__(self, default: PackStore, database: Database) -> None:
        self.database = database
        self.current = default
        self._by_name = {default.name: default}

    def use(self, pack_store: PackStore) -> None:
        """Write new packs to this one from now on."""
        self.current = self._by_name[pack_store.name] = pack_store

    def __iter__(self) -> Iterator[PackStore]:
        return iter(self._by_name.values())

    def get(self, name: str) -> PackStore:
        pack_store = self._by_name.get(name)
        if pack_store is None:
            raise Unavailable(
                f"this object is in {name}, which is not a pack store of this program; set it as the place of objects",
                objects=name,
            )
        return pack_store

    def knows(self, name: str) -> bool:
        return name in self._by_name


def part_key(pack: str, number: int) -> str:
    """The key of a part. The first letters spread the parts of many packs over folders."""
    return f"{pack_prefix(pack)}{number}"


def pack_prefix(pack: str) -> str:
    """What the keys of all parts of a pack begin with."""
    return f"packs/{pack[:2]}/{pack}-"


def pack_of(key: str) -> str:
    """The pack that a key belongs to; empty for anything else."""
    folder, _, name = key.rpartition("/")
    pack, _, number = name.partition("-")
    return pack if folder == f"packs/{pack[:2]}" and len(pack) == 32 and number.isdecimal() else ""


def loose_key(digest: bytes) -> str:
    """The key of an object that an older clew wrote into a file of its own, compressed as a whole."""
    name = digest.hex()
    return f"{name[:2]}/{name}"
